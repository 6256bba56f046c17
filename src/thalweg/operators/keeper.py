"""Keeps what is alive of a stream's windows, for operators that start when the stream has long been running.

A keeper stands where a stream arises, and where it arrives at another site. It hands on all that it gets. New
readers first get what it has kept (`Past`), in the call from which on they get what is new: the cut is a
position in the stream, not a time, so nothing is missing and nothing comes twice. All of it is in the store;
nothing is kept in memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from thalweg.kernel.window import NEVER
from thalweg.operators.event_time import Arrived, Ends, Progress
from thalweg.operators.output import Bound, Output, Past, Stored
from thalweg.operators.spec import END, SEQ, START, KeepSpec
from thalweg.operators.state import FAN, SEGMENT_BYTES, Page
from thalweg.operators.tuples import ints
from thalweg.wire.message import merge, pieces


class Kept(NamedTuple):
    """An entry: the last moment of its tuples, its bytes, and how often it was merged.

    `first` and `last` are the positions of its tuples in the stream, where windows of rows need them.
    """

    key: int
    end: int
    size: int
    level: int = 0
    first: int = 0
    last: int = 0


class Keeper:
    """One such operator."""

    def __init__(self, spec: KeepSpec) -> None:
        self.spec = spec

    def call(self, arrived: Arrived, page: Page) -> Iterator[Output]:
        spec, own = self.spec, arrived.ports[0]
        if spec.fields:
            own.tuples = [b.select([START, *spec.fields]) for b in own.tuples]
        record: dict[str, Any] = page.record or {"copy": spec.copy - 1}
        entries = [Kept(*entry) for entry in record.get("kept", [])]
        newest = record.get("newest", -NEVER)
        if record["copy"] < spec.copy:
            yield from (Past(spec.copy, batch) for batch in self._alive(page, entries))
            yield Past(spec.copy)
        for batch in own.past:
            yield Past(spec.copy, batch)
            self._put(page, entries, batch)
        for batch in own.tuples:
            newest = max(newest, int(ints(batch, START).max()))
            yield from self._put(page, entries, batch)
        yield from arrived.ends
        if arrived.ends:
            entries = self._learnt(page, entries, arrived.ends)
        progress = Progress(record.get("bounds", [-NEVER]))
        progress.advance(0, own.bounds)
        if newest < progress.bounds[0] < NEVER:  # other buckets had tuples since
            newest = progress.bounds[0]
        entries = self._expired(page, entries, newest)
        self._merge(page, entries)
        if progress.bounds[0] > -NEVER or own.heard:
            yield Bound(progress.bounds[0], max(own.wall, arrived.wall))
        page.write({"copy": spec.copy, "kept": entries, "newest": newest, "bounds": progress.bounds})

    def _alive(self, page: Page, entries: list[Kept]) -> Iterator[pa.RecordBatch]:
        """What new operators need: all that is alive when their own results begin, or later."""
        for entry in entries:
            batch = page.fetch(entry.key)
            batch = batch.filter(pa.array(self._ends(batch) >= self.spec.since))
            if batch.num_rows:
                yield batch

    def _ends(self, batch: pa.RecordBatch) -> np.ndarray:
        """The last moment of each tuple in any window."""
        ends = [ints(batch, window.end) for window in self.spec.rows]
        if self.spec.span is not None:
            ends.append(ints(batch, START) + self.spec.span)
        found: np.ndarray = np.max(ends, axis=0)
        return found

    def _put(self, page: Page, entries: list[Kept], batch: pa.RecordBatch, level: int = 0) -> list[Stored]:
        """Store tuples; returns them with their entries."""
        stored = []
        for part in pieces(batch, SEGMENT_BYTES):
            kept = Kept(page.put(part), int(self._ends(part).max()), part.nbytes, level)
            if self.spec.rows:
                seq = ints(part, SEQ)
                kept = kept._replace(first=int(seq.min()), last=int(seq.max()))
            entries.append(kept)
            stored.append(Stored(part, kept.key))
        return stored

    def _expired(self, page: Page, entries: list[Kept], newest: int) -> list[Kept]:
        """What is left when all is dropped that was dead before the newest tuple.

        The results of operators that start begin after the newest tuple of all streams.
        """
        alive = []
        for entry in entries:
            if entry.end < newest:
                page.remove(entry.key)
            else:
                alive.append(entry)
        return alive

    def _merge(self, page: Page, entries: list[Kept]) -> None:
        """Where there are many entries, make one of the last ones, if they are of one level and small."""
        while len(entries) > 4 * FAN:
            last = entries[-FAN:]
            if last[0].level != last[-1].level or sum(e.size for e in last) > SEGMENT_BYTES:
                return
            batch = merge([page.fetch(e.key) for e in last])
            for entry in last:
                page.remove(entry.key)
            del entries[-FAN:]
            self._put(page, entries, batch, last[0].level + 1)

    def _learnt(self, page: Page, entries: list[Kept], learnt: list[Ends]) -> list[Kept]:
        """The entries with newly learnt ends of windows of rows; those with such tuples are written anew."""
        found: list[Kept] = []
        for entry in entries:
            own = [e for e in learnt if ((e.places >= entry.first) & (e.places <= entry.last)).any()]
            if not own:
                found.append(entry)
                continue
            batch = page.fetch(entry.key)
            page.remove(entry.key)
            for one in own:
                batch = _with_ends(batch, one)
            self._put(page, found, batch, entry.level)
        return found


def _with_ends(batch: pa.RecordBatch, learnt: Ends) -> pa.RecordBatch:
    """Tuples with the ends of their windows of rows as far as they are known now."""
    column = f"{END}.{learnt.window}"
    if column not in batch.schema.names:
        return batch
    seq, ends = ints(batch, SEQ), ints(batch, column).copy()
    learnt.lower(seq, ends)
    return batch.set_column(batch.schema.names.index(column), column, pa.array(ends))
