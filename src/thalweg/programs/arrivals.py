"""What one call of an operator is given: packets sorted by port, and tuples judged late or not."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from thalweg.programs.batches import ints, restored
from thalweg.programs.packet import Kind, Packet, merge
from thalweg.programs.spec import START, Port

Ends = tuple[str, int, np.ndarray]
"""Last moments learnt of a window of rows: its name, the place of the first tuple, one moment each."""


@dataclass
class Arrivals:
    """The packets of one port: tuples that take part, that do not, and that have no usable time."""

    data: list[pa.RecordBatch] = field(default_factory=list)
    rest: list[pa.RecordBatch] = field(default_factory=list)
    aside: list[pa.RecordBatch] = field(default_factory=list)
    tops: dict[int, int] = field(default_factory=dict)  # by feed
    count: int = 0
    wall: int = 0

    @property
    def top(self) -> int | None:
        return max(self.tops.values(), default=None)


@dataclass
class Arrived:
    """The packets of one call."""

    ports: list[Arrivals]
    group: int = 0
    resolve: list[Ends] = field(default_factory=list)
    wall: int = 0
    ended: bool = False
    idle: bool = False

    @classmethod
    def sort(cls, packets: Iterable[Packet], ports: int) -> Arrived:
        """Packets of one batch come in any order; neither results nor state must depend on it."""
        out = cls([Arrivals() for _ in range(ports)])
        for p in sorted(packets, key=lambda p: (p.port, p.kind, p.top or 0, p.n)):
            out.wall, out.group = max(out.wall, p.wall), p.group
            if p.kind == Kind.END:
                out.ended = True
            elif p.kind == Kind.IDLE:
                out.idle = True
            elif p.kind == Kind.RESOLVE:
                name, seq = p.table.schema.names[0].rsplit("|", 1)
                out.resolve.append((name, int(seq), np.asarray(p.table.column(0))))
            else:
                out._add(p)
        return out

    def _add(self, p: Packet) -> None:
        port = self.ports[p.port]
        port.count += p.n
        port.wall = max(port.wall, p.wall)
        if p.top is not None:
            port.tops[p.feed] = max(p.top, port.tops.get(p.feed, p.top))
        if p.n and (p.data is not None or p.batch is not None):
            target = {Kind.DATA: port.data, Kind.REST: port.rest, Kind.ASIDE: port.aside}[Kind(p.kind)]
            target.append(p.table)


def judge(port: Port, arrivals: Arrivals, bound: int) -> tuple[pa.RecordBatch | None, list[pa.RecordBatch]]:
    """Part what takes part in the join from what is to be kept aside."""
    aside = list(arrivals.aside)
    batch = merge(arrivals.data) if arrivals.data else None
    if port.stream is None:
        return batch, aside
    for n, part in enumerate([batch, *arrivals.rest]):
        if part is None:
            continue
        late = ints(part, START) < bound
        if late.any():
            aside.append(part.filter(pa.array(late)))
            if n == 0:
                batch = part.filter(pa.array(~late))
    return batch, aside


def kept(port: Port, late: pa.RecordBatch) -> pa.RecordBatch | None:
    """Late tuples as they are kept, with the stream's own columns; None where they are only counted."""
    if not port.late:
        return None
    arrays = []
    for name in port.late:
        if name in late.schema.names:
            arrays.append(late.column(name))
        else:
            f = port.field(name)
            arrays.append(restored(ints(late, f.held), f.kind))
    return pa.record_batch(arrays, names=[name.removeprefix(f"{port.name}.") for name in port.late])
