"""All experiments in one table."""

from __future__ import annotations

import importlib
import os
from dataclasses import dataclass

from thalweg.errors import UserError
from thalweg.reproduce.outcome import Outcome, Tell


@dataclass(frozen=True)
class Experiment:
    """One experiment; its module has `run(scale, tell)`, or one of another name."""

    name: str
    section: str
    title: str
    module: str
    function: str = "run"
    needs: str = ""
    """The environment variable that names its data, where these are not part of Thalweg."""

    @property
    def paper(self) -> str:
        """The short name of its paper: the first word of its own."""
        return self.name.partition("-")[0]

    @property
    def where(self) -> str:
        """Its place in the paper."""
        return f"{PAPERS[self.paper]}, {self.section}"

    @property
    def missing(self) -> bool:
        """Whether data that it needs are not there."""
        return bool(self.needs) and not os.environ.get(self.needs)

    def run(self, scale: float, tell: Tell) -> Outcome:
        """Runs it, at a fraction of its size where the scale is below 1."""
        module = importlib.import_module(f"thalweg.reproduce.{self.module}")
        found: Outcome = getattr(module, self.function)(scale, tell)
        return found


PAPERS = {
    "mjoin": "MJoin (Viglas, Naughton and Burger 2003)",
    "pmjoin": "PMJoin (Zhou, Yan, Yu and Zhou 2006)",
    "semijoin": "semijoin (Tran and Lee 2010)",
    "adaptive": "adaptive (Tran and Lee)",
    "integrated": "integrated (Seshadri, Kumar, Cooper and Liu 2009)",
    "past": "past the papers",
}
"""The papers by their short names; and what none of them has."""

EXPERIMENTS = {
    e.name: e
    for e in (
        Experiment("mjoin-table1", "3.3", "operations of tree and MJoin", "mjoin_table1"),
        Experiment("mjoin-table3", "3.6", "the prices of operations, there and here", "mjoin_table3"),
        Experiment("mjoin-fig11", "3.2", "a stream whose rate changes", "mjoin_fig11"),
        Experiment("mjoin-fig12", "3.3", "right and wrong probing sequences", "mjoin_fig12"),
        Experiment("mjoin-fig13", "3.4", "a window join", "mjoin_fig13"),
        Experiment("mjoin-fig15", "3.5", "memory overflow, flushed in two ways", "mjoin_fig15"),
        Experiment("mjoin-fig17", "3.6", "six inputs in one operator or several", "mjoin_fig17"),
        Experiment("pmjoin-table1", "1", "three routers: what three schemes ship", "pmjoin_table1"),
        Experiment(
            "pmjoin-fig5a", "4.1", "Algorithm 1 over data ranges: LASW, SD", "pmjoin_planning", "fig5a"
        ),
        Experiment(
            "pmjoin-fig5b", "4.1", "Algorithm 1 over data ranges: LASW, DD", "pmjoin_planning", "fig5b"
        ),
        Experiment(
            "pmjoin-fig5c", "4.1", "Algorithm 1 over data ranges: HASW, SD", "pmjoin_planning", "fig5c"
        ),
        Experiment(
            "pmjoin-fig5d", "4.1", "Algorithm 1 over data ranges: HASW, DD", "pmjoin_planning", "fig5d"
        ),
        Experiment("pmjoin-fig6", "4.1", "Algorithm 1 over the number of streams", "pmjoin_planning", "fig6"),
        Experiment(
            "pmjoin-fig7", "4.1", "Algorithm 1 with several streams a node", "pmjoin_planning", "fig7"
        ),
        Experiment("pmjoin-fig8", "4.2", "parts of the key space, cut in three ways", "pmjoin_parts", "fig8"),
        Experiment("pmjoin-fig9", "4.2", "the CPU time of routing", "pmjoin_fig9"),
        Experiment("pmjoin-fig10", "4.2", "parts over the number of streams", "pmjoin_parts", "fig10"),
        Experiment("pmjoin-fig11", "4.3", "queries on several attributes", "pmjoin_fig11"),
        Experiment("semijoin-fig7a", "5.3.1", "one-way joins: tuple size", "semijoin_fig7", "fig7a"),
        Experiment("semijoin-fig7b", "5.3.1", "one-way joins: stream rate", "semijoin_fig7", "fig7b"),
        Experiment("semijoin-fig7c", "5.3.1", "one-way joins: selectivity factor", "semijoin_fig7", "fig7c"),
        Experiment("semijoin-fig7d", "5.3.1", "one-way joins: window", "semijoin_fig7", "fig7d"),
        Experiment("semijoin-fig7e", "5.3.1", "one-way joins: latency", "semijoin_fig7", "fig7e"),
        Experiment("semijoin-fig7f", "5.3.1", "one-way joins: bandwidth", "semijoin_fig7", "fig7f"),
        Experiment("semijoin-fig7g", "5.3.1", "one-way joins: execution interval", "semijoin_fig7", "fig7g"),
        Experiment("semijoin-table3", "5.3.2", "greedy plans beside the best", "semijoin_table3", "table3"),
        Experiment("semijoin-fig8", "5.3.2", "how far greedy plans are off", "semijoin_table3", "fig8"),
        Experiment("semijoin-fig9", "5.3.2", "greedy plans of streams alike", "semijoin_alike", "fig9"),
        Experiment("semijoin-fig10", "5.3.2", "greedy plans for the logs", "semijoin_alike", "fig10"),
        Experiment("adaptive-fig4a", "5.2", "cost over time, four streams", "adaptive_fig4", "four"),
        Experiment("adaptive-fig4a-spark", "5.2", "the same, live on Spark", "adaptive_fig4a_spark"),
        Experiment("adaptive-fig4b", "5.2", "cost over time, eight streams", "adaptive_fig4", "eight"),
        Experiment("adaptive-fig5a", "5.2", "cost of changing, four streams", "adaptive_fig5", "four"),
        Experiment("adaptive-fig5b", "5.2", "cost of changing, eight streams", "adaptive_fig5", "eight"),
        Experiment("adaptive-table3", "5.2", "messages of a change of plan", "adaptive_table3"),
        Experiment("integrated-lemma1", "3", "the number of plans", "integrated_counts"),
        Experiment("integrated-fig2", "1", "planning first, or together", "integrated_compared", "fig2"),
        Experiment(
            "integrated-fig6", "4.2", "Bottom-Up: plans by cluster size", "integrated_clusters", "fig6"
        ),
        Experiment(
            "integrated-fig7", "4.2", "Top-Down: plans by cluster size", "integrated_clusters", "fig7"
        ),
        Experiment(
            "integrated-fig8", "4.2", "Bottom-Up: cost by cluster size", "integrated_clusters", "fig8"
        ),
        Experiment("integrated-fig9", "4.2", "Top-Down: cost by cluster size", "integrated_clusters", "fig9"),
        Experiment("integrated-fig10", "4.3", "NPC: cost", "integrated_clusters", "fig10"),
        Experiment("integrated-fig11", "4.3", "NPC: plans", "integrated_clusters", "fig11"),
        Experiment("integrated-fig12", "4.4", "all planners: synthetic", "integrated_compared", "fig12"),
        Experiment("integrated-fig13", "4.4", "all planners: enterprise", "integrated_compared", "fig13"),
        Experiment("integrated-fig14", "4.4", "operators: enterprise", "integrated_compared", "fig14"),
        Experiment("integrated-fig15", "4.5", "plans as the network grows", "integrated_scale"),
        Experiment("integrated-fig16", "4.6", "time to deployment", "integrated_messages", "fig16"),
        Experiment(
            "integrated-membership", "3.1.2", "sites join and leave", "integrated_messages", "membership"
        ),
        Experiment("past-sites", "growth", "every planner from 10 to 10,000 sites", "past_sites"),
        Experiment("past-queries", "growth", "every planner up to 1,000 queries", "past_queries"),
        Experiment("past-optimum", "exact plans", "what exact plans save over heuristics", "past_optimum"),
        Experiment("past-bloom", "skew", "Bloom semijoins beside plain ones", "past_bloom"),
        Experiment("past-parts", "skew", "partitioned plans beside whole ones", "past_parts"),
        Experiment(
            "past-atlas",
            "a real network",
            "all planners between real sites",
            "past_atlas",
            needs="THALWEG_ATLAS",
        ),
    )
}
"""Every experiment by its name."""


def named(name: str | None, paper: str | None = None) -> list[Experiment]:
    """The experiment with this name, or all of them; those of a paper only, if one is given."""
    if paper is not None and paper not in PAPERS:
        raise UserError(f"no paper {paper!r}", remedy=f"one of {', '.join(PAPERS)}")
    if name is None or name == "all":
        return [e for e in EXPERIMENTS.values() if paper in (None, e.paper)]
    if name not in EXPERIMENTS:
        raise UserError(f"no experiment {name!r}", remedy=f"all, or one of {', '.join(EXPERIMENTS)}")
    return [EXPERIMENTS[name]]
