"""The node operator set of a site: its part of a deployment (adaptive 4.1, definition 2).

Streams have the names of the operators they come from: a source its alias, the output of a head's step
"k^i" (adaptive's S^i_k). A step probes the window of one stream; an N-way join, or a helper of a semijoin,
those of all its inputs.
"""

from __future__ import annotations

from dataclasses import dataclass

from thalweg.plan import operators
from thalweg.plan.deployment import Deployment, Edge


@dataclass(frozen=True)
class Join:
    """A one-way join from the first stream to the second; an N-way join of all."""

    streams: tuple[str, ...]

    def __str__(self) -> str:
        return f"join({', '.join(self.streams)})"


@dataclass(frozen=True)
class Update:
    """Keeps the window of a stream."""

    stream: str

    def __str__(self) -> str:
        return f"update({self.stream})"


@dataclass(frozen=True)
class Ship:
    """Sends the tuples or keys of a stream to another site."""

    stream: str
    site: str

    def __str__(self) -> str:
        return f"ship({self.stream}, {self.site})"


NodeOperator = Join | Update | Ship


def node_operators(deployment: Deployment, site: str, head: str | None = None) -> frozenset[NodeOperator]:
    """The node operator set of a site; with `head`, only its part of that stream's sequence.

    >>> a, b = (operators.Source(s, f"n_{s}", stream=s) for s in "ab")
    >>> more = {"head": "a", "stream": "b", "method": "SP-D", "streams": ("a", "b"), "on": ()}
    >>> step = operators.Step("b^a", "n_b", ("a", "b"), **more)
    >>> edges = (Edge("a", "b^a", "n_a", "n_b", ("a",), 1, 1), Edge("b", "b^a", "n_b", "n_b", ("b",), 1, 1))
    >>> plan = Deployment((a, b, step), edges)
    >>> for site in plan.sites:
    ...     print(site, sorted(map(str, node_operators(plan, site))))
    n_a ['ship(a, n_b)']
    n_b ['join(a, b)', 'update(b)']
    """
    found: set[NodeOperator] = set()
    for operator in deployment.operators:
        if operator.site == site and head in (None, _head_of(operator)):
            found |= _done(operator)
    for edge in deployment.edges:
        if edge.source_site == site != edge.target_site and head in (None, _head(deployment, edge)):
            found.add(Ship(edge.source, edge.target_site))
    return frozenset(found)


def _done(operator: operators.Operator) -> set[NodeOperator]:
    if isinstance(operator, operators.Step):
        return {Join((operator.inputs[0], operator.stream)), Update(operator.stream)}
    if isinstance(operator, operators.Sink) or len(operator.inputs) < 2:
        return set()
    return {Join(operator.inputs), *(Update(i) for i in operator.inputs)}


def _head(deployment: Deployment, edge: Edge) -> str | None:
    """The head for which something is shipped: the reader's head, or the sender's if a sink reads it."""
    return _head_of(deployment.operator(edge.target)) or _head_of(deployment.operator(edge.source))


def _head_of(operator: operators.Operator) -> str | None:
    return operator.head if isinstance(operator, operators.OneWay) else None
