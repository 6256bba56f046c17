"""What the streams of a run are like, as its sources see them; recent tuples weigh more."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from thalweg.adapt.history import WITHOUT
from thalweg.catalog.edit import updated
from thalweg.catalog.model import Catalog
from thalweg.errors import UserError
from thalweg.observe.joins import joins
from thalweg.observe.sketch import Sketch
from thalweg.query.model import Query

HALF_LIFE_S = 20.0
"""After so many seconds of the streams' own time a tuple counts half."""

LEAST = 100
"""Statistics of fewer tuples than this decide nothing."""


@dataclass
class Observed:
    """A sketch of each stream, over all batches."""

    sketches: dict[str, Sketch] = field(default_factory=dict)
    top: int | None = None  # the greatest time of all streams
    half_life_s: float = HALF_LIFE_S

    def add(self, found: Mapping[str, Mapping[str, Any]], newest: Mapping[str, int]) -> None:
        """Take in the sketches of a batch; `newest` are the greatest times of the streams so far."""
        top, count = max(newest.values(), default=None), self._count
        if top is not None and self.top is not None and top > self.top and count:
            # Slow streams are remembered for longer, so that something is known of them.
            factor = max(2 ** (-(top - self.top) / 1e6 / self.half_life_s), min(1.0, 2 * LEAST / count))
            for sketch in self.sketches.values():
                sketch.decay(factor)
        for stream, one in found.items():
            self.sketches.setdefault(stream, Sketch()).merge(Sketch.from_json(one))
        if top is not None:
            self.top = max(top, self.top or top)
            for sketch in self.sketches.values():
                sketch.reach(self.top)  # a stream that has fallen silent is slower now

    @property
    def _count(self) -> float:
        return sum(s.count for s in self.sketches.values())

    def catalog(self, declared: Catalog, queries: Sequence[Query]) -> Catalog | None:
        """The catalog with what was measured; None as long as there is too little of it."""
        names = {i.stream for q in queries for i in q.inputs}
        if self._count < LEAST:
            return None
        stats = {name: self.sketches[name].stats() for name in names & self.sketches.keys()}
        return updated(declared, stats, joins(queries, self.sketches))

    def to_json(self) -> str:
        sketches = {stream: sketch.to_json() for stream, sketch in self.sketches.items()}
        return json.dumps({"top": self.top, "sketches": sketches})

    @classmethod
    def from_json(cls, text: str) -> Observed:
        """Reads the output of `to_json`."""
        data = json.loads(text)
        return cls({s: Sketch.from_json(one) for s, one in data["sketches"].items()}, data["top"])

    @classmethod
    def load(cls, path: Path) -> Observed:
        """What an earlier run has written; nothing, if there is no file."""
        try:
            return cls.from_json(path.read_text()) if path.exists() else cls()
        except (ValueError, KeyError, TypeError, AttributeError):
            raise UserError("is damaged", where=str(path), remedy=WITHOUT) from None
