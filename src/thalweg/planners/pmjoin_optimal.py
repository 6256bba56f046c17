"""`pmjoin-optimal`: like `pmjoin`, with the cheapest tree for each part of the key space."""

from __future__ import annotations

from collections.abc import Sequence

from thalweg.cost.price import price
from thalweg.cost.rates import Rates
from thalweg.planners import optimal, pmjoin
from thalweg.planners.search.problem import Found, NotApplicableError, Problem
from thalweg.planners.search.tree import Tree


def plan(problem: Problem) -> Found:
    """The exact recurrence for every part."""
    if len(problem.at) > optimal.MOST:
        raise NotApplicableError(
            f"pmjoin-optimal looks at 3^m joins a part, and {len(problem.at)} streams are too many for it",
            remedy="pmjoin takes any number",
        )

    def plan_part(
        rates: Rates, units: Sequence[Tree], at: Sequence[int], target: int | None
    ) -> tuple[Tree, int]:
        splits = optimal.splits_of(rates, units)
        found = optimal.exact(problem, rates, units, at, target, splits)
        return found.tree(), found.searched

    parts = pmjoin.plan_parts(problem, plan_part)
    # Each part pays the latency of its own messages, so where that counts fewer trees may be cheaper.
    plans = (parts, pmjoin.plan(problem), optimal.plan(problem))
    best = min(plans, key=lambda found: price(found.deployment, problem.network, problem.model))
    return Found(best.deployment, sum(found.searched for found in plans))
