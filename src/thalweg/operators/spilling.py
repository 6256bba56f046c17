"""A join whose windows are larger than the memory it may use.

The keys of a bucket are divided into parts. As many parts as there is room for are in memory, in the windows
of the join. Of the others all tuples of all inputs are in columnar files (mjoin 2.5, coordinated flushing):
so a new tuple finds at hand all that it can meet, or nothing, and waits on disk too. A part with tuples that
wait is brought in when they have waited long enough: what is on disk of it becomes the windows of a join
that lasts a moment, and what waits is pushed into that.

Each result arises once: in a part, tuples are joined in the order in which they are brought in, wherever the
part is, so a result arises with the last of its members. Nothing has to be told apart by time stamps.

Files are written once and listed in the head of the state, which Spark commits with the batch. What is no
longer listed is removed in the next batch's call, when it is certain that this batch will not be repeated.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from thalweg.kernel.columns import BytesColumn
from thalweg.kernel.keys import PARTS, parts, split
from thalweg.kernel.nway import Delta, NWayJoin, Results, others
from thalweg.kernel.spill_files import Spilled, SpillFolder
from thalweg.kernel.window import NEVER, Window
from thalweg.operators.spec import JoinSpec, Limit
from thalweg.operators.state import Head, Page, Piece, Runtime, log, make_join
from thalweg.operators.tuples import batch_of, delta, ends_of, tuples_in
from thalweg.wire.message import merge

# Of the memory that may be used: how much the windows may grow to take, what they are cut down to then, what
# they must stay below with a part for it to come back, and what those of parts that are brought in may take.
# The rest is for arrays that grow, of which there are two for a moment, and for files as they are read.
_FULL, _CUT, _BACK, _VISIT = 0.5, 0.4, 0.3, 0.2
_ROOM = 1.4  # what windows take over what their tuples need
_INDEX = 28  # bytes of a tuple beside its columns: key, start, the one before it in its slot, its slot
_NONE = np.empty(0, np.int64)
_FILES = 4  # so many files of a part become one
_WAITING = 16  # a part with so many files of tuples that wait is due


@dataclass
class Overflow:
    """One call's view of a join with a limit: `push` in place of the join's own."""

    spec: JoinSpec
    limit: Limit
    head: Head
    state: Runtime
    page: Page
    folder: SpillFolder
    logged: list[Delta | None] = field(default_factory=list)
    """After `push`: the new tuples in memory, which are not yet in the state."""
    visited: int = 0
    """The most that windows of parts that were brought in have taken."""

    def push(
        self, deltas: Sequence[Delta | None], bounds: Sequence[int], hurry: bool
    ) -> Iterator[tuple[NWayJoin, Results]]:
        """Join new tuples; results come with the join that made them. In a `hurry` nothing waits."""
        for name in self.folder.names() - {p.name for p in self.head.pieces}:
            if self._mark not in name:
                self.folder.remove(name)
        self._make_room(deltas)
        self.logged, fresh = self._divided(deltas)
        for found in self.state.join.push(self.logged):
            yield self.state.join, found
        due = self._due(fresh, bounds, hurry)
        for group in self._groups(due, fresh):
            yield from self._visit(group, [fresh.pop(p, None) for p in group], bounds)
        for p, tuples in fresh.items():
            self._write(p, tuples, waiting=True)
        self._drop_expired(bounds)

    @property
    def _mark(self) -> str:
        """In the names of files that are written now: what another attempt at this batch writes must stay."""
        return f"-{self.head.nonce[:12]}-"

    def _drop_expired(self, bounds: Sequence[int]) -> None:
        """Forget what can meet nothing more, neither what will come nor what waits."""
        waiting = {p.part for p in self.head.pieces if p.waiting}
        self.head.pieces = [
            p
            for p in self.head.pieces
            if p.part in waiting or (self._lasts(p, bounds) and min(bounds) < NEVER)
        ]

    def _lasts(self, piece: Piece, bounds: Sequence[int]) -> bool:
        """Whether anything in a file can still meet what comes."""
        return any(last >= others(bounds, i) for i, last in enumerate(piece.lasts))

    def held_back(self, bounds: Sequence[int], hurry: bool) -> int:
        """The least time of a tuple that waits, or may wait: nothing before it can come out any more."""
        if self.limit.even and self.limit.delay and not hurry:
            return max(-NEVER, self._now(bounds) - self.limit.delay + 1)
        return min((p.start for p in self.head.pieces if p.waiting), default=NEVER)

    @property
    def rows_waiting(self) -> int:
        return sum(p.rows for p in self.head.pieces if p.waiting)

    @property
    def nbytes(self) -> int:
        """What is on disk."""
        return sum(p.size for p in self.head.pieces)

    @property
    def rows(self) -> int:
        return sum(p.rows for p in self.head.pieces)

    def _cold(self) -> np.ndarray:
        """For each part, whether it is on disk."""
        cold = np.zeros(PARTS, bool)
        cold[self.head.cold] = True
        return cold

    def _held(self) -> int:
        """What the tuples in memory need."""
        return int(_ROOM * sum(len(w) * _a_row(w) for w in self.state.join.windows))

    def _make_room(self, deltas: Sequence[Delta | None]) -> None:
        """Move parts to disk, the largest first, until there is room for what arrives."""
        cold, windows = self._cold(), self.state.join.windows
        size = np.zeros(PARTS)
        for tuples in deltas:
            if tuples is not None and len(tuples):
                share = _weight(tuples) / len(tuples)
                size += share * np.bincount(parts(tuples.key), minlength=PARTS)
        size[cold] = 0
        if sum(w.nbytes for w in windows) + _ROOM * size.sum() <= _FULL * self.limit.budget:
            return
        for window in windows:
            size += _a_row(window) * np.bincount(parts(window.keys(window.rows)), minlength=PARTS)
        over = _ROOM * size.sum() - _CUT * self.limit.budget
        chosen = []
        for p in np.argsort(-size, kind="stable").tolist():
            if over <= 0 or size[p] == 0:
                break
            chosen.append(p)
            over -= _ROOM * size[p]
        of = [parts(window.keys(window.rows)) for window in windows]
        of_parts = [dict(_by_part(own, chosen)) for own in of]
        for p in chosen:
            rows = [w.rows[own[p]] if p in own else _NONE for w, own in zip(windows, of_parts, strict=True)]
            self._write(p, [tuples_in(*each) for each in zip(windows, rows, strict=True)])
        for window, own in zip(windows, of, strict=True):
            window.retain(window.rows[~np.isin(own, chosen)])
        self.head.cold = sorted({*self.head.cold, *chosen})

    def _divided(
        self, deltas: Sequence[Delta | None]
    ) -> tuple[list[Delta | None], dict[int, list[Delta | None]]]:
        """New tuples of parts in memory, and those of others by part."""
        cold = self._cold()
        hot: list[Delta | None] = []
        fresh: dict[int, list[Delta | None]] = {}
        for i, tuples in enumerate(deltas):
            hot.append(tuples)
            if tuples is None or not cold.any():
                continue
            of = parts(tuples.key)
            away = cold[of]
            if not away.any():
                continue
            hot[i] = tuples.take(np.flatnonzero(~away))
            for p, own in _by_part(of, self.head.cold):
                fresh.setdefault(p, [None] * len(deltas))[i] = tuples.take(own)
        return hot, fresh

    def _due(self, fresh: dict[int, list[Delta | None]], bounds: Sequence[int], hurry: bool) -> list[int]:
        """The parts whose tuples have waited as long as they may."""
        waiting = {p.part for p in self.head.pieces if p.waiting}
        if hurry or self.limit.delay == 0:
            return sorted(waiting | fresh.keys())
        ports, now = self.spec.ports, self._now(bounds)
        due = {p.part for p in self.head.pieces if p.waiting and self._late(p.start, p.end, now)}
        files = Counter(p.part for p in self.head.pieces if p.waiting)
        due |= {p for p, count in files.items() if count >= _WAITING}
        for p, tuples in fresh.items():
            for port, one in zip(ports, tuples, strict=True):
                if one is not None and self._late(int(one.start.min()), int(ends_of(port, one).min()), now):
                    due.add(p)
        return sorted(due)

    def _now(self, bounds: Sequence[int]) -> int:
        """The event time by which tuples have waited: all buckets hear of the same bounds."""
        return max(b + port.lateness for b, port in zip(bounds, self.spec.ports, strict=True))

    def _late(self, start: int, end: int, now: int) -> bool:
        """Whether a tuple has waited long enough, or is about to expire."""
        return min(start + self.limit.delay, end) <= now

    def _groups(self, due: Sequence[int], fresh: dict[int, list[Delta | None]]) -> Iterator[list[int]]:
        """Parts that can be in memory together."""
        group: list[int] = []
        taken = 0.0
        for p in due:
            need = _ROOM * (
                sum(piece.size + _INDEX * piece.rows for piece in self.head.pieces if piece.part == p)
                + sum(_weight(tuples) for tuples in fresh.get(p, []) if tuples is not None)
            )
            if group and taken + need > _VISIT * self.limit.budget:
                yield group
                group, taken = [], 0.0
            group.append(p)
            taken += need
        if group:
            yield group

    def _visit(
        self, group: Sequence[int], fresh: Sequence[list[Delta | None] | None], bounds: Sequence[int]
    ) -> Iterator[tuple[NWayJoin, Results]]:
        """Bring parts in, join what waits, and write down what has become of them."""
        join, ports = make_join(self.spec), range(len(self.spec.ports))
        own = sorted((p for p in self.head.pieces if p.part in group), key=lambda p: p.start)
        for i in ports:
            join.windows[i].reserve(sum(p.counts[i] for p in own if not p.waiting))
        new: list[list[pa.RecordBatch]] = [[] for _ in ports]
        for piece in own:
            batches = iter(self.folder.read_all(Spilled(*piece[:4])))
            for i in (i for i in ports if piece.counts[i]):
                batch = next(batches)
                if piece.waiting:
                    new[i].append(batch)
                else:
                    tuples = delta(self.spec.ports[i], batch)
                    join.windows[i].append(tuples.key, tuples.start, tuples.end, tuples.columns)
        for given in filter(None, fresh):
            for i, one in enumerate(given):
                if one is not None:
                    new[i].append(batch_of(self.spec.ports[i], one))
        for window in join.windows:
            window.link(window.next)
        first = [w.next for w in join.windows]
        deltas = [delta(port, merge(b)) if b else None for port, b in zip(self.spec.ports, new, strict=True)]
        for found in join.push(deltas):
            yield join, found
        self.visited = max(self.visited, sum(w.nbytes for w in join.windows))
        alive = [self._alive(i, window, bounds) for i, window in enumerate(join.windows)]
        of_parts = [
            {p: rows[own] for p, own in _by_part(parts(w.keys(rows)), group)}
            for w, rows in zip(join.windows, alive, strict=True)
        ]
        for p in group:
            rows = [of.get(p, _NONE) for of in of_parts]
            lasting = [q for q in own if q.part == p and not q.waiting and self._lasts(q, bounds)]
            self.head.pieces = [q for q in self.head.pieces if q.part != p]
            need = _ROOM * sum(len(r) * _a_row(w) for r, w in zip(rows, join.windows, strict=True))
            if self._held() + need <= _BACK * self.limit.budget:
                self._bring_back(
                    p, [tuples_in(*each) for each in zip(join.windows, rows, strict=True)], bounds
                )
                continue
            if len(lasting) < _FILES:  # a file more, of what is new; or else one of all
                self.head.pieces += lasting
                rows = [r[r >= w.row(n)] for r, w, n in zip(rows, join.windows, first, strict=True)]
            self._write(p, [tuples_in(*each) for each in zip(join.windows, rows, strict=True)])
        join.windows.clear()  # who was given the join may keep it until the next ones are brought in

    def _alive(self, i: int, window: Window, bounds: Sequence[int]) -> np.ndarray:
        """The rows that can still meet something."""
        rows = window.rows
        end = window.end[rows] if window.span is None else window.starts(rows) + window.span
        chosen: np.ndarray = rows[end >= others(bounds, i)]
        return chosen

    def _bring_back(self, p: int, tuples: Sequence[Delta], bounds: Sequence[int]) -> None:
        """Take a part into memory again; what segments before this one have of it counts no more."""
        self.head.cold.remove(p)
        self.head.since[str(p)] = self.page.next
        for i, (window, one) in enumerate(zip(self.state.join.windows, tuples, strict=True)):
            own = one.ordered()
            window.append(own.key, own.start, own.end, own.columns)
            window.link(window.next)
            log(self.spec.ports[i], self.head, self.page, i, own, others(bounds, i))

    def _write(self, p: int, tuples: Sequence[Delta | None], *, waiting: bool = False) -> None:
        """Write the tuples of a part, of all inputs, to a file."""
        some = [(i, one) for i, one in enumerate(tuples) if one is not None and len(one)]
        if not some:
            return
        counts, lasts = [0] * len(tuples), [-NEVER] * len(tuples)
        start = end = NEVER
        for i, one in some:
            ends = ends_of(self.spec.ports[i], one)
            counts[i], lasts[i] = len(one), int(ends.max())
            start, end = min(start, int(one.start.min())), min(end, int(ends.min()))
        name = f"{p:02d}{self._mark}{uuid.uuid4().hex[:12]}.arrow"
        file = self.folder.write_all(name, [batch_of(self.spec.ports[i], one) for i, one in some])
        self.head.pieces.append(Piece(*file, p, waiting, start, end, counts, lasts))


def _a_row(window: Window) -> float:
    """What a row of a window takes: its share of the arrays, and of the strings in the rows there are."""
    strings = [c for c in window.columns if isinstance(c, BytesColumn)]
    arrays = window.nbytes - sum(c.arena.nbytes for c in strings)
    rows = window.row(window.next)
    return arrays / max(1, len(window.node)) + sum(c.used for c in strings) / max(1, rows)


def _weight(tuples: Delta) -> int:
    """What tuples will need in a window."""
    own = _INDEX if tuples.end is None else _INDEX + 8
    return len(tuples) * own + sum(int(c.nbytes) for c in tuples.columns)


def _by_part(of: np.ndarray, chosen: Sequence[int]) -> Iterator[tuple[int, np.ndarray]]:
    """For each of the chosen parts with any tuples, where they are."""
    order, begin = split(of, PARTS)
    for p in chosen:
        if begin[p + 1] > begin[p]:
            yield p, order[begin[p] : begin[p + 1]]
