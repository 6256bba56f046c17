"""All experiments in one table."""

from __future__ import annotations

import importlib
from dataclasses import dataclass

from thalweg.errors import UserError
from thalweg.reproduce.outcome import Outcome, Tell


@dataclass(frozen=True)
class Experiment:
    """One experiment of a paper; its module has `run(scale, tell)`, or one of another name."""

    name: str
    where: str
    about: str
    module: str
    function: str = "run"

    def run(self, scale: float, tell: Tell) -> Outcome:
        """Runs it, at a fraction of its size where the scale is below 1."""
        module = importlib.import_module(f"thalweg.reproduce.{self.module}")
        found: Outcome = getattr(module, self.function)(scale, tell)
        return found


_ADAPTIVE = "adaptive (Tran and Lee), 5.2"
_MJOIN = "MJoin (Viglas, Naughton and Burger 2003)"
EXPERIMENTS = {
    e.name: e
    for e in (
        Experiment("mjoin-table1", f"{_MJOIN}, 3.3", "operations of tree and MJoin", "mjoin_table1"),
        Experiment("mjoin-fig11", f"{_MJOIN}, 3.2", "a stream whose rate changes", "mjoin_fig11"),
        Experiment("mjoin-fig12", f"{_MJOIN}, 3.3", "right and wrong probing sequences", "mjoin_fig12"),
        Experiment("mjoin-fig13", f"{_MJOIN}, 3.4", "a window join", "mjoin_fig13"),
        Experiment("mjoin-fig15", f"{_MJOIN}, 3.5", "memory overflow, flushed in two ways", "mjoin_fig15"),
        Experiment("mjoin-fig17", f"{_MJOIN}, 3.6", "six inputs in one operator or several", "mjoin_fig17"),
        Experiment("adaptive-fig4a", _ADAPTIVE, "cost over time, four streams", "adaptive_fig4", "four"),
        Experiment("adaptive-fig4a-spark", _ADAPTIVE, "the same, live on Spark", "adaptive_fig4a_spark"),
        Experiment("adaptive-fig4b", _ADAPTIVE, "cost over time, eight streams", "adaptive_fig4", "eight"),
        Experiment("adaptive-fig5a", _ADAPTIVE, "cost of changing, four streams", "adaptive_fig5", "four"),
        Experiment("adaptive-fig5b", _ADAPTIVE, "cost of changing, eight streams", "adaptive_fig5", "eight"),
        Experiment("adaptive-table3", _ADAPTIVE, "messages of a change of plan", "adaptive_table3"),
    )
}
"""Every experiment by its name."""


def named(name: str) -> list[Experiment]:
    """The experiment with this name, or all of them."""
    if name == "all":
        return list(EXPERIMENTS.values())
    if name not in EXPERIMENTS:
        raise UserError(f"no experiment {name!r}", remedy=f"all, or one of {', '.join(EXPERIMENTS)}")
    return [EXPERIMENTS[name]]
