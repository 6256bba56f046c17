"""The N-way join as an operator program: packets in, packets out, state in a store.

One call handles one bucket of one operator and one micro-batch. Its windows are rebuilt from the state only
when they are not at hand, which the state's nonce tells.

Progress is in band. The bound of an input is a lower bound on every time it can still bring: from a source,
the greatest time so far less the lateness; from an operator, what it says. A tuple expires when it ends
before the bounds of all other inputs. A tuple below its own stream's bound is late.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from thalweg.errors import UserError
from thalweg.kernel.keys import buckets, combine, split
from thalweg.kernel.nway import NWayJoin, Results
from thalweg.kernel.spill import SpillFolder
from thalweg.kernel.window import NEVER
from thalweg.programs.arrivals import Arrived, Ends, judge, kept
from thalweg.programs.batches import delta, ints, read
from thalweg.programs.overflow import Overflow
from thalweg.programs.packet import Kind, Packet, merge, pieces
from thalweg.programs.rows import order_rows
from thalweg.programs.spec import END, KEY, PART, SEQ, START, JoinSpec, Port, Watched
from thalweg.programs.state import (
    SEGMENT_BYTES,
    Cache,
    Head,
    Runtime,
    Store,
    lower,
    persist,
    put,
    rebuild,
)

RESULT_BYTES = 256 << 20
"""The most that one column of a batch of results holds, unless a single value is larger."""


class JoinProgram:
    """One N-way join operator. `call` joins what one micro-batch brings to one of its buckets."""

    def __init__(self, spec: JoinSpec) -> None:
        self.spec = spec

    def call(
        self, packets: Iterable[Packet], store: Store, cache: Cache, folder: SpillFolder | None = None
    ) -> Iterator[Packet]:
        """The packets that come out; all of them must be taken before the next call.

        `folder` is for what memory has no room for, where there is a limit.
        """
        spec = self.spec
        sources = len(spec.ports) + len(spec.watched)
        head = Head.parse(store.get(0), sources)
        if head.cold and spec.limit is None:
            raise UserError(
                "windows are partly on disk: the run was begun with a memory budget", remedy="give one again"
            )
        state = cache.take(spec, head.nonce) or rebuild(spec, head, store, cache)
        arrived = Arrived.sort(packets, sources)
        fresh: list[pa.RecordBatch | None] = []
        for port, arrivals, bound in zip(spec.ports, arrived.ports, head.bounds, strict=False):
            batch, aside = judge(port, arrivals, bound)
            fresh.append(batch)
            if port.reports and port.stream is not None:
                yield Packet(0, port.stream, Kind.INPUT, arrivals.count, arrivals.top, 0)
                for late in aside:
                    yield Packet(0, port.stream, Kind.LATE, late.num_rows, None, 0, batch=kept(port, late))
        self._advance(head, arrived)
        limit = self._release_limit(head)
        learnt: list[Ends] = []
        if spec.held:
            for waiting, batch in zip(state.pending, fresh, strict=True):
                waiting.extend([] if batch is None else [batch])
            for ends in arrived.resolve:  # they may be of tuples that have come with them
                lower(state, spec, ends)
            fresh = [self._release(state, i, limit) for i in range(len(fresh))]
            fresh, learnt = self._number(state, fresh)
            for ends in learnt:
                lower(state, spec, ends)
        bounds = [min(b, limit) for b in head.bounds[: len(spec.ports)]]
        deltas = [
            None if batch is None else delta(port, batch)
            for port, batch in zip(spec.ports, fresh, strict=True)
        ]
        bound = min(bounds)
        if spec.limit is None:
            made = ((state.join, found) for found in state.join.push(deltas))
            yield from self._results(head, state, store, made, arrived.wall)
        else:
            assert folder is not None
            disk = Overflow(spec, spec.limit, head, state, store, folder)
            late = disk.push(deltas, bounds, arrived.idle or head.ended)
            yield from self._results(head, state, store, late, arrived.wall)
            deltas, bound = disk.logged, min(bound, disk.waiting)
        if spec.slide is not None:
            cut = NEVER if bound >= NEVER else bound // spec.slide * spec.slide
            yield from self._hand_out(head, state, store, cut, arrived.wall)
        yield from self._announce(bound, arrived, arrived.resolve + learnt)
        state.join.expire(bounds)
        persist(spec, head, state, store, deltas, bounds)
        rows = sum(len(w) for w in state.join.windows)
        held = state.nbytes
        if spec.limit is not None:
            rows, held = rows + disk.rows, held + disk.visited
            yield Packet(0, 0, Kind.DISK, disk.rows_waiting, None, disk.nbytes, feed=arrived.group)
        yield Packet(0, 0, Kind.STATE, rows, bound, held)
        cache.give(state)

    def _advance(self, head: Head, arrived: Arrived) -> None:
        """Move the bounds by what has arrived, and past streams that have fallen idle."""
        head.ended |= arrived.ended
        sources: list[Port | Watched] = [*self.spec.ports, *self.spec.watched]
        for i, (source, arrivals) in enumerate(zip(sources, arrived.ports, strict=True)):
            head.advance(i, source, arrivals.tops)
            # A batch without rows for this bucket still brings its time, so the stream is not silent.
            if arrivals.count or arrivals.top is not None or head.walls[i] == 0:
                head.walls[i] = arrived.wall
        silent = [
            s.idle is not None and arrived.wall - since >= s.idle
            for s, since in zip(sources, head.walls, strict=True)
        ]
        # How far another join has come does not count: what waits there on disk may hold it back.
        active = [
            b
            for s, b, still in zip(sources, head.bounds, silent, strict=True)
            if not still and (isinstance(s, Watched) or s.stream is not None)
        ]
        for i, still in enumerate(silent):
            if head.ended:
                head.bounds[i] = NEVER
            elif active and still:
                head.bounds[i] = max(head.bounds[i], min(active))

    def _release_limit(self, head: Head) -> int:
        """Below this time nothing can change any more in any window of rows."""
        return min((head.bounds[i] for i, p in enumerate(self.spec.ports) if p.open_ends), default=NEVER)

    def _release(self, state: Runtime, i: int, limit: int) -> pa.RecordBatch | None:
        waiting, state.pending[i] = state.pending[i], []
        if not waiting:
            return None
        together = merge(waiting)
        ready = ints(together, START) < limit
        if not ready.all():
            state.pending[i] = [together.filter(pa.array(~ready))]
            together = together.filter(pa.array(ready))
        return together if together.num_rows else None

    def _number(
        self, state: Runtime, fresh: Sequence[pa.RecordBatch | None]
    ) -> tuple[list[pa.RecordBatch | None], list[Ends]]:
        """Order the tuples of windows of rows, give them their place, and learn whose time has come."""
        out, learnt = list(fresh), []
        for i, port in enumerate(self.spec.ports):
            batch = fresh[i]
            if port.rows is None or batch is None:
                continue
            ordered = order_rows(port, batch)
            seq, ends, earlier = state.clocks[i].advance(ints(ordered, START))
            if len(earlier[1]):
                learnt.append((port.name, *earlier))
            columns = {n: ordered.column(n) for n in ordered.schema.names} | {
                END: pa.array(ends),
                f"{SEQ}.{port.name}": pa.array(seq),
            }
            numbered = pa.record_batch(list(columns.values()), names=list(columns))
            part = np.asarray(ordered.column(PART)).astype(bool)
            out[i] = numbered.filter(pa.array(part & (ends >= ints(ordered, START))))
        return out, learnt

    def _results(
        self,
        head: Head,
        state: Runtime,
        store: Store,
        found: Iterable[tuple[NWayJoin, Results]],
        wall: int,
    ) -> Iterator[Packet]:
        for batch in (self._materialise(by, part) for by, all_ in found for part in self._cut(by, all_)):
            if self.spec.target is not None:
                yield from self._forward(batch, wall)
            elif self.spec.slide is None:
                yield Packet(0, self.spec.query, Kind.RESULT, batch.num_rows, None, wall, batch=batch)
            else:
                self._hold(head, state, store, batch)

    def _cut(self, join: NWayJoin, found: Results) -> Iterator[Results]:
        """Results in parts that are small enough for an Arrow column each, however long their strings."""
        fields = [(o.port, self.spec.ports[o.port], o.field) for o in self.spec.output]
        stored = [
            (i, join.windows[i].columns[port.index(f)]) for i, port, f in fields if not port.field(f).held
        ]
        if len(found) > 1 and any(c.size(found.rows[i]) > RESULT_BYTES for i, c in stored):
            middle = len(found) // 2
            yield from self._cut(join, found.slice(0, middle))
            yield from self._cut(join, found.slice(middle, len(found)))
        else:
            yield found

    def _materialise(self, join: NWayJoin, found: Results) -> pa.RecordBatch:
        names, arrays = [START], [pa.array(found.start)]
        if self.spec.target is not None:
            names.append(END)
            arrays.append(pa.array(found.end))
        for out in self.spec.output:
            port = self.spec.ports[out.port]
            names.append(out.name)
            arrays.append(read(join.windows[out.port], port, port.field(out.field), found.rows[out.port]))
        return pa.record_batch(arrays, names=names)

    def _forward(self, batch: pa.RecordBatch, wall: int) -> Iterator[Packet]:
        """Send results on to the next operator, each to the bucket of its key there."""
        target = self.spec.target
        assert target is not None
        if not target.groups:
            yield Packet(0, 0, Kind.DATA, batch.num_rows, None, wall, batch=batch)
            return
        word = combine([ints(batch, name) for name in target.key])
        batch = batch.append_column(KEY, pa.array(word))
        order, begin = split(buckets(word, len(target.groups)), len(target.groups))
        for b, group in enumerate(target.groups):
            if begin[b + 1] > begin[b]:
                part = batch.take(pa.array(order[begin[b] : begin[b + 1]]))
                yield Packet(group, target.port, Kind.DATA, part.num_rows, None, wall, batch=part)

    def _announce(self, bound: int, arrived: Arrived, resolved: Sequence[Ends]) -> Iterator[Packet]:
        """Tell the next operator, in every bucket, how far this bucket of this one has come."""
        target = self.spec.target
        if target is None:
            return
        for group in target.groups or (0,):
            feed = arrived.group if target.groups else 0
            yield Packet(group, target.port, Kind.DATA, 0, bound, arrived.wall, feed=feed)
            for name, seq, ends in resolved:
                table = pa.record_batch([pa.array(ends)], names=[f"{name}|{seq}"])
                yield Packet(group, target.port, Kind.RESOLVE, len(ends), None, arrived.wall, batch=table)

    def _hold(self, head: Head, state: Runtime, store: Store, batch: pa.RecordBatch) -> None:
        for part in pieces(batch, SEGMENT_BYTES):
            key = put(head, store, part)
            head.results.append(key)
            state.results[key] = part

    def _hand_out(self, head: Head, state: Runtime, store: Store, cut: int, wall: int) -> Iterator[Packet]:
        """Let go the results of finished slides."""
        waiting, head.results = head.results, []
        for key in waiting:
            batch = state.results[key]
            ready = ints(batch, START) < cut
            if not ready.any():
                head.results.append(key)
                continue
            done = batch.filter(pa.array(ready))
            yield Packet(0, self.spec.query, Kind.RESULT, done.num_rows, None, wall, batch=done)
            store.remove(key)
            del state.results[key]
            if not ready.all():
                self._hold(head, state, store, batch.filter(pa.array(~ready)))
