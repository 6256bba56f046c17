"""Whether a combination of tuples has come out before, by ticks (MJoin, section 2.6, made exact).

The operator's ticks number its pushes, probes and visits. A tuple is in memory from the tick of
its arrival until just before that of its departure; one that never was has both at the same tick. A result
came out if and only if there was *one* moment at which all its members were together:

    its last member arrived                all were in memory
    a probe of one input's disk part       that member was on disk, all others were in memory
    a visit of the whole partition         all had arrived

The paper asks this of each pair. Pairs may have met at different moments while the whole never did.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from thalweg.kernel.window import NEVER


class Probe(NamedTuple):
    """The disk part of an input has probed the memory of the others."""

    tick: int
    input: int


def propagated(
    arrival: Sequence[np.ndarray], departure: Sequence[np.ndarray], settled: int, probes: Sequence[Probe]
) -> np.ndarray:
    """Which combinations have come out, from one array an input of their members' ticks.

    All combinations that were complete before the tick `settled` have; `probes` are those since then.

    >>> ticks = lambda *values: [np.array([v]) for v in values]
    >>> propagated(ticks(1, 5, 11), ticks(4, 12, 20), 0, [Probe(10, 0), Probe(15, 0)])
    array([False])
    >>> propagated(ticks(1, 5, 11), ticks(4, 12, 20), 0, [Probe(11, 0)])
    array([ True])
    """
    last = np.maximum.reduce(list(arrival))
    done: np.ndarray = (last < settled) | (last < np.minimum.reduce(list(departure)))
    for i in {p.input for p in probes}:
        ticks = np.array([*sorted(p.tick for p in probes if p.input == i), NEVER])
        # The first probe when all had arrived and this one was on disk: the others must not have left yet.
        first = ticks[np.searchsorted(ticks, np.maximum(last, departure[i]))]
        done |= first < np.minimum.reduce([d for j, d in enumerate(departure) if j != i])
    return done


class Ledger:
    """For each partition of the keys: the results that have come out, and since when results are missing.

    `settled` is a tick before which all that was complete is out: that of the last visit, or of the moment
    at which the first tuple left memory. A result that is missing was completed by a tuple that came when
    something of the partition was on disk: `since` is the earliest start of those, `until` the earliest end.
    """

    def __init__(self, partitions: int) -> None:
        self.settled = np.zeros(partitions, np.int64)
        self.probes: list[list[Probe]] = [[] for _ in range(partitions)]
        self.since = np.full(partitions, NEVER)
        self.until = np.full(partitions, NEVER)

    @property
    def missing(self) -> np.ndarray:
        """Of which partitions results may be missing."""
        return self.since < NEVER

    def settle(self, partition: int, tick: int) -> None:
        """Note that all of a partition that was complete before this tick has come out."""
        self.settled[partition] = tick
        self.probes[partition].clear()
        self.since[partition] = self.until[partition] = NEVER

    def arrive(self, partition: np.ndarray, start: np.ndarray, end: np.ndarray) -> None:
        """Note new tuples of partitions that are at least partly on disk."""
        np.minimum.at(self.since, partition, start)
        np.minimum.at(self.until, partition, end)

    def due(self, clock: int, limit: int, delay: int | None) -> list[int]:
        """Which partitions must be visited: a result is late, or a tuple that misses something ends."""
        due = self.until < limit
        if delay is not None:
            due |= self.since + delay < clock
        return [int(p) for p in np.flatnonzero(due)]

    def new(
        self, partition: int, arrival: Sequence[np.ndarray], departure: Sequence[np.ndarray]
    ) -> np.ndarray:
        """Which combinations of a partition have not come out."""
        return ~propagated(arrival, departure, int(self.settled[partition]), self.probes[partition])
