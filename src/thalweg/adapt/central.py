"""The central update of node operator sets (adaptive Algorithm 2): one site has all statistics."""

from __future__ import annotations

from collections.abc import Collection

from thalweg.adapt.update import Updated
from thalweg.plan.node_operators import compare
from thalweg.planners.linear_greedy import SIMPLE, greedy
from thalweg.planners.search.problem import Problem
from thalweg.planners.search.sequences import Plan, StepCosts, deploy


def update(problem: Problem, before: Plan, changed: Collection[str], *, at: str | None = None) -> Updated:
    """Plan anew (Algorithm 1); who is affected gets its new node operator set.

    `problem` has the new statistics, `changed` names the streams that reported theirs. The central site is
    the one to deliver to, or that of the first stream, if none is given.
    """
    sites = dict(zip(problem.query.aliases, problem.rates.sites, strict=True))
    centre = at or problem.deliver_to or problem.rates.sites[0]
    plan, _ = greedy(StepCosts(problem), SIMPLE)
    changes = compare(deploy(problem, before), deploy(problem, plan))
    affected = tuple(site for site, change in changes.items() if change.affected)
    messages = {
        "report": len({sites[s] for s in changed} - {centre}),
        "operators": len(set(affected) - {centre}),
    }
    return Updated(plan, affected, messages)
