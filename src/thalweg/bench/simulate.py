"""How fast the simulator follows tuples: tuples that cross a link a second, on one core."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from thalweg.catalog.model import Catalog, Costs, Link, Links, Site, Source, Stats, Stream
from thalweg.plan.options import Objective, PlanOptions
from thalweg.planners.table import make_plan
from thalweg.query import parse
from thalweg.query.model import Query

TARGET = 200_000
"""Tuple-hops a second on one core."""
STREAMS, KEYS, WINDOW_S = 4, 2.0, 1.0
"""Keys are for each tuple a second of the slowest stream."""
SETTINGS = {
    "all streams to one site": ("simple", 0.1),
    "the cheapest tree": ("optimal", 0.1),
    "the same, batches of a second": ("optimal", 1.0),
    "probe sequences": ("linear-greedy", 0.1),
}
"""A planner, and the seconds between two batches."""
COLUMNS = ("", "tuples", "tuple-hops", "results", "streams made in, s", "run in, s", "tuple-hops/s")


@dataclass(frozen=True)
class Speed:
    """One setting: what was followed, and the seconds it took to make the streams and to run the plan."""

    setting: str
    tuples: int
    tuple_hops: int
    results: int
    making_s: float
    running_s: float

    @property
    def hops_per_s(self) -> float:
        return self.tuple_hops / self.running_s


def problem(rate: float, interval_s: float) -> tuple[Catalog, Query]:
    """Streams at a site each, joined on one key."""
    names = [f"s{n}" for n in range(STREAMS)]
    streams = {
        name: Stream(
            name=name,
            site=f"n{n}",
            time="ts",
            lateness=0,
            columns={"ts": "timestamp", "k": "long", "v": "long"},
            source=Source(format="parquet"),
            stats=Stats(rate=rate * (1 + n / STREAMS), distinct=dict.fromkeys("kv", KEYS * rate)),
        )
        for n, name in enumerate(names)
    }
    catalog = Catalog(
        path="made up",
        sites={s.site: Site() for s in streams.values()},
        streams=streams,
        links=Links(default=Link(latency_ms=20)),
        costs=Costs(interval_s=interval_s),
    )
    froms = ", ".join(f"{name} [RANGE {round(1000 * WINDOW_S)} MILLISECONDS]" for name in names)
    equal = " AND ".join(f"{names[0]}.k = {name}.k" for name in names[1:])
    columns = ", ".join(f"{name}.v AS {name}_v" for name in names)
    text = f"SELECT {columns} FROM {froms} WHERE {equal}"
    return catalog, parse(text, name="join", schemas=catalog.schemas, times=catalog.times)


def measure(say: Callable[[str], None], rate: float = 10_000.0, seconds: float = 10.0) -> list[Speed]:
    """Simulate each setting; what is compiled when it first runs has run before."""
    found = []
    for setting, (planner, interval_s) in SETTINGS.items():
        say(setting)
        _run("", planner, interval_s, 200.0, 2.0)
        found.append(_run(setting, planner, interval_s, rate, seconds))
    return found


def rows(speeds: Sequence[Speed]) -> list[tuple[str, ...]]:
    """The table of all settings."""
    return [
        (
            s.setting,
            *(f"{n:,}" for n in (s.tuples, s.tuple_hops, s.results)),
            f"{s.making_s:.2f}",
            f"{s.running_s:.2f}",
            f"{s.hops_per_s:,.0f}",
        )
        for s in speeds
    ]


def _run(setting: str, planner: str, interval_s: float, rate: float, seconds: float) -> Speed:
    from thalweg.simulate.streams import Streams
    from thalweg.simulate.tuples import compiled, run

    catalog, query = problem(rate, interval_s)
    plan = make_plan([query], catalog, PlanOptions(planner, Objective.BYTES))
    made = compiled([query], catalog, [q.deployment for q in plan.queries])
    begun = time.process_time()
    streams = Streams([query], catalog, made.selections, seconds, 1)
    halfway = time.process_time()
    done = run(made, catalog, streams)
    finished = time.process_time()
    read = sum(done.timed.host.report.read.values())
    results = sum(done.trace.results.values())
    return Speed(setting, read, done.trace.hops, results, halfway - begun, finished - halfway)
