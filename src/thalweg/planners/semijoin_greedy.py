"""`semijoin-greedy`: each head next meets the stream with the cheapest of all one-way joins.

semijoin Algorithm 10. Beside whole tuples, keys or Bloom filters of them may be shipped first, so that only
tuples with a match follow.
"""

from __future__ import annotations

from thalweg.plan.one_way import METHODS
from thalweg.planners.linear_greedy import greedy
from thalweg.planners.search.problem import Found, Problem
from thalweg.planners.search.sequences import StepCosts, as_found


def plan(problem: Problem) -> Found:
    """Greedy sequences of simple and semijoins."""
    costs = StepCosts(problem)
    return as_found(costs, *greedy(costs, METHODS))
