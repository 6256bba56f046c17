"""The plan that needs no planner: all streams of a query meet at one site."""

from __future__ import annotations

from thalweg.plan.deployment import Deployment, Edge
from thalweg.plan.operators import Join, Sink, Source
from thalweg.plan.outer import Flow, Placed, lone, with_outer
from thalweg.query.model import Query


def gathered(query: Query, site: str = "here") -> Deployment:
    """All streams of a query at one site, in one join; the compiler makes a tree of it where it must."""
    if query.outer:
        inner = gathered(query.inner_part, site) if len(query.inner) > 1 else lone(query, site)
        return with_outer(query, inner, [Placed(site, site)] * len(query.outer), Flow())
    aliases = query.aliases
    sources = [Source(id=i.alias, site=site, stream=i.stream) for i in query.inputs]
    join = Join(id="#join", site=site, inputs=aliases, streams=aliases, on=())
    sink = Sink(id="#out", site=site, inputs=(join.id,), query=query.name)
    edges = [Edge(a, join.id, site, site, (a,), 0.0, 0.0) for a in aliases]
    edges.append(Edge(join.id, sink.id, site, site, aliases, 0.0, 0.0))
    return Deployment((*sources, join, sink), tuple(edges))
