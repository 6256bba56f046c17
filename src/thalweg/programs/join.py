"""The N-way join as an operator program: packets in, packets out, state in a store.

One call handles one bucket of one operator and one micro-batch. Its state is a log: the tuples of a batch that
stay alive are written once as a segment and removed when the last of them has expired. The windows themselves
are rebuilt from the segments only when they are not at hand, which the state's nonce tells.

Progress is in band. The bound of an input is a lower bound on every time it can still bring: from a source,
the greatest time so far less the lateness; from an operator, what it says. A tuple expires when it ends before
the bounds of all other inputs. A tuple below its own stream's bound is late.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import pyarrow as pa

from thalweg.kernel.columns import fixed_array, fixed_dtype
from thalweg.kernel.keys import buckets, combine, split
from thalweg.kernel.nway import Delta, InputSpec, NWayJoin, Results
from thalweg.kernel.window import ANY_ORDER, NEVER, Window
from thalweg.programs.packet import Kind, Packet, dump, load, merge
from thalweg.programs.rows import Clock, order_rows
from thalweg.programs.spec import END, KEY, SEQ, START, Field, JoinSpec, Port

SEGMENT_BYTES = 16 << 20
"""A segment is cut where it grows beyond this: state stores choke on values of hundreds of megabytes."""


class Store(Protocol):
    """Where an operator's bucket keeps its state; keys are numbers, 0 is the head that lists the others."""

    def get(self, key: int) -> bytes | None: ...
    def put(self, key: int, value: bytes) -> None: ...
    def remove(self, key: int) -> None: ...


@dataclass
class Head:
    """The small part of the state, read and written in every call."""

    nonce: str = ""
    next: int = 1
    ended: bool = False
    bounds: list[int] = field(default_factory=list)
    walls: list[int] = field(default_factory=list)
    segments: list[tuple[int, int, int]] = field(default_factory=list)  # key, port, greatest end
    snapshots: list[tuple[int, int, str]] = field(default_factory=list)  # key, port, what
    results: list[tuple[int, int]] = field(default_factory=list)  # key, greatest time: held for a slide
    clocks: dict[str, int] = field(default_factory=dict)

    @classmethod
    def parse(cls, data: bytes | None, ports: int) -> Head:
        if data is None:
            return cls(bounds=[-NEVER] * ports, walls=[0] * ports)
        return cls(**json.loads(data))

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


class JoinProgram:
    """One N-way join operator. `call` joins what one micro-batch brings to one of its buckets."""

    def __init__(self, spec: JoinSpec) -> None:
        self.spec = spec
        self.inputs = [
            InputSpec(
                p.name,
                tuple((f.name, f.kind) for f in p.stored),
                p.span,
                tuple([f.name for f in p.stored].index(v) for v in p.verify),
                # In a window of rows no tuple ends after a later one, whenever the ends are learnt.
                0 if p.rows is not None else ANY_ORDER if p.open_ends else None,
            )
            for p in spec.ports
        ]

    def call(
        self, packets: Iterable[Packet], store: Store, cached: Runtime | None
    ) -> Iterator[Packet | Runtime]:
        """The packets that come out and, last, the state to hand in again."""
        head = Head.parse(store.get(0), len(self.spec.ports))
        state = cached if cached is not None and cached.nonce == head.nonce else self._rebuild(head, store)
        arrived = _Arrived.sort(packets, len(self.spec.ports))
        fresh: list[pa.RecordBatch | None] = []
        for i, port in enumerate(self.spec.ports):
            batch, aside = _judge(port, arrived.data[i], arrived.rest[i], head.bounds[i])
            fresh.append(batch)
            if port.reports:
                assert port.stream is not None
                yield Packet(0, port.stream, Kind.INPUT, arrived.count[i], arrived.top[i], 0, None)
                for late in (*aside, *arrived.aside[i]):
                    yield Packet(0, port.stream, Kind.LATE, late.num_rows, None, 0, _kept(port, late))
        self._advance(head, arrived)
        limit = self._release_limit(head)
        learnt: list[tuple[str, int, np.ndarray]] = []
        if self.spec.held:
            for of in arrived.resolve:
                _apply(state, self.spec, *of)
            fresh = [self._release(state, i, batch, limit) for i, batch in enumerate(fresh)]
            fresh = self._number(state, fresh, learnt)
            for of in learnt:
                _apply(state, self.spec, *of)
        bounds = [min(b, limit) for b in head.bounds]
        deltas = [
            None if batch is None else _delta(port, batch, state.join.windows[i].span)
            for i, (port, batch) in enumerate(zip(self.spec.ports, fresh, strict=True))
        ]
        yield from self._results(head, state, store, deltas, min(bounds), arrived.wall)
        state.join.expire(bounds)
        for packet in self._announce(min(bounds), arrived.wall, arrived.resolve + learnt):
            yield packet
        self._persist(head, state, store, deltas, bounds)
        rows = sum(len(w) for w in state.join.windows)
        yield Packet(0, 0, Kind.STATE, rows, min(bounds), state.nbytes, None)
        yield state

    def _advance(self, head: Head, arrived: _Arrived) -> None:
        """Move the bounds by what has arrived, and past streams that have fallen idle."""
        head.ended |= arrived.ended
        for i, port in enumerate(self.spec.ports):
            top = arrived.top[i]
            if top is not None:
                head.bounds[i] = max(head.bounds[i], top - port.lateness)
            if arrived.count[i] or head.walls[i] == 0:
                head.walls[i] = arrived.wall
        active = [b for i, b in enumerate(head.bounds) if not self._idle(head, i, arrived.wall)]
        for i in range(len(head.bounds)):
            if head.ended:
                head.bounds[i] = NEVER
            elif active and self._idle(head, i, arrived.wall):
                head.bounds[i] = max(head.bounds[i], min(active))

    def _idle(self, head: Head, i: int, wall: int) -> bool:
        idle = self.spec.ports[i].idle
        return idle is not None and wall - head.walls[i] >= idle

    def _release_limit(self, head: Head) -> int:
        """Below this time nothing can change any more in any window of rows."""
        return min((head.bounds[i] for i, p in enumerate(self.spec.ports) if p.open_ends), default=NEVER)

    def _release(
        self, state: Runtime, i: int, batch: pa.RecordBatch | None, limit: int
    ) -> pa.RecordBatch | None:
        waiting = state.pending[i] + ([batch] if batch is not None else [])
        state.pending[i] = []
        if not waiting:
            return None
        together = merge(waiting)
        ready = _ints(together, START) < limit
        if not ready.all():
            state.pending[i] = [together.filter(pa.array(~ready))]
            together = together.filter(pa.array(ready))
        return together if together.num_rows else None

    def _number(
        self,
        state: Runtime,
        fresh: list[pa.RecordBatch | None],
        learnt: list[tuple[str, int, np.ndarray]],
    ) -> list[pa.RecordBatch | None]:
        """Order the tuples of windows of rows, give them their place, and learn whose time has come."""
        out = list(fresh)
        for i, port in enumerate(self.spec.ports):
            batch = fresh[i]
            if port.rows is None or batch is None:
                continue
            ordered = order_rows(port, batch)
            seq, ends, earlier = state.clocks[i].advance(_ints(ordered, START))
            learnt.append((port.name, *earlier))
            columns = {n: ordered.column(n) for n in ordered.schema.names} | {
                END: pa.array(ends),
                f"{SEQ}.{port.name}": pa.array(seq),
            }
            batch = pa.record_batch(list(columns.values()), names=list(columns))
            keep = np.asarray(batch.column("#part").fill_null(False)).astype(bool)
            keep &= ends >= _ints(batch, START)
            out[i] = batch.filter(pa.array(keep))
        return out

    def _results(
        self,
        head: Head,
        state: Runtime,
        store: Store,
        deltas: list[Delta | None],
        bound: int,
        wall: int,
    ) -> Iterator[Packet]:
        for found in state.join.push(deltas):
            batch = self._materialise(state.join, found)
            if self.spec.target is not None:
                yield from self._forward(batch, wall)
            elif self.spec.slide is None:
                yield Packet(0, self.spec.query, Kind.RESULT, batch.num_rows, None, wall, dump(batch))
            else:
                self._hold(head, state, store, batch)
        if self.spec.slide is not None:
            cut = NEVER if bound >= NEVER else bound // self.spec.slide * self.spec.slide
            yield from self._hand_out(head, state, store, cut, wall)

    def _materialise(self, join: NWayJoin, found: Results) -> pa.RecordBatch:
        names, arrays = [START], [pa.array(found.start)]
        if self.spec.target is not None:
            names.append(END)
            arrays.append(pa.array(found.end))
        for out in self.spec.output:
            port = self.spec.ports[out.port]
            names.append(out.name)
            arrays.append(_read(join.windows[out.port], port, port.field(out.field), found.rows[out.port]))
        return pa.record_batch(arrays, names=names)

    def _forward(self, batch: pa.RecordBatch, wall: int) -> Iterator[Packet]:
        """Send results on to the next operator, each to the bucket of its key there."""
        target = self.spec.target
        assert target is not None
        word = combine([_ints(batch, name) for name in target.key])
        batch = batch.append_column(KEY, pa.array(word))
        order, begin = split(buckets(word, len(target.groups)), len(target.groups))
        for b, group in enumerate(target.groups):
            if begin[b + 1] > begin[b]:
                part = batch.take(pa.array(order[begin[b] : begin[b + 1]]))
                yield Packet(group, target.port, Kind.DATA, part.num_rows, None, wall, dump(part))

    def _announce(
        self, bound: int, wall: int, resolved: list[tuple[str, int, np.ndarray]]
    ) -> Iterator[Packet]:
        """Tell the next operator, in every bucket, how far this one has come."""
        target = self.spec.target
        if target is None:
            return
        for group in target.groups:
            yield Packet(group, target.port, Kind.DATA, 0, bound, wall, None)
            for name, seq, ends in resolved:
                table = pa.record_batch([pa.array(ends)], names=[f"{name}|{seq}"])
                yield Packet(group, target.port, Kind.RESOLVE, len(ends), None, wall, dump(table))

    def _hold(self, head: Head, state: Runtime, store: Store, batch: pa.RecordBatch) -> None:
        key = head.next
        head.next += 1
        head.results.append((key, int(_ints(batch, START).max())))
        state.results[key] = batch
        store.put(key, dump(batch))

    def _hand_out(self, head: Head, state: Runtime, store: Store, cut: int, wall: int) -> Iterator[Packet]:
        """Let go the results of finished slides."""
        waiting, head.results = head.results, []
        for key, latest in waiting:
            batch = state.results[key]
            ready = _ints(batch, START) < cut
            if not ready.any():
                head.results.append((key, latest))
                continue
            done = batch.filter(pa.array(ready))
            yield Packet(0, self.spec.query, Kind.RESULT, done.num_rows, None, wall, dump(done))
            store.remove(key)
            del state.results[key]
            if not ready.all():
                self._hold(head, state, store, batch.filter(pa.array(~ready)))

    def _persist(
        self, head: Head, state: Runtime, store: Store, deltas: list[Delta | None], bounds: list[int]
    ) -> None:
        still = []
        for key, i, end in head.segments:
            if end < min(b for j, b in enumerate(bounds) if j != i):
                store.remove(key)
            else:
                still.append((key, i, end))
        head.segments = still
        for key, _, _ in head.snapshots:
            store.remove(key)
        head.snapshots = []
        for i, port in enumerate(self.spec.ports):
            if port.open_ends:
                for part in _cut(_snapshot(port, state.join.windows[i])):
                    head.snapshots.append((self._put(head, store, part), i, "window"))
            else:
                delta = deltas[i]
                if delta is not None:
                    self._log(head, store, i, delta, min(b for j, b in enumerate(bounds) if j != i))
            for batch in state.pending[i]:
                for part in _cut(batch):
                    head.snapshots.append((self._put(head, store, part), i, "pending"))
            if port.rows is not None:
                clock = state.clocks[i]
                head.clocks[str(i)] = clock.next
                tail = pa.record_batch([pa.array(clock.tail)], names=["tail"])
                for part in _cut(tail):
                    head.snapshots.append((self._put(head, store, part), i, "tail"))
        head.nonce = state.nonce = uuid.uuid4().hex
        store.put(0, head.dump())

    def _log(self, head: Head, store: Store, i: int, delta: Delta, bound: int) -> None:
        """Write the part of a batch that stays alive."""
        span = self.spec.ports[i].span
        end = delta.start + span if span is not None else delta.end
        assert end is not None
        alive = np.flatnonzero(end >= bound)
        if len(alive) == 0:
            return
        if len(alive) == alive[-1] - alive[0] + 1:
            delta = delta.slice(int(alive[0]), int(alive[-1]) + 1)
        else:
            delta = delta.take(alive)
        names = [KEY, START] + ([END] if delta.end is not None else [])
        arrays = [pa.array(delta.key), pa.array(delta.start)]
        arrays += [pa.array(delta.end)] if delta.end is not None else []
        names += [f.name for f in self.spec.ports[i].stored]
        batch = pa.record_batch([*arrays, *delta.columns], names=names)
        for part in _cut(batch):
            ends = _ints(part, START) + span if span is not None else _ints(part, END)
            head.segments.append((self._put(head, store, part), i, int(ends.max())))

    def _put(self, head: Head, store: Store, batch: pa.RecordBatch) -> int:
        key = head.next
        head.next += 1
        store.put(key, dump(batch))
        return key

    def _rebuild(self, head: Head, store: Store) -> Runtime:
        """The state as the store has it."""
        ports = self.spec.ports
        join = NWayJoin(self.inputs)
        state = Runtime(head.nonce, join, [[] for _ in ports], {}, {})
        tails: dict[int, list[np.ndarray]] = {i: [] for i in range(len(ports))}

        def add(i: int, batch: pa.RecordBatch) -> None:
            delta = _delta(ports[i], batch, join.windows[i].span)
            join.windows[i].append(delta.key, delta.start, delta.end, delta.columns)
            join.windows[i].link(join.windows[i].next)

        for key, i, _ in head.segments:
            add(i, _fetch(store, key))
        for key, i, what in head.snapshots:
            batch = _fetch(store, key)
            if what == "window":
                add(i, batch)
            elif what == "pending":
                state.pending[i].append(batch)
            else:
                tails[i].append(_ints(batch, "tail"))
        for i, port in enumerate(ports):
            if port.rows is not None:
                tail = np.concatenate(tails[i]) if tails[i] else np.empty(0, np.int64)
                state.clocks[i] = Clock(port.rows, head.clocks.get(str(i), 0), tail)
        for key, _ in head.results:
            state.results[key] = _fetch(store, key)
        head.segments = [tuple(s) for s in head.segments]  # type: ignore[misc]
        return state


@dataclass
class _Arrived:
    """The packets of one call, by port."""

    data: list[list[pa.RecordBatch]]
    rest: list[list[pa.RecordBatch]]
    aside: list[list[pa.RecordBatch]]
    top: list[int | None]
    count: list[int]
    resolve: list[tuple[str, int, np.ndarray]]
    wall: int = 0
    ended: bool = False

    @classmethod
    def sort(cls, packets: Iterable[Packet], ports: int) -> _Arrived:
        out = cls(*([[] for _ in range(ports)] for _ in range(3)), [None] * ports, [0] * ports, [])
        # Packets of one batch come in any order; results must not depend on it, nor should state.
        for p in sorted(packets, key=lambda p: (p.port, p.kind, p.top or 0, p.n)):
            out.wall = max(out.wall, p.wall)
            if p.kind == Kind.END:
                out.ended = True
                continue
            if p.top is not None:
                top = out.top[p.port]
                out.top[p.port] = p.top if top is None else max(top, p.top)
            if p.kind == Kind.RESOLVE:
                assert p.data is not None
                table = load(p.data)
                name, seq = table.schema.names[0].rsplit("|", 1)
                out.resolve.append((name, int(seq), np.asarray(table.column(0))))
                continue
            out.count[p.port] += p.n
            if p.data is not None and p.n:
                target = {Kind.DATA: out.data, Kind.REST: out.rest, Kind.ASIDE: out.aside}[Kind(p.kind)]
                target[p.port].append(load(p.data))
        return out


def _ints(batch: pa.RecordBatch, name: str) -> np.ndarray:
    column = batch.column(name)
    return (
        np.frombuffer(column.buffers()[1], np.int64)[column.offset : column.offset + len(column)]
        if len(column)
        else np.empty(0, np.int64)
    )


def _fetch(store: Store, key: int) -> pa.RecordBatch:
    data = store.get(key)
    if data is None:
        raise RuntimeError(f"state is damaged: entry {key} is missing; start again with a new output folder")
    return load(data)


def _judge(
    port: Port, data: list[pa.RecordBatch], rest: list[pa.RecordBatch], bound: int
) -> tuple[pa.RecordBatch | None, list[pa.RecordBatch]]:
    """Part what takes part in the join from what is too late."""
    aside = []
    batch = merge(data) if data else None
    if port.stream is None:
        return batch, aside
    for n, part in enumerate([batch, *rest]):
        if part is None:
            continue
        late = _ints(part, START) < bound
        if late.any():
            aside.append(part.filter(pa.array(late)))
            if n == 0:
                batch = part.filter(pa.array(~late))
    return batch, aside


def _kept(port: Port, late: pa.RecordBatch) -> bytes | None:
    """A late tuple as it is kept: the stream's own columns."""
    if not port.late:
        return None
    arrays = []
    for name in port.late:
        if name in late.schema.names:
            arrays.append(late.column(name))
        else:
            f = port.field(name)
            arrays.append(_view(_ints(late, f.held), f.kind))
    return dump(pa.record_batch(arrays, names=[name.split(".", 1)[1] for name in port.late]))


def _view(values: np.ndarray, kind: pa.DataType) -> pa.Array:
    """Key words or starts as values of the column they stand for."""
    fixed = fixed_dtype(kind)
    assert fixed is not None
    return fixed_array(kind, values.astype(fixed[0]), None)


def _read(window: Window, port: Port, f: Field, rows: np.ndarray) -> pa.Array:
    if f.held:
        return _view(window.node[:, 0 if f.held == KEY else 1].take(rows), f.kind)
    return window.columns[[s.name for s in port.stored].index(f.name)].take(rows)


def _delta(port: Port, batch: pa.RecordBatch, span: int | None) -> Delta:
    end = _ints(batch, END) if span is None else None
    columns = tuple(batch.column(f.name) for f in port.stored)
    return Delta(_ints(batch, KEY), _ints(batch, START), end, columns).ordered()


def _snapshot(port: Port, window: Window) -> pa.RecordBatch:
    lo, hi = window.row(window.first), window.row(window.next)
    rows = np.arange(lo, hi)
    names = [KEY, START, END] + [f.name for f in port.stored]
    own = [pa.array(window.node[lo:hi, 0]), pa.array(window.node[lo:hi, 1]), pa.array(window.end[lo:hi])]
    return pa.record_batch(own + [c.take(rows) for c in window.columns], names=names)


def _apply(state: Runtime, spec: JoinSpec, name: str, seq: int, ends: np.ndarray) -> None:
    """Write newly learnt ends of a window of rows wherever its tuples are held."""
    column = f"{SEQ}.{name}"
    for i, port in enumerate(spec.ports):
        stored = [f.name for f in port.stored]
        if not port.open_ends or column not in stored:
            continue
        window = state.join.windows[i]
        lo, hi = window.row(window.first), window.row(window.next)
        _lower(window.columns[stored.index(column)].data[lo:hi], window.end[lo:hi], seq, ends)
        for k, batch in enumerate(state.pending[i]):
            if END in batch.schema.names and column in batch.schema.names:
                changed = _ints(batch, END).copy()
                _lower(_ints(batch, column), changed, seq, ends)
                at = batch.schema.names.index(END)
                state.pending[i][k] = batch.set_column(at, END, pa.array(changed))


def _lower(seqs: np.ndarray, into: np.ndarray, seq: int, ends: np.ndarray) -> None:
    hit = (seqs >= seq) & (seqs < seq + len(ends))
    into[hit] = np.minimum(into[hit], ends[seqs[hit] - seq])


def _cut(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    parts = max(1, -(-batch.nbytes // SEGMENT_BYTES))
    step = max(1, -(-batch.num_rows // parts))
    for at in range(0, batch.num_rows, step):
        yield batch.slice(at, step)
