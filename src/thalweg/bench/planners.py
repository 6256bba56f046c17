"""How long planners plan, against their targets, and how that grows.

Only planning is timed: the call of a planner on a problem whose network is built, but whose paths and rates
of joins are not known yet. For many queries it is the deployment of all, one after another. Every measurement
runs in a process of its own: `python -m thalweg.bench.planners TASK.json`.
"""

from __future__ import annotations

import json
import random
import re
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

from thalweg.bench import made_up
from thalweg.catalog.model import Catalog
from thalweg.errors import UserError
from thalweg.plan.options import Objective, PlanOptions
from thalweg.planners.table import PLANNERS, Planner, Session, planner
from thalweg.query.model import Query

QUICK = 0.1
"""The scale of a quick look."""
Workload = tuple[Catalog, Sequence[Query]]


@dataclass(frozen=True)
class Target:
    """A target of a planner, and the problem that it is measured on, of a size by scale."""

    planner: str
    what: str
    limit_s: float
    objective: Objective
    make: Callable[[float], Workload]
    settings: Mapping[str, str] = field(default_factory=dict)
    limit_mb: float | None = None
    repeats: int = 5


@dataclass(frozen=True)
class Measured:
    """The measurement of a target; `whole_s` adds reading the statistics and pricing the plan."""

    planner: str
    what: str
    seconds: float
    whole_s: float
    limit_s: float
    peak_mb: float
    limit_mb: float | None

    @property
    def reached(self) -> bool:
        return self.seconds <= self.limit_s and (self.limit_mb is None or self.peak_mb <= self.limit_mb)

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "reached": self.reached}


@dataclass(frozen=True)
class Point:
    """How long a planner took on a problem of one size; `by` is the measure of size."""

    planner: str
    by: str
    size: int
    seconds: float


@dataclass(frozen=True)
class Report:
    """All measurements, and those that were skipped, with the reason."""

    measured: tuple[Measured, ...]
    growth: tuple[Point, ...]
    skipped: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        return {
            "targets": [m.to_json() for m in self.measured],
            "growth": [asdict(p) for p in self.growth],
            "skipped": list(self.skipped),
        }


def _one_attribute(
    streams: int, nodes: int, network: Callable[[int], Any] = made_up.sparse, values: int = 0
) -> Callable[[float], Workload]:
    def make(scale: float) -> Workload:
        count, size = _scaled(streams, scale), _scaled(nodes, scale)
        catalog = made_up.catalog(count, size, network(size), values=_scaled(values, scale))
        return catalog, [made_up.one_attribute(count)]

    return make


def _chain(streams: int, nodes: int) -> Callable[[float], Workload]:
    def make(scale: float) -> Workload:
        count, size = _scaled(streams, scale), _scaled(nodes, scale)
        return made_up.catalog(count, size, made_up.sparse(size), keys=("x", "y")), [made_up.chain(count)]

    return make


def _many(queries: int, nodes: int, streams: int = 20) -> Callable[[float], Workload]:
    def make(scale: float) -> Workload:
        size, rng = _scaled(nodes, scale), random.Random(5)
        catalog = made_up.catalog(streams, size, made_up.sparse(size), keys=("k0", "k1", "k2", "k3"))
        joins = made_up.schema(streams)
        names = [f"q{n}" for n in range(_scaled(queries, scale))]
        return catalog, [made_up.random_query(joins, rng.randint(2, 6), name, rng) for name in names]

    return make


def _scaled(size: int, scale: float) -> int:
    """A size at a scale; small ones stay as they are.

    >>> _scaled(5, 0.1), _scaled(1_000, 0.1), _scaled(1_000, 1.0)
    (5, 100, 1000)
    """
    return size if size <= 10 else max(10, round(size * scale))


def _parts(partitioner: str) -> dict[str, str]:
    return {"partitions": "1000", "partitioner": partitioner}


_USAGE, _BYTES, _TIME = Objective.USAGE, Objective.BYTES, Objective.TIME
_VALUES = _one_attribute(10, 10, values=1_000)
TARGETS: tuple[Target, ...] = (
    Target("optimal", "5 streams, 128 nodes", 0.02, _USAGE, _one_attribute(5, 128, made_up.transit_stub)),
    Target("optimal", "6 streams, 10,000 nodes", 5, _USAGE, _one_attribute(6, 10_000), limit_mb=2_000),
    Target("optimal", "300 queries with reuse, 1,000 nodes", 60, _USAGE, _many(300, 1_000), repeats=1),
    Target("pmjoin", "10 streams, 1,000 parts by rate", 1, _BYTES, _VALUES, _parts("rate")),
    Target("pmjoin", "10 streams, 1,000 parts by hash", 1, _BYTES, _VALUES, _parts("hash")),
    Target("linear-optimal", "10 streams, one attribute", 1, _TIME, _one_attribute(10, 10)),
    Target("linear-optimal", "10 streams, a chain", 1, _TIME, _chain(10, 10)),
    Target("streamjoinopt", "1,000 streams, one attribute", 2, _BYTES, _one_attribute(1_000, 100), repeats=3),
    Target("streamjoinopt", "1,000 streams, a chain", 2, _BYTES, _chain(1_000, 100), repeats=3),
)  # fmt: skip

SIZES: Mapping[str, tuple[int, ...]] = {
    "streams": (2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 16, 32, 64, 128, 256, 512, 1024),
    "nodes": (8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192),
}
STREAMS, NODES = 4, 16
"""The fixed size while the other grows."""
_TRIES, _SHORT_S = 7, 0.25


def run(say: Callable[[str], None], *, quick: bool = False) -> Report:
    """Measures every target, and the growth of every planner in the table."""
    there = {p.name for p in PLANNERS}
    measured: list[Measured] = []
    growth: list[Point] = []
    skipped: list[str] = []
    scale = QUICK if quick else 1.0
    for number, target in enumerate(TARGETS):
        say(f"{target.planner}: {target.what}")
        if target.planner not in there:
            skipped.append(f"{target.planner}, {target.what}: there is no such planner")
            continue
        told = _child({"target": number, "scale": scale}, 1200)
        if told and "seconds" in told[0]:
            measured.append(Measured(**told[0]))
        else:
            reason = told[0]["error"] if told else "it did not end within 20 minutes"
            skipped.append(f"{target.planner}, {target.what}: {reason}")
    for name in (p.name for p in PLANNERS):
        for by in SIZES:
            say(f"{name}: growth with {by}")
            told = _child(
                {"planner": name, "by": by, "longest_s": 0.1 if quick else 2.0}, 10 if quick else 60
            )
            points = [Point(**t) for t in told if "seconds" in t]
            growth += points
            if not points:
                reason = told[0]["error"] if told else "the smallest problem took too long"
                skipped.append(f"{name}, growth with {by}: {reason}")
    return Report(tuple(measured), tuple(growth), tuple(skipped))


def measure(target: Target, scale: float = 1.0) -> Measured:
    """Plans a target's problem here: the median of some repeats, each of them from nothing."""
    chosen = planner(target.planner)
    catalog, queries = target.make(scale)
    settings = dict(target.settings)
    if "partitions" in settings:
        settings["partitions"] = str(_scaled(int(settings["partitions"]), scale))
    options = PlanOptions(target.planner, target.objective, None, settings)
    _warm(chosen, target.objective)
    take = _deploy_all if len(queries) > 1 else _plan_one
    times = [take(chosen, catalog, queries, options) for _ in range(target.repeats)]
    seconds, whole = (median(t[k] for t in times) for k in (0, 1))
    what = target.what if scale == 1 else f"{target.what}, at {scale:g} of that size"
    return Measured(target.planner, what, seconds, whole, target.limit_s, _peak_mb(), target.limit_mb)


def _peak_mb() -> float:
    """The peak memory of this process, without its parent's."""
    status = Path("/proc/self/status")
    if status.exists():
        found = re.search(r"^VmHWM:\s+(\d+) kB", status.read_text(), re.MULTILINE)
        if found:
            return int(found[1]) * 1024 / 1e6
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


def grow(chosen: Planner, by: str, longest_s: float, tell: Callable[[Point], None]) -> None:
    """Plans larger and larger problems, until one takes too long or is too large for the planner."""
    objective = _TIME if chosen.family == "linear" else _USAGE
    _warm(chosen, objective)
    for size in SIZES[by]:
        streams, nodes = (size, NODES) if by == "streams" else (STREAMS, size)
        catalog = made_up.catalog(streams, nodes, made_up.sparse(nodes))
        query, options = made_up.one_attribute(streams), PlanOptions(chosen.name, objective)
        # The least of some: on a short time, other work on the machine would show most.
        times = [_planning(chosen, catalog, query, options)]
        while len(times) < _TRIES and sum(times) < _SHORT_S:
            times.append(_planning(chosen, catalog, query, options))
        seconds = min(times)
        tell(Point(chosen.name, by, size, seconds))
        if seconds > longest_s:
            break


def _warm(chosen: Planner, objective: Objective) -> None:
    """The first plan of a process waits for modules to be loaded."""
    catalog = made_up.catalog(3, 8, made_up.sparse(8))
    _planning(chosen, catalog, made_up.one_attribute(3), PlanOptions(chosen.name, objective))


def _planning(chosen: Planner, catalog: Catalog, query: Query, options: PlanOptions) -> float:
    problem = Session(catalog, options).problem(query)
    begun = time.perf_counter()
    chosen.plan(problem)
    return time.perf_counter() - begun


def _plan_one(
    chosen: Planner, catalog: Catalog, queries: Sequence[Query], options: PlanOptions
) -> tuple[float, float]:
    seconds = _planning(chosen, catalog, queries[0], options)
    session = Session(catalog, options)
    begun = time.perf_counter()
    session.deploy(queries[0], chosen)
    return seconds, time.perf_counter() - begun


def _deploy_all(
    chosen: Planner, catalog: Catalog, queries: Sequence[Query], options: PlanOptions
) -> tuple[float, float]:
    rng, sites = random.Random(9), list(catalog.sites)
    session = Session(catalog, options)
    begun = time.perf_counter()
    for query in queries:
        session.options = replace(options, deliver_to=rng.choice(sites))
        session.deploy(query, chosen)
    seconds = time.perf_counter() - begun
    return seconds, seconds


def _child(task: Mapping[str, Any], limit_s: float) -> list[dict[str, Any]]:
    """Runs a task in a process of its own; returns its messages until the time was over."""
    command = [sys.executable, "-m", "thalweg.bench.planners", json.dumps(task)]
    try:
        out = subprocess.run(command, stdout=subprocess.PIPE, timeout=limit_s, check=False).stdout
    except subprocess.TimeoutExpired as late:
        out = late.stdout or b""
    return [json.loads(line) for line in out.decode().splitlines() if line.endswith("}")]


def _run_task(task: Mapping[str, Any]) -> None:
    def tell(told: Mapping[str, Any]) -> None:
        print(json.dumps(told), flush=True)

    try:
        if "target" in task:
            tell(asdict(measure(TARGETS[task["target"]], task["scale"])))
        else:
            grow(planner(task["planner"]), task["by"], task["longest_s"], lambda point: tell(asdict(point)))
    except UserError as error:
        tell({"error": str(error)})


if __name__ == "__main__":
    _run_task(json.loads(sys.argv[1]))
