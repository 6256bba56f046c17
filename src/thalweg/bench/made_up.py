"""Synthetic problems for the planners: networks, streams and queries made from a seed, in memory."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence

from thalweg.catalog.model import Catalog, Link, Links, Site, Source, Stats, Stream
from thalweg.query.model import Query
from thalweg.workloads.queries import query

_STUB = 8
"""Sites of a stub network."""


def sparse(nodes: int, seed: int = 1, degree: int = 4) -> Links:
    """A connected network: a random tree, and random links up to an average degree."""
    rng = random.Random(seed)
    ends = {(i, rng.randrange(i)) for i in range(1, nodes)}
    while nodes > degree and len(ends) < nodes * degree // 2:
        a, b = rng.randrange(nodes), rng.randrange(nodes)
        if a != b:
            ends.add((max(a, b), min(a, b)))
    return _links(sorted(ends), lambda a, b: rng.uniform(1, 50), rng)


def transit_stub(nodes: int, seed: int = 1) -> Links:
    """Small networks with short links, joined to each other by a network of long ones (integrated 6)."""
    rng = random.Random(seed)
    gates = range(0, nodes, _STUB)
    ends = [(i, rng.randrange(i - i % _STUB, i)) for _ in range(2) for i in range(nodes) if i % _STUB]
    ends += [(g, rng.randrange(0, g, _STUB)) for _ in range(2) for g in gates if g]

    def latency(a: int, b: int) -> float:
        return rng.uniform(1, 6) if a // _STUB == b // _STUB else rng.uniform(20, 60)

    return _links(sorted(set(ends)), latency, rng)


def _links(
    ends: Iterable[tuple[int, int]], latency: Callable[[int, int], float], rng: random.Random
) -> Links:
    pairs = {}
    for a, b in ends:
        link = Link(latency_ms=latency(a, b), mbps=100, usd_per_gb=rng.uniform(0.01, 0.1))
        pairs[f"n{a}", f"n{b}"] = pairs[f"n{b}", f"n{a}"] = link
    return Links(default=None, pairs=pairs)


def catalog(
    streams: int,
    nodes: int,
    links: Links,
    *,
    keys: Sequence[str] = ("k",),
    values: int = 0,
    seed: int = 1,
) -> Catalog:
    """Streams s0, s1, ... at random sites; with `values`, the first key's rates are known value by value."""
    rng = random.Random(seed)
    made = {}
    for number in range(streams):
        rate = rng.uniform(10, 100)
        by_value: Mapping[str, Mapping[int, float]] = {}
        if values:
            shares = [rng.paretovariate(1.2) for _ in range(values)]
            by_value = {keys[0]: {v: rate * s / sum(shares) for v, s in enumerate(shares)}}
        made[f"s{number}"] = Stream(
            name=f"s{number}",
            site=f"n{rng.randrange(nodes)}",
            time="ts",
            columns={"ts": "timestamp", **dict.fromkeys(keys, "long"), "v": "long"},
            source=Source(format="parquet"),
            stats=Stats(
                rate=rate,
                # About as many values as tuples in a window: a join is as fast as its streams, more or less.
                distinct={k: rng.uniform(300, 1500) for k in keys[1 if values else 0 :]},
                rates=by_value,
            ),
        )
    return Catalog(path="", sites={f"n{i}": Site() for i in range(nodes)}, streams=made, links=links)


def one_attribute(streams: int, name: str = "q") -> Query:
    """All streams equal in one attribute."""
    return query([(f"s{i - 1}", "k", f"s{i}", "k") for i in range(1, streams)], name)


def chain(streams: int, name: str = "q") -> Query:
    """Each stream equal to the next in an attribute of their own; a stream has two keys, x and y."""
    return query([(f"s{i - 1}", "y", f"s{i}", "x") for i in range(1, streams)], name)


def schema(streams: int, seed: int = 1) -> list[tuple[str, str, str, str]]:
    """Which streams can be joined on which of the keys k0 to k3: a random tree, and as many more pairs."""
    rng = random.Random(seed)
    pairs = {(rng.randrange(i), i) for i in range(1, streams)}
    while len(pairs) < min(2 * (streams - 1), streams * (streams - 1) // 2):
        a, b = sorted(rng.sample(range(streams), 2))
        pairs.add((a, b))
    return [(f"s{a}", f"k{n % 4}", f"s{b}", f"k{n % 4}") for n, (a, b) in enumerate(sorted(pairs))]


def random_query(
    joins: Sequence[tuple[str, str, str, str]], streams: int, name: str, rng: random.Random
) -> Query:
    """A connected part of a schema with so many streams."""
    chosen = [rng.choice(joins)]
    inside = {chosen[0][0], chosen[0][2]}
    while len(inside) < streams:
        near = [j for j in joins if len({j[0], j[2]} & inside) == 1]
        if not near:
            break
        chosen.append(rng.choice(near))
        inside |= {chosen[-1][0], chosen[-1][2]}
    return query(chosen, name)
