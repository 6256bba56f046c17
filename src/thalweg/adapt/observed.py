"""What the streams of a run are like, as its sources see them; recent tuples weigh more."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from thalweg.adapt.history import WITHOUT
from thalweg.catalog.edit import updated
from thalweg.catalog.model import Catalog
from thalweg.errors import UserError
from thalweg.observe.joins import joins
from thalweg.observe.sketch import Sketch
from thalweg.query.model import Query
from thalweg.storage import Location

HALF_LIFE_S = 20.0
"""After so many seconds of the streams' own time a tuple counts half."""

LEAST = 100
"""Statistics of fewer tuples than this decide nothing."""

REMEMBERED = 200
"""So many of the last tuples of a stream count in full, however long ago they came."""

Way = tuple[str, str]
"""The two sites of a link: from the first to the second."""


@dataclass
class Traffic:
    """What went over a link: bytes, in how many seconds, and how long files took to be read; all decay."""

    bytes: float = 0.0
    seconds: float = 0.0
    files: float = 0.0
    delay: float = 0.0

    def add(self, seconds: float, half_life_s: float, sent: int, delays: Sequence[float]) -> None:
        """Take in what happened in the last seconds."""
        factor = 2 ** (-seconds / half_life_s)
        self.bytes = self.bytes * factor + sent
        self.seconds = self.seconds * factor + seconds
        self.files = self.files * factor + len(delays)
        self.delay = self.delay * factor + sum(delays)

    @property
    def bytes_per_s(self) -> float:
        return self.bytes / self.seconds if self.seconds else 0.0

    @property
    def delay_s(self) -> float | None:
        """Of a file, from its sending to the batch that reads it; None where none has been read."""
        return self.delay / self.files if self.files else None


@dataclass
class Observed:
    """A sketch of each stream, and the traffic of each link, over all batches."""

    sketches: dict[str, Sketch] = field(default_factory=dict)
    top: int | None = None  # the greatest time of all streams, and after the first batch
    since: int | None = None
    links: dict[Way, Traffic] = field(default_factory=dict)
    half_life_s: float = HALF_LIFE_S
    remembered: int = REMEMBERED

    def add_traffic(
        self, seconds: float, sent: Mapping[Way, int], delays: Mapping[Way, Sequence[float]]
    ) -> None:
        """Take in the bytes of a batch by link, and the delays of what it read; it took so many seconds."""
        for ends in {*self.links, *sent, *delays}:
            one = self.links.setdefault(ends, Traffic())
            one.add(seconds, self.half_life_s, sent.get(ends, 0), delays.get(ends, ()))

    def add(self, found: Mapping[str, Mapping[str, Any]], newest: Mapping[str, int]) -> None:
        """Take in the sketches of a batch; `newest` are the greatest times of the streams so far."""
        top = max(newest.values(), default=None)
        if top is not None and self.top is not None and top > self.top:
            factor = 2 ** (-(top - self.top) / 1e6 / self.half_life_s)
            for sketch in self.sketches.values():
                # A slow stream is remembered for longer, and a silent one keeps a rate, so that it is known.
                sketch.decay(max(factor, min(1.0, self.remembered / max(1.0, sketch.count))))
        for stream, one in found.items():
            self.sketches.setdefault(stream, Sketch()).merge(Sketch.from_json(one))
        if top is not None:
            self.since = top if self.since is None else self.since
            self.top = max(top, self.top or top)
            for sketch in self.sketches.values():
                sketch.reach(self.top)  # a stream that has fallen silent is slower now

    def catalog(self, declared: Catalog, queries: Sequence[Query]) -> Catalog | None:
        """The catalog with what was measured; None as long as there is too little of it."""
        names = {i.stream for q in queries for i in q.inputs}
        if sum(s.count for s in self.sketches.values()) < LEAST:
            return None
        if self._young:  # what is declared may be known from far more tuples
            names = {name for name in names if declared.streams[name].stats.rate is None}
        seen = {name: self.sketches[name] for name in names & self.sketches.keys()}
        # A run reads the columns that its queries need. How many bytes a whole tuple has, it does not know.
        stats = {name: s.stats().model_copy(update={"bytes": None}) for name, s in seen.items()}
        return updated(declared, stats, joins(queries, seen)) if seen else None

    @property
    def _young(self) -> bool:
        """Whether less than the half-life has passed since the first tuple."""
        if self.top is None or self.since is None:
            return True
        return self.top - self.since < self.half_life_s * 1e6

    def to_json(self) -> str:
        sketches = {stream: sketch.to_json() for stream, sketch in self.sketches.items()}
        links = [{"ends": ends, **asdict(one)} for ends, one in sorted(self.links.items())]
        return json.dumps({"top": self.top, "since": self.since, "sketches": sketches, "links": links})

    @classmethod
    def from_json(cls, text: str) -> Observed:
        """Reads the output of `to_json`."""
        data = json.loads(text)
        sketches = {s: Sketch.from_json(one) for s, one in data["sketches"].items()}
        links = {}
        for one in data["links"]:
            source, target = one.pop("ends")
            links[source, target] = Traffic(**{name: float(value) for name, value in one.items()})
        return cls(sketches, data["top"], data["since"], links)

    @classmethod
    def load(cls, path: Location) -> Observed:
        """What an earlier run has written; nothing, if there is no file."""
        try:
            return cls.from_json(path.read_text()) if path.exists() else cls()
        except (ValueError, KeyError, TypeError, AttributeError, zlib.error):
            raise UserError("is damaged", where=str(path), remedy=WITHOUT) from None
