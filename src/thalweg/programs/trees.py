"""The tree of joins that a deployment at one site asks for."""

from __future__ import annotations

from collections.abc import Sequence
from graphlib import TopologicalSorter

from thalweg.plan.deployment import Deployment
from thalweg.plan.operators import Join, Sink, Source
from thalweg.query.model import Expr
from thalweg.query.tree import Classes, Node, join_tree


def planned_tree(deployment: Deployment, aliases: Sequence[str], classes: Classes) -> list[Node]:
    """The nodes, inputs before those that read them; an operator on several attributes is several of them.

    A plan that is not a tree of joins (probe sequences, parts of a key space, what another query yields), or
    whose tree was made to save shipping and not work, gives the same results as the query's own tree, and
    nothing is shipped at one site: so that one is taken.
    """
    own = join_tree(aliases, classes)
    operators = deployment.operators
    chosen = any(isinstance(o, Join) and o.split for o in operators)
    if not chosen or not all(isinstance(o, Source | Join | Sink) for o in operators):
        return own
    by_id = {o.id: o for o in deployment.operators}
    nodes: list[Node] = []
    made: dict[str, tuple[str | int, frozenset[str]]] = {}  # what an operator is, and whose tuples it joins
    for id_ in TopologicalSorter({o.id: o.inputs for o in deployment.operators}).static_order():
        operator = by_id[id_]
        if isinstance(operator, Source):
            made[id_] = (id_, frozenset([id_]))
        elif isinstance(operator, Join):
            inputs = {i: made[i] for i in operator.inputs}
            within: list[dict[str, list[Expr]]] = [
                {i: [] for i, (_, inside) in inputs.items() if inside & by_alias.keys()}
                for by_alias in classes
            ]
            try:
                found = join_tree(operator.inputs, within)
            except ValueError:
                return own  # it has a join of all with all, which only sites far apart have a use for
            at = len(nodes)
            for node in found:
                nodes.append(
                    Node(
                        tuple(i + at if isinstance(i, int) else inputs[i][0] for i in node.inputs),
                        node.classes,
                        frozenset[str]().union(*(inputs[i][1] for i in node.aliases)),
                    )
                )
            made[id_] = (len(nodes) - 1, nodes[-1].aliases)
    return nodes if nodes and nodes[-1].aliases == frozenset(aliases) else own
