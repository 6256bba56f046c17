"""Shared by the experiments of adaptive (Tran and Lee): its query, its streams, the rate that changes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from thalweg.catalog.model import Catalog, Costs, Link, Links, Site, Source, Stats, Stream
from thalweg.plan.document import Plan
from thalweg.plan.options import Objective, PlanOptions
from thalweg.planners.search.problem import Problem
from thalweg.planners.table import Session, make_plan
from thalweg.query import parse
from thalweg.query.model import Query

LOW, HIGH, USUAL = 50.0, 200.0, 100.0
"""Tuples a second: the changing stream's, and those of all others."""
BYTES, KEY_BYTES, DISTINCT, WINDOW_MS = 150, 5, 100, 500
"""A selectivity factor of 0.01 is a hundred values."""
LATENCY_MS, MBPS = 5.0, 1.024
INTERVAL_US = 200_000
"""The measuring interval; a node ships what has arrived in one as one message."""
CHANGES_US = (1_500_000, 3_500_000, 5_500_000, 7_500_000)
END_US = 9_500_000
CHANGING, CENTRE = 2, "n1"
"""The number of the stream whose rate changes, and the node that asks, and that plans for all."""
SEEDS = 10
"""Runs that are averaged."""
TIME = pa.timestamp("us", "UTC")
COLUMNS = {"ts": TIME, "j": pa.string(), "rest": pa.string()}


def catalog(streams: int, rate: float, changing: int = CHANGING) -> Catalog:
    """Streams at a node each; one has a rate of its own."""
    found = {}
    for i in range(1, streams + 1):
        stats = Stats(
            rate=rate if i == changing else USUAL,
            bytes=BYTES,
            widths={"j": KEY_BYTES, "rest": BYTES - KEY_BYTES},
            distinct={"j": DISTINCT},
        )
        columns = {"ts": "timestamp", "j": "string", "rest": "string"}
        source = Source(format="parquet")
        found[f"s{i}"] = Stream(
            name=f"s{i}", site=f"n{i}", time="ts", columns=columns, source=source, stats=stats
        )
    return Catalog(
        path="adaptive",
        sites={s.site: Site() for s in found.values()},
        streams=found,
        links=Links(default=Link(latency_ms=LATENCY_MS, mbps=MBPS)),
        costs=Costs(interval_s=INTERVAL_US / 1e6),
    )


def query(known: Catalog, window_ms: int = WINDOW_MS) -> Query:
    """The join of all streams on one attribute, with all of their columns."""
    names = list(known.streams)
    columns = ", ".join(f"{name}.{c} AS {name}_{c}" for name in names for c in ("j", "rest"))
    froms = ", ".join(f"{name} [RANGE {window_ms} MILLISECONDS]" for name in names)
    equal = " AND ".join(f"{names[0]}.j = {name}.j" for name in names[1:])
    return parse(f"SELECT {columns} FROM {froms} WHERE {equal}", name="join", schemas=known.schemas)


def options(planner: str = "linear-greedy") -> PlanOptions:
    """The cost is the paper's time of processing what arrives in a second."""
    return PlanOptions(planner, Objective.TIME, CENTRE)


def problem(streams: int, changing: int, rate: float) -> Problem:
    """A join of streams on one attribute, each at a node of its own, where one has a rate of its own."""
    known = catalog(streams, rate, changing)
    return Session(known, options()).problem(query(known))


def planned(streams: int, rate: float, planner: str = "linear-greedy") -> Plan:
    """The plan for one phase, made with its true statistics."""
    known = catalog(streams, rate)
    return make_plan([query(known)], known, options(planner))


@dataclass(frozen=True)
class Rows:
    """The tuples of one stream, in the order of their times, which are in microseconds."""

    batch: pa.RecordBatch
    times: np.ndarray

    def between(self, low: int, high: int) -> pa.RecordBatch:
        first, last = np.searchsorted(self.times, [low, high])
        return self.batch.slice(first, last - first)


def rows(streams: int, seed: int, stretch: int = 1) -> dict[str, Rows]:
    """The tuples of all streams. As in the paper, times follow from the rate, and values are equally likely.

    With all times stretched, windows have so many times the tuples, and there are so many times the values.
    """
    rng = np.random.default_rng([streams, seed])
    found = {}
    for i in range(1, streams + 1):
        knots, rates = [0, END_US], [USUAL]
        if i == CHANGING:
            knots, rates = [0, *CHANGES_US, END_US], list(phases())
        knots = [stretch * knot for knot in knots]
        done = np.concatenate(([0.0], np.cumsum(np.diff(knots) / 1e6 * rates)))
        numbers = np.arange(int(done[-1])) + rng.random()
        times = np.interp(numbers, done, knots).astype(np.int64)
        found[f"s{i}"] = Rows(_batch(rng, times, stretch * DISTINCT), times)
    return found


def phases() -> Iterator[float]:
    """The rate of the changing stream in each phase."""
    return (HIGH if n % 2 else LOW for n in range(len(CHANGES_US) + 1))


def round_of(at_us: int) -> int:
    """How often the rate has changed until then."""
    return sum(change <= at_us for change in CHANGES_US)


def _batch(rng: np.random.Generator, times: np.ndarray, distinct: int) -> pa.RecordBatch:
    """Tuples of random values; the rest of each is random text, so that no two are the same."""
    letters = rng.integers(ord("a"), ord("z") + 1, (len(times), BYTES - KEY_BYTES), np.uint8)
    columns = [
        pa.array(times).cast(TIME),
        pa.array([f"{v:0{KEY_BYTES}d}" for v in rng.integers(0, distinct, len(times))]),
        pa.array([row.tobytes().decode() for row in letters]),
    ]
    return pa.record_batch(columns, names=list(COLUMNS))
