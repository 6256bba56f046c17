"""The plans of several queries as one document: printed, saved, and read back for a run."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from thalweg.catalog.model import Catalog
from thalweg.errors import UserError
from thalweg.files import unusable, write_text
from thalweg.plan.check import check_deployments
from thalweg.plan.codec import decode, encode
from thalweg.plan.deployment import Deployment
from thalweg.plan.operators import Operator, Reuse, Sink, Source, Widen, brought
from thalweg.plan.options import Objective
from thalweg.query.model import Query
from thalweg.storage import Location

FORMAT = "thalweg-plan"
VERSION = 1
_BESIDE = ("format", "version", "total")  # parts of the document that are not fields of the plan


@dataclass(frozen=True)
class PlannedQuery:
    """How one query is deployed, by which planner, and at what cost."""

    query: str
    text: str
    planner: str
    cost: float
    marginal_cost: float
    searched: int
    elapsed_ms: float
    assumed: tuple[str, ...]
    deployment: Deployment
    warnings: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        own = ("text", "warnings", "deployment")
        told = {k: v for k, v in encode(self).items() if k not in own}
        return {**told, "warnings": list(self.warnings), "deployment": self.deployment.to_json()}


@dataclass(frozen=True)
class Plan:
    """The queries in the order in which they are deployed."""

    objective: str
    queries: tuple[PlannedQuery, ...]

    def __post_init__(self) -> None:
        if self.objective not in list(Objective):
            raise ValueError(f"there is no objective {self.objective!r}, only {', '.join(Objective)}")

    @property
    def total(self) -> float:
        return sum(q.marginal_cost for q in self.queries)

    @property
    def sites(self) -> set[str]:
        """The sites of all operators."""
        return {site for q in self.queries for site in q.deployment.sites}

    @property
    def planner(self) -> str:
        """The planner of the queries, or all of them if there are several."""
        return ", ".join(dict.fromkeys(q.planner for q in self.queries))

    def to_json(self) -> dict[str, Any]:
        return {
            "objective": self.objective,
            "total": self.total,
            "queries": [q.to_json() for q in self.queries],
        }

    def document(self) -> dict[str, Any]:
        """The document that is saved: the output of `to_json`, with the texts of the queries."""
        queries = [{**q.to_json(), "text": q.text} for q in self.queries]
        return {"format": FORMAT, "version": VERSION, **self.to_json(), "queries": queries}

    def save(self, path: Location) -> None:
        """Writes the document to a file, for `load`."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_text(path, json.dumps(self.document(), indent=2) + "\n")
        except OSError as error:
            raise unusable(path, error, "the plan can't be written") from error

    @classmethod
    def load(cls, path: Location) -> Plan:
        where = str(path)
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise UserError(f"the plan can't be read: {error.strerror}", where=where) from error
        except (ValueError, RecursionError) as error:
            raise UserError(
                "this is not JSON", where=where, remedy="`thalweg plan --save` writes plans"
            ) from error
        if not isinstance(document, dict) or document.get("format") != FORMAT:
            raise UserError("this is not a plan", where=where, remedy="`thalweg plan --save` writes plans")
        if document.get("version") != VERSION:
            raise UserError(
                f"the plan has version {document.get('version')!r}, and this Thalweg reads version {VERSION}",
                where=where,
                remedy="plan again",
            )
        try:
            return decode(cls, {k: v for k, v in document.items() if k not in _BESIDE}, "the plan")
        except ValueError as error:
            raise UserError(f"the plan is damaged: {error}", where=where, remedy="plan again") from error

    def check_is_of(self, queries: Sequence[Query], where: str) -> None:
        """Raises an error if the plan was made for other queries, or does not give each result once."""
        planned, given = [q.query for q in self.queries], [q.name for q in queries]
        if planned != given:
            raise UserError(
                f"the plan is for {', '.join(planned)}, not for {', '.join(given)}",
                where=where,
                remedy="plan again",
            )
        for entry, query in zip(self.queries, queries, strict=True):
            if entry.text != query.text:
                raise UserError(
                    f"query {query.name!r} has changed since it was planned", where=where, remedy="plan again"
                )
        for n, (entry, query) in enumerate(zip(self.queries, queries, strict=True)):
            before = {e.query: {o.id for o in e.deployment.operators} for e in self.queries[:n]}
            for operator in entry.deployment.operators:
                if not _serves(operator, query, before):
                    raise UserError(
                        f"operator {operator.id} is not one of query {query.name!r}",
                        where=where,
                        remedy="plan again",
                    )
        try:
            check_deployments(list(zip(queries, (q.deployment for q in self.queries), strict=True)))
        except ValueError as error:
            raise UserError(
                f"the plan does not compute its queries: {error}", where=where, remedy="plan again"
            ) from error

    def check_fits(self, catalog: Catalog, where: str) -> None:
        """Raises an error if a site is gone, or a stream is at another site than planned."""
        for operator in (o for q in self.queries for o in q.deployment.operators):
            if operator.site not in catalog.sites:
                raise UserError(f"the plan uses site {operator.site!r}, which the catalog lacks", where=where)
            if isinstance(operator, Source):
                stream = catalog.streams.get(operator.stream)
                if stream is None or stream.site != operator.site:
                    raise UserError(
                        f"the catalog has no stream {operator.stream} at {operator.site}",
                        where=where,
                        remedy="plan again",
                    )


def _serves(operator: Operator, query: Query, before: Mapping[str, set[str]]) -> bool:
    """Whether a source, a sink or a reference belongs to a query, given the operators of those before it."""
    match operator:
        case Source():
            return any((i.alias, i.stream) == (operator.id, operator.stream) for i in query.inputs)
        case Reuse() | Widen():
            known = set(brought(operator)) <= set(query.aliases)
            return known and operator.operator in before.get(operator.query, ())
        case Sink():
            return operator.query == query.name
        case _:
            return True
