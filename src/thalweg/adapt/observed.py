"""What the streams of a run are like, as its sources see them; recent tuples weigh more."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from thalweg.catalog.edit import updated
from thalweg.catalog.model import Catalog
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
        top = max(newest.values(), default=None)
        if top is not None and self.top is not None and top > self.top:
            for sketch in self.sketches.values():
                sketch.decay(2 ** (-(top - self.top) / 1e6 / self.half_life_s))
        for stream, one in found.items():
            self.sketches.setdefault(stream, Sketch()).merge(Sketch.from_json(one))
        if top is not None:
            self.top = max(top, self.top or top)
            for sketch in self.sketches.values():
                sketch.reach(self.top)  # a stream that has fallen silent is slower now

    def catalog(self, declared: Catalog, queries: Sequence[Query]) -> Catalog | None:
        """The catalog with what was measured; None as long as there is too little of it."""
        names = {i.stream for q in queries for i in q.inputs}
        if sum(s.count for s in self.sketches.values()) < LEAST:
            return None
        stats = {name: self.sketches[name].stats() for name in names & self.sketches.keys()}
        return updated(declared, stats, joins(queries, self.sketches))

    def to_json(self) -> str:
        sketches = {stream: sketch.to_json() for stream, sketch in self.sketches.items()}
        return json.dumps({"top": self.top, "sketches": sketches})

    @classmethod
    def from_json(cls, text: str) -> Observed:
        """A ValueError, KeyError or TypeError where it is not the output of `to_json`."""
        data = json.loads(text)
        return cls({s: Sketch.from_json(one) for s, one in data["sketches"].items()}, data["top"])
