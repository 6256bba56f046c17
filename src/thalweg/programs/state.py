"""The state of an operator's bucket: a log of segments in a store, and its image in memory.

The tuples of a batch that stay alive are written once, as a segment, and removed when the last of them has
expired. What changes afterwards (windows of rows, tuples that wait) is written anew with each batch.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from thalweg.kernel.columns import Allocator, FixedColumn
from thalweg.kernel.keys import PARTS, parts
from thalweg.kernel.nway import Delta, InputSpec, NWayJoin, others
from thalweg.kernel.window import ANY_ORDER, NEVER
from thalweg.programs.arrivals import Ends
from thalweg.programs.batches import batch_of, delta, ends_of, ints, tuples_in
from thalweg.programs.packet import dump, load, merge, pieces
from thalweg.programs.rows import Clock
from thalweg.programs.spec import END, KEY, SEQ, JoinSpec, Port, Watched

FAN = 16
"""So many segments in a row become one, so that long windows of many small batches have few of them."""

SEGMENT_BYTES = 16 << 20
"""A segment is cut where it grows beyond this: state stores choke on values of hundreds of megabytes."""


class Store(Protocol):
    """Where an operator's bucket keeps its state; keys are numbers, 0 is the head that lists the others."""

    def get(self, key: int) -> bytes | None: ...
    def put(self, key: int, value: bytes) -> None: ...
    def remove(self, key: int) -> None: ...


class Cache(Protocol):
    """Where a bucket keeps its state in memory between calls; nothing is lost if it is not there."""

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
    """An entry of the log: tuples of one input. Those of level n+1 were made from several of level n."""

    key: int
    port: int
    end: int  # the greatest of its tuples
    size: int
    level: int = 0


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
class Head:
    """The small part of the state, read and written in every call."""

    nonce: str = ""
    next: int = 1
    ended: bool = False
    bounds: list[int] = field(default_factory=list)
    feeds: dict[str, list[int]] = field(default_factory=dict)  # of ports with several: how far each has come
    walls: list[int] = field(default_factory=list)
    segments: list[Segment] = field(default_factory=list)
    snapshots: list[tuple[int, int, str]] = field(default_factory=list)  # key, port, what
    results: list[int] = field(default_factory=list)  # keys of results that wait for their slide
    clocks: dict[str, int] = field(default_factory=dict)
    cold: list[int] = field(default_factory=list)  # the parts of the keys that are on disk
    pieces: list[Piece] = field(default_factory=list)
    since: dict[str, int] = field(default_factory=dict)  # of a part that came back: its first segment

    @classmethod
    def parse(cls, data: bytes | None, ports: int) -> Head:
        if data is None:
            return cls(bounds=[-NEVER] * ports, walls=[0] * ports)
        out = cls(**json.loads(data))
        out.segments = [Segment(*segment) for segment in out.segments]
        out.snapshots = [(key, port, what) for key, port, what in out.snapshots]
        out.pieces = [Piece(*piece) for piece in out.pieces]
        return out

    def advance(self, i: int, port: Port | Watched, tops: Mapping[int, int]) -> None:
        """Move the bound of an input by what has been heard of it; it lags with the last of its feeds."""
        if isinstance(port, Watched) or port.feeds == 1:
            heard = min(tops.values(), default=-NEVER)  # the buckets of an operator are all heard at once
        else:
            feeds = self.feeds.setdefault(str(i), [-NEVER] * port.feeds)
            for feed, top in tops.items():
                feeds[feed] = max(feeds[feed], top)
            heard = min(feeds)
        if heard > -NEVER:
            self.bounds[i] = max(self.bounds[i], heard - port.lateness)

    def in_memory(self, key: int, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The tuples of a segment whose part has not gone to disk since it was written."""
        if not self.cold and not self.since:
            return batch
        since = np.zeros(PARTS, np.int64)
        for p, first in self.since.items():
            since[int(p)] = first
        since[self.cold] = NEVER
        return batch.filter(pa.array(since[parts(ints(batch, KEY))] <= key))

    def dump(self) -> bytes:
        return json.dumps(self.__dict__, separators=(",", ":")).encode()


@dataclass
class Runtime:
    """The state in a form that is fast to work with; `nonce` says of which moment."""

    nonce: str
    join: NWayJoin
    pending: list[list[pa.RecordBatch]]
    clocks: dict[int, Clock]
    results: dict[int, pa.RecordBatch]

    @property
    def nbytes(self) -> int:
        return sum(w.nbytes for w in self.join.windows)


def make_join(spec: JoinSpec, allocs: Sequence[Allocator] | None = None) -> NWayJoin:
    """The kernel's join for a spec, with empty windows."""
    return NWayJoin([_input(port) for port in spec.ports], allocs)


def rebuild(spec: JoinSpec, head: Head, store: Store, cache: Cache) -> Runtime:
    """The state in memory, from the store."""
    join = make_join(spec, cache.allocators(len(spec.ports)))
    state = Runtime(head.nonce, join, [[] for _ in spec.ports], {}, {})
    tails: dict[int, list[np.ndarray]] = {i: [] for i in range(len(spec.ports))}

    def add(i: int, batch: pa.RecordBatch) -> None:
        tuples, window = delta(spec.ports[i], batch), join.windows[i]
        window.append(tuples.key, tuples.start, tuples.end, tuples.columns)
        window.link(window.next)

    for segment in head.segments:
        add(segment.port, head.in_memory(segment.key, _fetch(store, segment.key)))
    for key, i, what in head.snapshots:
        batch = _fetch(store, key)
        if what == "window":
            add(i, batch)
        elif what == "pending":
            state.pending[i].append(batch)
        else:
            tails[i].append(ints(batch, "tail"))
    for i, port in enumerate(spec.ports):
        if port.rows is not None:
            tail = np.concatenate(tails[i]) if tails[i] else np.empty(0, np.int64)
            state.clocks[i] = Clock(port.rows, head.clocks.get(str(i), 0), tail)
    for key in head.results:
        state.results[key] = _fetch(store, key)
    return state


def persist(
    spec: JoinSpec,
    head: Head,
    state: Runtime,
    store: Store,
    deltas: Sequence[Delta | None],
    bounds: Sequence[int],
) -> None:
    """Bring the store up to date after a batch."""
    alive = []
    for segment in head.segments:
        if segment.end < others(bounds, segment.port):
            store.remove(segment.key)
        else:
            alive.append(segment)
    head.segments = alive
    for key, _, _ in head.snapshots:
        store.remove(key)
    head.snapshots = []
    for i, port in enumerate(spec.ports):
        tuples = deltas[i]
        if port.open_ends or port.rewritten:
            window = state.join.windows[i]
            _write(head, store, i, "window", batch_of(port, tuples_in(window, window.rows)))
        elif tuples is not None:
            log(port, head, store, i, tuples, others(bounds, i))
            _merge(head, store, i)
        for batch in state.pending[i]:
            _write(head, store, i, "pending", batch)
        if port.rows is not None:
            head.clocks[str(i)] = state.clocks[i].next
            _write(head, store, i, "tail", pa.record_batch([pa.array(state.clocks[i].tail)], names=["tail"]))
    head.nonce = state.nonce = uuid.uuid4().hex
    store.put(0, head.dump())


def put(head: Head, store: Store, batch: pa.RecordBatch) -> int:
    """Store a batch under a new key."""
    key = head.next
    head.next += 1
    store.put(key, dump(batch))
    return key


def _write(head: Head, store: Store, i: int, what: str, batch: pa.RecordBatch) -> None:
    head.snapshots += [(put(head, store, part), i, what) for part in pieces(batch, SEGMENT_BYTES)]


def log(port: Port, head: Head, store: Store, i: int, tuples: Delta, bound: int) -> None:
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
        head.segments.append(Segment(put(head, store, part), i, end, part.nbytes))


def _merge(head: Head, store: Store, i: int) -> None:
    """Where an input has many segments, make one of the last ones, if they are of one level and small."""
    while len(own := [s for s in head.segments if s.port == i]) > 4 * FAN:
        last = own[-FAN:]
        size = sum(s.size for s in last)
        if last[0].level != last[-1].level or size > SEGMENT_BYTES:
            return
        batch = merge([head.in_memory(s.key, _fetch(store, s.key)) for s in last])
        for s in last:
            store.remove(s.key)
            head.segments.remove(s)
        end, level = max(s.end for s in last), last[0].level + 1
        head.segments.append(Segment(put(head, store, batch), i, end, size, level))


def _fetch(store: Store, key: int) -> pa.RecordBatch:
    data = store.get(key)
    if data is None:
        raise RuntimeError(f"state is damaged: entry {key} is missing; start again with a new output folder")
    return load(data)


def lower(state: Runtime, spec: JoinSpec, learnt: Ends) -> None:
    """Write newly learnt ends of a window of rows wherever its tuples are held."""
    name, seq, ends = learnt
    column = f"{SEQ}.{name}"
    for i, port in enumerate(spec.ports):
        if not port.open_ends or column not in {f.name for f in port.stored}:
            continue
        window = state.join.windows[i]
        lo, hi = window.row(window.first), window.row(window.next)
        places = window.columns[port.index(column)]
        assert isinstance(places, FixedColumn)
        _lower(places.data[lo:hi], window.end[lo:hi], seq, ends)
        for k, batch in enumerate(state.pending[i]):
            if END in batch.schema.names and column in batch.schema.names:
                changed = ints(batch, END).copy()
                _lower(ints(batch, column), changed, seq, ends)
                at = batch.schema.names.index(END)
                state.pending[i][k] = batch.set_column(at, END, pa.array(changed))


def _lower(seqs: np.ndarray, into: np.ndarray, seq: int, ends: np.ndarray) -> None:
    hit = (seqs >= seq) & (seqs < seq + len(ends))
    into[hit] = np.minimum(into[hit], ends[seqs[hit] - seq])


def _input(port: Port) -> InputSpec:
    # In a window of rows no tuple ends after a later one, whenever the ends are learnt.
    slack = 0 if port.rows is not None else ANY_ORDER if port.open_ends else None
    columns = tuple((f.name, f.kind) for f in port.stored)
    return InputSpec(port.name, columns, port.span, tuple(port.index(v) for v in port.verify), slack)
