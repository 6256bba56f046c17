"""The way of each head of probe sequences, in a line: which streams it meets, where, by which method.

The nested form (`Deployment.explain`) has a line for every operator, and a semijoin is three or four of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import wrap

from thalweg.plan.deployment import Deployment, Edge
from thalweg.plan.operators import Filter, Helper, Keys, Operator, Reuse, Sink, Source, Step, Widen

WIDTH = 110
_ALONG = (Source, Step, Helper, Keys, Sink, Reuse, Filter, Widen)


def ways(deployment: Deployment) -> list[str]:
    """The lines of all heads; none for a deployment that is something else than probe sequences."""
    steps: dict[str, list[Step]] = {}
    for operator in deployment.operators:
        if not isinstance(operator, _ALONG):
            return []
        if isinstance(operator, Step):
            steps.setdefault(operator.head, []).append(operator)
    lines = []
    for head, own in steps.items():
        own.sort(key=lambda step: len(step.streams))
        told = [_begins(deployment, own[0]), *(_step(deployment, step) for step in own)]
        text = f"head {head}{told[0]}: {', '.join(told[1:])}{_ends(deployment, own[-1])}"
        lines += wrap(text, WIDTH, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)
    return lines


def _begins(deployment: Deployment, first: Step) -> str:
    """Where a head comes from."""
    for operator in map(deployment.operator, first.inputs):
        if isinstance(operator, Reuse):
            return f" at {operator.site}, from {operator.operator} of {operator.query}"
    source = next((o for o in deployment.operators if isinstance(o, Source) and o.id == first.head), None)
    if source is None:
        return ""
    return f" at {source.site}" + (f", filtered by {' and '.join(source.filters)}" if source.filters else "")


def _step(deployment: Deployment, step: Step) -> str:
    shipped = sum(e.bytes_per_s for e in _edges(deployment, step) if e.source_site != e.target_site)
    cost = f" ({shipped:,.4g} bytes/s)" if shipped else ""
    return f"{step.stream} at {step.site} by {step.method}{cost}"


def _edges(deployment: Deployment, step: Step) -> Iterator[Edge]:
    """All that flows for a step: into it, and into the operators that prepare it."""
    waiting: list[Operator] = [step]
    seen = set()
    while waiting:
        operator = waiting.pop()
        for one in operator.inputs:
            edge = deployment.edge(one, operator.id)
            sent = (edge.source, edge.source_site, edge.target_site, edge.carries)
            if sent not in seen:  # two of them may read what is shipped once
                seen.add(sent)
                yield edge
            found = deployment.operator(one)
            if isinstance(found, Helper | Keys):
                waiting.append(found)


def _ends(deployment: Deployment, last: Step) -> str:
    for edge in deployment.edges:
        if edge.source == last.id and isinstance(deployment.operator(edge.target), Sink):
            where = f" to {edge.target_site}" if edge.target_site != edge.source_site else ""
            return f"; {edge.tuples_per_s:,.4g} results/s{where}"
    return ""
