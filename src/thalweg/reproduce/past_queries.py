"""Past the papers: cost, planning time and messages of every planner as queries become many."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from thalweg.reproduce.outcome import Claim, Curve, Outcome, Panel, Tell
from thalweg.reproduce.past_growth import NAMES, Planned, plan, session_of
from thalweg.reproduce.samples import scaled
from thalweg.workloads import transit_stub
from thalweg.workloads.synthetic import Workload, workload

NODES = 128
QUERIES = (1, 10, 100, 1_000)
STREAMS = 20
PATIENCE_S = 60.0
"""A planner that takes longer for all queries so far gets no further ones."""


REUSING = (
    *("top-down", "bottom-up", "npc", "optimal", "pmjoin-optimal"),
    *("plan-then-deploy", "in-network", "relaxation"),
)


def run(scale: float, tell: Tell) -> Outcome:
    """From one query to a thousand, deployed one after another on one network."""
    most = scaled(QUERIES[-1], scale, 20)
    marks = [n for n in QUERIES if n <= most]
    links = transit_stub.links(NODES, 1)
    one = workload(NODES, links, 1, queries=most, streams=STREAMS)
    found: dict[str, list[Planned]] = {}
    for name in (name for name in NAMES if "exhaustive" not in name):
        tell(f"{name}, {most:,} queries")
        found[name] = _deployed(one, name, most)
    done = {name: own for name, own in found.items() if len(own) >= marks[-1]}
    reusing = [name for name in REUSING if name in done]
    tenth = max(1, marks[-1] // 10)
    share = {
        name: _mean(own[-tenth:], "cost") / _mean(found["simple"][len(own) - tenth : len(own)], "cost")
        for name, own in done.items()
    }
    first = {
        name: _mean(own[:tenth], "cost") / _mean(found["simple"][:tenth], "cost")
        for name, own in done.items()
    }
    slower = {
        name: _mean(own[-tenth:], "seconds") / _mean(own[tenth : 2 * tenth], "seconds")
        for name, own in done.items()
    }
    totals = {name: sum(p.cost for p in own[: marks[-1]]) for name, own in done.items()}
    least = min(totals, key=lambda name: totals[name])
    early = [name for name in found if name not in done]
    return Outcome(
        "past-queries",
        "every planner as queries become many",
        (
            f"A transit-stub network of {NODES} nodes; up to {most:,} queries of 2 to 5 joins over {STREAMS} "
            "streams, random sinks, deployed one after another. Cost is bytes in flight that a query adds, "
            f"all tuples counting 1. {', '.join(reusing)} reuse what is deployed; the others plan each "
            "query alone.",
            f"Planning is CPU time; a planner gets no further queries after {PATIENCE_S:g} seconds"
            + (f": {', '.join(f'{name} {len(found[name])}' for name in early)}." if early else "."),
            "One seed: the spread is over queries. The exhaustive planners are left out: they refuse "
            "queries of so many streams.",
        ),
        (
            Claim(
                "with reuse, late queries add less than early ones (criterion: the last tenth of them less "
                "than half of the first tenth, both by what simple, which never reuses, costs for them)",
                ", ".join(f"{name} {share[name] / first[name]:.2f} times" for name in reusing),
                all(share[name] < first[name] / 2 for name in reusing),
                "A query can only reuse what joins the same streams by the same attributes. The planners in "
                "two phases reuse only what is a part of their tree.",
            ),
            Claim(
                "planning does not become slower with what is deployed (criterion: the last tenth of the "
                "queries takes at most twice the time of the second tenth)",
                ", ".join(f"{name} {times:.1f} times" for name, times in slower.items()),
                max(slower.values()) <= 2,
                "What could be reused grows with the queries, and is looked through for each.",
            ),
            Claim(
                "the optimum of each query, given those before it, is the cheapest for all of them "
                "(criterion: within 1 percent)",
                f"{least} costs the least; optimal {totals['optimal'] / totals[least]:.3f} times as much"
                if "optimal" in totals
                else "optimal did not get through",
                "optimal" in totals and totals["optimal"] <= 1.01 * totals[least],
                "It takes no account of queries that come later.",
            ),
        ),
        (
            "planner",
            "queries",
            "cost a query",
            "standard deviation",
            "planning, s a query",
            "messages a query",
        ),
        tuple(
            (
                name,
                n,
                _mean(own[:n], "cost"),
                float(np.std([p.cost for p in own[:n]])),
                _mean(own[:n], "seconds"),
                _mean(own[:n], "messages"),
            )
            for name, own in found.items()
            for n in marks
            if len(own) >= n
        ),
        (
            _panel("cost", "bytes in flight a query", found, "cost"),
            _panel("planning", "CPU seconds a query", found, "seconds", "xy"),
            _panel("messages", "messages a query", found, "messages"),
        ),
    )


def _deployed(one: Workload, name: str, most: int) -> list[Planned]:
    """The queries one after another, until all are deployed or patience is over."""
    plan(session_of(one, name, 0), name, 0, one)  # what is loaded by the first call is not planning
    session, made, spent = session_of(one, name, 0), [], 0.0
    for number in range(most):
        session.options = replace(session.options, deliver_to=one.sinks[number])
        made.append(plan(session, name, number, one))
        spent += made[-1].seconds
        if spent > PATIENCE_S:
            break
    return made


def _panel(title: str, label: str, found: dict[str, list[Planned]], what: str, log: str = "x") -> Panel:
    curves = []
    for name, own in found.items():
        at = np.unique(np.round(np.geomspace(1, len(own), 12)).astype(int))
        means = np.array([_mean(own[:n], what) for n in at])
        curves.append(Curve(name, at.astype(float), means))
    return Panel(title, "queries", tuple(curves), y_label=label, log=log)


def _mean(some: Sequence[Planned], what: str) -> float:
    return float(np.mean([getattr(p, what) for p in some]))
