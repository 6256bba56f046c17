"""Which keys are in a stream's window: V of semijoin 3.2, told to other sites as it changes.

The paper ships a vector of new keys (v_J) and, for every key of V, a count (v_C) by which the copy learns
which keys have gone. Here a key that has left is told once, with its last moment, as soon as the stream's
bound says that nothing can bring it back; so nothing at all is sent for keys that stay.

A copy may take a key for present that has gone, which costs bytes. It never misses one: what is present up to
a time is told before the bound passes that time.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator

import numpy as np
import pyarrow as pa
from numba import njit

from thalweg.kernel.window import NEVER
from thalweg.operators.bloom import make
from thalweg.operators.event_time import Arrived, Ends, Progress
from thalweg.operators.memo import Memo
from thalweg.operators.output import Bound, Output, Report
from thalweg.operators.spec import END, KEY, SEQ, START, KeysSpec, Port
from thalweg.operators.state import Page
from thalweg.operators.tuples import ints

BITS = "#bits"
_MOST_SLOTS = 64  # of a stream that jumps ahead: fewer filters then cover more time each


def intervals(port: Port, batch: pa.RecordBatch) -> pa.RecordBatch:
    """The keys of tuples with the intervals on which they are alive, and their places in a window of rows."""
    start = ints(batch, START)
    end = ints(batch, END) if port.span is None else start + port.span
    columns = {KEY: batch.column(KEY), START: batch.column(START), END: pa.array(end)}
    if port.rows:
        columns[SEQ] = batch.column(f"{SEQ}.{port.name}")
    return pa.record_batch(list(columns.values()), names=list(columns))


def lowered(table: pa.RecordBatch, learnt: Iterable[Ends]) -> pa.RecordBatch:
    """Intervals in a window of rows, with the ends that have been learnt since."""
    for one in learnt:
        seq, end = ints(table, SEQ), ints(table, END).copy()
        one.lower(seq, end)
        table = table.set_column(table.schema.names.index(END), END, pa.array(end))
    return table


def rows_of(key: np.ndarray, start: np.ndarray, end: np.ndarray) -> pa.RecordBatch:
    """Keys with intervals, as they travel."""
    return pa.record_batch([pa.array(key), pa.array(start), pa.array(end)], names=[KEY, START, END])


def presences(
    key: np.ndarray, start: np.ndarray, end: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The times during which each key is in a window without a gap: key, first and last moment, in order.

    >>> [p.tolist() for p in presences(np.array([7, 7, 7]), np.array([0, 5, 30]), np.array([10, 15, 40]))]
    [[7, 7], [0, 30], [15, 40]]
    """
    order = np.lexsort((start, key))
    return _merged(key[order], start[order], end[order])


@njit(cache=True, nogil=True)
def _merged(key: np.ndarray, start: np.ndarray, end: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    n = 0
    words, first, last = np.empty_like(key), np.empty_like(start), np.empty_like(end)
    for i in range(len(key)):
        if n and words[n - 1] == key[i] and start[i] <= last[n - 1]:
            last[n - 1] = max(last[n - 1], end[i])
        else:
            words[n], first[n], last[n] = key[i], start[i], end[i]
            n += 1
    return words[:n], first[:n], last[:n]


def containing(words: np.ndarray, first: np.ndarray, key: np.ndarray, time: np.ndarray) -> np.ndarray:
    """For keys at some times, which of the presences of that key each is in.

    Where a presence began before all that is still known of it, that is the first one of the key.
    """
    return _containing(words, first, key, time)


@njit(cache=True, nogil=True)
def _containing(words: np.ndarray, first: np.ndarray, key: np.ndarray, time: np.ndarray) -> np.ndarray:
    out = np.empty(len(key), np.int64)
    for i in range(len(key)):
        lo, hi = 0, len(words)
        while lo < hi:  # the first presence that is after (key, time)
            middle = (lo + hi) // 2
            if words[middle] < key[i] or (words[middle] == key[i] and first[middle] <= time[i]):
                lo = middle + 1
            else:
                hi = middle
        if lo and words[lo - 1] == key[i]:
            lo -= 1
        out[i] = lo
    return out


class WindowKeys:
    """Tells which keys come into a stream's window and which leave it."""

    def __init__(self, spec: KeysSpec) -> None:
        self.spec = spec

    def call(self, arrived: Arrived, page: Page) -> Iterator[Output]:
        spec = self.spec
        memo = Memo.load(page)
        progress = Progress([memo.facts.get("bound", -NEVER)], memo.facts.get("feeds", {}))
        progress.advance(0, arrived.ports[0].bounds, spec.port.feeds)
        bound = progress.bounds[0]
        fresh = [intervals(spec.port, b) for b in arrived.ports[0].tuples]
        alive = memo.together("alive", fresh)
        if alive is not None and spec.port.rows:
            alive = lowered(alive, arrived.ends)
        said = bound
        if spec.slot is None:
            yield from self._told(memo, alive, bound)
        else:
            said = yield from self._filters(memo, alive, bound, spec.slot)
        yield Bound(said, arrived.wall)
        memo.facts |= {"bound": bound, "feeds": progress.feeds}
        memo.save()
        yield Report(state_rows=memo.rows, state_bytes=memo.nbytes)

    def _told(self, memo: Memo, alive: pa.RecordBatch | None, bound: int) -> Iterator[pa.RecordBatch]:
        if alive is None:
            return
        key, start, end = (ints(alive, n) for n in (KEY, START, END))
        words, first, last = presences(key, start, end)
        told = memo.tables.get("told")
        known, since = (ints(told, KEY), ints(told, START)) if told is not None else (key[:0], start[:0])
        at = containing(words, first, known, since)
        earliest = np.full(len(words), NEVER)
        np.minimum.at(earliest, at, since)
        new = first < earliest  # a presence not told yet, or one whose first tuple has come late
        gone = last < bound
        leaving = gone[at]
        parts = [
            (words[new], first[new], np.full(int(new.sum()), NEVER)),
            (known[leaving], since[leaving], last[at[leaving]]),
            (words[new & gone], first[new & gone], last[new & gone]),
        ]
        changes = [np.concatenate(c) for c in zip(*parts, strict=True)]
        if len(changes[0]):
            yield rows_of(*changes)
        stay = new & ~gone
        memo.tables["told"] = rows_of(
            np.concatenate([known[~leaving], words[stay]]),
            np.concatenate([since[~leaving], first[stay]]),
            np.full(int((~leaving).sum() + stay.sum()), NEVER),
        )
        memo.tables["alive"] = alive.filter(pa.array(end >= bound))

    def _filters(
        self, memo: Memo, alive: pa.RecordBatch | None, bound: int, slot: int
    ) -> Generator[pa.RecordBatch, None, int]:
        """Filters of all slots that are over. Returns the start of the first that is not."""
        if alive is None:
            return bound if bound >= NEVER else bound // slot * slot
        key, start, end = (ints(alive, n) for n in (KEY, START, END))
        low = max(memo.facts.get("upto", -NEVER), int(start.min()) // slot * slot)
        upto = NEVER if bound >= NEVER else bound // slot * slot
        last = min(upto, (int(end.max()) // slot + 1) * slot)
        ranges = []
        if low < last:
            step = slot * max(1, -(-(last - low) // (slot * _MOST_SLOTS)))
            ranges = [(lo, min(lo + step, last) - 1) for lo in range(low, last, step)]
        rows = []
        for lo, hi in ranges:
            inside = (start <= hi) & (end >= lo)
            if inside.any():
                rows.append((lo, hi, make(np.unique(key[inside]))))
        if rows:
            batch = pa.record_batch(
                [
                    pa.array([r[0] for r in rows]),
                    pa.array([r[1] for r in rows]),
                    pa.array([r[2] for r in rows], pa.binary()),
                ],
                names=[START, END, BITS],
            )
            yield batch
        memo.facts["upto"] = upto
        memo.tables["alive"] = alive.filter(pa.array(end >= upto))
        return upto
