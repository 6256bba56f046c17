"""integrated, figure 15: plans examined as the network grows."""

from __future__ import annotations

import numpy as np

from thalweg.plan.options import Objective, PlanOptions
from thalweg.planners.exhaustive import lemma1
from thalweg.planners.search.hierarchy import Hierarchy, beta
from thalweg.planners.table import Session
from thalweg.reproduce.integrated import BOTTOM_UP, MAX_CS, TOP_DOWN, deploy, network
from thalweg.reproduce.outcome import Claim, Outcome, Tell
from thalweg.reproduce.samples import Samples, scaled
from thalweg.workloads.synthetic import workload

NAME = "integrated-fig15"
NODES = (128, 256, 510, 1020)
QUERIES, SEEDS, STREAMS = 100, 3, 4
EXHAUSTIVE, BOUND = "exhaustive (Lemma 1)", "bound (Theorems 2 and 4)"


def run(scale: float, tell: Tell) -> Outcome:
    """The average number of plans for a query over four of ten streams."""
    found = Samples()
    nodes = NODES if scale >= 0.5 else NODES[:2]
    queries, seeds = scaled(QUERIES, scale, 10), scaled(SEEDS, scale)
    for seed in range(seeds):
        for n in nodes:
            tell(f"seed {seed + 1} of {seeds}, {n} nodes")
            joins = (STREAMS - 1, STREAMS - 1)
            one = workload(n, network(n, seed), seed, queries=queries, joins=joins)
            for name in (BOTTOM_UP, TOP_DOWN):
                found.add(name, n, float(np.mean(deploy(one, name).searched)))
            session = Session(one.catalog, PlanOptions("top-down", Objective.USAGE))
            height = Hierarchy.of(session.problem(one.queries[0]), MAX_CS).height
            found.add(EXHAUSTIVE, n, lemma1(STREAMS, n))
            found.add(BOUND, n, beta(height, MAX_CS, n, STREAMS) * lemma1(STREAMS, n))
    share = {name: max(found.ratio(name, EXHAUSTIVE, n) for n in nodes) for name in (BOTTOM_UP, TOP_DOWN)}
    less = found.less(BOTTOM_UP, TOP_DOWN)
    bounds = [found.mean(BOUND, n) for n in nodes]
    over = [name for name in share if any(found.ratio(name, BOUND, n) > 1 for n in nodes)]
    return Outcome(
        NAME,
        "plans examined for a query as the network grows",
        (
            f"{queries} queries over four of ten streams, random sinks, clusters of {MAX_CS}; {found.seeds} "
            "seeds; transit-stub networks with sixteen stub domains, whatever their size",
        ),
        (
            Claim(
                "Top-Down and Bottom-Up decrease the search space by at least 99 percent",
                ", ".join(f"{name} by {1 - s:.2%} or more" for name, s in share.items()),
                max(share.values()) <= 0.01,
                "On the smallest network a query whose streams are all in one cluster has a quarter of the "
                "nodes to search.",
            ),
            Claim(
                "Bottom-Up examines 45 percent fewer plans than Top-Down (criterion: within ten percentage "
                "points)",
                f"{less:.0%} fewer",
                abs(less - 0.45) <= 0.10,
                "How early a query is split depends on how many of its streams are near its sink.",
            ),
            Claim(
                "neither is above the bounds of theorems 2 and 4",
                "neither" if not over else ", ".join(over),
                not over,
                "With derived streams, a view has more plans than Lemma 1 counts: each way to put it "
                "together from streams and derived streams has its own.",
            ),
            Claim(
                "the bounds are nearly the same for all networks (criterion: within a factor of 2)",
                ", ".join(f"{b:,.0f}" for b in bounds),
                max(bounds) <= 2 * min(bounds),
            ),
        ),
        ("planner", "nodes", "plans", "standard deviation", "seeds"),
        tuple(found.rows()),
        (found.panel("plans for a query", "nodes", "plans", "y"),),
    )
