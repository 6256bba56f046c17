"""`simple`: every stream goes to the site of the fastest one (pmjoin 4)."""

from __future__ import annotations

from thalweg.planners.search.problem import Found, Problem
from thalweg.planners.search.tree import Join, Leaf, deploy


def plan(problem: Problem) -> Found:
    """One N-way join at the fastest stream's site."""
    rates = problem.rates
    fastest = max(
        range(len(rates.aliases)), key=lambda i: (rates.flow(1 << i).rate, rates.flow(1 << i).bytes)
    )
    leaves = tuple(Leaf(i) for i in range(len(rates.aliases)))
    return Found(deploy(problem, Join(leaves, problem.at[fastest])), 1)
