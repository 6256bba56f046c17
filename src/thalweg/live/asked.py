"""What a run was asked to do: its catalog and how to plan, for those who watch it.

The options of sources are left out: there may be passwords among them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from thalweg.catalog.model import Catalog
from thalweg.files import write_text
from thalweg.plan.options import Objective, PlanOptions, RunOptions
from thalweg.storage import Location


@dataclass(frozen=True)
class Asked:
    """The catalog of a run, how other plans are found, and whether it ends with its sources."""

    catalog: Catalog
    planning: PlanOptions
    once: bool

    @classmethod
    def of(cls, options: RunOptions) -> Asked:
        return cls(options.catalog, options.planning, options.once)

    def save(self, path: Location) -> None:
        planning = {
            "planner": self.planning.planner,
            "objective": str(self.planning.objective),
            "deliver_to": self.planning.deliver_to,
            "settings": dict(self.planning.settings),
        }
        told = {"catalog": _told(self.catalog), "planning": planning, "once": self.once}
        write_text(path, json.dumps(told))

    @classmethod
    def load(cls, path: Location) -> Asked:
        """The inverse of `save`; a ValueError, KeyError or TypeError for anything else."""
        told = json.loads(path.read_text(encoding="utf-8"))
        planning = PlanOptions(**{**told["planning"], "objective": Objective(told["planning"]["objective"])})
        return cls(_read(told["catalog"]), planning, bool(told["once"]))


def _told(catalog: Catalog) -> dict[str, Any]:
    """A catalog as JSON; keys that are no texts are in lists of pairs."""
    told: dict[str, Any] = json.loads(
        catalog.model_dump_json(exclude={"links": {"pairs"}, "streams": {"__all__": {"source", "stats"}}})
    )
    told["links"]["pairs"] = [
        [source, target, link.model_dump()] for (source, target), link in catalog.links.pairs.items()
    ]
    for name, stream in catalog.streams.items():
        stats = stream.stats.model_dump(exclude={"rates"})
        rates = {c: [[_plain(v), r] for v, r in by.items()] for c, by in stream.stats.rates.items()}
        told["streams"][name] |= {"source": {"format": stream.source.format}, "stats": stats, "rates": rates}
    return told


def _read(told: dict[str, Any]) -> Catalog:
    told["links"]["pairs"] = {(source, target): link for source, target, link in told["links"]["pairs"]}
    for stream in told["streams"].values():
        stream["stats"]["rates"] = {column: dict(pairs) for column, pairs in stream.pop("rates").items()}
    return Catalog.model_validate(told)


def _plain(value: Any) -> Any:
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)
