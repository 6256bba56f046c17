"""How long what sites send to each other takes until a batch reads it, by Spark's log of offsets."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Mapping

from thalweg.exchange.log import Sent
from thalweg.exchange.parcel_file import Edge
from thalweg.storage import Location


class Delays:
    """Files on their way between sites, and when they were sent. It forgets when a run is restarted."""

    def __init__(self, checkpoint: Location, clock: Callable[[], float] = time.time) -> None:
        self._offsets, self._clock = checkpoint / "offsets", clock
        self._on_the_way: dict[str, dict[int, float]] = {}

    def sent(self, sent: Mapping[Edge, Sent]) -> None:
        """Note what a batch has sent."""
        for edge, one in sent.items():
            if edge.source != edge.target:
                self._on_the_way.setdefault(edge.name, {}).setdefault(one.seq, self._clock())

    def begun(self, batch: int) -> dict[tuple[str, str], list[float]]:
        """The delays of what a batch reads, which is about to begin, in seconds by the sites of the link."""
        found, now = {}, self._clock()
        for name, last in self._read_by(batch).items():
            waiting = self._on_the_way.get(name, {})
            if read := [seq for seq in waiting if seq <= last]:
                edge = Edge.named(name)
                found[edge.source, edge.target] = [now - waiting.pop(seq) for seq in read]
        return found

    def _read_by(self, batch: int) -> dict[str, int]:
        """The last number that is read over each edge: the offsets of the inbox."""
        read: dict[str, int] = {}
        with contextlib.suppress(OSError):
            for line in (self._offsets / str(batch)).read_text(encoding="utf-8").splitlines():
                with contextlib.suppress(ValueError):
                    said = json.loads(line)
                    if isinstance(said, dict):  # offsets of other sources may be named like an edge
                        read |= {edge: n for edge, n in said.items() if isinstance(n, int)}
        return read
