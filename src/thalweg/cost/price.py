"""What a deployment costs in a model.

A deployment is priced on its deduplicated graph: what an operator sends to a site is sent once, however
many operators there read it. A stream that is read under several aliases with the same filters counts as
one operator for this.
"""

from __future__ import annotations

from collections.abc import Hashable

from thalweg.cost.network import Network
from thalweg.cost.objectives import Model
from thalweg.plan.deployment import Deployment, Edge
from thalweg.plan.operators import Operator, Reuse, Source
from thalweg.query.model import quoted


def price(deployment: Deployment, network: Network, model: Model) -> float:
    """The cost of all that a deployment ships and, in a model that counts it, does."""
    total = sum(
        network.cost(network.number[e.source_site], network.number[e.target_site], e.bytes_per_s)
        for e in shipments(deployment)
    )
    return total + (sum(o.work_s for o in deployment.operators) if model.work else 0.0)


def shipments(deployment: Deployment) -> list[Edge]:
    """The edges that lead to another site, each shipment once: the largest stands for its like."""
    found: dict[Hashable, Edge] = {}
    by_id = {o.id: o for o in deployment.operators}
    for edge in deployment.edges:
        if edge.source_site != edge.target_site:
            key = shipment_key(by_id[edge.source], edge)
            if key not in found or found[key].bytes_per_s < edge.bytes_per_s:
                found[key] = edge
    return list(found.values())


def shipment_key(source: Operator, edge: Edge) -> Hashable:
    """What two edges have in common that are one shipment."""
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
