"""Runs the sites of a plan on a simulated clock: tuples come at their times, links and sites are slow.

    every tau seconds      the streams' new tuples reach their sites
    a site that is free    takes all that has reached it as one micro-batch; its work takes time
    what it sends          leaves when the work is done, waits for its links, and reaches the other site

The operators are those of a run on Spark; their work is counted as the papers count it (appendix B of
semijoin): so many tuples put into windows, so many met by probes in nested loops.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import pyarrow as pa

from thalweg.catalog.model import Catalog
from thalweg.compile.compiler import Compiled
from thalweg.operators.spec import START
from thalweg.simulate.clock import Clock
from thalweg.simulate.host import SimulatedHost, Way
from thalweg.simulate.links import Transport
from thalweg.wire.parcel import Kind, Parcel


class Feeds(Protocol):
    """The tuples of all streams, selected as the operators want them, by their times of arrival."""

    end_us: int

    def between(self, low_us: int, high_us: int) -> Mapping[str, pa.RecordBatch]:
        """The tuples of each stream that arrive from one moment to another, the second one not included."""


@dataclass(frozen=True)
class Message:
    """What one shipment sends at once: the tuples or keys of one batch."""

    at_us: int
    way: Way
    tuples: int
    payload: int


@dataclass
class Trace:
    """What a run has done: seconds of `work` by second and site, microseconds of `delays` of results."""

    messages: list[Message] = field(default_factory=list)
    work: dict[tuple[int, str], float] = field(default_factory=lambda: defaultdict(float))
    results: Counter[int] = field(default_factory=Counter)
    delays: list[np.ndarray] = field(default_factory=list)
    hops: int = 0
    ended_us: int = 0


Keep = Callable[[int, pa.RecordBatch], int]
"""Takes results of a query by its number; tells how many of them the query's conditions let pass."""


class Timed:
    """One run."""

    def __init__(
        self, compiled: Compiled, catalog: Catalog, at: Mapping[str, str], feeds: Feeds, keep: Keep
    ) -> None:
        self.catalog, self.at, self.feeds, self.keep = catalog, at, feeds, keep
        self.host = SimulatedHost(compiled, evaluate=lambda batch, _: batch)
        self.clock, self.transport, self.trace = Clock(), Transport(catalog), Trace()
        self.tau = max(1, round(catalog.costs.interval_s * 1e6))
        self._rows: dict[str, dict[str, list[pa.RecordBatch]]] = defaultdict(lambda: defaultdict(list))
        self._parcels: dict[str, Counter[Way]] = defaultdict(Counter)
        self._free: dict[str, int] = {}
        self._serving: set[str] = set()
        self._upto, self._ended = 0, False

    def run(self) -> Trace:
        self.clock.at(min(self.tau, self.feeds.end_us), self._tick)
        self.clock.run()
        self.trace.ended_us = self.clock.now
        return self.trace

    def _tick(self) -> None:
        """The tuples of the last interval reach their sites."""
        now, end = self.clock.now, self.feeds.end_us
        low, self._upto = self._upto, now
        for stream, batch in self.feeds.between(low, now).items():
            if batch.num_rows:
                self._rows[self.at[stream]][stream].append(batch)
                self._serve_soon(self.at[stream])
        if now < end:
            self.clock.at(min(now + self.tau, end), self._tick)
        else:  # after the sites that are served at this moment
            self.clock.at(now, self._end)

    def _arrive(self, way: Way) -> None:
        self._parcels[way[1]][way] += 1
        self._serve_soon(way[1])

    def _serve_soon(self, site: str) -> None:
        """Serve a site when all that reaches it at this moment has, and its work before is done."""
        if site not in self._serving:
            self._serving.add(site)
            self.clock.at(max(self.clock.now, self._free.get(site, 0)), lambda: self._serve(site))

    def _serve(self, site: str) -> None:
        self._serving.discard(site)
        rows, take = self._rows.pop(site, {}), self._parcels.pop(site, Counter())
        if rows or take:
            self._batch({name: _one(parts) for name, parts in rows.items()}, take, site)

    def _end(self) -> None:
        """All streams end: one batch for all sites, which says so to each."""
        self._ended = True
        self.host.end()
        rows = {name: _one(parts) for own in self._rows.values() for name, parts in own.items()}
        take: Counter[Way] = Counter()
        for parcels in self._parcels.values():
            take.update(parcels)
        self._rows.clear()
        self._parcels.clear()
        self._batch(rows, take)

    def _batch(self, rows: Mapping[str, pa.RecordBatch], take: Mapping[Way, int], site: str = "") -> None:
        now, report, costs = self.clock.now, self.host.report, self.catalog.costs
        before = report.probed, report.updated
        sent = self.host.batch(rows, take, wall=now)
        work = (report.probed - before[0]) * costs.probe_s + (report.updated - before[1]) * costs.update_s
        self.trace.work[now // 1_000_000, site] += work
        done = now
        if site:
            done += round(1e6 * work / self.catalog.sites[site].speed)
            self._free[site] = done
        self.host.forget_taken(take)
        self._take_results(done)
        for way, parcels in sent.items():
            self._send(done, way, parcels)

    def _send(self, now: int, way: Way, parcels: list[Parcel]) -> None:
        if way[0] == way[1]:  # a later stage at the same site
            self.clock.at(now, lambda: self._arrive(way))
            return
        sums: dict[tuple[int, Kind], list[int]] = {}
        for parcel in parcels:
            if parcel.n:  # others only say how far a stream has come
                tuples, payload = sums.setdefault((parcel.shipment, parcel.kind), [0, 0])
                sums[parcel.shipment, parcel.kind] = [tuples + parcel.n, payload + parcel.payload]
        for tuples, payload in sums.values():
            self.trace.messages.append(Message(now, way, tuples, payload))
            self.trace.hops += tuples * len(self.transport.hops(*way))
        arrives = self.transport.send(now, *way, sum(payload for _, payload in sums.values()))
        self.clock.at(arrives, lambda: self._arrive(way))

    def _take_results(self, now: int) -> None:
        for number, batches in self.host.results.items():
            for batch in batches:
                self.trace.results[number] += self.keep(number, batch)
                if not self._ended:  # what the end lets go has not waited as long as it would have
                    self.trace.delays.append(now - np.asarray(batch.column(START)))
        self.host.results.clear()


def _one(parts: list[pa.RecordBatch]) -> pa.RecordBatch:
    return parts[0] if len(parts) == 1 else pa.concat_batches(parts)
