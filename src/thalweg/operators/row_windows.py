"""Windows of rows: a tuple is alive until the k-th later one of its stream comes, and not at that moment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from thalweg.errors import UserError
from thalweg.kernel.window import NEVER
from thalweg.operators.spec import START


@dataclass
class Clock:
    """Counts the tuples of one stream in their order. `tail` has the times of the last k of them.

    >>> clock = Clock(2, 0, np.empty(0, np.int64))
    >>> seq, ends, earlier = clock.advance(np.array([10, 20, 30]))
    >>> [int(e) for e in ends if e < NEVER]  # the first ends when the third comes: its last moment is 29
    [29]
    >>> clock.advance(np.array([40]))[2]  # and now the second's end is known
    (1, array([39]))
    """

    rows: int
    next: int
    tail: np.ndarray

    def advance(self, times: np.ndarray) -> tuple[np.ndarray, np.ndarray, tuple[int, np.ndarray]]:
        """Count further tuples: their places, their last moments, and those learnt of earlier ones."""
        waiting = len(self.tail)
        known = np.concatenate([self.tail, times])
        ends = np.full(len(known), NEVER, np.int64)
        decided = max(0, len(known) - self.rows)
        ends[:decided] = known[self.rows :] - 1
        first = self.next - waiting
        seq = np.arange(self.next, self.next + len(times))
        self.next += len(times)
        self.tail = known[decided:].copy() if decided else known
        return seq, ends[waiting:], (first, ends[: min(decided, waiting)])


def order_rows(stream: str, order: Sequence[str], batch: pa.RecordBatch) -> pa.RecordBatch:
    """The tuples in the order in which a window of rows counts them: by time, then the declared columns."""
    keys = [START, *order]
    sorted_by: dict[str, pa.Array] = {START: batch.column(START)}
    for name in order:  # NULLs first, and NaN last: the sort itself puts both on the same side
        sorted_by[f"?{name}"], sorted_by[name] = batch.column(name).is_valid(), batch.column(name)
    index = pc.sort_indices(pa.table(sorted_by), sort_keys=[(k, "ascending") for k in sorted_by])
    ordered = batch.take(index)
    if ordered.num_rows > 1:
        same = np.ones(ordered.num_rows - 1, bool)
        for key in keys:
            column = ordered.column(key)
            a, b = column.slice(0, len(column) - 1), column.slice(1)
            equal = pc.or_(pc.equal(a, b).fill_null(False), pc.and_(a.is_null(), b.is_null()))
            same &= np.asarray(equal).astype(bool)
        if same.any():
            at = int(np.flatnonzero(same)[0])
            moment = np.datetime64(int(ordered.column(START)[at].as_py()), "us")
            names = ", ".join(order)
            values = ", ".join(repr(ordered.column(o)[at].as_py()) for o in order)
            raise UserError(
                f"stream {stream}: two tuples have the time {moment}"
                + (f" and the order ({names}) = ({values})" if order else "")
                + ", so a window of rows can't tell which comes first",
                remedy="declare an `order` column in the catalog that tells them apart",
            )
    return ordered
