"""The cost of a deployment.

A deployment is priced on its deduplicated graph: an operator sends its output to a site once, however many
operators there read it. Aliases of one stream with the same filters count as one operator.
"""

from __future__ import annotations

from collections.abc import Hashable

from thalweg.cost.network import Network
from thalweg.cost.objectives import Model
from thalweg.plan.deployment import Deployment, Edge
from thalweg.plan.operators import Operator, Reuse, Source
from thalweg.query.model import quoted


def price(deployment: Deployment, network: Network, model: Model) -> float:
    """The cost of all shipments of a deployment and, if the objective counts work, of its operators."""
    total = sum(
        network.cost(network.number[e.source_site], network.number[e.target_site], e.bytes_per_s)
        for e in shipments(deployment)
    )
    return total + (sum(o.work_s for o in deployment.operators) if model.work else 0.0)


def shipments(deployment: Deployment) -> list[Edge]:
    """The edges to other sites, each shipment once: of several edges the largest."""
    found: dict[Hashable, Edge] = {}
    by_id = {o.id: o for o in deployment.operators}
    for edge in deployment.edges:
        if edge.source_site != edge.target_site:
            key = shipment_key(by_id[edge.source], edge)
            if key not in found or found[key].bytes_per_s < edge.bytes_per_s:
                found[key] = edge
    return list(found.values())


def shipment_key(source: Operator, edge: Edge) -> Hashable:
    """The key of a shipment: edges with the same key are sent once."""
    return _sent(source), edge.carries, edge.target_site


def _sent(operator: Operator) -> Hashable:
    match operator:
        case Source():
            own = f"{quoted(operator.id)}."  # filters name the alias, which is all that two may differ in
            return operator.stream, tuple(sorted(f.replace(own, "") for f in operator.filters))
        case Reuse():
            return operator.query, operator.operator, operator.site
        case _:
            return operator.id
