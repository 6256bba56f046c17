"""The same deployments on every host: in one process, on a simulated clock, on Spark, on a Spark cluster."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest

from tests.simulate.sites_cases import evaluate, handed_out
from thalweg.catalog.model import Link, Links
from thalweg.compile.compiler import Compiled
from thalweg.plan.document import Plan
from thalweg.plan.options import Objective, PlanOptions
from thalweg.planners.table import make_plan
from thalweg.simulate.host import SimulatedHost
from thalweg.simulate.tuples import run as run_timed
from thalweg.spark.host import compiled
from thalweg.spark.streams import info_of, schema_of
from thalweg.spark.typing import typed_query

from .cluster import cluster
from .feed import results_of
from .places import CHAIN, HALF, NARROW, STAR, TWICE, Place, place, with_windows


@dataclass(frozen=True)
class Deployed:
    """Queries over four streams and the planner of their deployments; None: sequences by all methods."""

    queries: Mapping[str, str] | str
    planner: str | None
    at: str = "1234"
    skewed: bool = False
    deliver_to: str | None = None


CASES = {
    "one site": Deployed(STAR, "simple", at="1111"),
    "a tree": Deployed(CHAIN, "optimal"),
    "probe sequences": Deployed(CHAIN, None),
    "partitioned": Deployed(STAR, "pmjoin", skewed=True),
    "shared sites": Deployed(CHAIN, "linear-optimal", at="1122"),
    "rows": Deployed(with_windows(CHAIN, "rows"), "optimal"),
    "rows and slides": Deployed(with_windows(CHAIN, "both"), None),
    "a stream twice": Deployed(TWICE, "optimal"),
    "several queries": Deployed({"half": HALF, "whole": CHAIN, "narrow": NARROW}, "optimal"),
    "delivered": Deployed(CHAIN, "semijoin-greedy", deliver_to="n1"),
}
AT_ONCE = ("a tree", "probe sequences", "partitioned")
"""Those that `make test` runs on Spark."""

ON_A_CLUSTER = ("one site", *AT_ONCE, "several queries")
"""A batch takes seconds there; the others differ in what is compiled, not in what a host does."""


@dataclass
class Outcome:
    """What a host gave: results by query, rows by stream, and payload by way."""

    results: dict[str, Counter]
    read: Mapping[str, int]
    late: Mapping[str, int]
    payload: dict[tuple[str, str], int] = field(default_factory=dict)


def deployed(case: Deployed, root) -> Place:
    """The place of a case, with its plan in plan.json."""
    at = {name: f"n{n}" for name, n in zip("abcd", case.at, strict=True)}
    made = place(root, case.queries, seed=len(case.at), at=at, skewed=case.skewed)
    if case.planner is None:
        made.by_sequences("plan.json")
    else:
        catalog, queries = made.read()
        options = PlanOptions(case.planner, Objective("bytes"), case.deliver_to, {})
        make_plan(queries, catalog, options).save(root / "plan.json")
    return made


@dataclass(frozen=True)
class Built:
    """What Spark would be given, and the streams in the batches in which Spark reads them."""

    catalog: Any
    queries: Any
    compiled: Compiled
    batches: Mapping[str, list[pa.RecordBatch]]

    def found(self, results: Mapping[int, list[pa.RecordBatch]]) -> dict[str, Counter]:
        return {
            q.name: handed_out(q, results.get(n, []), self.compiled.results[n].same)
            for n, q in enumerate(self.queries)
        }


def built(made: Place, spark) -> Built:
    catalog, queries = made.read()
    names = sorted({i.stream for q in queries for i in q.inputs})
    streams = {name: catalog.streams[name] for name in names}
    plan = Plan.load(made.root / "plan.json")
    schemas = {name: schema_of(s) for name, s in streams.items()}
    program = compiled(
        spark,
        [(typed_query(spark, q, schemas), p.deployment) for q, p in zip(queries, plan.queries, strict=True)],
        [info_of(s) for s in streams.values()],
        {name: s.site for name, s in streams.items()},
        keep_late=True,
    )
    batches = {name: [_batch(f.table(b)) for b in f.batches] for name, f in made.feeds.items()}
    return Built(catalog, queries, program, {name: batches[name] for name in names})


def in_process(made: Place, spark) -> Outcome:
    """Run in this process: parcels delayed at random, some batches crashed."""
    rng, given = random.Random(1), built(made, spark)
    host = SimulatedHost(given.compiled, evaluate)
    for n in range(max(map(len, given.batches.values()))):
        take = {way: rng.randint(1, k) for way, k in host.waiting.items() if rng.random() < 0.6}
        rows = {name: own[n] for name, own in given.batches.items()}
        host.batch(rows, take, crash_after=rng.choice([None, 0, 1]))
    host.end()
    host.batch({}, host.waiting)
    host.drain()
    payload = {way: t.payload for way, t in host.traffic.items() if way[0] != way[1]}
    return Outcome(given.found(host.results), host.report.read, host.report.late, payload)


@dataclass
class Replayed:
    """A batch of Spark's for each interval of the simulated clock."""

    given: Built
    tau: int

    @property
    def end_us(self) -> int:
        return self.tau * max(map(len, self.given.batches.values()))

    def between(self, low_us: int, high_us: int) -> Mapping[str, pa.RecordBatch]:
        columns = {one.stream: one.columns for one in self.given.compiled.selections}
        nth = low_us // self.tau
        return {name: evaluate(own[nth], columns[name]) for name, own in self.given.batches.items()}


def on_a_clock(made: Place, spark) -> Outcome:
    """Run on a simulated clock, over links and sites that take time."""
    given = built(made, spark)
    slow = Links(default=Link(latency_ms=70, mbps=0.05))
    catalog = given.catalog.model_copy(update={"links": slow})
    feeds = Replayed(given, round(1e6 * catalog.costs.interval_s))
    results: dict[int, list[pa.RecordBatch]] = {}

    def keep(number: int, batch: pa.RecordBatch) -> int:
        results.setdefault(number, []).append(batch)
        return batch.num_rows

    host = run_timed(given.compiled, catalog, feeds, keep).timed.host
    payload = {way: t.payload for way, t in host.traffic.items() if way[0] != way[1]}
    return Outcome(given.found(results), host.report.read, host.report.late, payload)


def _batch(table: pa.Table) -> pa.RecordBatch:
    return table.combine_chunks().to_batches()[0]


def on_spark(made: Place, run: Callable[..., Any], *more: str) -> Outcome:
    code, out, err = run(*made.run("--plan", "plan.json", *more), cwd=made.root)
    assert (code, err) == (0, ""), err
    metrics = json.loads(out)
    assert metrics["complete"] is True
    found = {name: results_of(made.root / "out", name) for name in made.queries}
    payload = {(s["from"], s["to"]): s["payload_bytes"] for s in metrics["shipped"]}
    return Outcome(found, metrics["input_rows"], metrics["late_rows"], payload)


def check(made: Place, outcome: Outcome) -> None:
    for name in made.queries:
        wanted = made.expected(name)
        assert wanted
        found = outcome.results[name]
        assert found == wanted, f"{name}: missing {len(wanted - found)}, extra {len(found - wanted)}"
    feeds = {name: made.feeds[name] for name in outcome.read}
    assert outcome.read == {n: len(f.rows) for n, f in feeds.items()}
    assert outcome.late == {n: len(f.split()[1]) for n, f in feeds.items()}


@pytest.mark.parametrize("name", CASES)
def test_in_one_process(tmp_path, spark, name):
    made = deployed(CASES[name], tmp_path)
    check(made, in_process(made, spark))
    check(made, on_a_clock(made, spark))


@pytest.mark.parametrize(
    "name", [name if name in AT_ONCE else pytest.param(name, marks=pytest.mark.long) for name in CASES]
)
def test_on_spark(tmp_path, spark, thalweg, name):
    """A tree ships the same in one process: what keys are shipped depends on the batches they come in."""
    made = deployed(CASES[name], tmp_path)
    outcome = on_spark(made, thalweg, "--jitter", "1")
    check(made, outcome)
    if CASES[name].planner == "optimal":
        assert outcome.payload == in_process(made, spark).payload == on_a_clock(made, spark).payload


@pytest.fixture(scope="module")
def workers(tmp_path_factory):
    """The address of a cluster, and where its workers have their files."""
    root = tmp_path_factory.mktemp("cluster")
    with cluster(root) as address:
        yield address, root / "work"


@pytest.mark.long
@pytest.mark.parametrize("name", ON_A_CLUSTER)
def test_on_a_cluster(tmp_path, workers, command, name):
    address, work = workers
    before = set(work.glob("*/app-*"))
    made = deployed(CASES[name], tmp_path)
    check(made, on_spark(made, command, "--master", address))
    assert len(set(work.glob("*/app-*")) - before) == 2  # both workers ran it
