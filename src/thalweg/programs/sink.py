"""Where results end, and where what is shipped passes through on its way to another site."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from thalweg.kernel.window import NEVER
from thalweg.programs.arrivals import Arrived
from thalweg.programs.batches import ints
from thalweg.programs.memo import Memo
from thalweg.programs.packet import Kind, Packet
from thalweg.programs.spec import START, RelaySpec, SinkSpec
from thalweg.programs.state import Head, Store


class SinkProgram:
    """Hands out results: at once, or when their slide is over."""

    def __init__(self, spec: SinkSpec) -> None:
        self.spec = spec

    def call(self, packets: Iterable[Packet], store: Store) -> Iterator[Packet]:
        spec, arrived = self.spec, Arrived.sort(packets, 1)
        found = arrived.ports[0].data
        if spec.slide is None:
            for batch in found:
                yield Packet(0, spec.query, Kind.RESULT, batch.num_rows, None, arrived.wall, batch=batch)
            return
        memo = Memo.load(store)
        head = Head(bounds=[memo.facts.get("bound", -NEVER)], feeds=memo.facts.get("feeds", {}))
        head.advance(0, spec.port, arrived.ports[0].tops)
        bound = head.bounds[0]
        waiting = memo.together("waiting", found)
        if waiting is not None:
            cut = NEVER if bound >= NEVER else bound // spec.slide * spec.slide
            ready = ints(waiting, START) < cut
            memo.tables["waiting"] = waiting.filter(pa.array(~ready))
            if ready.any():
                done = waiting.filter(pa.array(ready))
                yield Packet(0, spec.query, Kind.RESULT, done.num_rows, None, arrived.wall, batch=done)
        memo.facts |= {"bound": bound, "feeds": head.feeds}
        memo.save(store)
        yield Packet(0, 0, Kind.STATE, memo.rows, bound, memo.nbytes)


class RelayProgram:
    """Sends on what it gets."""

    def __init__(self, spec: RelaySpec) -> None:
        self.spec = spec

    def call(self, packets: Iterable[Packet], store: Store) -> Iterator[Packet]:
        for p in packets:
            yield Packet(0, 0, p.kind, p.n, p.top, p.wall, p.data, p.batch)
