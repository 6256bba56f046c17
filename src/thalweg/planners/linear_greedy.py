"""`linear-greedy`: each head next meets the stream with the cheapest simple one-way join.

adaptive Algorithm 1, with the costs of its eqs. 1 to 3: whole tuples are shipped, either the next stream's
to where the head's results so far are (SP-S), or those results to where the stream arises (SP-D).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from thalweg.cost.keys import Floats
from thalweg.cost.methods import at_source
from thalweg.plan.one_way import METHODS
from thalweg.planners.search.problem import Found, NotApplicableError, Problem
from thalweg.planners.search.sequences import Plan, Step, StepCosts, as_found

SIMPLE = ("SP-S", "SP-D")
MOST = 64
"""Streams beyond which m sequences of m - 1 steps are too many."""


def plan(problem: Problem) -> Found:
    """Greedy sequences of simple joins."""
    costs = StepCosts(problem)
    return as_found(costs, *greedy(costs, SIMPLE))


def greedy(costs: StepCosts, methods: Sequence[str]) -> tuple[Plan, int]:
    """For each head the cheapest next step, again and again; and how many steps were looked at."""
    aliases = costs.problem.rates.aliases
    if len(aliases) > MOST:
        raise NotApplicableError(
            f"a probe sequence for each of {len(aliases)} streams is too much: at most {MOST}",
            remedy="streamjoinopt takes any number",
        )
    found: dict[int, tuple[Step, ...]] = {}
    searched = 0
    for head in range(len(aliases)):
        mask, place, steps = 1 << head, int(costs.place[head]), []
        while mask != costs.problem.rates.all:
            costs.problem.check_time()
            ways = Nexts(costs, head, mask, place, methods)
            searched += int(np.isfinite(ways.cost).sum())
            steps.append(ways.cheapest)
            mask, place = ways.after(ways.cheapest)
        found[head] = tuple(steps)
    return found, searched


class Nexts:
    """The possible next steps of a head that has joined a set of streams, with the results at a place."""

    def __init__(self, costs: StepCosts, head: int, mask: int, place: int, methods: Sequence[str]) -> None:
        self.costs, self.head, self.mask, self.place, self.methods = costs, head, mask, place, methods
        self.streams = costs.nexts(mask)
        columns = [METHODS.index(m) for m in methods]
        steps = costs.steps(head, [mask] * len(self.streams), self.streams)
        self.cost: Floats = steps.cost[columns, :, place].T

    @property
    def cheapest(self) -> Step:
        """Of equally cheap steps the one to the first stream, and by the first method."""
        row, column = divmod(int(self.cost.argmin()), len(self.methods))
        if not np.isfinite(self.cost[row, column]):
            raise no_path(self.costs.problem.rates.aliases[self.head])
        return Step(self.streams[row], self.methods[column])

    def cost_of(self, step: Step) -> float:
        """Infinite for a stream that nothing connects, and for another method."""
        if step.stream not in self.streams or step.method not in self.methods:
            return float("inf")
        return float(self.cost[self.streams.index(step.stream), self.methods.index(step.method)])

    def after(self, step: Step) -> tuple[int, int]:
        """The set joined and the place of the results after a step."""
        place = self.place if at_source(step.method) else int(self.costs.place[step.stream])
        return self.mask | 1 << step.stream, place


def no_path(head: str) -> NotApplicableError:
    """The mistake in a catalog that keeps a head from the other streams."""
    return NotApplicableError(
        f"there is no path by which the tuples of {head} meet all other streams",
        remedy="add links to the catalog, or a links.default",
    )
