"""All planners in one table, and planning by name."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from thalweg.catalog.model import Catalog
from thalweg.errors import UserError
from thalweg.plan.document import Plan, PlannedQuery
from thalweg.plan.local import plan_local
from thalweg.plan.options import PlanOptions
from thalweg.query.model import Query


@dataclass(frozen=True)
class Planner:
    """What a planner is; `settings` are its `--set` keys with the values each takes."""

    name: str
    family: str
    paper: str
    summary: str
    settings: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


_WIDTH = {"width": ("columns", "equal")}

PLANNERS = (
    Planner("auto", "any", "-", "picks a planner that can deploy the query", _WIDTH),
    Planner("local", "tree", "mjoin", "N-way joins at the one site where all streams arise", _WIDTH),
)


def make_plan(queries: Sequence[Query], catalog: Catalog, options: PlanOptions) -> Plan:
    """Deploys the queries in order, each by the planner that is asked for."""
    planner = next((p for p in PLANNERS if p.name == options.planner), None)
    if planner is None:
        raise UserError(
            f"there is no planner {options.planner!r}",
            remedy=f"there are {', '.join(p.name for p in PLANNERS)}",
        )
    _check_settings(planner, options.settings)
    if options.deliver_to is not None and options.deliver_to not in catalog.sites:
        raise UserError(
            f"there is no site {options.deliver_to!r} to deliver to",
            remedy=f"the catalog has {', '.join(catalog.sites)}",
        )
    planned = []
    for query in queries:
        start = time.perf_counter()
        local = plan_local(query, catalog, options)
        elapsed_ms = round((time.perf_counter() - start) * 1000, 3)
        planned.append(
            PlannedQuery(
                query.name,
                query.text,
                "local",
                local.cost,
                local.cost,
                1,
                elapsed_ms,
                local.assumed,
                local.deployment,
            )
        )
    return Plan(str(options.objective), tuple(planned))


def _check_settings(planner: Planner, settings: Mapping[str, str]) -> None:
    for key, value in settings.items():
        if key not in planner.settings:
            known = ", ".join(planner.settings) or "none"
            raise UserError(f"planner {planner.name!r} takes no setting {key!r}", remedy=f"it takes: {known}")
        if value not in planner.settings[key]:
            raise UserError(
                f"setting {key!r} can't be {value!r}",
                remedy=f"it is one of {', '.join(planner.settings[key])}",
            )
