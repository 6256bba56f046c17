"""All planners side by side on the same queries."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from thalweg.catalog.model import Catalog
from thalweg.cost.objectives import MODELS
from thalweg.errors import UserError
from thalweg.plan.document import Plan
from thalweg.plan.options import PlanOptions
from thalweg.planners.search.problem import NotApplicableError
from thalweg.planners.table import NUMBER, PLANNERS, Planner, Session, check_settings
from thalweg.query.model import Query

ANY_FAMILY = "any"
"""The family of a planner that hands a query on to others."""


@dataclass(frozen=True)
class Compared:
    """The result of one planner; `distance_percent` is from the least cost of its family.

    A planner that delegates (family `any`) is compared with the least cost of all; `chose` names its choice.
    """

    name: str
    family: str
    cost: float
    distance_percent: float | None
    searched: int
    elapsed_ms: float
    chose: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "family": self.family,
            "cost": self.cost,
            "distance_percent": self.distance_percent,
            "searched": self.searched,
            "elapsed_ms": self.elapsed_ms,
            **({"chose": list(self.chose)} if self.family == ANY_FAMILY else {}),
        }


@dataclass(frozen=True)
class NotApplicable:
    """A planner that can't plan these queries, and why."""

    name: str
    family: str
    reason: str

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "family": self.family, "reason": self.reason}


@dataclass(frozen=True)
class Comparison:
    """All planners on the same queries, in the order of the table."""

    objective: str
    unit: str
    queries: tuple[str, ...]
    planners: tuple[Compared, ...]
    not_applicable: tuple[NotApplicable, ...]

    @property
    def families(self) -> dict[str, list[Compared]]:
        """The planners by family, the best of each first; planners that delegate come last."""
        names = dict.fromkeys(p.family for p in self.planners)
        ordered = sorted(names, key=lambda f: f == ANY_FAMILY)
        return {f: sorted((p for p in self.planners if p.family == f), key=lambda p: p.cost) for f in ordered}

    def to_json(self) -> dict[str, Any]:
        return {
            "objective": self.objective,
            "unit": self.unit,
            "queries": list(self.queries),
            "planners": [p.to_json() for p in self.planners],
            "not_applicable": [p.to_json() for p in self.not_applicable],
        }


def compare(
    queries: Sequence[Query],
    catalog: Catalog,
    options: PlanOptions,
    begins: Callable[[str], None] = lambda _: None,
) -> Comparison:
    """Has every planner deploy the queries in order, on a network of its own.

    `begins` hears the name of each planner before it plans.
    """
    settings = {p.name: _settings_of(p, options.settings) for p in PLANNERS}
    _check_keys(options.settings)
    trial = Session(catalog, options)
    for query in queries:
        trial.problem(query)  # a mistake that stops every planner is an error, not one reason for each

    plans: dict[str, Plan] = {}
    refused: list[NotApplicable] = []
    for planner in PLANNERS:
        begins(planner.name)
        own = replace(options, planner=planner.name, settings=settings[planner.name])
        try:
            plans[planner.name] = _deploy(planner, queries, catalog, own)
        except UserError as error:
            if not isinstance(error, NotApplicableError) and _has_free_text(planner, own.settings):
                raise  # a setting that only the planner itself could check
            refused.append(NotApplicable(planner.name, planner.family, str(error)))
    return Comparison(
        str(options.objective),
        MODELS[str(options.objective)].unit,
        tuple(q.name for q in queries),
        _compared(plans),
        tuple(refused),
    )


def _deploy(planner: Planner, queries: Sequence[Query], catalog: Catalog, options: PlanOptions) -> Plan:
    session = Session(catalog, options)
    return Plan(str(options.objective), tuple(session.deploy(q, planner) for q in queries))


def _compared(plans: Mapping[str, Plan]) -> tuple[Compared, ...]:
    family = {p.name: p.family for p in PLANNERS}
    least: dict[str, float] = {}
    for name, plan in plans.items():
        for group in (family[name], ANY_FAMILY):
            least[group] = min(plan.total, least.get(group, plan.total))
    return tuple(
        Compared(
            name,
            family[name],
            plan.total,
            distance(plan.total, least[family[name]]),
            sum(q.searched for q in plan.queries),
            round(sum(q.elapsed_ms for q in plan.queries), 3),
            tuple(dict.fromkeys(q.planner for q in plan.queries if q.planner != name)),
        )
        for name, plan in plans.items()
    )


def distance(cost: float, least: float) -> float | None:
    """How far a cost is from the least one, in percent; None where no percentage can say it.

    >>> distance(3.0, 2.0), distance(0.0, 0.0), distance(1.0, 0.0)
    (50.0, 0.0, None)
    """
    if cost == least:
        return 0.0
    return round((cost / least - 1) * 100, 6) if least > 0 else None


def _check_keys(settings: Mapping[str, str]) -> None:
    """Refuses a setting that no planner takes."""
    known = dict.fromkeys(key for p in PLANNERS for key in p.settings)
    for key in settings:
        if key not in known:
            raise UserError(f"no planner takes a setting {key!r}", remedy=f"there are: {', '.join(known)}")


def _settings_of(planner: Planner, settings: Mapping[str, str]) -> dict[str, str]:
    """Those settings that a planner takes, checked."""
    own = {k: v for k, v in settings.items() if k in planner.settings}
    check_settings(planner, own)
    return own


def _has_free_text(planner: Planner, settings: Mapping[str, str]) -> bool:
    return any(planner.settings[key] == NUMBER for key in settings)
