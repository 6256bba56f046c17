"""A deployment: operators, each at a site, and edges that carry streams between them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from typing import Any

from thalweg.errors import UserError

_OPERATOR_KEYS = ("id", "kind", "site", "inputs")
_WORK = "work_s"
_TAKEN = frozenset((*_OPERATOR_KEYS, _WORK))
_EDGE_KEYS = ("from", "to", "from_site", "to_site", "streams", "tuples_per_s", "bytes_per_s")
_CARRIES = "carries"
_APART = ("split", "warning")
TUPLES = "tuples"


@dataclass(frozen=True)
class Operator:
    """Something done at a site; `details` say what, by keys that depend on the kind.

    `work_s` is an estimate of the seconds of work a second that it takes.
    """

    id: str
    kind: str
    site: str
    inputs: tuple[str, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict, hash=False)
    work_s: float = 0.0

    def __post_init__(self) -> None:
        if not _TAKEN.isdisjoint(self.details):
            taken = ", ".join(sorted(_TAKEN.intersection(self.details)))
            raise ValueError(f"operator {self.id}: details can't be called {taken}")
        if not (math.isfinite(self.work_s) and self.work_s >= 0):
            raise ValueError(f"operator {self.id}: {self.work_s} seconds can't be its work")

    def __str__(self) -> str:
        shown = {k: v for k, v in self.details.items() if v not in ([], {}, None) and k not in _APART}
        details = ", ".join(f"{k} {_shown(v)}" for k, v in shown.items())
        return f"{self.id}: {self.kind} at {self.site}" + (f" ({details})" if details else "")

    def remarks(self) -> list[str]:
        """What is to be said of it beside: how a join is split and why, and that it may be too much work."""
        split = self.details.get("split", [])
        lines = [
            line for choice in ([split] if isinstance(split, Mapping) else split) for line in _told(choice)
        ]
        return lines + ([f"WARNING: {self.details['warning']}"] if "warning" in self.details else [])

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "kind": self.kind,
            "site": self.site,
            "inputs": list(self.inputs),
            **self.details,
            **({_WORK: self.work_s} if self.work_s else {}),
        }


@dataclass(frozen=True)
class Edge:
    """What flows from one operator to another: whose tuples or keys, and how much of them."""

    source: str
    target: str
    source_site: str
    target_site: str
    streams: tuple[str, ...]
    tuples_per_s: float
    bytes_per_s: float
    carries: str = TUPLES

    def __post_init__(self) -> None:
        if not (0 <= self.tuples_per_s < math.inf and 0 <= self.bytes_per_s < math.inf):
            rate = self.bytes_per_s if 0 <= self.tuples_per_s < math.inf else self.tuples_per_s
            raise ValueError(f"edge {self.source} -> {self.target}: {rate} is not a rate")

    def to_json(self) -> dict[str, Any]:
        return {
            "from": self.source,
            "to": self.target,
            "from_site": self.source_site,
            "to_site": self.target_site,
            "streams": list(self.streams),
            "tuples_per_s": self.tuples_per_s,
            "bytes_per_s": self.bytes_per_s,
            **({_CARRIES: self.carries} if self.carries != TUPLES else {}),
        }


@dataclass(frozen=True)
class Deployment:
    """An acyclic graph of operators; one that hangs together wrongly can't be built.

    >>> source = Operator("a", "source", "n1", details={"stream": "s1"})
    >>> sink = Operator("out", "sink", "n2", ("a",))
    >>> plan = Deployment((source, sink), (Edge("a", "out", "n1", "n2", ("a",), 10.0, 80.0),))
    >>> print(plan.explain())
    out: sink at n2
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
            if len(set(operator.inputs)) < len(operator.inputs):
                raise ValueError(f"operator {operator.id} reads the same input twice")
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
        return {
            "operators": [o.to_json() for o in self.operators],
            "edges": [e.to_json() for e in self.edges],
        }

    @classmethod
    def from_json(cls, data: Any, *, where: str | None = None) -> Deployment:
        """Reads back what `to_json` gave; anything else is an error that says what is wrong with it."""
        try:
            _only(data, ("operators", "edges"), "a deployment")
            return cls(
                tuple(_operator(o) for o in _list(data["operators"], "operators")),
                tuple(_edge(e) for e in _list(data["edges"], "edges")),
            )
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


def _shown(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return ", ".join(map(_shown, value)) or "none"
    if isinstance(value, dict):
        return "; ".join(f"{k}: {_shown(v)}" for k, v in value.items())
    return str(value)


def _only(data: Any, keys: tuple[str, ...], what: str, more: tuple[str, ...] = ()) -> None:
    if not isinstance(data, dict):
        raise ValueError(f"{what} is an object, not {type(data).__name__}")
    if missing := [k for k in keys if k not in data]:
        raise ValueError(f"{what} lacks {', '.join(missing)}")
    if unknown := sorted(set(data) - {*keys, *more}):
        raise ValueError(f"{what} has {', '.join(unknown)}, which this version does not know")


def _list(value: Any, what: str) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError(f"{what} is not a list")
    return value


def _text(value: Any, what: str) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(f"{what} is not a name: {value!r}")
    return value


def _names(value: Any, what: str) -> tuple[str, ...]:
    return tuple(_text(v, what) for v in _list(value, what))


def _number(value: Any, what: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f"{what} is not a number: {value!r}")
    return float(value)


def _told(choice: Mapping[str, Any]) -> list[str]:
    """How a join is run, in lines."""
    lines = [f"joined as {choice.get('tree')}: {choice.get('because')}"]
    if work := choice.get("work_s"):
        lines.append("seconds of work a second: " + ", ".join(f"{way} {s:g}" for way, s in work.items()))
    if paper := choice.get("mjoin"):
        known = {"S": "store", "D": "recompute"}
        costs = ", ".join(
            f"{name} = {paper[name]:g} s to {how}" for name, how in known.items() if name in paper
        )
        lines.append(f"MJoin's own formulas, which decide nothing: {costs}, so {paper.get('says')}")
    return lines


def _operator(data: Any) -> Operator:
    if not isinstance(data, dict):
        raise ValueError("an operator is not an object")
    if missing := [k for k in _OPERATOR_KEYS if k not in data]:
        raise ValueError(f"an operator lacks {', '.join(missing)}")
    details = {k: v for k, v in data.items() if k not in (*_OPERATOR_KEYS, _WORK)}
    id_, kind, site = (_text(data[k], f"an operator's {k}") for k in ("id", "kind", "site"))
    inputs = _names(data["inputs"], f"operator {id_}: inputs")
    return Operator(
        id_, kind, site, inputs, details, _number(data.get(_WORK, 0.0), f"operator {id_}: work_s")
    )


def _edge(data: Any) -> Edge:
    _only(data, _EDGE_KEYS, "an edge", (_CARRIES,))
    source, target, source_site, target_site = (_text(data[k], f"an edge's {k}") for k in _EDGE_KEYS[:4])
    streams = _names(data["streams"], "an edge's streams")
    tuples, size = (_number(data[k], f"an edge's {k}") for k in _EDGE_KEYS[5:])
    carries = _text(data.get(_CARRIES, TUPLES), "what an edge carries")
    return Edge(source, target, source_site, target_site, streams, tuples, size, carries)
