"""A join of live streams at nodes of their own, in one process: links take time, and work has a price.

The sites' own programs run, on the tuples of one measuring interval after another. A parcel arrives after the
latency of its link and the time that its bytes take. All that is done counts in the interval in which it is
done, by the paper's eqs. 1 and 2: probes and updates of windows, and latency and bytes of each shipment.

A run that adapts measures its streams in each interval, and decides. The new plan begins when the messages
that it takes are there, and is in force two rounds of messages after all its windows are.
"""

from __future__ import annotations

import heapq
import itertools
import zlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from thalweg.adapt.decide import Decider, Decision, Rules
from thalweg.adapt.observed import Observed
from thalweg.catalog.model import Catalog
from thalweg.compile.compiler import Compiled, compile_plan
from thalweg.compile.inputs import StreamInfo, TypedQuery
from thalweg.operators import migration
from thalweg.plan.deployment import Deployment
from thalweg.plan.document import Plan
from thalweg.reproduce import adaptive_messages as messages
from thalweg.reproduce.adaptive import (
    BYTES,
    COLUMNS,
    END_US,
    INTERVAL_US,
    LOW,
    Rows,
    catalog,
    options,
    query,
    round_of,
)
from thalweg.simulate.host import SimulatedHost, Way
from thalweg.wire.parcel import Kind, Parcel

HALF_LIFE_S = 0.2
"""Each measuring interval weighs as much as all before it."""
RULES = Rules(horizon_s=10.0)
"""Savings count for 10 seconds, the 300 of a usual run 30 times as short."""
INTERVALS = END_US // INTERVAL_US + 8
"""The last ones are for what is still on its way when the streams have ended."""

WORK, SHIPPED, RESULTS, COPIES, MESSAGES = "work", "shipments", "results", "copies", "messages"
KINDS = (WORK, SHIPPED, RESULTS, COPIES, MESSAGES)


@dataclass(frozen=True)
class Change:
    """A search for another plan: `round` counts the changes of the rate; `taken` if the plan was changed."""

    round: int
    at_us: int
    taken: bool
    modification: messages.Exchanged
    migration: messages.Exchanged


@dataclass
class Trace:
    """What a run has cost in each interval, in seconds by kind, and what came out."""

    seconds: dict[str, np.ndarray] = field(
        default_factory=lambda: {kind: np.zeros(INTERVALS) for kind in KINDS}
    )
    changes: list[Change] = field(default_factory=list)
    copies: dict[int, list[float]] = field(default_factory=dict)
    results: Counter[tuple[str, ...]] = field(default_factory=Counter)

    def add(self, kind: str, at_us: int, seconds: float) -> None:
        self.seconds[kind][min(at_us // INTERVAL_US, INTERVALS - 1)] += seconds


def run(streams: int, rows: Mapping[str, Rows], plan: Plan, adapt: str = "") -> Trace:
    """Run a plan over some tuples; `adapt` is central or distributed, or the plan stays as it is."""
    return _Run(streams, rows, plan, adapt).run()


@dataclass(frozen=True)
class _Moving:
    """A move: the plan, the statistics that it is for, and how long nodes take to agree on the moment."""

    plan: Plan
    known: Catalog
    agreeing_s: float


class _Run:
    def __init__(self, streams: int, rows: Mapping[str, Rows], plan: Plan, adapt: str) -> None:
        self.rows, self.adapt = rows, adapt
        self.known = catalog(streams, LOW)
        self.asked = query(self.known)
        self.first = self._compiled(plan.queries[0].deployment)
        self.host = SimulatedHost(self.first)
        self.trace = Trace()
        self.events: list[tuple[int, int, str, object]] = []
        self.last: dict[Way, int] = {}  # when the last parcels on a way arrive
        self.seen: Counter[Way] = Counter()
        self.numbers = itertools.count()
        self.observed = Observed(half_life_s=HALF_LIFE_S, remembered=0)
        self.decider = Decider(
            (self.asked,), options(), plan, plan, self.known, RULES, by_nodes=adapt == "distributed"
        )
        self.waits_until = 0
        self.moving: _Moving | None = None
        self.agreed = self.known  # the statistics that the plan in force is for
        self.committing = False
        self.generation = 0

    def run(self) -> Trace:
        for end in range(INTERVAL_US, END_US + INTERVAL_US, INTERVAL_US):
            self._at(end, "interval", end)
        while self.events:
            now, *_ = self.events[0]
            fresh: dict[str, pa.RecordBatch] = {}
            take: Counter[Way] = Counter()
            while self.events and self.events[0][0] == now:
                _, _, what, about = heapq.heappop(self.events)
                if what == "interval":
                    fresh = {name: own.between(now - INTERVAL_US, now) for name, own in self.rows.items()}
                elif what == "parcels":
                    take[about] += 1  # type: ignore[index]
                elif what == "begin":
                    self._begin()
                else:
                    self._commit()
            if fresh and now >= END_US:
                self.host.end()
            self._batch(now, fresh, take)
            if fresh and self.adapt:
                self._decide(now)
        for batch in self.host.results.get(0, []):
            columns = [batch.column(f"{alias}.rest").to_pylist() for alias in self.asked.aliases]
            self.trace.results.update(zip(*columns, strict=True))
        return self.trace

    def _at(self, when_us: int, what: str, about: object = None) -> None:
        heapq.heappush(self.events, (when_us, next(self.numbers), what, about))

    def _batch(self, now: int, fresh: Mapping[str, pa.RecordBatch], take: Mapping[Way, int]) -> None:
        host, report, costs = self.host, self.host.report, self.known.costs
        before, ended = (report.probed, report.updated), len(report.ended)
        host.batch(fresh, take, wall=now)
        work = (report.probed - before[0]) * costs.probe_s + (report.updated - before[1]) * costs.update_s
        self.trace.add(WORK, now, work)
        for way, log in host.sent.items():
            for _, parcels in log[self.seen[way] :]:
                self._send(now, way, parcels)
            self.seen[way] = len(log)
        if host.program.starting:
            if not self.committing and migration.ready(host.program, report.ready):
                self.committing = True
                assert self.moving is not None
                self._at(now + _us(self.moving.agreeing_s), "commit")
        elif len(report.ended) > ended:
            host.advance()

    def _send(self, now: int, way: Way, parcels: list[Parcel]) -> None:
        """Parcels of one batch on a link; they arrive with the last of them, and after all before them."""
        shipments: dict[tuple[int, Kind], list[Parcel]] = {}
        for parcel in parcels:
            if parcel.n:  # others only say how far a stream has come
                shipments.setdefault((parcel.shipment, parcel.kind), []).append(parcel)
        longest = 0.0
        for (_, kind), parts in shipments.items():
            taken = messages.seconds(sum(p.payload for p in parts))
            longest = max(longest, taken)
            if way[0] != way[1]:
                self._count(now, kind, parts, taken)
        takes = _us(max(longest, messages.seconds(0))) if way[0] != way[1] else 0
        self.last[way] = max(now + takes, self.last.get(way, 0))
        self._at(self.last[way], "parcels", way)

    def _count(self, now: int, kind: Kind, parts: list[Parcel], taken: float) -> None:
        if kind == Kind.PAST:
            self.trace.add(COPIES, now, taken)
            self.trace.copies.setdefault(round_of(now), []).append(taken)
            return
        whole = all(p.payload == p.n * BYTES * len(self.rows) for p in parts)  # joined of all streams
        self.trace.add(RESULTS if whole else SHIPPED, now, taken)

    def _decide(self, now: int) -> None:
        report = self.host.report
        sketches, report.sketches = report.sketches, {}
        self.observed.add(sketches, report.newest)
        if self.moving or now < self.waits_until:
            return
        measured = self.observed.catalog(self.known, [self.asked])
        if measured is None:
            return
        then = self.decider.catalog
        known = reported(then, measured)
        decision = self.decider.consider(known)
        if decision is not None and messages.changed(then, known):
            self._take(now, then, known, decision)

    def _take(self, now: int, then: Catalog, known: Catalog, decision: Decision) -> None:
        """Count what finding a plan takes, and begin to move to it if it is worth it."""
        before, after = (p.queries[0].deployment for p in (self.decider.plan, decision.plan))
        if self.adapt == "distributed":
            found = messages.distributed(self.agreed, known, before)
        else:
            found = messages.central(then, known, before, after if decision.taken else None)
        self.trace.add(MESSAGES, now, found.total_s)
        self.waits_until = now + _us(found.elapsed_s)
        moves = messages.migration(before, after) if decision.taken else messages.Exchanged()
        self.trace.changes.append(Change(round_of(now), now, decision.taken, found, moves))
        if decision.taken:
            self.trace.add(MESSAGES, self.waits_until, moves.total_s)
            self.moving = _Moving(decision.plan, known, moves.elapsed_s)
            self._at(self.waits_until, "begin")

    def _begin(self) -> None:
        assert self.moving is not None
        self.generation += 1
        made = self._compiled(
            self.moving.plan.queries[0].deployment,
            shape=self.first.shape,
            begin=self.host.report.progress,
            generation=self.generation,
        )
        self.host.migrate(made, self.generation)

    def _commit(self) -> None:
        assert self.moving is not None
        self.host.advance()
        self.agreed = self.moving.known
        self.decider.plan = self.moving.plan
        self.moving, self.committing = None, False

    def _compiled(self, deployment: Deployment, **more: object) -> Compiled:
        sides = [side for e in self.asked.equalities for side in (e.left, e.right)]
        typed = TypedQuery(self.asked, self.asked.equalities, {s.sql: pa.string() for s in sides})
        return compile_plan(
            [(typed, deployment)],
            {name: StreamInfo(name, COLUMNS, "ts", 0) for name in self.known.streams},
            {name: stream.site for name, stream in self.known.streams.items()},
            buckets=1,
            labels=labels_of,
            keep_late=False,
            keep=bool(self.adapt),
            **more,  # type: ignore[arg-type]
        )


def reported(then: Catalog, measured: Catalog) -> Catalog:
    """What is known of the streams: a node reports its rate when that has moved by more than the threshold.

    How likely two tuples match is known, as in the paper: a few tens of tuples say little about it.
    """
    streams = dict(then.streams)
    for name, stream in then.streams.items():
        old, new = stream.stats.rate, measured.streams[name].stats.rate
        if old and new and abs(new - old) > RULES.moves * old:
            stats = stream.stats.model_copy(update={"rate": new})
            streams[name] = stream.model_copy(update={"stats": stats})
    return then.model_copy(update={"streams": streams})


def _us(seconds: float) -> int:
    return round(seconds * 1e6)


def labels_of(place: str, count: int) -> list[int]:
    """The labels of the buckets of a place: the same in every run."""
    return [zlib.crc32(f"{place}/{bucket}".encode()) & 0x3FFFFFFF for bucket in range(count)]
