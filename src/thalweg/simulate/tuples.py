"""Simulates a plan tuple by tuple: made-up streams, the operators of a run, slow links and sites."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from thalweg.catalog.model import Catalog
from thalweg.compile.compiler import Compiled, compile_plan
from thalweg.cost.network import Network
from thalweg.cost.objectives import MODELS
from thalweg.plan.deployment import Deployment
from thalweg.plan.document import Plan
from thalweg.plan.options import Shipped
from thalweg.query.model import Query
from thalweg.simulate import expressions
from thalweg.simulate.changes import Change
from thalweg.simulate.host import numbered
from thalweg.simulate.outcome import LinkUse, Simulated
from thalweg.simulate.streams import Streams, columns_read
from thalweg.simulate.timed import Feeds, Keep, Timed, Trace

PERCENTILES = {"p50": 50, "p95": 95, "max": 100}


@dataclass(frozen=True)
class Run:
    """A run that is over: what it has done, and what is known of its links and sites."""

    compiled: Compiled
    timed: Timed
    trace: Trace


def compiled(queries: Sequence[Query], catalog: Catalog, deployments: Sequence[Deployment]) -> Compiled:
    """What sites run for the deployments of some queries, without Spark."""
    read = columns_read(queries, catalog)
    with expressions.connected() as con:
        typed = [expressions.typed_query(con, q, catalog) for q in queries]
        infos = {name: expressions.info_of(con, catalog.streams[name], own) for name, own in read.items()}
    return compile_plan(
        list(zip(typed, deployments, strict=True)),
        infos,
        {name: catalog.streams[name].site for name in read},
        buckets=1,
        labels=numbered(),
        keep_late=False,
    )


def run(made: Compiled, catalog: Catalog, feeds: Feeds, keep: Keep | None = None) -> Run:
    """Run what was compiled over some streams."""
    at = {selection.stream: catalog.streams[selection.stream].site for selection in made.selections}
    with expressions.connected() as con:

        def count(number: int, results: pa.RecordBatch) -> int:
            return expressions.passing(con, made.results[number], catalog, results)

        timed = Timed(made, catalog, at, feeds, keep or count)
        return Run(made, timed, timed.run())


def simulate(
    queries: Sequence[Query],
    catalog: Catalog,
    plan: Plan,
    seconds: float,
    seed: int,
    changes: Sequence[Change] = (),
) -> Simulated:
    """Simulate a plan for so many seconds, and until all that is on its way has arrived."""
    made = compiled(queries, catalog, [q.deployment for q in plan.queries])
    streams = Streams(queries, catalog, made.selections, seconds, seed, changes)
    done = run(made, catalog, streams)
    timed, trace = done.timed, done.trace
    lasted = max(trace.ended_us / 1e6, seconds)
    delays = np.concatenate(trace.delays) / 1e6 if trace.delays else np.zeros(0)
    work: dict[str, float] = defaultdict(float)
    for (_, site), spent in trace.work.items():
        if site:
            work[site] += spent / catalog.sites[site].speed / lasted
    return Simulated(
        "tuples",
        seconds,
        seed,
        MODELS[plan.objective].unit,
        {q.name: trace.results[n] for n, q in enumerate(queries)},
        tuple(
            Shipped(*way, t.tuples, t.payload, t.bytes)
            for way, t in sorted(timed.host.traffic.items())
            if way[0] != way[1]
        ),
        tuple(enumerate(costs(trace, catalog, plan.objective))),
        trace.hops,
        tuple(
            LinkUse(*way, used.sending_us / 1e6 / lasted, used.longest_wait_us / 1e6)
            for way, used in sorted(timed.transport.used.items())
        ),
        dict(sorted(work.items())),
        {name: float(np.percentile(delays, p)) for name, p in PERCENTILES.items()} if len(delays) else {},
        tuple(streams.assumed),
    )


def costs(trace: Trace, catalog: Catalog, objective: str) -> list[float]:
    """What was done in each second, as the objective prices it.

    A message costs what a shipment of one such message every tau seconds costs in that time.
    """
    model, tau = MODELS[objective], catalog.costs.interval_s
    network = Network.of(catalog, model)
    found = [0.0] * (trace.ended_us // 1_000_000 + 1)
    for message in trace.messages:
        source, target = (network.number[site] for site in message.way)
        price = network.cost(source, target, message.payload / tau) * tau
        found[min(message.at_us // 1_000_000, len(found) - 1)] += price
    if model.work:
        for (second, _), spent in trace.work.items():
            found[second] += spent
    return found
