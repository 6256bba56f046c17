"""integrated, Lemma 1 and the numbers that follow from it."""

from __future__ import annotations

from math import log

from thalweg.planners.exhaustive import lemma1
from thalweg.planners.search.hierarchy import beta
from thalweg.reproduce.integrated import deploy, network
from thalweg.reproduce.outcome import Bars, Claim, Outcome, Tell
from thalweg.workloads.synthetic import workload

NAME = "integrated-lemma1"
CASES = ((5, 64, 3.02e9), (5, 128, 4.83e10), (4, 57, 3.3e6))
"""Streams, nodes, and the number of plans that the paper states."""
_ROUNDED = 0.02
"""The paper's numbers are rounded to two or three digits."""


def run(scale: float, tell: Tell) -> Outcome:
    """Count, and let the exact planner find one of them."""
    counts = {(k, n): lemma1(k, n) for k, n, _ in CASES}
    height = log(1000, 100)
    share = beta(height, 100, 1000, 4)
    tell("one query over five streams, exactly")
    one = workload(128, network(128, 1), 1, queries=1, joins=(4, 4))
    found = deploy(one, "optimal")
    return Outcome(
        NAME,
        "the number of plans",
        (
            "Lemma 1: K! (K-1)! / 2^(K-1) orders of joins of K streams, each with N^(K-1) placements on N "
            "nodes",
            "The last row is the exact planner's: joins (splits of sets, and sites) that it compares.",
        ),
        (
            *(
                Claim(
                    f"{k} streams on {n} nodes: {paper:.3g} plans (criterion: within 2%, as it is rounded)",
                    f"{counts[k, n]:.3g}",
                    abs(counts[k, n] / paper - 1) < _ROUNDED,
                )
                for k, n, paper in CASES
            ),
            Claim(
                "1,000 nodes, clusters of 100, four streams: beta is about 0.0015",
                f"{share:.4f}, with a height of log 1000 / log 100 = {height:.2f}",
                abs(share - 0.0015) < 0.00005,
            ),
            Claim(
                "an exhaustive search is infeasible, even with dynamic programming (nearly three hours for "
                "one query over five streams on 128 nodes; criterion: more than a minute)",
                f"{found.seconds[0] * 1000:.0f} ms, {found.searched[0]:,} joins compared",
                found.seconds[0] > 60,
                "With the place of each intermediate result in its state, dynamic programming is exact, "
                "though the paper says that it can't be: the best plan of a part for a given place is a "
                "part of the best plan.",
            ),
        ),
        ("streams", "nodes", "plans", "paper"),
        (
            *((k, n, counts[k, n], f"{paper:.3g}") for k, n, paper in CASES),
            (5, 128, found.searched[0], ""),
        ),
        (
            Bars(
                "plans of a query (log 10)",
                "digits",
                {f"{k} on {n}": log(counts[k, n], 10) for k, n, _ in CASES},
            ),
        ),
    )
