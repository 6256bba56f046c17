"""What adapting costs and brings: throughput while streams are observed, gaps between results, bytes.

`observing` runs the same join with and without, in turns. `following` runs over packets of three routers that
nothing is known of, beside a run whose plan was made with their true rates.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from thalweg.adapt.history import History
from thalweg.bench.data import Workload
from thalweg.bench.sites import LARGE, WARM_UP, rows_per_s
from thalweg.bench.watched import Watch, watched
from thalweg.catalog import load
from thalweg.catalog.edit import updated
from thalweg.catalog.model import Catalog, Stats
from thalweg.demo.packets import ELSEWHERE, HOSTS, PACKETS_PER_S, ROUTERS, destinations, rates, sizes
from thalweg.plan.options import Adapt, PlanOptions, Progress, RunOptions
from thalweg.planners.table import make_plan
from thalweg.query import parse
from thalweg.spark.program_files import Programs

OBSERVED = {"one site": ("one", "simple"), "three sites, by `optimal`": ("three", "optimal")}
TURNS = 3
MINUTE = 60
"""Files of a router: it writes one a second."""
_BEGIN_US = 1_767_225_600_000_000  # 1 January 2026, UTC
_SQL = """SELECT a.dest, a.size + b.size + c.size AS bytes, result_time
FROM router1 [RANGE 500 MILLISECONDS] a, router2 [RANGE 500 MILLISECONDS] b,
     router3 [RANGE 500 MILLISECONDS] c
WHERE a.dest = b.dest AND b.dest = c.dest"""


@dataclass(frozen=True)
class Observing:
    """Rows a second of each turn, without and with observing."""

    setting: str
    off: list[float]
    on: list[float]

    @property
    def ratio(self) -> float:
        return median(self.on) / median(self.off)


def observing(home: Path, say: Callable[[str], None], spec: Workload = LARGE) -> list[Observing]:
    """Run each setting in turns, in one process."""
    found = []
    for setting, (where, planner) in OBSERVED.items():
        one = Observing(setting, [], [])
        for turn in range(TURNS):
            for adapt, into in ((Adapt.OFF, one.off), (Adapt.CENTRAL, one.on)):
                say(f"{setting}, observing {'on' if adapt is Adapt.CENTRAL else 'off'}, turn {turn + 1}")
                into.append(rows_per_s(watched(spec, where, planner, home, adapt=adapt)[0], spec))
        found.append(one)
    return found


@dataclass
class Course(Watch):
    """The moment, results and bytes between sites after each batch."""

    moments: list[float] = field(default_factory=list)
    results: list[int] = field(default_factory=list)
    sent: list[int] = field(default_factory=list)

    def batch(self, progress: Progress) -> None:
        self.moments.append(time.time())
        self.results.append(progress.output_rows)
        self.sent.append(sum(s.bytes for s in progress.shipped))

    def after(self, seconds: float) -> int:
        """The first batch that ended so long after the first one; decisions go by the wall clock."""
        late = (n for n, moment in enumerate(self.moments) if moment >= self.moments[0] + seconds)
        return next(late, len(self.moments) // 2)

    def gaps(self) -> list[tuple[int, float]]:
        """The seconds between two batches with results, each with the number of the second one."""
        new = [n for n, (a, b) in enumerate(pairwise([0, *self.results])) if b > a]
        return [(b, self.moments[b] - self.moments[a]) for a, b in pairwise(new)]


@dataclass(frozen=True)
class Following:
    """A run from no statistics, beside one by the plan for the true rates.

    Bytes are those between sites after the first minute of the run. Its files are read as fast as it can: in
    that minute it reads about two of the streams. A gap is the time between two batches with results;
    `during` is the longest one in a move, the others are those of all other batches.
    """

    seconds: int
    changes: int
    sent: int
    sent_known: int
    during_s: float
    usual_s: float
    longest_s: float
    moved: int
    alive: float
    results: int
    results_known: int

    @property
    def bytes_ratio(self) -> float:
        return self.sent / self.sent_known

    @property
    def gap_ratio(self) -> float:
        return self.during_s / self.usual_s

    def to_json(self) -> dict[str, Any]:
        ratios = {"bytes_ratio": self.bytes_ratio, "gap_ratio": self.gap_ratio}
        return {**self.__dict__, **{name: round(value, 4) for name, value in ratios.items()}}


def following(home: Path, say: Callable[[str], None], seconds: int = 6 * MINUTE) -> Following:
    """Run the packets of so many seconds twice: from nothing, and by the plan for their true rates."""
    catalog = _packets(home, seconds)
    say("packets of three routers, from no statistics")
    course, out, metrics = _run(home / "adapting", catalog, catalog, Adapt.CENTRAL)
    say("the same packets, by the plan for their true rates")
    known, _, beside = _run(home / "known", catalog, _true(catalog), Adapt.OFF)
    records = [r for r in History.load(out / "_thalweg" / "changes.json").records if r.outcome == "done"]
    programs = Programs(str(out / "_thalweg" / "programs"))
    moving = {n for r in records for n in _batches_of(programs, r.change, len(course.moments))}
    learnt = course.after(MINUTE)
    gaps = [(n, gap) for n, gap in course.gaps() if n >= WARM_UP]
    otherwise = [gap for n, gap in gaps if n not in moving]
    return Following(
        seconds,
        metrics["plan_changes"],
        _after(course.sent, learnt),
        _after(known.sent, learnt),
        max((gap for n, gap in gaps if n in moving), default=0.0),
        median(otherwise),
        max(otherwise),
        sum(r.bytes_moved for r in records),
        sum(r.bytes_to_move for r in records),
        sum(metrics["output_rows"].values()),
        sum(beside["output_rows"].values()),
    )


def _after(sent: Sequence[int], batch: int) -> int:
    """The bytes of all batches after one of them; of both runs, each batch reads the same second."""
    return sent[-1] - sent[batch]


def _batches_of(programs: Programs, first: int, batches: int) -> Sequence[int]:
    """The batches of a move, until its old operators have ended."""
    last = first
    while last < batches - 1 and (programs.at(last).coming or programs.at(last).ending):
        last += 1
    return range(first, last + 1)


def _packets(home: Path, seconds: int) -> Catalog:
    """Write the packets; a router's file holds those of a second. The catalog has no statistics."""
    shutil.rmtree(home, ignore_errors=True)
    folder = home / "packets"
    for router in ROUTERS:
        (folder / router).mkdir(parents=True)
        for n in range(seconds):
            rng = np.random.default_rng([7, n, *router.encode()])
            count = rng.poisson(PACKETS_PER_S[router])
            ts = _BEGIN_US + n * 1_000_000 + np.sort(rng.integers(0, 1_000_000, count))
            columns = {
                "ts": pa.array(ts).cast(pa.timestamp("us", tz="UTC")),
                "dest": destinations(rng, router, count),
                "size": sizes(rng, count),
            }
            path = folder / router / f"{n:05}.parquet"
            pq.write_table(pa.table(columns), path)
            moment = _BEGIN_US / 1e6 + n
            os.utime(path, (moment, moment))  # Spark reads files in the order of their times
    streams = "".join(
        f"  {router}:\n    site: site{n}\n    time: ts\n    lateness: 1 second\n"
        "    schema: {ts: timestamp, dest: string, size: long}\n"
        f"    source: {{format: parquet, options: {{path: {folder / router}, maxFilesPerTrigger: 1}}}}\n"
        for n, router in enumerate(ROUTERS, 1)
    )
    path = home / "catalog.yaml"
    path.write_text(f"sites: {{site1: {{}}, site2: {{}}, site3: {{}}}}\nstreams:\n{streams}")
    return load(path)


def _true(catalog: Catalog) -> Catalog:
    """The catalog with the rates that the packets were drawn with."""
    stats = {
        router: Stats(
            rate=PACKETS_PER_S[router],
            widths={"dest": 8},
            distinct={"dest": len(ROUTERS) * HOSTS + ELSEWHERE},
            rates={"dest": dict(rates(router))},
        )
        for router in ROUTERS
    }
    return updated(catalog, stats, [])


def _run(out: Path, catalog: Catalog, known: Catalog, adapt: Adapt) -> tuple[Course, Path, dict[str, Any]]:
    """A run by the plan for what is `known`."""
    from thalweg.spark.run import run

    query = parse(_SQL, name="routers", schemas=catalog.schemas)
    course = Course()
    plan = make_plan([query], known, PlanOptions())
    metrics = run(RunOptions((query,), known, plan, out, once=True, adapt=adapt), course)
    return course, out, metrics


COLUMNS = ("", "measured", "target")


def rows(observed: Sequence[Observing], followed: Following) -> list[tuple[str, str, str]]:
    """The figures beside what they must reach."""
    throughput = [
        (f"rows a second with observing on to off, {one.setting}", f"{one.ratio:.2f}", "at least 0.95")
        for one in observed
    ]
    return [
        *throughput,
        ("routers from no statistics: changes of plan", str(followed.changes), ""),
        (
            "bytes between sites after the first minute, to the plan for the true rates",
            f"{followed.bytes_ratio:.2f}",
            "at most 1.1",
        ),
        (
            "longest gap between results in a move, to the usual one (the median)",
            f"{followed.gap_ratio:.2f} ({followed.during_s:.2f} s to {followed.usual_s:.2f} s; "
            f"the longest otherwise is {followed.longest_s:.2f} s)",
            "at most 2",
        ),
        (
            "bytes moved, to the estimate of those alive",
            f"{followed.moved:,} to {followed.alive:,.0f}",
            "",
        ),
    ]
