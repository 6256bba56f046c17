"""Hosts sites in this process, a batch at a time: for tests, and to see what a plan ships.

Parcels wait on their way until they are taken, in order on each way, as late as whoever drives it likes. A
batch can be made to crash after some of its parcels have been published; it is then repeated from the state
before it, and what was published stays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from thalweg.programs.cache import OwnCache
from thalweg.programs.local import MemoryStore
from thalweg.programs.outlet import parcels, results, settled
from thalweg.programs.packet import Kind, Packet
from thalweg.programs.parcel import Parcel
from thalweg.programs.sites import Sites, run
from thalweg.programs.source import pack_source
from thalweg.programs.state import Cache

Way = tuple[str, str]
Evaluate = Callable[[pa.RecordBatch, tuple[tuple[str, str], ...]], pa.RecordBatch]
"""Evaluates a stream's expressions on its rows: (SQL, column name) pairs."""


def columns_only(batch: pa.RecordBatch, select: tuple[tuple[str, str], ...]) -> pa.RecordBatch:
    """The simplest way: only whole columns can be selected."""
    return pa.record_batch([batch.column(sql.strip("`")) for sql, _ in select], names=[n for _, n in select])


@dataclass
class Shipped:
    """What has gone over one way."""

    tuples: int = 0
    payload: int = 0
    bytes: int = 0


@dataclass
class LocalSites:
    """Runs what `Sites` says. What comes out is collected in `results`, `late` and `shipped`.

    `whole` is the payload of all tuples that arise at each site (twice, if a batch crashes).
    """

    sites: Sites
    evaluate: Evaluate = columns_only
    ways: dict[Way, list[tuple[int, list[Parcel]]]] = field(default_factory=dict)
    taken: dict[Way, int] = field(default_factory=dict)
    stores: dict[int, MemoryStore] = field(default_factory=dict)
    caches: dict[int, Cache] = field(default_factory=dict)
    results: dict[int, list[pa.RecordBatch]] = field(default_factory=dict)
    late: dict[int, int] = field(default_factory=dict)
    shipped: dict[Way, Shipped] = field(default_factory=dict)
    whole: dict[str, int] = field(default_factory=dict)
    number: int = 0

    @property
    def waiting(self) -> dict[Way, int]:
        """How many batches of parcels are on each way."""
        return {
            w: len(log) - self.taken.get(w, 0)
            for w, log in self.ways.items()
            if len(log) > self.taken.get(w, 0)
        }

    def batch(
        self,
        rows: Mapping[str, pa.RecordBatch],
        take: Mapping[Way, int],
        *,
        end: bool = False,
        wall: int = 0,
        crash_after: int | None = None,
    ) -> None:
        """One micro-batch: new rows of streams, and the next so many batches of parcels from each way."""
        packets = self._arriving(rows, take, wall)
        if end:
            packets += [Packet(g, 0, Kind.END, 0, None, wall) for g in self.sites.source_groups]
        if crash_after is not None:
            before = {group: MemoryStore(store) for group, store in self.stores.items()}
            sent, _ = self._run(packets)
            for way in list(sent)[:crash_after]:
                self._publish(way, sent[way])
            self.stores, self.caches = before, {}
        sent, found = self._run(packets)
        for way, parcels_ in sent.items():
            self._publish(way, parcels_)
        for packet in found:
            if packet.kind == Kind.RESULT:
                self.results.setdefault(packet.port, []).append(packet.table)
            elif packet.kind == Kind.LATE:
                self.late[packet.port] = self.late.get(packet.port, 0) + packet.n
        for way, count in take.items():
            self.taken[way] = self.taken.get(way, 0) + count
        self.number += 1

    def drain(self) -> None:
        """Take everything that is on its way, until nothing is."""
        while self.waiting:
            self.batch({}, self.waiting)

    def _arriving(
        self, rows: Mapping[str, pa.RecordBatch], take: Mapping[Way, int], wall: int
    ) -> list[Packet]:
        packets: list[Packet] = []
        for stream in self.sites.streams:
            batch = rows.get(stream.stream)
            if batch is not None and batch.num_rows:
                packets += pack_source(stream.pack, self.evaluate(batch, stream.select), wall)
        for way, count in take.items():
            at = self.taken.get(way, 0)
            for _, sent in self.ways[way][at : at + count]:
                packets += [p for parcel in sent for p in self.sites.arriving(parcel)]
        return packets

    def _run(self, packets: list[Packet]) -> tuple[dict[Way, list[Parcel]], list[Packet]]:
        sent: dict[Way, list[Parcel]] = {}
        found: list[Packet] = []
        for operator in self.sites.operators:
            for group in operator.groups:
                mine = [p for p in packets if p.group == group]
                if not mine:
                    continue
                store = self.stores.setdefault(group, MemoryStore())
                cache = self.caches.setdefault(group, OwnCache())
                out = list(run(operator, mine, store, cache))
                going = [p for p in out if p.kind in (Kind.DATA, Kind.RESOLVE)]
                for site, parcel in parcels(operator.outlets, going):
                    if site == "":
                        self.whole[operator.site] = self.whole.get(operator.site, 0) + parcel.payload
                        continue
                    sent.setdefault((operator.site, site), []).append(parcel)
                found += [p for p in out if p.kind not in (Kind.DATA, Kind.RESOLVE)]
                found += [r for p in going for r in results(operator.outlets, p)]
        outlets = self.sites.outlets
        return {way: settled(parcels_, outlets) for way, parcels_ in sent.items()}, found

    def _publish(self, way: Way, sent: list[Parcel]) -> None:
        log = self.ways.setdefault(way, [])
        if log and log[-1][0] == self.number:
            return  # a batch that is repeated has published it before
        log.append((self.number, sent))
        count = self.shipped.setdefault(way, Shipped())
        count.tuples += sum(p.n for p in sent if p.kind == Kind.DATA)
        count.payload += sum(p.payload for p in sent)
        count.bytes += sum(len(p.data) for p in sent)
