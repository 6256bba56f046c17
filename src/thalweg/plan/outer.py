"""The outer joins of a query, after the plan of its inner part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from thalweg.plan.deployment import Deployment, Edge
from thalweg.plan.operators import Operator, Outer, Sink, Source
from thalweg.query.model import Query


@dataclass(frozen=True)
class Flow:
    """What an edge carries: tuples and bytes a second."""

    tuples: float = 0.0
    bytes: float = 0.0


@dataclass(frozen=True)
class Placed:
    """Where an outer join is, where its stream arises, and what flows in from there and out of it."""

    site: str
    home: str
    stream: Flow = Flow()
    out: Flow = Flow()


def lone(query: Query, site: str) -> Deployment:
    """The plan of an inner part of one stream."""
    one = query.inputs[0]
    source = Source(id=one.alias, site=site, stream=one.stream, filters=tuple(f.sql for f in one.filters))
    sink = Sink(id="#out", site=site, inputs=(one.alias,), query=query.name)
    return Deployment((source, sink), (Edge(one.alias, sink.id, site, site, (one.alias,), 0.0, 0.0),))


def with_outer(
    query: Query, deployment: Deployment, places: Sequence[Placed], left: Flow, target: str | None = None
) -> Deployment:
    """The plan of the inner part, then the outer joins one after another, at their places.

    `left` is the flow out of the inner part; `target` is where results are wanted.
    """
    sinks = [o for o in deployment.operators if isinstance(o, Sink)]
    ends = {o.id for o in sinks}
    operators: list[Operator] = [o for o in deployment.operators if o.id not in ends]
    edges = [e for e in deployment.edges if e.target not in ends]
    rate = {e.source: Flow(e.tuples_per_s, e.bytes_per_s) for e in deployment.edges if e.target in ends}
    before = list(dict.fromkeys(i for sink in sinks for i in sink.inputs))
    if len(before) == 1:
        rate[before[0]] = left
    aliases, at = query.inner, {o.id: o.site for o in operators}
    for n, (one, place) in enumerate(zip(query.outer, places, strict=True)):
        stream = query.input(one.alias)
        filters = tuple(f.sql for f in stream.filters)
        source = Source(id=one.alias, site=place.home, stream=stream.stream, filters=filters)
        inputs = (*before, one.alias)
        streams = (*aliases, one.alias) if one.brings else aliases
        join = Outer(
            id=f"#outer{n + 1}",
            site=place.site,
            inputs=inputs,
            join=str(one.kind),
            stream=one.alias,
            streams=streams,
            on=tuple({next(iter(s.aliases)): (s.sql,) for s in (e.left, e.right)} for e in one.equalities),
            conditions=tuple(e.sql for e in one.conditions),
        )
        operators += [source, join]
        at |= {source.id: source.site, join.id: join.site}
        rate[one.alias] = place.stream
        edges += [_edge(i, join, at, rate, (one.alias,) if i == one.alias else aliases) for i in inputs]
        aliases, before, rate[join.id] = streams, [join.id], place.out
    last = target if target is not None else places[-1].site
    sink = Sink(id=sinks[0].id, site=last, inputs=tuple(before), query=query.name)
    edges += [_edge(i, sink, at, rate, aliases) for i in before]
    return Deployment((*operators, sink), tuple(edges))


def _edge(
    source: str, target: Operator, at: dict[str, str], rate: dict[str, Flow], streams: tuple[str, ...]
) -> Edge:
    flow = rate.get(source, Flow())
    return Edge(source, target.id, at[source], target.site, streams, flow.tuples, flow.bytes)
