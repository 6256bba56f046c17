"""The plan that needs no planner: all streams of a query meet at one site."""

from __future__ import annotations

from thalweg.plan.deployment import Deployment, Edge, Operator
from thalweg.query.model import Query


def gathered(query: Query, site: str = "here") -> Deployment:
    """All streams of a query at one site, in one join; the compiler makes a tree of it where it must."""
    aliases = query.aliases
    sources = [Operator(i.alias, "source", site, (), {"stream": i.stream}) for i in query.inputs]
    join = Operator("join", "join", site, aliases, {"streams": list(aliases)})
    sink = Operator("out", "sink", site, ("join",))
    edges = [Edge(a, "join", site, site, (a,), 0.0, 0.0) for a in aliases]
    edges.append(Edge("join", "out", site, site, aliases, 0.0, 0.0))
    return Deployment((*sources, join, sink), tuple(edges))
