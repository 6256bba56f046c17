"""`pmjoin-optimal`: like `pmjoin`, with the cheapest tree for each part of the key space."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from thalweg.cost.keys import Floats
from thalweg.cost.price import price
from thalweg.cost.rates import Rates
from thalweg.cost.time import join_work
from thalweg.planners import optimal, pmjoin
from thalweg.planners.optimal import MOST
from thalweg.planners.pmjoin import plan_parts
from thalweg.planners.problem import Found, NotApplicableError, Problem
from thalweg.planners.recurrence import Given, Made, solve
from thalweg.planners.tree import Join, Tree


def plan(problem: Problem) -> Found:
    """The exact recurrence for every part."""
    if len(problem.at) > MOST:
        raise NotApplicableError(
            f"pmjoin-optimal looks at 3^m joins a part, and {len(problem.at)} streams are too many for it",
            remedy="pmjoin takes any number",
        )
    found = plan_parts(problem, lambda rates, units, at, target: _exact(problem, rates, units, at, target))
    # Each part pays the latency of its own messages, so where that counts fewer trees may be cheaper.
    greedy, whole = pmjoin.plan(problem), optimal.plan(problem)
    best = min((found, greedy, whole), key=lambda f: price(f.deployment, problem.network, problem.model))
    return Found(best.deployment, found.searched + greedy.searched + whole.searched)


def _exact(
    problem: Problem, rates: Rates, units: Sequence[Tree], at: Sequence[int], target: int | None
) -> tuple[Tree, int]:
    nodes = len(problem.network.sites)
    masks = [u.mask for u in units]
    available: dict[int, Floats] = {}
    for k, site in enumerate(at):
        available[1 << k] = np.full(nodes, np.inf)
        available[1 << k][site] = 0.0

    def streams(chosen: int) -> int:
        return sum(mask for k, mask in enumerate(masks) if chosen >> k & 1)

    solved = solve(
        len(units),
        available,
        lambda chosen: rates.flow(streams(chosen)).bytes,
        problem.network.spread,
        joinable=lambda a, b: rates.joinable(streams(a), streams(b)),
        work=(lambda a, b: join_work(rates, (streams(a), streams(b)), problem.catalog.costs))
        if problem.model.work
        else None,
    )

    def tree(node: Given | Made) -> Tree:
        if isinstance(node, Made):
            return Join((tree(node.left), tree(node.right)), node.node)
        return units[node.units.bit_length() - 1]

    everything = (1 << len(units)) - 1
    if solved.cost(everything, target) == float("inf"):
        raise NotApplicableError(
            "the streams can't meet: no site can be reached from all of theirs",
            remedy="add links to the catalog",
        )
    return tree(solved.plan(everything, target)), solved.looked_at
