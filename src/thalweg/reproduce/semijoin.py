"""Shared by the experiments of semijoin (Tran and Lee 2010): its streams, links and one-way joins.

A tuple has so many attributes of five bytes, as 250 attributes are 1,250 bytes in the paper; one of them is
the join attribute. Its values are equally likely, and a selectivity factor of 0.1 is ten of them. The values
of the stream that has fewer are among those of the other.

A one-way join runs in the simulator: the operators of a `thalweg run`, on a simulated clock. The paper adds
up the times of all nodes. So links have their latency here, and messages do not wait for each other; what a
message takes by its bytes is added afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

import pyarrow as pa

from thalweg.catalog.model import Catalog, Costs, Link, Links, Site, Source, Stats, Stream
from thalweg.plan.one_way import METHODS
from thalweg.plan.options import Objective, PlanOptions
from thalweg.planners.search.problem import Problem
from thalweg.planners.search.sequences import Sequences, Step, StepCosts
from thalweg.planners.table import Session
from thalweg.query.model import Equality, Expr, Input, Output, Query, Window, WindowKind
from thalweg.simulate import tuples as simulated
from thalweg.simulate.streams import Streams
from thalweg.workloads.arrivals import steady
from thalweg.workloads.queries import Joins

SIX = tuple(m for m in METHODS if not m.startswith("SB"))
"""The paper's methods; the two with Bloom filters are ours."""
ATTRIBUTE_BYTES = 5
LATENCY_MS, KBPS, INTERVAL_MS = 25.0, 1024.0, 100.0
MEASURED_S = 3
SETTLING_S = 1


@dataclass(frozen=True)
class Side:
    """A stream: tuples a second, bytes of a tuple, distinct values of each join attribute, window.

    `shares`: how often each value occurs; without it, all are equally likely.
    """

    rate: float = 300.0
    bytes: float = 1250.0
    distinct: int = 10
    window_ms: float = 3000.0
    shares: tuple[float, ...] = ()

    @property
    def selectivity(self) -> float:
        return 1 / self.distinct


@dataclass(frozen=True)
class OneWay:
    """The one-way join from S1 at N1 to S2 at N2; the defaults are those of figure 7."""

    first: Side = Side()
    second: Side = Side()
    interval_ms: float = INTERVAL_MS
    latency_ms: float = LATENCY_MS
    kbps: float = KBPS

    @property
    def catalog(self) -> Catalog:
        return catalog((self.first, self.second), ("j",), self.link, self.interval_ms)

    @property
    def link(self) -> Link:
        return Link(latency_ms=self.latency_ms, mbps=self.kbps / 1000)

    @property
    def query(self) -> Query:
        return query([("s0", "j", "s1", "j")], (self.first, self.second))


@dataclass(frozen=True)
class Ran:
    """What a one-way join does in a second: messages, bytes, keys among these, seconds of work, results."""

    messages: float
    bytes: float
    keys: float
    work_s: float
    results: float

    def transmission_s(self, one: OneWay) -> float:
        """The time of all messages: a latency each, and their bytes."""
        return self.messages * one.latency_ms / 1e3 + 8 * self.bytes / (one.kbps * 1e3)


def catalog(
    sides: Sequence[Side], columns: Sequence[str], link: Link, interval_ms: float, times: float = 1.0
) -> Catalog:
    """Streams s0, s1 and so on at nodes of their own; each has all the join attributes.

    `times`: how many times as much work costs as usual.
    """
    usual = Costs()
    made = {}
    for i, side in enumerate(sides):
        rest = side.bytes - ATTRIBUTE_BYTES * len(columns)
        by_value = {v: side.rate * share for v, share in enumerate(side.shares)}
        made[f"s{i}"] = Stream(
            name=f"s{i}",
            site=f"n{i}",
            time="ts",
            columns={"ts": "timestamp", **dict.fromkeys(columns, "long"), "rest": "long"},
            lateness=0,
            source=Source(format="parquet"),
            stats=Stats(
                rate=side.rate,
                bytes=side.bytes,
                # What the plan counts for the other attributes; in the simulator they are a number.
                widths={**dict.fromkeys(columns, ATTRIBUTE_BYTES), "rest": rest},
                distinct={} if side.shares else dict.fromkeys(columns, side.distinct),
                rates=dict.fromkeys(columns, by_value) if by_value else {},
            ),
        )
    return Catalog(
        path="semijoin",
        sites={f"n{i}": Site() for i in range(len(sides))},
        streams=made,
        links=Links(default=link),
        costs=Costs(
            probe_s=times * usual.probe_s,
            update_s=times * usual.update_s,
            insert_s=times * usual.insert_s,
            hash_s=times * usual.hash_s,
            interval_s=interval_ms / 1e3,
        ),
    )


def query(joins: Joins, sides: Sequence[Side]) -> Query:
    """The join of all streams, with all their attributes."""
    columns = sorted({column for _, a, _, b in joins for column in (a, b)})
    inputs = tuple(
        Input(f"s{i}", f"s{i}", Window(WindowKind.RANGE, round(side.window_ms * 1e3)))
        for i, side in enumerate(sides)
    )
    wanted = [(f"s{i}", c) for i in range(len(sides)) for c in (*columns, "rest")]
    return Query(
        "q",
        "",
        inputs,
        tuple(Equality(Expr.column(a, x), Expr.column(b, y)) for a, x, b, y in joins),
        (),
        tuple(Output(f"{a}_{c}", Expr.column(a, c)) for a, c in wanted),
    )


def problem(known: Catalog, asked: Query, **settings: str) -> Problem:
    """The planning problem; its cost is the paper's time."""
    return Session(known, PlanOptions("-", Objective.TIME, None, settings)).problem(asked)


def estimated(one: OneWay, formulas: str) -> Mapping[str, float]:
    """The seconds a second of the one-way join by each method, as the cost formulas have them."""
    costs = StepCosts(problem(one.catalog, one.query, formulas=formulas))
    steps = costs.steps(0, [1], [1])
    place = int(costs.place[0])
    return {m: float(steps.cost[METHODS.index(m), 0, place]) for m in METHODS if m in steps.methods}


@cache
def _ran(one: OneWay, method: str, seed: int) -> Ran:
    known = one.catalog.model_copy(update={"links": Links(default=Link(latency_ms=one.latency_ms))})
    asked = one.query
    builder = Sequences(StepCosts(problem(known, asked)))
    builder.sink([builder.sequence(0, (Step(1, method),))])
    made = simulated.compiled([asked], known, [builder.deployment()])
    # A window is full after its time; the results of the slots before it have then left too.
    begin = round(one.second.window_ms / 1e3 + 0.5) + SETTLING_S
    end = begin + MEASURED_S
    feeds = Streams([asked], known, made.selections, end + SETTLING_S, seed, arrivals=steady)
    trace = simulated.run(made, known, feeds, keep=_count).trace
    sent = [m for m in trace.messages if begin * 1_000_000 <= m.at_us < end * 1_000_000]
    work = sum(s for (second, site), s in trace.work.items() if site and begin <= second < end)
    return Ran(
        len(sent) / MEASURED_S,
        sum(m.payload for m in sent) / MEASURED_S,
        sum(m.tuples for m in sent if m.payload == m.tuples * ATTRIBUTE_BYTES) / MEASURED_S,
        work / MEASURED_S,
        trace.results[0] / feeds.seconds,
    )


def ran(one: OneWay, method: str, seed: int) -> Ran:
    """Runs it; its bandwidth does not matter to what is sent."""
    return _ran(replace(one, kbps=KBPS), method, seed)


def _count(_: int, results: pa.RecordBatch) -> int:
    return int(results.num_rows)
