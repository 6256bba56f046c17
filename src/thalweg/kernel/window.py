"""The window of one input: its alive tuples, found by key, newest first.

Tuples get consecutive numbers in the order in which they are appended. Each hash slot holds the number of
its newest tuple and each tuple the number of the one before it in the same slot, so a chain runs from new to
old. Three things end a walk along it: a number that has expired, a tuple too old for the probe (with
everything behind it), or the end. Expiry moves one mark forward and touches nothing else; arrays are
compacted when the dead take up what was spare. So upkeep follows the batch, not the window.

      slot -> #907 -> #511 -> #498 -> #77        numbers below `first` have expired: the walk stops there
              [ts, end]                          end + slack < probe's ts: nothing older can reach it, stop
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
from numba import njit

from thalweg.kernel.columns import Allocator, BytesColumn, Column, gathered, heap, make_column, moved
from thalweg.kernel.prefetch import prefetch

NEVER = 1 << 62
"""A moment after every other: the end of a tuple that does not expire."""

ANY_ORDER = NEVER // 2
"""The slack of a window whose tuples' ends are in no order at all."""

_AHEAD = 16  # how many tuples ahead to ask memory for a slot
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_ARRAYS = ("node", "end", "older", "heads")
_MARKS = ("base", "first", "linked", "next", "rehashed", "max_end", "slack", "seed")
_ROOM = 1.4  # a new capacity over the tuples to hold: more means fewer moves, and more memory
_LEAST_ROOM = 1.2  # with this much, rows are moved to the front; with less it would be done all the time


class Window:
    """Alive tuples of one input, in arrays that grow and shrink with their number.

    `span` is the length of the interval on which a tuple is alive, in microseconds; None where each tuple
    brings its own end (windows of rows, and results of other joins). `slack` is how much earlier than the end
    of a tuple before it any tuple's end can be; it is watched unless it is given, as it must be where ends
    are written after the tuple came.
    """

    def __init__(
        self,
        columns: Sequence[tuple[str, pa.DataType]],
        span: int | None,
        slack: int | None = None,
        alloc: Allocator = heap,
    ) -> None:
        self.span, self.alloc = span, alloc
        self.tracked, self.slack = slack is None, slack or 0
        self.columns: list[Column] = [make_column(f"col{i}", kind) for i, (_, kind) in enumerate(columns)]
        self.node = np.empty((0, 2), np.int64)  # key, start: read together, so kept together
        self.end = np.empty(0, np.int64)
        self.older = np.empty(0, np.uint32)
        self.heads = np.zeros(0, np.uint32)
        self.base = 1  # the number of the tuple in row 0
        self.first = 1  # the oldest alive
        self.linked = 1  # one past the newest that probes can find
        self.next = 1  # one past the newest
        self.rehashed = 1  # `next` when the slots were last cleared
        self.max_end = -NEVER
        self.seed = secrets.randbits(64)  # who chooses keys can't know which of them share a slot

    def __len__(self) -> int:
        return self.next - self.first

    @property
    def nbytes(self) -> int:
        return sum(a.nbytes for a in self.arrays.values())

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """All arrays, by name; with `marks` they are the whole window."""
        own = {name: getattr(self, name) for name in _ARRAYS}
        for column in self.columns:
            own |= column.arrays
        return own

    @property
    def marks(self) -> dict[str, int]:
        """All numbers, by name."""
        used = {c.name: c.used for c in self.columns if isinstance(c, BytesColumn)}
        return {name: getattr(self, name) for name in _MARKS} | used

    def attach(self, arrays: Mapping[str, np.ndarray], marks: Mapping[str, int]) -> None:
        """Become the window that had these arrays and marks."""
        for name in _ARRAYS:
            setattr(self, name, arrays[name])
        for name in _MARKS:
            setattr(self, name, marks[name])
        for column in self.columns:
            column.attach(arrays)
            if isinstance(column, BytesColumn):
                column.used = marks[column.name]

    @property
    def shift(self) -> int:
        return 65 - len(self.heads).bit_length()

    def row(self, number: int) -> int:
        return number - self.base

    def append(
        self, key: np.ndarray, start: np.ndarray, end: np.ndarray | None, columns: Sequence[pa.Array]
    ) -> int:
        """Add tuples, ordered by start, that probes do not find yet; returns the first one's number."""
        n = len(key)
        self.reserve(n)
        at = self.row(self.next)
        self.node[at : at + n, 0] = key
        self.node[at : at + n, 1] = start
        if self.span is None:
            assert end is not None
            self.end[at : at + n] = end
        for column, array in zip(self.columns, columns, strict=True):
            column.write(self.alloc, at, array)
        if n and self.tracked:
            ends = start + self.span if self.span is not None else self.end[at : at + n]
            highest = np.maximum.accumulate(ends)
            np.maximum(highest, self.max_end, out=highest)
            self.slack = max(self.slack, min(int((highest - ends).max()), ANY_ORDER))
            self.max_end = int(highest[-1])
        number = self.next
        self.next += n
        return number

    def keys(self, rows: np.ndarray) -> np.ndarray:
        """The key words of some rows."""
        return _gather(self.node, 0, rows)

    def starts(self, rows: np.ndarray) -> np.ndarray:
        """The starts of some rows."""
        return _gather(self.node, 1, rows)

    def link(self, upto: int) -> None:
        """Let probes find the tuples below this number."""
        if upto > self.linked:
            lo, hi = self.row(self.linked), self.row(upto)
            number = np.uint32(self.linked & 0xFFFFFFFF)
            _link(self.node, self.older, self.heads, self.shift, np.uint64(self.seed), lo, hi, number)
            self.linked = upto

    def expire(self, bound: int) -> None:
        """Forget tuples that end before the bound: the oldest ones, and others once they are most of all."""
        lo, hi = self.row(self.first), self.row(self.linked)
        span = -1 if self.span is None else self.span
        self.first += int(_expired(self.node, self.end, span, lo, hi, bound))
        if self.slack == ANY_ORDER and self.linked == self.next:
            # One old tuple may outlive all that came after it, as the rows of a changing table do.
            rows = self.rows
            alive = rows[self.end[rows] >= bound]
            if len(alive) < len(rows) // 2:
                self.retain(alive)

    @property
    def rows(self) -> np.ndarray:
        """The rows of all alive tuples, oldest first."""
        return np.arange(self.row(self.first), self.row(self.next))

    def retain(self, rows: np.ndarray) -> None:
        """Forget all alive tuples but those in these rows, ascending; all must be linked."""
        assert self.linked == self.next
        capacity = max(1024, int(len(rows) * _ROOM))
        self.node = gathered(self.alloc, "node", self.node, capacity, rows)
        if self.span is None:
            self.end = gathered(self.alloc, "end", self.end, capacity, rows)
        for column in self.columns:
            column.retain(self.alloc, capacity, rows)
        self.older = self.alloc("older", (capacity,), np.uint32)
        self.base = self.first = self.next  # the tuples in the slots have expired
        self.next = self.linked = self.first + len(rows)
        self._rehash(1 << max(4, (capacity * 3 // 4).bit_length()))

    def reserve(self, n: int) -> None:
        """Make room for so many tuples more."""
        need, capacity = len(self) + n, len(self.node)
        if self.row(self.next) + n > capacity:
            if need * _LEAST_ROOM > capacity or capacity > 3 * need + 4096:
                capacity = max(1024, int(need * _ROOM))
            self._move(capacity)
        slots = 1 << max(4, (len(self.node) * 3 // 4).bit_length())
        # A slot not written for 2**31 tuples could be taken for an alive one once numbers wrap.
        if not slots <= len(self.heads) <= 2 * slots or self.next + n - self.rehashed >= 1 << 31:
            self._rehash(slots)

    def _move(self, capacity: int) -> None:
        """Move the alive rows to the front of arrays of this capacity."""
        lo, hi = self.row(self.first), self.row(self.next)
        self.node = moved(self.alloc, "node", self.node, capacity, lo, hi)
        self.older = moved(self.alloc, "older", self.older, capacity, lo, hi)
        if self.span is None:
            self.end = moved(self.alloc, "end", self.end, capacity, lo, hi)
        for column in self.columns:
            column.resize(self.alloc, capacity, lo, hi)
        self.base = self.first

    def _rehash(self, slots: int) -> None:
        if len(self.heads) != slots:
            self.heads = self.alloc("heads", (slots,), np.uint32)
        self.heads[:] = np.uint32((self.first - 1) & 0xFFFFFFFF)
        upto, self.linked, self.rehashed = self.linked, self.first, self.first
        self.link(upto)


@njit(cache=True, nogil=True)
def _gather(node: np.ndarray, lane: int, rows: np.ndarray) -> np.ndarray:
    # NumPy's take would first copy the whole lane, since its values do not lie side by side.
    out = np.empty(len(rows), np.int64)
    for i in range(len(rows)):
        out[i] = node[rows[i], lane]
    return out


@njit(cache=True, nogil=True)
def slot(key: int, seed: np.uint64, shift: np.uint64) -> np.int64:
    """The slot of a key. Keys that follow each other are spread evenly, whatever the seed."""
    return np.int64(((np.uint64(key) ^ seed) * GOLDEN) >> shift)


@njit(cache=True, nogil=True)
def _link(
    node: np.ndarray,
    older: np.ndarray,
    heads: np.ndarray,
    shift: int,
    seed: np.uint64,
    lo: int,
    hi: int,
    number: np.uint32,
) -> None:
    s = np.uint64(shift)
    for row in range(lo, hi):
        if row + _AHEAD < hi:
            prefetch(heads, slot(node[row + _AHEAD, 0], seed, s))
        at = slot(node[row, 0], seed, s)
        older[row] = heads[at]
        heads[at] = number
        number = np.uint32(number + np.uint32(1))


@njit(cache=True, nogil=True)
def _expired(node: np.ndarray, end: np.ndarray, span: int, lo: int, hi: int, bound: int) -> int:
    row = lo
    if span >= 0:
        while row < hi and node[row, 1] + span < bound:
            row += 1
    else:
        while row < hi and end[row] < bound:
            row += 1
    return row - lo
