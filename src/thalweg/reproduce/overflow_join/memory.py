"""The memory part of an overflow join: windows whose tuples carry the tick of their arrival."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from thalweg.kernel.columns import FixedColumn
from thalweg.kernel.keys import buckets
from thalweg.kernel.nway import Delta, InputSpec, NWayJoin, Probing
from thalweg.kernel.window import NEVER, Window
from thalweg.reproduce.overflow_join.budget import window_bytes
from thalweg.reproduce.overflow_join.disk import Tuples, join_tuples


def ticked(delta: Delta, arrival: np.ndarray) -> Delta:
    """Tuples as they are kept in windows, with their arrivals as one more column."""
    return replace(delta, columns=(*delta.columns, pa.array(arrival)))


def arrivals(window: Window, rows: np.ndarray) -> np.ndarray:
    """The ticks at which some tuples of a window arrived."""
    column = window.columns[-1]
    assert isinstance(column, FixedColumn)
    return np.asarray(column.data[rows])


class Memory:
    """The windows of all inputs, the join over them, and how many bytes each window holds."""

    def __init__(self, inputs: Sequence[InputSpec], probing: Probing) -> None:
        self.inputs = tuple(replace(i, columns=(*i.columns, ("arrival", pa.int64()))) for i in inputs)
        self.join = NWayJoin(self.inputs, probing=probing)
        self.bytes = np.zeros(len(inputs), np.int64)

    def window(self, i: int) -> Window:
        """An empty window for tuples of an input."""
        spec = self.inputs[i]
        return Window(spec.columns, spec.span, spec.slack)

    def tuples(self, i: int, rows: np.ndarray) -> Tuples:
        """Some tuples of a window, which have not departed."""
        window = self.join.windows[i]
        end = window.end[rows] if window.span is None else None
        columns = tuple(c.take(rows) for c in window.columns[:-1])
        delta = Delta(window.keys(rows), window.starts(rows), end, columns)
        return Tuples(delta, arrivals(window, rows), np.full(len(rows), NEVER))

    def of_partition(self, i: int, partition: int, count: int) -> Tuples:
        """The tuples of one of so many partitions."""
        window = self.join.windows[i]
        return self.tuples(i, window.rows[buckets(window.keys(window.rows), count) == partition])

    def sizes(self) -> list[np.ndarray]:
        """The bytes of each tuple of each window."""
        return [window_bytes(s, w, w.rows) for s, w in zip(self.inputs, self.join.windows, strict=True)]

    def partitions(self, count: int) -> list[np.ndarray]:
        """Which of so many partitions each tuple of each window is of."""
        return [buckets(w.keys(w.rows), count) for w in self.join.windows]

    def take_out(self, i: int, going: np.ndarray, tick: int) -> Tuples:
        """Take some tuples, marked among all of a window, out of it."""
        window = self.join.windows[i]
        rows = window.rows
        tuples = self.tuples(i, rows[going])
        self.bytes[i] -= window_bytes(self.inputs[i], window, rows[going]).sum()
        window.retain(rows[~going])
        return replace(tuples, departure=np.full(len(tuples), tick))

    def bring_in(self, i: int, tuples: Tuples) -> None:
        """Put tuples into a window, each in its place: a window expires from the front."""
        if len(tuples):
            window = self.window(i)
            tuples = join_tuples([self.tuples(i, self.join.windows[i].rows), tuples])
            delta = ticked(tuples.delta, tuples.arrival).ordered()
            window.append(delta.key, delta.start, delta.end, delta.columns)
            window.link(window.next)
            self.join.windows[i] = window
            self.bytes[i] = window_bytes(self.inputs[i], window, window.rows).sum()

    def expire(self, i: int, limit: int) -> None:
        """Forget tuples that end before the limit."""
        window = self.join.windows[i]
        first = window.row(window.first)
        window.expire(limit)
        gone = np.arange(first, window.row(window.first))
        self.bytes[i] -= window_bytes(self.inputs[i], window, gone).sum()
