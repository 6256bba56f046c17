"""`linear-greedy`: each head next meets the stream with the cheapest simple one-way join.

adaptive Algorithm 1, with the costs of its eqs. 1 to 3: whole tuples are shipped, either the next stream's
to where the head's results so far are (SP-S), or those results to where the stream arises (SP-D).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from thalweg.cost.methods import at_source
from thalweg.plan.one_way import METHODS
from thalweg.planners.search.problem import Found, NotApplicableError, Problem
from thalweg.planners.search.sequences import Plan, Step, StepCosts, deploy

SIMPLE = ("SP-S", "SP-D")
MOST = 64
"""Streams beyond which m sequences of m - 1 steps are too many."""


def plan(problem: Problem) -> Found:
    """Greedy sequences of simple joins."""
    found, searched = greedy(StepCosts(problem), SIMPLE)
    return Found(deploy(problem, found), searched)


def greedy(costs: StepCosts, methods: Sequence[str]) -> tuple[Plan, int]:
    """For each head the cheapest next step, again and again; and how many steps were looked at.

    Of equally cheap steps the one to the first stream is taken, and by the first method.
    """
    aliases = costs.problem.rates.aliases
    if len(aliases) > MOST:
        raise NotApplicableError(
            f"a probe sequence for each of {len(aliases)} streams is too much: at most {MOST}",
            remedy="streamjoinopt takes any number",
        )
    columns = [METHODS.index(m) for m in methods]
    found: dict[int, tuple[Step, ...]] = {}
    searched = 0
    for head in range(len(aliases)):
        mask, place, steps = 1 << head, int(costs.place[head]), []
        while waiting := costs.nexts(mask):
            costs.problem.check_time()
            ways = costs.steps(head, [mask] * len(waiting), waiting).cost[columns, :, place].T
            row, column = divmod(int(ways.argmin()), len(columns))
            if not np.isfinite(ways[row, column]):
                raise NotApplicableError(
                    f"there is no path by which the tuples of {aliases[head]} meet all other streams",
                    remedy="add links to the catalog, or a links.default",
                )
            searched += int(np.isfinite(ways).sum())
            steps.append(Step(waiting[row], methods[column]))
            mask |= 1 << waiting[row]
            place = place if at_source(methods[column]) else int(costs.place[waiting[row]])
        found[head] = tuple(steps)
    return found, searched
