"""How far streams have come: bounds, late tuples, idle streams. The rules of event time are here.

The bound of an input is a lower bound on every time it can still bring. A stream's own bound is its greatest
time so far less its lateness; a tuple below the bound that earlier batches have set is late. An operator
announces the bound of its output. A stream that is silent for as long as its `idle` says is taken to have
come as far as the slowest of the other streams that are not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from thalweg.kernel.window import NEVER
from thalweg.operators.spec import START
from thalweg.operators.tuples import ints
from thalweg.wire.message import merge


@dataclass(frozen=True)
class Ends:
    """Last moments of tuples in a window of rows: its name, the places of tuples in order, their moments."""

    window: str
    places: np.ndarray
    moments: np.ndarray

    def lower(self, places: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """Write the moments into the ends of the tuples that have these places; returns which these are."""
        if not len(self.places):
            return np.empty(0, np.int64)
        low, high = self.places[0], self.places[-1]
        if high - low + 1 == len(self.places):
            hit = np.flatnonzero((places >= low) & (places <= high))
            at = places[hit] - low
        else:
            at = np.searchsorted(self.places, places)
            at[at == len(self.places)] = 0
            hit = np.flatnonzero(self.places[at] == places)
            at = at[hit]
        ends[hit] = np.minimum(ends[hit], self.moments[at])
        return hit

    def among(self, places: np.ndarray) -> Ends:
        """Those of some places, in the order of these."""
        at = np.searchsorted(self.places, places)
        return Ends(self.window, self.places[at], self.moments[at])

    def to_batch(self) -> pa.RecordBatch:
        window = pa.array([self.window]).take(pa.array(np.zeros(len(self.moments), np.int64)))
        return pa.record_batch([window, pa.array(self.places), pa.array(self.moments)], schema=ENDS)

    @classmethod
    def from_batch(cls, batch: pa.RecordBatch) -> Ends:
        return cls(batch.column(0)[0].as_py(), ints(batch, "seq"), ints(batch, "end"))

    @classmethod
    def several(cls, batch: pa.RecordBatch) -> Iterator[Ends]:
        """The inverse of `to_batch` for batches that were merged, with places in any order."""
        for window in batch.column(0).unique():
            own = batch.filter(pc.equal(batch.column(0), window))
            places, moments = ints(own, "seq"), ints(own, "end")
            order = np.argsort(places)
            yield cls(window.as_py(), places[order], moments[order])


ENDS = pa.schema([("window", pa.string()), ("seq", pa.int64()), ("end", pa.int64())])


@dataclass
class Arrivals:
    """What one call brings to one port.

    `stored` are the batches of `tuples` that the state has already: their entries and channels. `past` are
    tuples of a window that was filled before. `rest` are tuples that take no part, `aside` those without a
    usable time.
    """

    tuples: list[pa.RecordBatch] = field(default_factory=list)
    past: list[pa.RecordBatch] = field(default_factory=list)
    rest: list[pa.RecordBatch] = field(default_factory=list)
    aside: list[pa.RecordBatch] = field(default_factory=list)
    stored: list[tuple[int, str]] = field(default_factory=list)
    heard: dict[int, dict[int, int]] = field(default_factory=dict)  # the greatest bound by feed and sender
    count: int = 0
    wall: int = 0

    def hear(self, feed: int, sender: int, bound: int) -> None:
        """The bound of a feed, as one of its senders tells it."""
        senders = self.heard.setdefault(feed, {})
        senders[sender] = max(bound, senders.get(sender, bound))

    @property
    def bounds(self) -> dict[int, int]:
        """How far each feed has come: as far as the last of its senders, which are all heard at once."""
        return {feed: min(senders.values()) for feed, senders in self.heard.items()}


@dataclass
class Arrived:
    """What one call brings to one operator."""

    ports: list[Arrivals]
    ends: list[Ends] = field(default_factory=list)
    wall: int = 0
    ended: bool = False
    hurry: bool = False

    @classmethod
    def of(cls, ports: int) -> Arrived:
        return cls([Arrivals() for _ in range(ports)])


@dataclass
class Progress:
    """How far the inputs of an operator have come; part of its state."""

    bounds: list[int]
    feeds: dict[str, list[int]] = field(default_factory=dict)  # of ports with several: how far each has come

    @classmethod
    def new(cls, ports: int) -> Self:
        return cls([-NEVER] * ports)

    def advance(self, port: int, heard: Mapping[int, int], feeds: int = 1, lateness: int = 0) -> None:
        """Move the bound of a port by what has been heard of it; it lags with the last of its feeds."""
        if feeds == 1:
            least = min(heard.values(), default=-NEVER)
        else:
            known = self.feeds.setdefault(str(port), [-NEVER] * feeds)
            for feed, bound in heard.items():
                known[feed] = max(known[feed], bound)
            least = min(known)
        if least > -NEVER:
            self.bounds[port] = max(self.bounds[port], least - lateness)


def past_idle(bounds: Sequence[int], walls: Sequence[int], idle: Sequence[int | None], now: int) -> int:
    """How far the first of some streams may be taken to have come: by its own bound, or by those of others.

    `walls` is when each stream was last heard of, on the wall clock.

    >>> past_idle([10, 50], [0, 90], [30, None], 100)
    50
    >>> past_idle([10, 50], [80, 90], [30, None], 100)
    10
    """
    silent = [limit is not None and now - wall >= limit for limit, wall in zip(idle, walls, strict=True)]
    active = [bound for bound, still in zip(bounds, silent, strict=True) if not still]
    return max(bounds[0], min(active)) if silent[0] and active else bounds[0]


def after_all(bounds: Sequence[int]) -> int:
    """How far a stream has come whose next tuple is later than all of some streams; its own bound is first.

    >>> after_all([10, 50, 20]), after_all([10, 5])
    (51, 10)
    """
    return max(bounds[0], *(min(bound + 1, NEVER) for bound in bounds[1:]))


def tumbled(times: np.ndarray, size: int) -> np.ndarray:
    """The last moment of the tumbling window that each time is in; windows begin at multiples of the size.

    >>> tumbled(np.array([0, 9, 10, -1]), 10).tolist()
    [9, 9, 19, -1]
    """
    found: np.ndarray = times // size * size + (size - 1)
    return found


def judge(
    tuples: Sequence[pa.RecordBatch], rest: Iterable[pa.RecordBatch], bound: int
) -> tuple[pa.RecordBatch | None, list[pa.RecordBatch]]:
    """The tuples that are in time, as one batch, and the late ones of all."""
    together = merge(list(tuples)) if tuples else None
    late = []
    for n, part in enumerate([together, *rest]):
        if part is None:
            continue
        behind = ints(part, START) < bound
        if behind.any():
            late.append(part.filter(pa.array(behind)))
            if n == 0:
                together = part.filter(pa.array(~behind))
    return together, late
