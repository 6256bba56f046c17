"""Shared by the experiments of adaptive (Tran and Lee): its queries, and the rate that changes."""

from __future__ import annotations

from thalweg.catalog.model import Catalog, Costs, Link, Links, Site, Source, Stats, Stream
from thalweg.plan.options import Objective, PlanOptions
from thalweg.planners.search.problem import Problem
from thalweg.planners.table import Session
from thalweg.query import parse

LOW, HIGH, USUAL = 50.0, 200.0, 100.0
"""Tuples a second: the changing stream's, and those of all others."""
BYTES, DISTINCT, WINDOW_MS = 150.0, 100.0, 500
"""A selectivity factor of 0.01 is a hundred values."""
LATENCY_MS, MBPS = 5.0, 1.024


def problem(streams: int, changing: int, rate: float) -> Problem:
    """A join of streams on one attribute, each at a node of its own, where one has a rate of its own.

    The cost is the paper's time of processing what arrives in a second.
    """
    names = [f"s{i}" for i in range(1, streams + 1)]
    found = {}
    for i, name in enumerate(names, 1):
        stats = Stats(rate=rate if i == changing else USUAL, bytes=BYTES, distinct={"j": DISTINCT})
        columns = {"ts": "timestamp", "j": "string"}
        source = Source(format="parquet")
        found[name] = Stream(name=name, site=f"n{i}", time="ts", columns=columns, source=source, stats=stats)
    catalog = Catalog(
        path="adaptive",
        sites={s.site: Site() for s in found.values()},
        streams=found,
        links=Links(default=Link(latency_ms=LATENCY_MS, mbps=MBPS)),
        costs=Costs(interval_s=1.0),
    )
    froms = ", ".join(f"{name} [RANGE {WINDOW_MS} MILLISECONDS]" for name in names)
    equal = " AND ".join(f"{names[0]}.j = {name}.j" for name in names[1:])
    query = parse(f"SELECT s1.j FROM {froms} WHERE {equal}", name="join", schemas=catalog.schemas)
    return Session(catalog, PlanOptions("linear-greedy", Objective.TIME, "n1")).problem(query)
