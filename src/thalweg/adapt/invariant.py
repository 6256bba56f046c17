"""adaptive eq. 4: every head next meets the stream with the cheapest one-way join, at the cheaper site."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from thalweg.plan.deployment import Deployment
from thalweg.planners.linear_greedy import SIMPLE, Nexts
from thalweg.planners.search.problem import Problem
from thalweg.planners.search.sequences import Plan, StepCosts, read


@dataclass(frozen=True)
class Violation:
    """A step that is not the cheapest of those left; the first step of a sequence has position 1."""

    head: str
    position: int
    chosen: tuple[str, str]
    cheaper: tuple[str, str]
    cost: float
    least: float

    def __str__(self) -> str:
        chosen, cheaper = (f"{stream} by {method}" for stream, method in (self.chosen, self.cheaper))
        return (
            f"step {self.position} of {self.head} goes to {chosen} for {self.cost:g}; "
            f"{cheaper} costs {self.least:g}"
        )


def violations(
    problem: Problem, plan: Plan | Deployment, methods: Sequence[str] = SIMPLE
) -> tuple[Violation, ...]:
    """The steps that break eq. 4; none if it holds. Of equal costs the first stream has the lower.

    A step by a method that is not among `methods` breaks it.
    """
    aliases = problem.query.aliases
    if isinstance(plan, Deployment):
        plan = read(plan, aliases)
    costs = StepCosts(problem)
    found = []
    for head, steps in sorted(plan.items()):
        mask, place = 1 << head, int(costs.place[head])
        for position, step in enumerate(steps, 1):
            nexts = Nexts(costs, head, mask, place, methods)
            best = nexts.cheapest
            if best != step:
                chosen, cheaper = ((aliases[s.stream], s.method) for s in (step, best))
                cost, least = nexts.cost_of(step), nexts.cost_of(best)
                found.append(Violation(aliases[head], position, chosen, cheaper, cost, least))
            mask, place = nexts.after(step)
    return tuple(found)
