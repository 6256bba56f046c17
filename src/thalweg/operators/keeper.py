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
from thalweg.operators.output import Bound, Output, Past
from thalweg.operators.source import end_of
from thalweg.operators.spec import SEQ, START, KeepSpec
from thalweg.operators.state import FAN, SEGMENT_BYTES, Page
from thalweg.operators.tuples import ints
from thalweg.wire.message import merge, pieces


class Kept(NamedTuple):
    """An entry: the last moment of its tuples, its rows and bytes, and how often it was merged."""

    key: int
    end: int
    rows: int
    size: int
    level: int = 0


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
        for batch in own.tuples:
            newest = max(newest, int(ints(batch, START).max()))
            yield batch
        yield from arrived.ends
        for batch in (*own.past, *own.tuples):
            self._put(page, entries, batch)
        if arrived.ends:
            self._learn(page, entries, arrived.ends, newest)
        entries = self._expired(page, entries, newest)
        self._merge(page, entries)
        progress = Progress(record.get("bounds", [-NEVER]))
        progress.advance(0, own.bounds)
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
        ends = [ints(batch, end_of(rows)) for rows in self.spec.rows]
        if self.spec.span is not None:
            ends.append(ints(batch, START) + self.spec.span)
        found: np.ndarray = np.max(ends, axis=0)
        return found

    def _put(self, page: Page, entries: list[Kept], batch: pa.RecordBatch, level: int = 0) -> None:
        for part in pieces(batch, SEGMENT_BYTES):
            entries.append(
                Kept(page.put(part), int(self._ends(part).max()), part.num_rows, part.nbytes, level)
            )

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

    def _learn(self, page: Page, entries: list[Kept], learnt: list[Ends], newest: int) -> None:
        """Write newly learnt ends of windows of rows; such windows are small, and are written anew."""
        if not entries:
            return
        batch = merge([page.fetch(e.key) for e in entries])
        for entry in entries:
            page.remove(entry.key)
        entries.clear()
        for one in learnt:
            column = end_of(int(one.window))
            if column not in batch.schema.names:
                continue
            seq, ends = ints(batch, SEQ), ints(batch, column).copy()
            hit = (seq >= one.first) & (seq < one.first + len(one.moments))
            ends[hit] = np.minimum(ends[hit], one.moments[seq[hit] - one.first])
            batch = batch.set_column(batch.schema.names.index(column), column, pa.array(ends))
        self._put(page, entries, batch.filter(pa.array(self._ends(batch) >= newest)))
