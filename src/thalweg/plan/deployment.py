"""A deployment: operators at sites, and edges that carry streams between them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from typing import Any

from thalweg.errors import UserError
from thalweg.plan.codec import decode, encode
from thalweg.plan.operators import Operator, Widen, brought, named

TUPLES = "tuples"


@dataclass(frozen=True)
class Edge:
    """The flow from one operator to another: the streams whose tuples or keys it carries, and its rate."""

    source: str = field(metadata={"json": "from"})
    target: str = field(metadata={"json": "to"})
    source_site: str = field(metadata={"json": "from_site"})
    target_site: str = field(metadata={"json": "to_site"})
    streams: tuple[str, ...]
    tuples_per_s: float
    bytes_per_s: float
    carries: str = TUPLES

    def __post_init__(self) -> None:
        if not (0 <= self.tuples_per_s < math.inf and 0 <= self.bytes_per_s < math.inf):
            rate = self.bytes_per_s if 0 <= self.tuples_per_s < math.inf else self.tuples_per_s
            raise ValueError(f"edge {self.source} -> {self.target}: {rate} is not a rate")


@dataclass(frozen=True)
class Deployment:
    """An acyclic graph of operators. An inconsistent one can't be built.

    >>> from thalweg.plan.operators import Sink, Source
    >>> source = Source("a", "n1", stream="s1")
    >>> sink = Sink("out", "n2", ("a",), query="q")
    >>> plan = Deployment((source, sink), (Edge("a", "out", "n1", "n2", ("a",), 10.0, 80.0),))
    >>> print(plan.explain())
    out: sink at n2 (query q)
      <- a, n1 to n2: 10 tuples/s, 80 bytes/s
      a: source at n1 (stream s1)
    >>> Deployment.from_json(plan.to_json()) == plan
    True
    """

    operators: tuple[Operator, ...]
    edges: tuple[Edge, ...]

    def __post_init__(self) -> None:
        by_id = {o.id: o for o in self.operators}
        if len(by_id) < len(self.operators):
            raise ValueError("two operators have the same id")
        for operator in self.operators:
            if unknown := [i for i in operator.inputs if i not in by_id]:
                raise ValueError(f"operator {operator.id} reads {', '.join(unknown)}, which does not exist")
        self._check_streams()
        wanted = {(i, o.id) for o in self.operators for i in o.inputs}
        drawn = [(e.source, e.target) for e in self.edges]
        if wanted != set(drawn) or len(drawn) > len(wanted):
            odd = sorted(wanted.symmetric_difference(drawn)) or sorted(d for d in drawn if drawn.count(d) > 1)
            raise ValueError(f"inputs and edges differ: {odd[0][0]} -> {odd[0][1]}")
        for edge in self.edges:
            if (by_id[edge.source].site, by_id[edge.target].site) != (edge.source_site, edge.target_site):
                raise ValueError(f"edge {edge.source} -> {edge.target} is not between its operators' sites")
        try:
            TopologicalSorter({o.id: o.inputs for o in self.operators}).prepare()
        except CycleError as error:
            raise ValueError(f"operators feed each other in a circle: {' -> '.join(error.args[1])}") from None

    def _check_streams(self) -> None:
        known = {alias for o in self.operators for alias in brought(o)}
        for operator in self.operators:
            if unknown := named(operator) - known:
                raise ValueError(f"operator {operator.id} names stream {min(unknown)}, which no source has")
        widening = {o.id for o in self.operators if isinstance(o, Widen)}  # their streams are another query's
        for edge in self.edges:
            if not known.issuperset(edge.streams) and edge.target not in widening:
                unknown, ends = set(edge.streams) - known, f"edge {edge.source} -> {edge.target}"
                raise ValueError(f"{ends} carries stream {min(unknown)}, which no source has")

    def operator(self, id_: str) -> Operator:
        return self._by_id[id_]

    def edge(self, source: str, target: str) -> Edge:
        return self._by_ends[source, target]

    @cached_property
    def _by_id(self) -> dict[str, Operator]:
        return {o.id: o for o in self.operators}

    @cached_property
    def _by_ends(self) -> dict[tuple[str, str], Edge]:
        return {(e.source, e.target): e for e in self.edges}

    @property
    def sites(self) -> tuple[str, ...]:
        return tuple(sorted({o.site for o in self.operators}))

    def to_json(self) -> dict[str, Any]:
        return {"operators": [o.to_json() for o in self.operators], "edges": [encode(e) for e in self.edges]}

    @classmethod
    def from_json(cls, data: Any, *, where: str | None = None) -> Deployment:
        """Reads the output of `to_json`; anything else is a UserError that names the mistake."""
        try:
            return decode(cls, data, "a deployment")
        except ValueError as error:
            raise UserError(f"this is not a deployment: {error}", where=where) from error

    def explain(self) -> str:
        """The deployment as indented text, from its sinks down to its sources.

        An operator that several read is written out once.
        """
        read = {i for o in self.operators for i in o.inputs}
        lines: list[str] = []
        told: set[str] = set()
        waiting = [(o.id, "", 0) for o in reversed(self.operators) if o.id not in read]
        while waiting:  # no recursion: a plan of a thousand streams may be a thousand deep
            id_, reader, depth = waiting.pop()
            if reader:
                lines.append("  " * depth + f"<- {self._flow(self.edge(id_, reader))}")
            again = id_ in told
            lines.append("  " * depth + (f"{id_}: above" if again else str(self.operator(id_))))
            if not again:
                told.add(id_)
                lines += ["  " * depth + f"    {remark}" for remark in self.operator(id_).remarks()]
                waiting += [(i, id_, depth + 1) for i in reversed(self.operator(id_).inputs)]
        return "\n".join(lines)

    def _flow(self, edge: Edge) -> str:
        apart = edge.source_site != edge.target_site
        way = f", {edge.source_site} to {edge.target_site}" if apart else ""
        rates = f"{edge.tuples_per_s:,.6g} tuples/s, {edge.bytes_per_s:,.6g} bytes/s"
        return f"{edge.source}{way}: {rates}" + (f", {edge.carries}" if edge.carries != TUPLES else "")
