"""What operators remember between calls: small records and entries of tuples, in the store of their bucket.

The operators of a bucket share one store. Its entry 0, the ledger, has the record of each operator and the
numbers of its entries; it is read and written once a call. The tuples of a batch that stay alive in a window
are written once, as a segment, and removed when the last of them has expired. The ends of tuples in windows
of rows are learnt later: they are entries of their own, until so many entries are out of date that the window
is written anew. Tuples that wait are written anew with each batch.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from thalweg.errors import UserError
from thalweg.kernel.columns import Allocator, FixedColumn
from thalweg.kernel.keys import PARTS, parts
from thalweg.kernel.nway import Delta, InputSpec, NWayJoin, others
from thalweg.kernel.window import ANY_ORDER, NEVER, Window
from thalweg.operators.event_time import Ends, Progress
from thalweg.operators.spec import END, KEY, PLACE, SEQ, JoinSpec, Port
from thalweg.operators.tuples import batch_of, delta, ends_of, ints, tuples_in
from thalweg.wire.message import dump, load, merge, pieces

FORMAT: Literal[6] = 6
"""Of programs and state. It grows when the meaning of a key word or of an entry changes."""

FAN = 16
"""So many segments in a row become one, so that long windows of many small batches have few of them."""

STALE = 4
"""A window of rows is written anew when its entries have so many times as many rows as it has tuples."""

FAR = (1 << 63) - 1
"""The bound of an input that has ended: everything ends before it, also what never expires."""

SEGMENT_BYTES = 16 << 20
"""A segment is cut where it grows beyond this: state stores choke on values of hundreds of megabytes."""


class Store(Protocol):
    """Where a bucket keeps its state; keys are numbers, 0 is the ledger that lists the others."""

    def get(self, key: int) -> bytes | None: ...
    def put(self, key: int, value: bytes) -> None: ...
    def remove(self, key: int) -> None: ...


class MemoryStore(dict[int, bytes]):
    """State as plain bytes in memory, as a state store keeps them."""

    def put(self, key: int, value: bytes) -> None:
        self[key] = value

    def remove(self, key: int) -> None:
        del self[key]


Arrange = Callable[[str, int, pa.RecordBatch], pa.RecordBatch]
"""What arrives over a channel at a port, made of tuples as they were stored by who sends them."""


class Ledger:
    """The records of all operators of a bucket, and the numbers of their entries.

    `buckets` is how many there are of its key group. The first has the same label whatever their number, so
    it finds out when that has changed: all keys would be in other buckets.
    """

    def __init__(self, store: Store, buckets: int | None = None) -> None:
        self._store = store
        data = store.get(0)
        said: dict[str, Any] = {"format": FORMAT, "next": 1, "of": {}, "shared": []}
        if data is not None:
            said = json.loads(data)
        if said.get("format") != FORMAT:
            raise UserError(
                "the checkpoint has the state of another version of thalweg",
                remedy="begin a new checkpoint, or go on with that version",
            )
        self._buckets: int = said.setdefault("buckets", buckets or 1)
        if buckets not in (None, self._buckets):
            raise UserError(
                f"the checkpoint was begun with {self._buckets} shuffle partitions, not with {buckets}",
                remedy="set spark.sql.shuffle.partitions to what it was then, or begin a new checkpoint",
            )
        self._next: int = said["next"]
        self._of: dict[str, dict[str, Any]] = said["of"]
        self._shared: dict[int, int] = dict(said["shared"])  # how many further operators have an entry
        self._unowned: set[int] = set()  # entries that nobody has any more; they go when all have been called

    def page(self, operator: str, arranged: Arrange | None = None) -> Page:
        return Page(self, self._of.setdefault(operator, {"record": {}, "entries": []}), arranged)

    def share(self, key: int) -> None:
        """One more operator has an entry; it stays until the last of them removes it."""
        if key in self._unowned:  # who stored it in this call has no use for it already
            self._unowned.remove(key)
        else:
            self._shared[key] = self._shared.get(key, 0) + 1

    def drop(self, key: int) -> None:
        """An operator needs an entry no more."""
        others = self._shared.pop(key, 0)
        if others == 0:
            self._unowned.add(key)
        elif others > 1:
            self._shared[key] = others - 1

    def retain(self, operators: Collection[str]) -> None:
        """Forget operators that are no longer deployed."""
        for name in [n for n in self._of if n not in operators]:
            for key in self._of.pop(name)["entries"]:
                self.drop(key)

    def end(self, operator: str) -> None:
        """An operator of an earlier program has put out all it will. It may never be called again."""
        for key in self._of[operator]["entries"]:
            self.drop(key)
        self._of[operator] = {"record": {}, "entries": [], "ended": True}

    def has_ended(self, operator: str) -> bool:
        return "ended" in self._of.get(operator, ())

    def save(self) -> None:
        for key in sorted(self._unowned):
            self._store.remove(key)
        self._unowned.clear()
        said = {
            "format": FORMAT,
            "buckets": self._buckets,
            "next": self._next,
            "of": self._of,
            "shared": list(self._shared.items()),
        }
        self._store.put(0, json.dumps(said, separators=(",", ":")).encode())


@dataclass
class Page:
    """What one operator remembers: a record of plain values, and numbered entries of tuples."""

    ledger: Ledger
    _said: dict[str, Any]
    _arranged: Arrange | None = None

    @property
    def record(self) -> dict[str, Any]:
        found: dict[str, Any] = self._said["record"]
        return found

    def write(self, record: dict[str, Any]) -> None:
        self._said["record"] = record

    @property
    def next(self) -> int:
        """The number of the next entry."""
        return self.ledger._next

    def put(self, batch: pa.RecordBatch) -> int:
        """Store tuples under a new number."""
        key, self.ledger._next = self.ledger._next, self.ledger._next + 1
        self.ledger._store.put(key, dump(batch))
        self._said["entries"].append(key)
        return key

    def share(self, key: int) -> None:
        """Have an entry that another operator of the bucket has stored."""
        self.ledger.share(key)
        self._said["entries"].append(key)

    def fetch_shared(self, segment: Segment) -> pa.RecordBatch:
        """The tuples of a segment, as they arrived if another operator has stored them."""
        batch = self.fetch(segment.key)
        if not segment.channel:
            return batch
        assert self._arranged is not None
        return self._arranged(segment.channel, segment.port, batch)

    def fetch(self, key: int) -> pa.RecordBatch:
        data = self.ledger._store.get(key)
        if data is None:
            raise RuntimeError(
                f"state is damaged: entry {key} is missing; start again with a new output folder"
            )
        return load(data)

    def remove(self, key: int) -> None:
        self.ledger.drop(key)
        self._said["entries"].remove(key)


class Cache(Protocol):
    """Where a bucket keeps its state in memory between calls; nothing is lost if it is not there.

    It is `unshared` where other processes should be able to take it, but can't.
    """

    @property
    def unshared(self) -> bool: ...

    def take(self, spec: JoinSpec, nonce: str) -> Runtime | None:
        """The state of the moment that the nonce stands for, if at hand."""
        ...

    def allocators(self, windows: int) -> Sequence[Allocator] | None:
        """Where new windows are to be made."""
        ...

    def give(self, runtime: Runtime) -> None:
        """Keep the state for the next call."""
        ...


class Segment(NamedTuple):
    """An entry of the log: tuples of one input. Those of level n+1 were made from several of level n.

    Marks of an outer join have the number of their input and that of all inputs added up as their `port`;
    ends that were learnt later have the latter added twice.
    With a `channel`, another operator has stored the tuples, as it sends them over it.
    """

    key: int
    port: int
    end: int  # the greatest of its tuples
    size: int
    level: int = 0
    channel: str = ""


class Marks(NamedTuple):
    """The places of tuples of an outer join that have met a partner, and when the last of them ends."""

    places: np.ndarray
    end: int


class Piece(NamedTuple):
    """A file of tuples that memory has no room for, of one part of the keys and of all inputs.

    `counts` says how many of each input, `lasts` when the last of them expires. `start` is the least time in
    it, and `end` when the first tuple expires.
    """

    name: str
    rows: int
    size: int
    checksum: int
    part: int
    waiting: bool
    start: int
    end: int
    counts: list[int]
    lasts: list[int]


@dataclass
class Head(Progress):
    """The record of an operator with windows."""

    nonce: str = ""
    segments: list[Segment] = field(default_factory=list)
    snapshots: list[tuple[int, int, str]] = field(default_factory=list)  # entry, port, what
    cold: list[int] = field(default_factory=list)  # the parts of the keys that are on disk
    pieces: list[Piece] = field(default_factory=list)
    since: dict[str, int] = field(default_factory=dict)  # of a part that came back: its first segment
    place: int = 0  # of the next tuple that an outer join keeps
    passed: list[int] = field(default_factory=list)  # the bounds by which such tuples have come out
    logged: dict[str, int] = field(default_factory=dict)  # rows in the entries of each window of rows

    @classmethod
    def of(cls, page: Page, ports: int) -> Head:
        if not page.record:
            return cls.new(ports)
        out = cls(**page.record)
        out.segments = [Segment(*segment) for segment in out.segments]
        out.snapshots = [(key, port, what) for key, port, what in out.snapshots]
        out.pieces = [Piece(*piece) for piece in out.pieces]
        return out

    def in_memory(self, key: int, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The tuples of a segment whose part has not gone to disk since it was written."""
        if not self.cold and not self.since:
            return batch
        since = np.zeros(PARTS, np.int64)
        for p, first in self.since.items():
            since[int(p)] = first
        since[self.cold] = NEVER
        return batch.filter(pa.array(since[parts(ints(batch, KEY))] <= key))


@dataclass
class Runtime:
    """The state in a form that is fast to work with; `nonce` says of which moment."""

    nonce: str
    join: NWayJoin
    pending: list[list[pa.RecordBatch]]

    @property
    def nbytes(self) -> int:
        return sum(w.nbytes for w in self.join.windows)


def make_join(spec: JoinSpec, allocs: Sequence[Allocator] | None = None) -> NWayJoin:
    """The kernel's join for a spec, with empty windows."""
    return NWayJoin([_input(port) for port in spec.ports], allocs)


def rebuild(spec: JoinSpec, head: Head, page: Page, cache: Cache) -> Runtime:
    """The state in memory, from the store."""
    join = make_join(spec, cache.allocators(len(spec.ports)))
    state = Runtime(head.nonce, join, [[] for _ in spec.ports])

    def add(i: int, batch: pa.RecordBatch) -> None:
        tuples, window = delta(spec.ports[i], batch), join.windows[i]
        window.append(tuples.key, tuples.start, tuples.end, tuples.columns)
        window.link(window.next)

    marks, learnt, ports = [], [], len(spec.ports)
    for segment in head.segments:
        batch = head.in_memory(segment.key, page.fetch_shared(segment))
        if segment.port < ports:
            add(segment.port, batch)
        elif segment.port < 2 * ports:
            marks.append((segment.port - ports, ints(batch, PLACE)))
        else:
            learnt.append((segment.port - 2 * ports, batch))
    for i, batch in learnt:
        for ends in Ends.several(batch):
            _lower(spec.ports[i], join.windows[i], ends)
    _settle(spec, head, join, marks)
    for key, i, what in head.snapshots:
        if what == "window":
            add(i, page.fetch(key))
        else:
            state.pending[i].append(page.fetch(key))
    return state


def _settle(spec: JoinSpec, head: Head, join: NWayJoin, marks: Sequence[tuple[int, np.ndarray]]) -> None:
    """Mark the tuples of an outer join that have met a partner, or come out without one."""
    for i in spec.kept:
        window, rows = join.windows[i], join.windows[i].rows
        if not len(rows):
            continue
        places = places_of(spec.ports[i], window).data
        met = np.concatenate([of for port, of in marks if port == i] or [np.empty(0, np.int64)])
        end = window.end[rows] if window.span is None else window.starts(rows) + window.span
        done = np.isin(places[rows], met) | (end < others(head.passed, i))
        done &= places[rows] >= 0  # a window that was written anew has its marks
        places[rows[done]] = ~places[rows[done]]


def persist(
    spec: JoinSpec,
    head: Head,
    state: Runtime,
    page: Page,
    deltas: Sequence[Delta | None],
    bounds: Sequence[int],
    marks: Sequence[Marks | None] = (),
    stored: Sequence[Sequence[tuple[int, str]]] = (),
    learnt: Sequence[Lowered] | None = None,
) -> None:
    """Bring the store up to date after a call. `marks` are those of each input of an outer join.

    `stored` are the entries of each input, and their channels, if others have stored all of its tuples.
    `learnt` are the ends that tuples in windows have got; without it, windows with open ends are written
    whole.
    """
    alive = []
    for segment in head.segments:
        if segment.end < others(bounds, segment.port % len(spec.ports)):
            page.remove(segment.key)
        else:
            alive.append(segment)
    head.segments = alive
    for key, _, _ in head.snapshots:
        page.remove(key)
    head.snapshots = []
    for i, port in enumerate(spec.ports):
        tuples, window = deltas[i], state.join.windows[i]
        if port.rewritten or (port.open_ends and learnt is None):
            _write(head, page, i, "window", batch_of(port, tuples_in(window, window.rows)))
        elif port.open_ends and _is_stale(head, i, window, tuples):
            _renew(port, head, page, i, window)
        else:
            if tuples is not None and stored and stored[i]:
                _share(port, head, page, i, tuples, others(bounds, i), stored[i])
            elif tuples is not None:
                log(port, head, page, i, tuples, others(bounds, i))
            if marks and (met := marks[i]) is not None:
                batch = pa.record_batch([pa.array(met.places)], names=[PLACE])
                _put(head, page, len(spec.ports) + i, batch, met.end)
            for _, ends, places in (one for one in learnt or () if one[0] == i):
                _put(head, page, 2 * len(spec.ports) + i, ends.among(places).to_batch(), FAR)
                head.logged[str(i)] += len(places)
            for number in range(i, 3 * len(spec.ports), len(spec.ports)):
                _merge(head, page, number)
        for batch in state.pending[i]:
            _write(head, page, i, "pending", batch)
    head.nonce = state.nonce = uuid.uuid4().hex
    page.write(head.__dict__)


def _put(head: Head, page: Page, number: int, batch: pa.RecordBatch, end: int) -> None:
    head.segments.append(Segment(page.put(batch), number, end, batch.nbytes))


def _is_stale(head: Head, i: int, window: Window, tuples: Delta | None) -> bool:
    """Whether to write a window of rows anew: most of its entries are out of date, or soon will be."""
    new = 0 if tuples is None else len(tuples)
    logged = head.logged[str(i)] = head.logged.get(str(i), 0) + new
    return len(window) <= 2 * new or logged > STALE * len(window)


def _renew(port: Port, head: Head, page: Page, i: int, window: Window) -> None:
    """Write a window as it is now, in place of all its entries."""
    ports = len(head.bounds)
    for segment in [s for s in head.segments if s.port % ports == i]:
        page.remove(segment.key)
        head.segments.remove(segment)
    for part in pieces(batch_of(port, tuples_in(window, window.rows)), SEGMENT_BYTES):
        if part.num_rows:
            _put(head, page, i, part, FAR)
    head.logged[str(i)] = len(window)


def _write(head: Head, page: Page, i: int, what: str, batch: pa.RecordBatch) -> None:
    head.snapshots += [(page.put(part), i, what) for part in pieces(batch, SEGMENT_BYTES)]


def log(port: Port, head: Head, page: Page, i: int, tuples: Delta, bound: int) -> None:
    """Write the part of a batch that stays alive."""
    alive = np.flatnonzero(ends_of(port, tuples) >= bound)
    if len(alive) == 0:
        return
    if len(alive) == alive[-1] - alive[0] + 1:
        tuples = tuples.slice(int(alive[0]), int(alive[-1]) + 1)
    else:
        tuples = tuples.take(alive)
    for part in pieces(batch_of(port, tuples), SEGMENT_BYTES):
        end = int(ends_of(port, delta(port, part)).max())
        head.segments.append(Segment(page.put(part), i, end, part.nbytes))


def _share(
    port: Port,
    head: Head,
    page: Page,
    i: int,
    tuples: Delta,
    bound: int,
    stored: Sequence[tuple[int, str]],
) -> None:
    """Have the entries that others have stored, if any of their tuples stays alive."""
    end, size = int(ends_of(port, tuples).max()), batch_of(port, tuples.slice(0, 1)).nbytes * len(tuples.key)
    if end < bound:
        return
    for key, channel in stored:
        page.share(key)
        head.segments.append(Segment(key, i, end, size // len(stored), channel=channel))


def places_of(port: Port, window: Window) -> FixedColumn:
    """The places of a window's tuples, in an outer join."""
    found = window.columns[port.index(PLACE)]
    assert isinstance(found, FixedColumn)
    return found


def _merge(head: Head, page: Page, i: int) -> None:
    """Where an input has many segments, make one of the last ones, if they are of one level and small."""
    while len(own := [s for s in head.segments if s.port == i]) > 4 * FAN:
        last = own[-FAN:]
        size = sum(s.size for s in last)
        if last[0].level != last[-1].level or size > SEGMENT_BYTES:
            return
        batch = merge([head.in_memory(s.key, page.fetch_shared(s)) for s in last])
        for s in last:
            page.remove(s.key)
            head.segments.remove(s)
        end, level = max(s.end for s in last), last[0].level + 1
        head.segments.append(Segment(page.put(batch), i, end, size, level))


Lowered = tuple[int, Ends, np.ndarray]
"""An input, ends that were learnt, and the places of tuples in its window that have these ends now."""


def lower(state: Runtime, spec: JoinSpec, learnt: Ends) -> list[Lowered]:
    """Write newly learnt ends of a window of rows wherever its tuples are held."""
    column, found = f"{SEQ}.{learnt.window}", []
    for i, port in enumerate(spec.ports):
        if not port.open_ends or column not in {f.name for f in port.stored}:
            continue
        places = _lower(port, state.join.windows[i], learnt)
        if len(places):
            found.append((i, learnt, places))
        for k, batch in enumerate(state.pending[i]):
            if END in batch.schema.names and column in batch.schema.names:
                changed = ints(batch, END).copy()
                learnt.lower(ints(batch, column), changed)
                at = batch.schema.names.index(END)
                state.pending[i][k] = batch.set_column(at, END, pa.array(changed))
    return found


def _lower(port: Port, window: Window, learnt: Ends) -> np.ndarray:
    """Write ends into a window; returns the places of its tuples among them."""
    lo, hi = window.row(window.first), window.row(window.next)
    places = window.columns[port.index(f"{SEQ}.{learnt.window}")]
    assert isinstance(places, FixedColumn)
    held = places.data[lo:hi]
    return np.asarray(held[learnt.lower(held, window.end[lo:hi])])


def _input(port: Port) -> InputSpec:
    slack = ANY_ORDER if port.open_ends else None
    columns = tuple((f.name, f.kind) for f in port.stored)
    return InputSpec(port.name, columns, port.span, tuple(port.index(v) for v in port.verify), slack)
