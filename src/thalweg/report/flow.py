"""The traffic of a run as a picture: the plan's map, with the bytes and tuples shipped."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from thalweg import report
from thalweg.adapt.history import History, plan_file
from thalweg.catalog.model import Catalog
from thalweg.cost.price import shipments
from thalweg.errors import UserError
from thalweg.files import whole
from thalweg.plan.document import Plan
from thalweg.plan.options import Shipped
from thalweg.report import texts
from thalweg.report.map import Drawing, Title, laid_out, together
from thalweg.storage import Location

CENTRAL = "every stream whole to one site"


@dataclass(frozen=True)
class Flow:
    """The traffic of a run; `central` is the payload of shipping every stream whole to one site."""

    plan: Plan
    read: Mapping[str, int]
    results: Mapping[str, int]
    shipped: tuple[Shipped, ...]
    central: int
    complete: bool

    @classmethod
    def of(cls, plan: Plan, metrics: Mapping[str, Any]) -> Flow:
        """From the counts of `thalweg run`."""
        return cls(
            plan,
            metrics["input_rows"],
            metrics["output_rows"],
            shipped_of(metrics),
            int(metrics.get("central_payload_bytes", 0)),
            bool(metrics["complete"]),
        )

    @classmethod
    def read_from(cls, folder: Location) -> Flow:
        """From the folder of a run, with its last plan."""
        try:
            metrics = json.loads((folder / "metrics.json").read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise UserError("there are no counts of a run here", where=str(folder)) from error
        changes = [r.change for r in History.of_run(folder).records if r.outcome == "done"]
        return cls.of(Plan.load(folder / plan_file(changes[-1] if changes else 0)), metrics)

    @property
    def payload(self) -> int:
        return sum(way.payload_bytes for way in self.shipped)

    @property
    def bytes(self) -> int:
        return sum(way.bytes for way in self.shipped)

    @property
    def planner(self) -> str:
        return self.plan.planner


def shipped_of(metrics: Mapping[str, Any]) -> tuple[Shipped, ...]:
    """The traffic between sites, from a run's counts."""
    return tuple(
        Shipped(way["from"], way["to"], way["tuples"], way["payload_bytes"], way["bytes"])
        for way in metrics["shipped"]
    )


def draw(flow: Flow, catalog: Catalog, path: Location) -> None:
    """Writes the picture as SVG or PNG, by the file's suffix; it is there whole or not at all."""
    report.check_path(path)
    try:
        with whole(path) as draft:
            report.save(together([drawing(flow, catalog)]), draft)
    except OSError as error:
        raise UserError(f"the picture can't be written: {error.strerror}", where=str(path)) from error


def drawing(flow: Flow, catalog: Catalog) -> Drawing:
    """The network with its traffic, beside the traffic of shipping all streams whole to one site."""
    bars = ((f"shipped by {flow.planner}", float(flow.payload)), (CENTRAL, float(flow.central)))
    lines = texts.lines_of(flow.plan, flow.read)
    return laid_out(flow.plan, catalog, _arrows(flow), lines, _titles(flow), texts.volume, bars)


def _titles(flow: Flow) -> Sequence[Title]:
    queries = ", ".join(flow.results) if len(flow.results) <= 3 else f"{len(flow.results)} queries"
    ended = "" if flow.complete else ", stopped"
    return (
        (f"{queries}: {sum(flow.results.values()):,} results, planner {flow.planner}{ended}", None),
        (
            f"{texts.volume(flow.payload)} between sites, {texts.saving(flow.payload, flow.central)} than "
            f"{CENTRAL}; {texts.volume(flow.bytes)} as sent",
            None,
        ),
    )


def _arrows(flow: Flow) -> list[texts.Shipped]:
    """An arrow for each pair of sites; the streams on it come from the plan."""
    carried: dict[tuple[str, str], dict[str, None]] = {}
    for query in flow.plan.queries:
        for edge in shipments(query.deployment):
            names = carried.setdefault((edge.source_site, edge.target_site), {})
            names[texts.names(edge.streams)] = None
    return [
        texts.Shipped(s.source, s.target, 0, float(s.payload_bytes), _label(s, carried)) for s in flow.shipped
    ]


def _label(shipped: Shipped, carried: Mapping[tuple[str, str], Mapping[str, None]]) -> tuple[str, ...]:
    names = tuple(carried.get((shipped.source, shipped.target), ()))
    what = ("; ".join(names) if len(names) <= _NAMES else f"{len(names)} shipments",) if names else ()
    if not shipped.tuples:
        return (*what, "no tuples")
    tuples = "tuple" if shipped.tuples == 1 else "tuples"
    return (*what, f"{texts.volume(shipped.payload_bytes)}, {shipped.tuples:,} {tuples}")


_NAMES = 3
"""Shipments that are named on an arrow; if there are more, their number is shown."""
