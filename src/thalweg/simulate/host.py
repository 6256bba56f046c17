"""Hosts sites in this process, a batch at a time: for tests, and to see what a plan ships.

Parcels wait on their way until they are taken, in order on each way, as late as the caller likes. A batch can
be made to crash after some of its parcels have been published; it is then repeated from the state before it,
and published parcels stay.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from thalweg.compile.compiler import Compiled
from thalweg.compile.host import Host
from thalweg.kernel.spill_files import SpillFolder
from thalweg.operators import migration
from thalweg.operators.cache import OwnCache
from thalweg.operators.chain import Bucket, Shipped, call
from thalweg.operators.output import Late, Report, Results
from thalweg.operators.pack import WALL
from thalweg.operators.program import Program, Unchanged
from thalweg.operators.state import Cache, MemoryStore
from thalweg.wire.message import Message
from thalweg.wire.parcel import Kind, Parcel

Way = tuple[str, str]
Evaluate = Callable[[pa.RecordBatch, tuple[tuple[str, str], ...]], pa.RecordBatch]
"""Evaluates a stream's expressions on its rows: (SQL, column name) pairs."""

Place = tuple[int, int]
"""A stage and a label: where a bucket has its state."""


def numbered() -> Callable[[str, int], list[int]]:
    """Labels for the buckets of places: numbers, in the order in which places are named."""
    known: dict[tuple[str, int], int] = {}

    def labels(place: str, count: int) -> list[int]:
        return [known.setdefault((place, bucket), len(known)) for bucket in range(count)]

    return labels


def columns_only(batch: pa.RecordBatch, select: tuple[tuple[str, str], ...]) -> pa.RecordBatch:
    """The simplest way: only whole columns can be selected."""
    return pa.record_batch([batch.column(sql.strip("`")) for sql, _ in select], names=[n for _, n in select])


@dataclass
class Traffic:
    """What has gone over one way."""

    tuples: int = 0
    payload: int = 0
    bytes: int = 0


@dataclass
class SimulatedHost(Host):
    """Runs a program in this process. Output is collected in `results`, `late`, `report` and `traffic`.

    `forget` drops the windows at hand, as a crash does; state is then rebuilt from the stores. Tuples that
    memory has no room for go to `folder`. What a crashed batch counted is counted twice.
    """

    compiled: Compiled
    evaluate: Evaluate = columns_only
    folder: Path | None = None
    new_cache: Callable[[str], Cache] = lambda name: OwnCache()
    sent: dict[Way, list[tuple[int, list[Parcel]]]] = field(default_factory=dict)
    taken: dict[Way, int] = field(default_factory=dict)
    stores: dict[Place, MemoryStore] = field(default_factory=dict)
    caches: dict[tuple[Place, str], Cache] = field(default_factory=dict)
    results: dict[int, list[pa.RecordBatch]] = field(default_factory=dict)
    late: dict[str, list[pa.RecordBatch]] = field(default_factory=dict)
    report: Report = field(default_factory=Report)
    traffic: dict[Way, Traffic] = field(default_factory=dict)
    programs: dict[int, Program] = field(default_factory=dict)
    number: int = 0
    _unchanged: Unchanged = field(default_factory=Unchanged)
    _told: list[tuple[Kind, bool]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.program = self.compiled.program

    @property
    def waiting(self) -> dict[Way, int]:
        """How many batches of parcels are on each way."""
        left = {way: len(log) - self.taken.get(way, 0) for way, log in self.sent.items()}
        return {way: n for way, n in left.items() if n}

    def batch(
        self,
        rows: Mapping[str, pa.RecordBatch],
        take: Mapping[Way, int] | None = None,
        *,
        wall: int = 0,
        crash_after: int | None = None,
    ) -> dict[Way, list[Parcel]]:
        """One micro-batch: new rows of streams, and the next so many batches of parcels from each way.

        Returns what it sends.
        """
        take = take or {}
        self.programs[self.number] = self.program
        messages = self._arriving(rows, take, wall)
        for kind, ending in self._told:
            messages += self.program.told(kind, wall, ending)
        self._told = []
        if crash_after is not None:
            before = {place: MemoryStore(store) for place, store in self.stores.items()}
            sent, _ = self._run(messages)
            for way in list(sent)[:crash_after]:
                self._publish(way, sent[way])
            self._unchanged = Unchanged()
            self.stores = before
            self.caches.clear()
        sent, found = self._run(messages)
        worth = {way: self._unchanged.left_out(self.program, parcels) for way, parcels in sent.items()}
        sent = {way: parcels for way, parcels in worth.items() if parcels}
        for way, parcels in sent.items():
            self._publish(way, parcels)
        for out in found:
            if isinstance(out, Results):
                self.results.setdefault(out.query, []).append(out.batch)
            elif isinstance(out, Late) and out.batch is not None:
                self.late.setdefault(out.stream, []).append(out.batch)
            elif isinstance(out, Report):
                self.report.add(out)
        for way, count in take.items():
            self.taken[way] = self.taken.get(way, 0) + count
        self.number += 1
        return sent

    def switch(self, batch: int, compiled: Compiled, ended: Collection[str] = ()) -> None:
        assert batch == self.number - 1
        self._told.append((Kind.END, True))
        self._set(compiled.program.after(self.program, ended))

    def migrate(self, compiled: Compiled, change: int) -> None:
        """Begin to move to another plan of the same queries, compiled with the number of the change."""
        self._unchanged = Unchanged()
        self._set(migration.begin(self.program, compiled.program, change, self._after_all))
        self._told.append((Kind.HURRY, False))

    def advance(self) -> None:
        """Take the next step of a move, if it can be taken."""
        self._set(migration.step(self.program, self.report.ready, self.report.ended, self._after_all)[0])

    @property
    def _after_all(self) -> int:
        """A time after all that has been read."""
        return 1 + max(self.report.newest.values(), default=-1)

    def undo(self) -> None:
        """Give up a move that has begun."""
        self._set(migration.undo(self.program))

    def _set(self, program: Program) -> None:
        self.program = Program.from_json(program.to_json())  # as it travels: as data

    def end(self) -> None:
        self._told.append((Kind.END, False))

    def hurry(self) -> None:
        self._told.append((Kind.HURRY, False))

    def drain(self) -> None:
        """Take everything that is on its way, until nothing is."""
        while self.waiting:
            self.batch({}, self.waiting)

    def forget_taken(self, take: Mapping[Way, int]) -> None:
        """Let go of parcels that the last batch took; they can't be repeated any more."""
        for way, count in take.items():
            log, upto = self.sent[way], self.taken[way]
            log[upto - count : upto] = [(number, []) for number, _ in log[upto - count : upto]]

    def forget(self) -> None:
        self.caches.clear()

    def _arriving(
        self, rows: Mapping[str, pa.RecordBatch], take: Mapping[Way, int], wall: int
    ) -> list[Message]:
        messages: list[Message] = []
        for selection in self.compiled.selections:
            batch = rows.get(selection.stream)
            if batch is not None and batch.num_rows:
                selected = self.evaluate(batch, selection.columns)
                clock = pa.array([wall] * batch.num_rows, pa.int64())
                packing = self.program.packing(selection.stream)
                messages += packing.messages(selected.append_column(WALL, clock))
        for way, count in take.items():
            at = self.taken.get(way, 0)
            for number, sent in self.sent[way][at : at + count]:
                sender = self.programs[number]
                messages += [m for parcel in sent for m in self.program.arriving(parcel, sender)]
        return messages

    def _run(self, messages: list[Message]) -> tuple[dict[Way, list[Parcel]], list[Late | Results | Report]]:
        drafts: dict[Way, list[Parcel]] = {}
        found: list[Late | Results | Report] = []
        waiting: dict[int, list[Message]] = {}
        for message in messages:
            waiting.setdefault(message.group, []).append(message)
        for group in sorted(self.program.groups, key=lambda g: g.stage):
            for label in group.groups:
                if not (mine := waiting.pop(label, [])):
                    continue
                for out in call(self.program, label, mine, self._bucket((group.stage, label))):
                    if isinstance(out, Message):
                        waiting.setdefault(out.group, []).append(out)
                    elif isinstance(out, Shipped):
                        drafts.setdefault((group.site, out.site), []).append(out.parcel)
                    else:
                        found.append(out)
        assert not waiting, f"there are no groups {sorted(waiting)}"
        return {way: self.program.settled(parcels) for way, parcels in drafts.items()}, found

    def _bucket(self, place: Place) -> Bucket:
        def cache(name: str, *_: object) -> Cache:
            if (place, name) not in self.caches:
                self.caches[place, name] = self.new_cache(f"{place[1]}-{name}")
            return self.caches[place, name]

        folder = self.folder
        spill = None if folder is None else (lambda name: SpillFolder(folder / f"{place[1]}-{name}"))
        return Bucket(self.stores.setdefault(place, MemoryStore()), cache, spill)

    def _publish(self, way: Way, sent: list[Parcel]) -> None:
        log = self.sent.setdefault(way, [])
        if log and log[-1][0] == self.number:
            return  # a batch that is repeated has published it before
        log.append((self.number, sent))
        count = self.traffic.setdefault(way, Traffic())
        count.tuples += sum(p.n for p in sent if p.kind == Kind.TUPLES)
        count.payload += sum(p.payload for p in sent)
        count.bytes += sum(len(p.data) for p in sent)
