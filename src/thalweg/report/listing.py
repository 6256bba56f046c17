"""A plan as lines of text: what it costs, the way of each head or every operator, and what was assumed."""

from __future__ import annotations

import math
from collections.abc import Iterator

from thalweg.cost.objectives import MODELS
from thalweg.plan.document import Plan, PlannedQuery
from thalweg.plan.ways import ways


def lines(plan: Plan, *, verbose: bool = False) -> Iterator[str]:
    """The lines of all queries and of the total; `verbose` shows every operator."""
    unit = MODELS[plan.objective].unit
    for query in plan.queries:
        yield f"{query.query}: planner {query.planner}, cost {query.cost:,.6g} {unit}{_added(query)}"
        heads = [] if verbose else ways(query.deployment)
        yield from (f"  {line}" for line in heads or query.deployment.explain().splitlines())
        if heads:
            yield "  --verbose shows every operator, and what flows between them"
        if query.assumed:
            yield "  assumed, because the catalog does not declare them (`thalweg stats` measures them):"
            yield from (f"    {what}" for what in query.assumed)
        yield from (f"  warning: {warning}" for warning in query.warnings)
    yield f"total: {plan.total:,.6g} {unit}"


def _added(query: PlannedQuery) -> str:
    """The marginal cost of a query that reuses parts of earlier ones."""
    if math.isclose(query.cost, query.marginal_cost, rel_tol=1e-9, abs_tol=1e-12):
        return ""
    return f", of which {query.marginal_cost:,.6g} is added to the queries before it"
