"""The N-way symmetric window join on one key (MJoin, Viglas et al. 2003, section 2.1), a batch at a time.

A batch brings tuples of any input, in any order. Each result must arise exactly once, in the batch in which
its last tuple arrives. So the batch is cut into slices of time, and within a slice the inputs take turns:

    for each slice:  for each input i:  the slice's tuples of i probe the windows of all others,
                                        then they are linked into the window of i

A result's members are linked one after another; only the last one to be linked can find all others, and it
does. Slices keep tuples of the far future out of the chains; they decide speed, never results. A probe goes
from window to window in the input's probing sequence, the most selective first (section 2.2), and carries the
interval on which the combination is alive: [greatest start, least end]. Where it is empty the walk ends.

How selective a window is for an input is measured on a few of its tuples now and then, each probing that
window alone: probes along the sequence would measure later windows only for tuples that have passed the
earlier ones.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa

from thalweg.kernel.columns import Allocator, heap
from thalweg.kernel.probe import CHUNK, Step, probe
from thalweg.kernel.window import NEVER, Window

_SLICES_A_WINDOW = 4  # a slice is at most this part of the shortest window
_SLICE_TUPLES = 2048  # but not smaller than this many tuples, so that calls do not outweigh work
_MEASURE_EVERY = 1 << 14  # selectivities are measured once in so many tuples for each input, or as soon as
_SAMPLE = 64  # there have been twice as many as the last time; on this many of an input's tuples,
_FRESH = 0.3  # and the weight of these in the estimate
RESULTS = 1 << 18
"""How many results are handed out at a time."""


@dataclass(frozen=True)
class InputSpec:
    """One input of a join: the stored columns of its tuples and the length of their life.

    `key_columns` are the stored columns that decide equality where the 64-bit key words are only hashes.
    """

    name: str
    columns: tuple[tuple[str, pa.DataType], ...]
    span: int | None
    key_columns: tuple[int, ...] = ()
    slack: int | None = None


@dataclass(frozen=True)
class Delta:
    """New tuples of one input: key words, interval, stored columns. Ordered by start."""

    key: np.ndarray
    start: np.ndarray
    end: np.ndarray | None
    columns: tuple[pa.Array, ...]

    def __len__(self) -> int:
        return len(self.key)

    def take(self, rows: np.ndarray) -> Delta:
        index = pa.array(rows)
        end = None if self.end is None else self.end[rows]
        return Delta(self.key[rows], self.start[rows], end, tuple(c.take(index) for c in self.columns))

    def slice(self, lo: int, hi: int) -> Delta:
        end = None if self.end is None else self.end[lo:hi]
        columns = tuple(c.slice(lo, hi - lo) for c in self.columns)
        return Delta(self.key[lo:hi], self.start[lo:hi], end, columns)

    def ordered(self) -> Delta:
        """The same tuples, ordered by start."""
        if len(self) < 2 or bool((self.start[1:] >= self.start[:-1]).all()):
            return self
        return self.take(np.argsort(self.start, kind="stable"))


@dataclass(frozen=True)
class Results:
    """Results as rows of the windows, one array an input; valid until the next push."""

    rows: tuple[np.ndarray, ...]
    key: np.ndarray
    start: np.ndarray
    end: np.ndarray

    def __len__(self) -> int:
        return len(self.start)

    def slice(self, lo: int, hi: int) -> Results:
        rows = tuple(r[lo:hi] for r in self.rows)
        return Results(rows, self.key[lo:hi], self.start[lo:hi], self.end[lo:hi])


@dataclass
class Counters:
    """The work done, as section 3.3 counts it.

    A tuple is hashed and moved once, when it comes into its window; a comparison looks at one tuple of a
    chain. `met` are the tuples that nested loops would compare.
    """

    hashes: int = 0
    moves: int = 0
    comparisons: int = 0
    results: int = 0
    met: int = 0


Probing = Literal["measured", "worst"] | Sequence[Sequence[int]]
"""How probing sequences are chosen: the most selective window first, the least (to compare), or as given."""


def others(bounds: Sequence[int], i: int) -> int:
    """The least time that any input but one can still bring: tuples that end before it can be dropped."""
    return min(b for j, b in enumerate(bounds) if j != i)


class NWayJoin:
    """The windows of all inputs and the join of batches against them.

    >>> import numpy as np
    >>> spec = lambda name: InputSpec(name, (), span=10)
    >>> join = NWayJoin([spec("a"), spec("b"), spec("c")])
    >>> at = lambda *ts: Delta(np.zeros(len(ts), np.int64), np.array(ts), None, ())
    >>> [len(r) for r in join.push([at(0, 5), at(9), None])]
    []
    >>> [(r.start.tolist(), r.end.tolist()) for r in join.push([None, None, at(12)])]
    [([12], [15])]
    """

    def __init__(
        self,
        inputs: Sequence[InputSpec],
        allocs: Sequence[Allocator] | None = None,
        probing: Probing = "measured",
    ) -> None:
        if len(inputs) < 2:
            raise ValueError("a join has two inputs or more")
        self.inputs = tuple(inputs)
        self.windows = [
            Window(i.columns, i.span, i.slack, alloc)
            for i, alloc in zip(inputs, allocs or [heap] * len(inputs), strict=True)
        ]
        n = len(inputs)
        self.probing = probing
        self.counters = Counters()
        self.fanout = np.full((n, n), np.nan)  # of an input's tuple in each other window: how many it meets
        self._brought = [0] * n
        self._measured = [0] * n  # the tuples of all inputs when an input was last measured
        self._steps = [Step() for _ in range(n - 1)]

    def push(self, deltas: Sequence[Delta | None]) -> Iterator[Results]:
        """Join new tuples against the windows and each other; all of it must be consumed."""
        lows = [w.next for w in self.windows]
        for window, delta in zip(self.windows, deltas, strict=True):
            if delta is not None and len(delta):
                window.append(delta.key, delta.start, delta.end, delta.columns)
                self.counters.hashes += len(delta)
                self.counters.moves += len(delta)
        pending = _Pending(len(self.windows))
        for cut in self._slices(lows):
            for i, upto in enumerate(cut):
                window = self.windows[i]
                if upto > window.linked:
                    lo, hi = window.row(window.linked), window.row(upto)
                    for found in self._probe_all(i, lo, hi):
                        decided = self._decide(found)
                        self.counters.results += len(decided)
                        yield from pending.add(decided)
                    window.link(upto)
        yield from pending.flush()

    def beside(self, windows: Sequence[Window]) -> NWayJoin:
        """The same join over other windows, with the same measurements and counters."""
        other = copy.copy(self)
        other.windows = list(windows)
        return other

    def expire(self, bounds: Sequence[int]) -> None:
        """Drop tuples that can't match any more: bounds[j] is the least start that input j can bring."""
        for i, window in enumerate(self.windows):
            window.expire(others(bounds, i))

    def sequence(self, head: int) -> list[int]:
        """The probing sequence of one input: the windows in which its tuples meet the fewest first."""
        if not isinstance(self.probing, str):
            return list(self.probing[head])
        fanout = self.fanout[head]

        def expected(j: int) -> tuple[float, int]:
            known = not np.isnan(fanout[j])
            held = len(self.windows[j])
            return (float(fanout[j]) if known and held else min(held, 1), held)

        rest = (j for j in range(len(self.windows)) if j != head)
        return sorted(rest, key=expected, reverse=self.probing == "worst")

    def _measure(self, head: int, lo: int, hi: int) -> None:
        """Let a few of an input's new tuples probe each other window alone."""
        if len(self.windows) < 3:
            return
        self._brought[head] += hi - lo
        # Tuples of all inputs count: the windows of the others change for an input with few tuples, too.
        brought, every = sum(self._brought), _MEASURE_EVERY * len(self.windows)
        if brought - self._measured[head] < min(every, self._measured[head]):
            return
        early = self._measured[head] < every  # windows fill up: earlier measurements are of no use
        self._measured[head] = brought
        window = self.windows[head]
        rows = np.linspace(lo, hi - 1, min(_SAMPLE, hi - lo)).astype(np.int64)
        key, start = window.keys(rows), window.starts(rows)
        end = start + window.span if window.span is not None else window.end[rows]
        for j, other in enumerate(self.windows):
            if j != head and other.linked > other.first:
                # Combinations beyond the buffers are not counted: there are more than enough then.
                found, probed, _, _ = probe(key, start, end, other, self._steps[0], (0, -1))
                seen, before = found / max(1, probed), self.fanout[head, j]
                self.fanout[head, j] = (
                    seen if early or np.isnan(before) else before + _FRESH * (seen - before)
                )

    def _slices(self, lows: Sequence[int]) -> Iterator[list[int]]:
        """For each slice, one past the last number of each input that belongs to it."""
        fresh = [w.node[w.row(lo) : w.row(w.next), 1] for w, lo in zip(self.windows, lows, strict=True)]
        total = sum(len(f) for f in fresh)
        if total == 0:
            return
        begin = min(int(f[0]) for f in fresh if len(f))
        finish = max(int(f[-1]) for f in fresh if len(f))
        spans = [w.span for w in self.windows if w.span is not None and w.span < NEVER]
        wanted = (finish - begin) * _SLICES_A_WINDOW // max(1, min(spans)) if spans else 1
        count = max(1, min(wanted, total // _SLICE_TUPLES))
        # Cuts at equal numbers of the first input's tuples would be off where another is in a burst: use all.
        times = np.linspace(begin, finish, int(count) + 1)[1:-1].astype(np.int64)
        cuts = [np.searchsorted(f, times, side="right") for f in fresh]
        for k in range(len(times)):
            yield [lo + int(c[k]) for lo, c in zip(lows, cuts, strict=True)]
        yield [w.next for w in self.windows]

    def _probe_all(self, head: int, lo: int, hi: int) -> Iterator[Results]:
        window = self.windows[head]
        key, start = window.node[lo:hi, 0], window.node[lo:hi, 1]
        end = start + window.span if window.span is not None else window.end[lo:hi]
        if isinstance(self.probing, str):
            self._measure(head, lo, hi)
        rows = {head: np.arange(lo, hi)}
        yield from self._descend(self.sequence(head), 0, rows, key, start, end)

    def _descend(
        self,
        sequence: Sequence[int],
        depth: int,
        rows: dict[int, np.ndarray],
        key: np.ndarray,
        start: np.ndarray,
        end: np.ndarray,
    ) -> Iterator[Results]:
        """Extend combinations by the window at this depth of the sequence, depth first, a chunk at a time."""
        target, step = sequence[depth], self._steps[depth]
        window = self.windows[target]
        self.counters.met += len(key) * (window.linked - window.first)
        i, number = 0, -1
        while i < len(key):
            n, i, number, compared = probe(key, start, end, window, step, (i, number))
            self.counters.comparisons += compared
            if n == 0:
                continue
            left = step.left[:n]
            extended = {j: r.take(left) for j, r in rows.items()} | {target: step.row[:n]}
            found = (step.key[:n], step.start[:n], step.end[:n])
            if depth + 1 == len(sequence):
                yield Results(tuple(extended[j] for j in range(len(self.windows))), *found)
            else:
                yield from self._descend(sequence, depth + 1, extended, *found)

    def _decide(self, found: Results) -> Results:
        """Keep the combinations whose keys are equal, where key words are hashes."""
        if not self.inputs[0].key_columns:
            return found
        same = np.ones(len(found), bool)
        left, rows = self.windows[0], found.rows[0]
        for i in range(1, len(self.windows)):
            pairs = zip(self.inputs[0].key_columns, self.inputs[i].key_columns, strict=True)
            for a, b in pairs:
                right = self.windows[i].columns[b]
                same &= left.columns[a].same(rows, right, found.rows[i])  # type: ignore[arg-type]
        if same.all():
            return found
        kept = tuple(r[same] for r in found.rows)
        return Results(kept, found.key[same], found.start[same], found.end[same])


class _Pending:
    """Collects chunks of results, which live in reused buffers, into larger arrays of their own."""

    def __init__(self, inputs: int) -> None:
        self._arrays = [np.empty(0, np.int64) for _ in range(inputs + 3)]
        self._count = 0

    def add(self, found: Results) -> Iterator[Results]:
        before, self._count = self._count, self._count + len(found)
        if self._count > len(self._arrays[0]):
            self._resize(max(self._count, min(2 * self._count, RESULTS + CHUNK)), before)
        chunks = (*found.rows, found.key, found.start, found.end)
        for array, chunk in zip(self._arrays, chunks, strict=True):
            array[before : self._count] = chunk
        if self._count >= RESULTS:
            yield from self.flush()
            self._resize(len(self._arrays[0]), 0)  # the caller may keep the others

    def flush(self) -> Iterator[Results]:
        if self._count:
            *rows, key, start, end = (a[: self._count] for a in self._arrays)
            self._count = 0
            yield Results(tuple(rows), key, start, end)

    def _resize(self, room: int, keep: int) -> None:
        for i, old in enumerate(self._arrays):
            self._arrays[i] = np.empty(room, np.int64)
            self._arrays[i][:keep] = old[:keep]
