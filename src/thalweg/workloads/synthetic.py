"""integrated's synthetic workload (4.1.1): rates, selectivities, sources and sinks, all uniformly at random.

The paper gives 2 to 5 joins a query and random sinks. Ours are the ranges: rates of 10 to 100 tuples a
second, and selectivities such that a join of two streams gives about as many tuples as either. Every pair of
streams can be joined, on an attribute of their own, with one selectivity for all queries; a query joins its
streams in a random tree. Tuples count as 1.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from thalweg.catalog.model import Catalog, Links, Site, Source, Stats, Stream
from thalweg.query.model import Query
from thalweg.workloads.queries import query

RATES = (10.0, 100.0)
DISTINCT = (300.0, 1500.0)
JOINS = (2, 5)
STREAMS = 10


@dataclass(frozen=True, eq=False)
class Workload:
    """Queries in the order in which they come, each with the site of its sink."""

    catalog: Catalog
    queries: Sequence[Query]
    sinks: Sequence[str]


def workload(
    nodes: int,
    links: Links,
    seed: int,
    *,
    queries: int,
    joins: tuple[int, int] = JOINS,
    streams: int = STREAMS,
    selective: float = 1.0,
) -> Workload:
    """So many queries over streams at random nodes; joins may be so many times as selective."""
    rng = random.Random(seed)
    catalog = _catalog(nodes, links, streams, selective, rng)
    asked, sinks = [], []
    for number in range(queries):
        chosen = rng.sample(range(streams), rng.randint(*joins) + 1)
        tree = [tuple(sorted((rng.choice(chosen[:i]), chosen[i]))) for i in range(1, len(chosen))]
        equal = [(f"s{a}", f"k{a}_{b}", f"s{b}", f"k{a}_{b}") for a, b in tree]
        asked.append(query(equal, f"q{number}"))
        sinks.append(f"n{rng.randrange(nodes)}")
    return Workload(catalog, asked, sinks)


def _catalog(nodes: int, links: Links, streams: int, selective: float, rng: random.Random) -> Catalog:
    distinct = {
        (a, b): selective * rng.uniform(*DISTINCT) for b in range(streams) for a in range(b)
    }  # both streams have as many values, and the selectivity is one by their number
    made = {}
    for i in range(streams):
        own = {f"k{a}_{b}": values for (a, b), values in distinct.items() if i in (a, b)}
        made[f"s{i}"] = Stream(
            name=f"s{i}",
            site=f"n{rng.randrange(nodes)}",
            time="ts",
            columns={"ts": "timestamp", "v": "long", **dict.fromkeys(own, "long")},
            source=Source(format="parquet"),
            stats=Stats(rate=rng.uniform(*RATES), distinct=own),
        )
    return Catalog(path="", sites={f"n{i}": Site() for i in range(nodes)}, streams=made, links=links)
