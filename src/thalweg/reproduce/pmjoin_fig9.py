"""pmjoin, figure 9: the CPU time of routing, with the operators that a run has, in one process.

The paper's ten streams, with windows of up to 100 seconds, would give more results than any machine can
make. These are five, with short windows. Routing is all that decides where a tuple goes next and puts it on
its way: the packing of arrivals for the operators that read them, and the outlets of operators.
"""

from __future__ import annotations

import cProfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from thalweg.catalog.model import Catalog, Site, Source, Stats, Stream
from thalweg.compile.compiler import compile_plan
from thalweg.compile.inputs import StreamInfo, TypedQuery
from thalweg.plan.options import Objective, PlanOptions
from thalweg.planners.table import make_plan
from thalweg.query import parse
from thalweg.query.model import Query
from thalweg.reproduce.adaptive_run import labels_of
from thalweg.reproduce.outcome import Claim, Outcome, Tell
from thalweg.reproduce.pmjoin import HASH, PARTITIONERS, RANGE, RATE
from thalweg.reproduce.samples import Samples, scaled
from thalweg.simulate.host import SimulatedHost
from thalweg.workloads.values import DIFFERENT, SAME, SITES, distributions, drawn

NAME = "pmjoin-fig9"
STREAMS, VALUES, WINDOW_S = 5, 100, 1
RATES = (20.0, 200.0)
PARTS = (1, 2, 5, 10, 50, 100)
SECONDS, SEEDS = 20, 3
BATCH_S = 1.0
TIME = pa.timestamp("us", "UTC")
COLUMNS = {"ts": TIME, "k": pa.int64()}
_ROUTING = (("chain.py", "_send"), ("pack.py", "messages"))


@dataclass(frozen=True, eq=False)
class Case:
    """Streams with their true rates by value, and their tuples, second by second."""

    catalog: Catalog
    query: Query
    batches: Sequence[Mapping[str, pa.RecordBatch]]


def case(seed: int, sites: str, seconds: int) -> Case:
    """Poisson arrivals at five sites."""
    rng = np.random.default_rng([9, seed])
    shares = distributions(STREAMS, VALUES, rng, sites=sites)
    rates = rng.uniform(*RATES, STREAMS)
    streams, rows = {}, {}
    for i in range(STREAMS):
        by_value = {v + 1: float(rates[i] * share) for v, share in enumerate(shares[i])}
        streams[f"s{i}"] = Stream(
            name=f"s{i}",
            site=f"n{i}",
            time="ts",
            columns={"ts": "timestamp", "k": "long"},
            source=Source(format="parquet"),
            stats=Stats(rate=float(rates[i]), rates={"k": by_value}),
        )
        times = np.sort(rng.uniform(0, seconds, rng.poisson(rates[i] * seconds)))
        values = drawn(shares[i], len(times), rng)
        rows[f"s{i}"] = (
            pa.record_batch(
                [pa.array((times * 1e6).astype(np.int64)).cast(TIME), pa.array(values.astype(np.int64))],
                names=list(COLUMNS),
            ),
            times,
        )
    known = Catalog(path="", sites={f"n{i}": Site() for i in range(STREAMS)}, streams=streams)
    froms = ", ".join(f"s{i} [RANGE {WINDOW_S} SECONDS]" for i in range(STREAMS))
    equal = " AND ".join(f"s0.k = s{i}.k" for i in range(1, STREAMS))
    asked = parse(f"SELECT s0.k FROM {froms} WHERE {equal}", name="q", schemas=known.schemas)
    batches = []
    for begin in np.arange(0, seconds, BATCH_S):
        ends = {name: np.searchsorted(times, [begin, begin + BATCH_S]) for name, (_, times) in rows.items()}
        batches.append({name: rows[name][0].slice(a, b - a) for name, (a, b) in ends.items()})
    return Case(known, asked, batches)


@dataclass(frozen=True)
class Ran:
    """A run: CPU milliseconds of routing for each second of arrivals, tuples shipped in it, and results."""

    routing_ms: float
    shipped: float
    results: int


def ran(one: Case, parts: int, partitioner: str) -> Ran:
    """Runs the plan for so many parts over the tuples."""
    settings = {"width": "equal"}
    if parts > 1:
        settings |= {"partitions": str(parts), "partitioner": partitioner}
    planner = "pmjoin" if parts > 1 else "streamjoinopt"
    plan = make_plan([one.query], one.catalog, PlanOptions(planner, Objective.BYTES, None, settings))
    sides = [side for e in one.query.equalities for side in (e.left, e.right)]
    compiled = compile_plan(
        [
            (
                TypedQuery(one.query, one.query.equalities, {s.sql: pa.int64() for s in sides}),
                plan.queries[0].deployment,
            )
        ],
        {name: StreamInfo(name, COLUMNS, "ts", 0) for name in one.catalog.streams},
        {name: stream.site for name, stream in one.catalog.streams.items()},
        buckets=1,
        labels=labels_of,
        keep_late=False,
    )
    host = SimulatedHost(compiled)
    profile = cProfile.Profile(time.process_time, builtins=False)
    profile.enable()
    for rows in one.batches:
        host.batch(rows, host.waiting)
    host.end()
    host.batch({}, host.waiting)
    host.drain()
    profile.disable()
    profile.create_stats()
    routing = sum(
        spent[3]
        for (file, _, function), spent in profile.stats.items()
        if any(file.endswith(f"operators/{module}") and function == name for module, name in _ROUTING)
    )
    seconds = len(one.batches) * BATCH_S
    sent = sum(traffic.tuples for traffic in host.traffic.values())
    results = sum(batch.num_rows for batches in host.results.values() for batch in batches)
    return Ran(routing / seconds * 1000, sent / seconds, results)


def run(scale: float, tell: Tell) -> Outcome:
    """CPU time of routing over the number of parts."""
    found = {sites: Samples() for sites in SITES}
    sent = {sites: Samples() for sites in SITES}
    parts = PARTS if scale >= 0.5 else (1, 2, 10)
    same = True
    for seed in range(scaled(SEEDS, scale)):
        for sites in SITES:
            one = case(seed, sites, scaled(SECONDS, scale, 2))
            whole = ran(one, 1, "")
            for number in parts:
                for how in PARTITIONERS:
                    tell(f"seed {seed + 1}, {sites}, {number} parts by {how}")
                    this = whole if number == 1 else ran(one, number, how)
                    same &= this.results == whole.results
                    found[sites].add(how, number, this.routing_ms)
                    sent[sites].add(how, number, this.shipped)
    several = [p for p in parts if p > 1]
    below = {
        sites: sum(
            found[sites].mean(how, p) < found[sites].mean(how, 1) for how in PARTITIONERS for p in several
        )
        for sites in SITES
    }
    of = len(several) * len(PARTITIONERS)
    drop = {s: found[s].overall(RATE, several) / found[s].mean(RATE, 1) - 1 for s in SITES}
    fewer = {s: sent[s].overall(RATE, several) / sent[s].mean(RATE, 1) - 1 for s in SITES}
    by_cut = {how: found[DIFFERENT].overall(how, several) for how in PARTITIONERS}
    return Outcome(
        NAME,
        "CPU time of routing over the number of parts",
        (
            f"{STREAMS} streams at {STREAMS} sites, {VALUES} values, windows of {WINDOW_S} second, rates of "
            f"20 to 200 tuples a second, Poisson arrivals for {scaled(SECONDS, scale, 2)} seconds in "
            f"batches of a second; {found[SAME].seeds} seeds. The paper's ten streams with windows of 10 to "
            "100 seconds would have more results than can be made.",
            "CPU time is that of the functions that route, with the profiler's own on top, the same for all "
            "plans.",
        ),
        (
            Claim("all plans give the same number of results", "yes" if same else "no", same),
            Claim(
                "most of the time routing costs less with parts (criterion: in more than half of all cases)",
                f"{below[SAME]} of {of} with similar, {below[DIFFERENT]} of {of} with different "
                "distributions",
                sum(below.values()) > of,
                "Here tuples are routed by whole columns: what is paid is for each operator and each batch, "
                "not for each tuple, and more parts have more operators.",
            ),
            Claim(
                "different distributions: routing costs much less with parts (criterion: a fifth less by "
                "rate, as the mean over the numbers of parts)",
                f"{drop[DIFFERENT]:+.0%} time, with {fewer[DIFFERENT]:+.0%} tuples shipped",
                drop[DIFFERENT] < -0.2,
                "As above: fewer tuples do not take less time.",
            ),
            Claim(
                "a better partitioning costs less routing (criterion: by rate less than by hash and by "
                "range, with different distributions)",
                ", ".join(f"{how} {ms:.2f} ms" for how, ms in by_cut.items()),
                by_cut[RATE] < min(by_cut[HASH], by_cut[RANGE]),
                "What differs is how many different trees the parts have.",
            ),
        ),
        ("case", "plan", "parts", "routing, ms/s", "standard deviation", "seeds", "tuples shipped/s"),
        tuple((*row, sent[s].mean(str(row[1]), float(row[2]))) for s in SITES for row in found[s].rows((s,))),
        tuple(found[s].panel(f"{s}: routing", "parts", "CPU ms a second", "x") for s in SITES),
    )
