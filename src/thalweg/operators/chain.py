"""One call of a key group: its operators hand tuples to each other directly, while the key stays the same.

messages ─> inlets ─> source ─> join ─> join ─> sink ─> results
                         │        └ outlets ─> a later stage of the batch, or another site
                         └ late tuples, counts
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from thalweg.kernel.spill_files import SpillFolder
from thalweg.kernel.window import NEVER
from thalweg.operators.event_time import Arrivals, Arrived, Ends
from thalweg.operators.inlet import Inlet
from thalweg.operators.join import Join
from thalweg.operators.keeper import Keeper
from thalweg.operators.outlet import Outlet
from thalweg.operators.output import Bound, Late, Output, Past, Report, Results, Stored, Work, moments
from thalweg.operators.probe import Probe
from thalweg.operators.program import ENDING, KeyGroup, Placed, Program, bucket_of
from thalweg.operators.sink import Relay, Sink
from thalweg.operators.source import Source
from thalweg.operators.spec import (
    START,
    JoinSpec,
    KeepSpec,
    KeysSpec,
    ProbeSpec,
    SinkSpec,
    SourceSpec,
    Spec,
    stores,
)
from thalweg.operators.state import Arrange, Cache, Ledger, Page, Store
from thalweg.operators.window_keys import WindowKeys
from thalweg.wire.message import Message
from thalweg.wire.parcel import Kind, Parcel


@dataclass(frozen=True)
class Bucket:
    """What a host gives to a call: the bucket's store, caches of windows, and folders for spilled tuples."""

    store: Store
    cache: Callable[[str, JoinSpec], Cache]
    spill: Callable[[str], SpillFolder] | None = None


@dataclass(frozen=True)
class Shipped:
    """A parcel, and the site it goes to."""

    site: str
    parcel: Parcel


def call(
    program: Program, label: int, messages: Iterable[Message], bucket: Bucket
) -> Iterator[Message | Shipped | Late | Results | Report]:
    """Give a bucket of a key group what one micro-batch brings to it; all that comes out must be taken."""
    return _Call(program, program.by_group[label], label, bucket).run(messages)


class _Call:
    def __init__(self, program: Program, group: KeyGroup, label: int, bucket: Bucket) -> None:
        self.program, self.group, self.label, self.bucket = program, group, label, bucket
        self.arrived: dict[str, Arrived] = {}
        self.readers: dict[str, list[tuple[Placed, Inlet]]] = {}
        for placed in group.operators:
            for inlet in placed.inlets:
                self.readers.setdefault(inlet.channel, []).append((placed, inlet))
        self.wall = 0
        self.report = Report()
        self.times: list[pa.Array] = []  # of the results

    def run(self, messages: Iterable[Message]) -> Iterator[Message | Shipped | Late | Results | Report]:
        ledger = Ledger(self.bucket.store, len(self.group.groups))
        ledger.retain({p.name for p in self.group.operators})
        # Messages of one batch come in any order; neither results nor state must depend on it.
        for message in sorted(messages, key=lambda m: (m.channel, m.kind, m.sender, m.bound or 0, m.n)):
            self._deliver(message)
        for placed in self.group.operators:
            arrived = self.arrived.pop(placed.name, None)
            if arrived is None or ledger.has_ended(placed.name):
                continue
            arrived.wall = self.wall
            ended = False
            came, went = sum(port.count for port in arrived.ports), 0
            held, bound = Report(), -NEVER
            for out in self._operate(placed, arrived, ledger.page(placed.name, self._arranging(placed))):
                if isinstance(out, Report):
                    held.add(out)
                elif isinstance(out, Late):
                    self.report.add(Report(late={out.stream: out.n}, reasons={out.stream: {**out.reasons}}))
                    yield out
                elif isinstance(out, Results):
                    went += out.batch.num_rows
                    self.times.append(out.batch.column(START))
                    yield out
                else:
                    tuples = out.batch if isinstance(out, Stored) else out
                    went += tuples.num_rows if isinstance(tuples, pa.RecordBatch) else 0
                    bound = out.time if isinstance(out, Bound) else bound
                    if isinstance(out, Bound) and self._note(placed, out):
                        ended = True
                    for outlet in placed.outlets:
                        yield from self._send(outlet, out)
            if ended:
                ledger.end(placed.name)
            work = Work(came, went, held.state_rows, held.state_bytes, held.disk_bytes, bound)
            held.work = {placed.name: work}
            self.report.add(held)
        ledger.save()
        self.report.moments = moments(self.times)
        yield self.report

    def _note(self, placed: Placed, bound: Bound) -> bool:
        """Report that an operator has its windows, as its bound says, or has ended; whether it has ended."""
        bucket = bucket_of(self.label, placed.name)
        if bound.time > -NEVER and placed.name in self.program.starting:
            self.report.add(Report(ready=[bucket]))
        if bound.time < NEVER or placed.name not in self.program.ending:
            return False
        self.report.add(Report(ended=[bucket]))
        return True

    def _arranging(self, placed: Placed) -> Arrange:
        """How an operator restores what it has got from a keeper of this group, which has stored it."""

        def arranged(channel: str, port: int, batch: pa.RecordBatch) -> pa.RecordBatch:
            (inlet,) = (i for i in placed.inlets if (i.channel, i.port) == (channel, port))
            (outlet,) = (o for p in self.group.operators for o in p.outlets if o.channel == channel)
            formed = outlet.formed(batch)
            assert formed is not None
            return inlet.arranged(formed)

        return arranged

    def _of(self, placed: Placed) -> Arrived:
        if placed.name not in self.arrived:
            self.arrived[placed.name] = Arrived.of(_ports(placed.spec))
        return self.arrived[placed.name]

    def _deliver(self, message: Message) -> None:
        self.wall = max(self.wall, message.wall)
        if message.kind in (Kind.END, Kind.HURRY):
            for placed in self.group.operators:
                meant = message.channel != ENDING or placed.name in self.program.ending
                starts = isinstance(placed.spec, SourceSpec) and placed.name in self.program.starting
                if message.kind == Kind.HURRY and (starts or isinstance(placed.spec, JoinSpec | KeepSpec)):
                    self._of(placed).hurry = True
                elif message.kind == Kind.END and isinstance(placed.spec, SourceSpec) and meant:
                    self._of(placed).ended = True
            return
        table = message.table if message.n else None
        for placed, inlet in self.readers.get(message.channel, ()):
            arrived = self._of(placed)
            port = arrived.ports[inlet.port]
            port.wall = max(port.wall, message.wall)
            if message.bound is not None:
                port.hear(inlet.feed, message.sender, inlet.heard(message.bound))
            if table is None:
                continue
            if message.kind == Kind.ENDS:
                if (ends := inlet.learnt(Ends.from_batch(table))) is not None:
                    arrived.ends.append(ends)
                continue
            port.count += message.n
            if message.kind == Kind.TUPLES:
                _add(port.tuples, inlet.arranged(table))
            elif message.kind == Kind.PAST:
                _copy(placed, inlet, port, table)
            else:
                (port.rest if message.kind == Kind.REST else port.aside).append(table)

    def _operate(self, placed: Placed, arrived: Arrived, page: Page) -> Iterator[Output]:
        spec = placed.spec
        if isinstance(spec, SourceSpec):
            return Source(spec).call(arrived, page, self.group.groups.index(self.label))
        if isinstance(spec, JoinSpec):
            spill = self.bucket.spill
            folder = None if spill is None or spec.limit is None else spill(placed.name)
            return Join(spec).call(
                arrived,
                page,
                self.bucket.cache(placed.name, spec),
                folder,
                bucket_of(self.label, placed.name),
            )
        if isinstance(spec, ProbeSpec):
            return Probe(spec).call(arrived, page, self.bucket.cache(placed.name, spec.join))
        if isinstance(spec, KeysSpec):
            return WindowKeys(spec).call(arrived, page)
        if isinstance(spec, KeepSpec):
            return Keeper(spec).call(arrived, page)
        return (Sink(spec) if isinstance(spec, SinkSpec) else Relay(spec)).call(arrived, page)

    def _send(
        self, outlet: Outlet, out: pa.RecordBatch | Stored | Bound | Ends | Past
    ) -> Iterator[Message | Shipped | Results]:
        entry: int | None = None
        if isinstance(out, Stored):
            out, entry = out.batch, out.entry
        if isinstance(out, Past):
            if out.batch is None:
                if outlet.past != "only":
                    return
                out = Bound(NEVER, self.wall)
            elif outlet.to != "here" and (outlet.fresh != out.copy or not outlet.past):
                return
        elif outlet.past == "only":
            return
        if outlet.to == "site":
            yield from (Shipped(outlet.site, parcel) for parcel in outlet.parcels(out))
        elif outlet.to == "results":
            if isinstance(out, pa.RecordBatch) and (batch := outlet.chosen(out)).num_rows:
                self.times.append(batch.column(START))
                yield Results(outlet.query, batch.select([START, *outlet.fields]))
        elif outlet.to == "count":
            if isinstance(out, pa.RecordBatch):
                payload = round(outlet.chosen(out).num_rows * outlet.width)
                self.report.add(Report(whole={self.group.site: payload}))
        elif outlet.to == "here":
            self._hand(outlet, out, entry)
        else:
            yield from self._stage(outlet, out)

    def _hand(
        self, outlet: Outlet, out: pa.RecordBatch | Bound | Ends | Past, entry: int | None = None
    ) -> None:
        """Give a piece of output to the operators of this group that read it; `entry` has it in the state."""
        tuples = out.batch if isinstance(out, Past) else out
        batch = outlet.formed(tuples) if isinstance(tuples, pa.RecordBatch) else None
        for placed, inlet in self.readers.get(outlet.channel, ()):
            arrived = self._of(placed)
            port = arrived.ports[inlet.port]
            if isinstance(out, Bound):
                port.hear(inlet.feed, 0, inlet.heard(out.time))
                port.wall = max(port.wall, out.wall)
            elif isinstance(out, Ends):
                if (ends := inlet.learnt(out)) is not None:
                    arrived.ends.append(ends)
            elif batch is not None and isinstance(out, Past):
                if inlet.fresh == out.copy:
                    _copy(placed, inlet, port, batch)
            elif batch is not None:
                port.count += batch.num_rows
                arranged = inlet.arranged(batch)
                if entry is not None and arranged.num_rows:
                    port.stored.append((entry, outlet.channel))
                _add(port.tuples, arranged)

    def _stage(self, outlet: Outlet, out: pa.RecordBatch | Bound | Ends | Past) -> Iterator[Message]:
        """Send a piece of output to key groups of a later stage."""
        batch, bound, wall, kind = None, None, self.wall, Kind.TUPLES
        if isinstance(out, Past):
            assert out.batch is not None
            out, kind = out.batch, Kind.PAST
        if isinstance(out, Bound):
            bound, wall = out.time, out.wall
        elif isinstance(out, Ends):
            batch, kind = out.to_batch(), Kind.ENDS
        elif (found := outlet.formed(out)) is None:
            return
        else:
            batch = found.select([START, *outlet.fields]) if outlet.form == "tuples" else found
        for route in self.program.routes_of.get(outlet.channel, ()):
            yield from route.messages(batch, bound, wall, self.label, kind)


def _add(tuples: list[pa.RecordBatch], batch: pa.RecordBatch) -> None:
    if batch.num_rows:
        tuples.append(batch)


def _copy(placed: Placed, inlet: Inlet, port: Arrivals, batch: pa.RecordBatch) -> None:
    """Tuples of a window that was filled before. Probes are not of the past: their results are out."""
    if isinstance(placed.spec, KeepSpec):
        port.past.append(batch)
    elif stores(placed.spec, inlet.port):
        _add(port.tuples, inlet.arranged(batch))


def _ports(spec: Spec) -> int:
    """How many inputs an operator has."""
    if isinstance(spec, SourceSpec):
        return 1 + len(spec.watched)
    return len(spec.ports) if isinstance(spec, JoinSpec | ProbeSpec) else 1
