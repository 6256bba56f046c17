"""A stream where it arises: its tuples are judged once, and for windows of rows put in order and counted.

What leaves has its time in START and, for each size of a window of rows over the stream, its last moment in a
column of that window; what is learnt of it later follows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from thalweg.kernel.columns import encode
from thalweg.kernel.keys import comparable
from thalweg.kernel.window import NEVER
from thalweg.programs.arrivals import Arrived, judge, kept
from thalweg.programs.batches import ints
from thalweg.programs.memo import Memo, numbers
from thalweg.programs.pack import TIME
from thalweg.programs.packet import Kind, Packet
from thalweg.programs.rows import Clock, order_rows
from thalweg.programs.spec import END, SEQ, START, Port, SourceSpec, Watched
from thalweg.programs.state import Head, Store

WALL = "wall"
VALUE = "#x:"
"""Before the SQL of a key that is not just a column."""


def end_of(rows: int) -> str:
    """The column with the last moments in a window of so many rows."""
    return f"{END}.{rows}"


@dataclass(frozen=True)
class SourcePack:
    """How the rows of a stream become packets for the groups of its source operator."""

    groups: tuple[int, ...]
    columns: tuple[tuple[str, str], ...]  # (column of the frame, name in the packet)
    max_ahead: int | None = None


def pack_source(spec: SourcePack, batch: pa.RecordBatch, wall: int) -> Iterator[Packet]:
    """All packets of the rows of one batch; every group hears of the greatest time.

    Each group gets a stretch of time, so that what is sent once for a stretch is not sent by all of them.
    """
    moment = batch.column(TIME)
    starts = pa.Array.from_buffers(
        pa.int64(), len(moment), [moment.buffers()[0], moment.buffers()[1]], moment.null_count, moment.offset
    )
    valid = np.asarray(starts.is_valid()).astype(bool)
    start = np.asarray(starts.fill_null(0) if starts.null_count else starts)
    if spec.max_ahead is not None:
        valid &= start <= wall + spec.max_ahead
    names = [START] + [name for _, name in spec.columns]
    arrays = [pa.array(start)]
    for column, name in spec.columns:
        values = batch.column(column)
        arrays.append(comparable(values) if name.startswith(VALUE) else encode(values))
    data = pa.record_batch(arrays, names=names)
    if not valid.all():
        aside = data.filter(pa.array(~valid))
        yield Packet(spec.groups[0], 0, Kind.ASIDE, aside.num_rows, None, wall, batch=aside)
        data, start = data.filter(pa.array(valid)), start[valid]
    top = int(start.max()) if len(start) else None
    if len(spec.groups) > 1 and len(start) and not bool((start[1:] >= start[:-1]).all()):
        data = data.take(pa.array(np.argsort(start, kind="stable")))
    cuts = np.linspace(0, data.num_rows, len(spec.groups) + 1).astype(int)
    for group, lo, hi in zip(spec.groups, cuts[:-1], cuts[1:], strict=True):
        yield Packet(group, 0, Kind.DATA, int(hi - lo), top, wall, batch=data.slice(lo, hi - lo))


class SourceProgram:
    """One source operator."""

    def __init__(self, spec: SourceSpec) -> None:
        self.spec = spec

    def call(self, packets: Iterable[Packet], store: Store) -> Iterator[Packet]:
        spec, port = self.spec, self.spec.port
        assert port.stream is not None
        memo = Memo.load(store)
        sources: list[Port | Watched] = [port, *spec.watched]
        head = Head(bounds=[-NEVER] * len(sources), walls=[0] * len(sources))
        for name, value in memo.facts.get("head", {}).items():
            setattr(head, name, value)
        arrived = Arrived.sort(packets, len(sources))
        own = arrived.ports[0]
        batch, aside = judge(port, own, head.bounds[0])
        yield Packet(0, port.stream, Kind.INPUT, own.count, own.top, 0)
        for late in aside:
            yield Packet(0, port.stream, Kind.LATE, late.num_rows, None, 0, batch=kept(port, late))
        self._advance(head, arrived)
        bound = head.bounds[0]
        if spec.rows:
            yield from self._in_order(memo, batch, bound, arrived.wall)
        elif batch is not None and batch.num_rows:
            yield Packet(0, 0, Kind.DATA, batch.num_rows, None, arrived.wall, batch=batch)
        yield Packet(0, 0, Kind.DATA, 0, bound, head.walls[0])
        memo.facts["head"] = {"bounds": head.bounds, "walls": head.walls, "ended": head.ended}
        memo.save(store)
        yield Packet(0, 0, Kind.STATE, memo.rows, bound, memo.nbytes)

    def _advance(self, head: Head, arrived: Arrived) -> None:
        sources: list[Port | Watched] = [self.spec.port, *self.spec.watched]
        head.ended |= arrived.ended
        for i, (source, arrivals) in enumerate(zip(sources, arrived.ports, strict=True)):
            head.advance(i, source, arrivals.tops)
            if head.walls[i] == 0 or (i == 0 and (arrivals.count or arrivals.tops)):
                head.walls[i] = arrived.wall
            elif i:  # others say when they last had tuples of their own
                head.walls[i] = max(head.walls[i], arrivals.wall)
        if head.ended:
            head.bounds[0] = NEVER
            return
        silent = [
            s.idle is not None and arrived.wall - since >= s.idle
            for s, since in zip(sources, head.walls, strict=True)
        ]
        active = [b for b, still in zip(head.bounds, silent, strict=True) if not still]
        if silent[0] and active:
            head.bounds[0] = max(head.bounds[0], min(active))

    def _in_order(self, memo: Memo, batch: pa.RecordBatch | None, bound: int, wall: int) -> Iterator[Packet]:
        """Let go what nothing can come before any more, with its place in the stream."""
        waiting = memo.together("waiting", [] if batch is None else [batch])
        if waiting is None:
            return
        ready = ints(waiting, START) < bound
        memo.tables["waiting"] = waiting.filter(pa.array(~ready))
        if not ready.any():
            return
        ordered = order_rows(self.spec.port, waiting.filter(pa.array(ready)))
        times = ints(ordered, START)
        columns = {n: ordered.column(n) for n in ordered.schema.names}
        learnt = []
        for rows in self.spec.rows:
            tail = memo.tables.get(f"tail.{rows}")
            clock = Clock(
                rows, memo.facts.get("next", 0), np.empty(0, np.int64) if tail is None else ints(tail, "t")
            )
            seq, ends, (first, known) = clock.advance(times)
            columns |= {SEQ: pa.array(seq), end_of(rows): pa.array(ends)}
            memo.tables[f"tail.{rows}"] = numbers("t", clock.tail)
            if len(known):
                learnt.append((f"{rows}|{first}", known))
        memo.facts["next"] = memo.facts.get("next", 0) + len(times)
        numbered = pa.record_batch(list(columns.values()), names=list(columns))
        yield Packet(0, 0, Kind.DATA, numbered.num_rows, None, wall, batch=numbered)
        for name, known in learnt:
            yield Packet(0, 0, Kind.RESOLVE, len(known), None, wall, batch=numbers(name, known))
