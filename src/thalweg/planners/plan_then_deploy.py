"""`plan-then-deploy`: the best tree by rates alone, then its best placement (integrated, figures 1a and 2).

integrated compares with "an optimal deployment through exhaustive search" of a plan that was chosen before.
Our reading: the tree with the least bytes between its joins, whatever the network; then, over all sites, the
placement of its joins that costs least. The placement reuses what other queries have joined, where that is a
part of the tree.
"""

from __future__ import annotations

from thalweg.planners.search.phases import by_rates, everywhere, place
from thalweg.planners.search.problem import Found, Problem
from thalweg.planners.search.tree import deploy


def plan(problem: Problem) -> Found:
    """The tree by rates at its cheapest sites."""
    order, compared = by_rates(problem)
    placed = place(problem, order, everywhere(problem), problem.target)
    searched = compared + len(order) * len(problem.network.sites)
    return Found(deploy(problem, placed.tree), searched)
