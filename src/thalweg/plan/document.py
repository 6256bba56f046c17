"""The plans of several queries as one document: printed, saved, and read back for a run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from thalweg.catalog.model import Catalog
from thalweg.errors import UserError
from thalweg.plan.deployment import Deployment
from thalweg.query.model import Query

FORMAT = "thalweg-plan"
VERSION = 1


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

    def to_json(self) -> dict[str, Any]:
        return {
            "query": self.query,
            "planner": self.planner,
            "cost": self.cost,
            "marginal_cost": self.marginal_cost,
            "searched": self.searched,
            "elapsed_ms": self.elapsed_ms,
            "assumed": list(self.assumed),
            "deployment": self.deployment.to_json(),
        }


@dataclass(frozen=True)
class Plan:
    """The queries in the order in which they are deployed."""

    objective: str
    queries: tuple[PlannedQuery, ...]

    @property
    def total(self) -> float:
        return sum(q.marginal_cost for q in self.queries)

    def to_json(self) -> dict[str, Any]:
        return {
            "objective": self.objective,
            "total": self.total,
            "queries": [q.to_json() for q in self.queries],
        }

    def document(self) -> dict[str, Any]:
        """What is saved: what `to_json` gives, with the queries' own text."""
        document = {"format": FORMAT, "version": VERSION, **self.to_json()}
        for entry, query in zip(document["queries"], self.queries, strict=True):
            entry["text"] = query.text
        return document

    def save(self, path: Path) -> None:
        """Writes the document that `load` reads."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(self.document(), indent=2) + "\n", encoding="utf-8")
        except OSError as error:
            raise UserError(f"the plan can't be written: {error.strerror}", where=str(path)) from error

    @classmethod
    def load(cls, path: Path) -> Plan:
        where = str(path)
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise UserError(f"the plan can't be read: {error.strerror}", where=where) from error
        except ValueError as error:
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
            return cls(
                str(document["objective"]),
                tuple(_planned(entry, where) for entry in document["queries"]),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise UserError(f"the plan is damaged ({error!r})", where=where, remedy="plan again") from error

    def check_is_of(self, queries: Sequence[Query], where: str) -> None:
        """Refuses to run queries by a plan that was made for others."""
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

    def check_fits(self, catalog: Catalog, where: str) -> None:
        """Refuses a plan whose sources are no longer where it says."""
        for query in self.queries:
            for operator in query.deployment.operators:
                if operator.site not in catalog.sites:
                    raise UserError(
                        f"the plan uses site {operator.site!r}, which the catalog lacks", where=where
                    )
                stream = catalog.streams.get(str(operator.details.get("stream")))
                if operator.kind == "source" and (stream is None or stream.site != operator.site):
                    raise UserError(
                        f"the catalog has no stream {operator.details.get('stream')} at {operator.site}",
                        where=where,
                        remedy="plan again",
                    )


def _planned(entry: dict[str, Any], where: str) -> PlannedQuery:
    return PlannedQuery(
        query=str(entry["query"]),
        text=str(entry["text"]),
        planner=str(entry["planner"]),
        cost=float(entry["cost"]),
        marginal_cost=float(entry["marginal_cost"]),
        searched=int(entry["searched"]),
        elapsed_ms=float(entry["elapsed_ms"]),
        assumed=tuple(map(str, entry["assumed"])),
        deployment=Deployment.from_json(entry["deployment"], where=where),
    )
