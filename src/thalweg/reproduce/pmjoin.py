"""Shared by the experiments of PMJoin (Zhou, Yan, Yu and Zhou 2006): costs of plans in tuples a second.

The paper simulates the system and counts the tuples shipped. Here the cost of a plan is the expected number,
by equations 2 and 3 over all values of the join attribute, which is what a long simulation gives.
"""

from __future__ import annotations

import numpy as np

from thalweg.cost.keys import Floats
from thalweg.cost.masks import members
from thalweg.cost.network import Numbers
from thalweg.planners import optimal
from thalweg.planners.search.partition import partition
from thalweg.planners.search.problem import Problem
from thalweg.planners.search.recurrence import solve
from thalweg.planners.search.splits import connected, every
from thalweg.planners.search.tree import Leaf
from thalweg.planners.streamjoinopt import optimise
from thalweg.workloads.streams import shipped

SIMPLE, HEURISTIC, LOCAL, OPTIMAL = "Simple", "Heuristic", "Local", "Optimal"
RANGE, RATE, HASH = "range", "rate", "hash"
PARTITIONERS = (HASH, RANGE, RATE)
WHOLE, BY_VALUE = "without partitions", "optimal for each value"


def simple(problem: Problem) -> float:
    """All streams but the fastest are shipped, to its site."""
    rates = problem.rates.rate
    return float(rates.sum() - rates.max())


def heuristic(problem: Problem, *, local_always: bool = False) -> float:
    """Algorithm 1."""
    units = [Leaf(i) for i in range(len(problem.at))]
    return shipped(problem, optimise(problem.rates, units, problem.at, local_always=local_always))


def best(problem: Problem) -> float:
    """The exact optimum of all trees at all sites."""
    units = [Leaf(i) for i in range(len(problem.at))]
    splits = optimal.splits_of(problem.rates, units)
    return optimal.exact(problem, problem.rates, units, problem.at, None, splits).cost


def best_connected(problem: Problem) -> float:
    """The exact optimum without cross products, which queries on several attributes have many of."""
    rates, units = problem.rates, [Leaf(i) for i in range(len(problem.at))]
    near = [
        sum(1 << j for j, b in enumerate(units) if a is not b and rates.joinable(a.mask, b.mask))
        for a in units
    ]
    splits = connected(near, optimal.FEW)
    assert splits is not None  # an attribute connects few of the streams
    return optimal.exact(problem, rates, units, problem.at, None, splits).cost


def partitioned(problem: Problem, parts: int, partitioner: str) -> float:
    """Algorithm 1 for each part of the key space."""
    units = [Leaf(i) for i in range(len(problem.at))]
    total = 0.0
    for piece in partition(problem.rates, 0, parts, partitioner):
        rates = problem.rates.part(0, piece.selection)
        total += shipped(problem, optimise(rates, units, problem.at), rates)
    return total


def best_by_value(problem: Problem) -> float:
    """The exact optimum where each value of the one attribute has a plan of its own.

    Tuples of one value all match, so all values go through one recurrence, side by side.
    """
    shares = problem.rates.classes[0].shares
    rate = shares * problem.rates.rate[:, None]
    window = shares * problem.rates.window[:, None]
    sites, values = len(problem.network.sites), shares.shape[1]
    flows: dict[int, Floats] = {}

    def size(mask: int) -> float:
        inside = list(members(mask))
        first = np.array([rate[i] * np.prod(window[[j for j in inside if j != i]], axis=0) for i in inside])
        flows[mask] = first.sum(axis=0)
        return float(flows[mask].sum())

    splits = every(len(problem.at))
    available = {}
    for i, site in enumerate(problem.at):
        costs = np.full((values, sites), np.inf)
        costs[:, site] = 0.0
        available[1 << i] = costs.ravel()
    # The recurrence ships sets in the order in which it was given them.
    waiting = iter(splits.masks)

    def spread(made: Floats, _: float) -> tuple[Floats, Numbers]:
        by_site = made.reshape(values, sites)
        moved = by_site.min(axis=1) + flows[next(waiting)]
        origin = np.zeros(values * sites, dtype=np.int64)  # which plan it is does not matter here
        return np.minimum(by_site, moved[:, None]).ravel(), origin

    solved = solve(
        splits, available, size, spread, joinable=problem.rates.joinable, check_time=problem.check_time
    )
    everything = solved.anywhere(problem.rates.all).reshape(values, sites)
    return float(everything.min(axis=1).sum())
