"""Where outer joins go: the cheapest sites for them, one after another, by dynamic programming.

The inner part is planned first. Each outer join then meets what comes out before it with one more stream, at
any site. An outer join can't be moved before another join, so only sites are left to choose.
"""

from __future__ import annotations

import numpy as np

from thalweg.cost.network import Network
from thalweg.cost.rates import Rates
from thalweg.plan.deployment import Deployment
from thalweg.plan.operators import Sink
from thalweg.plan.outer import Flow, Placed, with_outer
from thalweg.query.model import Outer, OuterKind, Query


def deploy_outer(
    query: Query, inner: Deployment, rates: Rates, network: Network, target: str | None
) -> Deployment:
    """The plan of the inner part with the outer joins after it.

    `rates` are of the query with every join taken for an inner one.
    """
    names = list(network.number)
    left = _flow(rates, len(query.inner))
    ends = {o.id for o in inner.operators if isinstance(o, Sink)}
    costs = np.zeros(len(names))
    for edge in (e for e in inner.edges if e.target in ends):
        alone = len(query.inner) == 1
        costs += network.from_site(
            network.number[edge.source_site], left.bytes if alone else edge.bytes_per_s
        )
    before: list[np.ndarray] = []
    streams, outs = [], []
    out = left
    for n, one in enumerate(query.outer):
        stream = _stream(rates, one.alias)
        home = network.number[rates.sites[rates.aliases.index(one.alias)]]
        costs = costs + network.from_site(home, stream.bytes)
        out = _after(one, out, _flow(rates, len(query.inner) + n + 1))
        streams.append(stream)
        outs.append(out)
        if n + 1 < len(query.outer):
            costs, came = network.spread(costs, out.bytes)
            before.append(came)
    if target is not None:
        costs = costs + network.to_site(network.number[target], out.bytes)
    sites = [int(np.argmin(costs))]
    for came in reversed(before):
        sites.insert(0, int(came[sites[0]]))
    homes = [rates.sites[rates.aliases.index(one.alias)] for one in query.outer]
    places = [
        Placed(names[site], home, stream, flow)
        for site, home, stream, flow in zip(sites, homes, streams, outs, strict=True)
    ]
    return with_outer(query, inner, places, left, target)


def _flow(rates: Rates, streams: int) -> Flow:
    found = rates.flow((1 << streams) - 1)
    return Flow(found.rate, found.bytes)


def _stream(rates: Rates, alias: str) -> Flow:
    found = rates.flow(1 << rates.aliases.index(alias))
    return Flow(found.rate, found.bytes)


def _after(one: Outer, left: Flow, matched: Flow) -> Flow:
    """What comes out of an outer join, given what goes in and what an inner one would give."""
    if one.kind in (OuterKind.SEMI, OuterKind.ANTI):
        return left
    width = matched.bytes / matched.tuples if matched.tuples else 0.0
    tuples = max(left.tuples, matched.tuples)
    return Flow(tuples, max(left.bytes, tuples * width))
