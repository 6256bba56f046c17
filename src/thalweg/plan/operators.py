"""The operators of a deployment: one frozen class for each kind.

Expressions are Spark SQL texts in which every column is written `alias`.`column`. Streams are named by their
alias in the query, except in `Source.stream`. Every operator checks itself when it is built.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

from thalweg.plan.codec import decode, encode
from thalweg.plan.one_way import METHODS
from thalweg.plan.selectors import Selector
from thalweg.units import LONGEST

On = tuple[Mapping[str, tuple[str, ...]], ...]
"""For each shared attribute, the streams that have it and their expressions for it."""

_FIRST = ("id", "kind", "site", "inputs")
_REMARKED = ("split", "warning")  # shown as remarks


@dataclass(frozen=True)
class Operator:
    """Something done at a site, with `work_s` estimated seconds of work a second."""

    kind: ClassVar[str]
    least_inputs: ClassVar[int] = 0
    most_inputs: ClassVar[float] = math.inf

    id: str
    site: str
    inputs: tuple[str, ...] = field(default=(), metadata={"always": True})
    work_s: float = field(default=0.0, kw_only=True)

    def __post_init__(self) -> None:
        if not (math.isfinite(self.work_s) and self.work_s >= 0):
            raise ValueError(f"operator {self.id}: {self.work_s} seconds can't be its work")
        if not self.least_inputs <= len(self.inputs) <= self.most_inputs:
            many = "few" if len(self.inputs) < self.least_inputs else "many"
            raise ValueError(f"operator {self.id} has too {many} inputs for a {self.kind}")
        if len(set(self.inputs)) < len(self.inputs):
            raise ValueError(f"operator {self.id} reads the same input twice")

    def remarks(self) -> list[str]:
        """Lines that explain it further."""
        return []

    def __str__(self) -> str:
        shown = {k: v for k, v in self._details().items() if v not in ([], {}) and k not in _REMARKED}
        details = ", ".join(f"{k} {_shown(v)}" for k, v in shown.items())
        return f"{self.id}: {self.kind} at {self.site}" + (f" ({details})" if details else "")

    def to_json(self) -> dict[str, Any]:
        """Its JSON object: first the fields of all kinds, then its own."""
        first = {"id": self.id, "kind": self.kind, "site": self.site, "inputs": list(self.inputs)}
        return {**first, **self._details(), **({"work_s": self.work_s} if self.work_s else {})}

    def _details(self) -> dict[str, Any]:
        return {k: v for k, v in encode(self).items() if k not in (*_FIRST, "work_s")}

    @classmethod
    def read(cls, data: Any, what: str) -> Operator:
        """Reads an operator of any kind."""
        if not isinstance(data, dict):
            raise ValueError(f"{what} is not an object")
        if missing := [k for k in _FIRST if k not in data]:
            raise ValueError(f"an operator lacks {', '.join(missing)}")
        what = f"operator {data['id']}"
        found = KINDS.get(data["kind"]) if isinstance(data["kind"], str) else None
        if found is None:
            raise ValueError(f"{what}: there is no kind {data['kind']!r}, only {', '.join(KINDS)}")
        return decode(found, found._nested({k: v for k, v in data.items() if k != "kind"}), what)

    @classmethod
    def _nested(cls, data: dict[str, Any]) -> dict[str, Any]:
        """The object with the nesting of the class; JSON can be flatter."""
        return data


@dataclass(frozen=True, kw_only=True)
class Source(Operator):
    """A stream where it arises, filtered; its id is the stream's alias."""

    kind = "source"
    most_inputs = 0
    stream: str
    filters: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Split(Operator):
    """The tuples of its input whose `key` is in one part of the key space."""

    kind = "split"
    least_inputs = most_inputs = 1
    key: str
    selector: Selector

    def _details(self) -> dict[str, Any]:
        return {"key": self.key, **self.selector.to_json()}

    @classmethod
    def _nested(cls, data: dict[str, Any]) -> dict[str, Any]:
        inner = {f.name for f in fields(Selector)}
        return {
            **{k: v for k, v in data.items() if k not in inner},
            "selector": {k: v for k, v in data.items() if k in inner},
        }


@dataclass(frozen=True, kw_only=True)
class Reuse(Operator):
    """The output of another query's operator, as `streams` of this query.

    `columns_added` and `filters_widened` are changes to that operator, by stream. A stream that occurs
    several times is numbered there ("s#2").
    """

    kind = "reuse"
    query: str
    operator: str
    streams: tuple[str, ...]
    columns_added: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    filters_widened: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Widen(Operator):
    """A change to another query's operator: it lets more tuples or columns pass than before."""

    kind = "widen"
    query: str
    operator: str


@dataclass(frozen=True, kw_only=True)
class Filter(Operator):
    """Filters a reused output, and narrows its windows to those given by stream."""

    kind = "filter"
    least_inputs = most_inputs = 1
    filters: tuple[str, ...]
    windows: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class PaperCosts:
    """MJoin's own estimates, in seconds of work a second; those beyond all numbers are left out."""

    store: float | None = field(default=None, metadata={"json": "S"})
    recompute: float | None = field(default=None, metadata={"json": "D"})
    work_s: float | None = None
    says: str

    def __str__(self) -> str:
        known = (("S", self.store, "store"), ("D", self.recompute, "recompute"))
        costs = ", ".join(f"{name} = {s:g} s to {how}" for name, s, how in known if s is not None)
        return f"MJoin's own formulas, which decide nothing: {costs}, so {self.says}"


@dataclass(frozen=True, kw_only=True)
class JoinTree:
    """The tree in which a join meets its inputs, and why; `work_s` compares it with others."""

    tree: str
    because: str
    work_s: Mapping[str, float] = field(default_factory=dict)
    mjoin: PaperCosts | None = None

    def remarks(self) -> list[str]:
        """The tree in lines of text."""
        lines = [f"joined as {self.tree}: {self.because}"]
        if self.work_s:
            seconds = ", ".join(f"{way} {s:g}" for way, s in self.work_s.items())
            lines.append(f"seconds of work a second: {seconds}")
        return lines + ([str(self.mjoin)] if self.mjoin else [])


@dataclass(frozen=True, kw_only=True)
class Join(Operator):
    """An N-way join of its inputs.

    `on` has one stream of each input. A join on several sets of attributes can have several trees in `split`.
    """

    kind = "join"
    least_inputs = 2
    streams: tuple[str, ...]
    on: On
    conditions: tuple[str, ...] = ()
    split: tuple[JoinTree, ...] = ()
    warning: str | None = None

    def remarks(self) -> list[str]:
        lines = [line for tree in self.split for line in tree.remarks()]
        return lines + ([f"WARNING: {self.warning}"] if self.warning else [])

    def _details(self) -> dict[str, Any]:
        found = super()._details()
        if len(self.split) == 1:
            found["split"] = found["split"][0]
        return found

    @classmethod
    def _nested(cls, data: dict[str, Any]) -> dict[str, Any]:
        alone = isinstance(data.get("split"), dict)
        return {**data, "split": [data["split"]]} if alone else data


@dataclass(frozen=True, kw_only=True)
class Outer(Operator):
    """An outer join of the results of its first inputs with `stream`, its last input."""

    kind = "outer"
    least_inputs = 2
    join: str
    stream: str
    streams: tuple[str, ...]
    on: On
    conditions: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class OneWay(Operator):
    """A part of the one-way join of the results of a head's sequence with one more stream."""

    least_inputs = most_inputs = 2
    head: str
    stream: str
    method: str

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.method not in METHODS:
            known = ", ".join(METHODS)
            raise ValueError(f"operator {self.id}: there is no method {self.method!r}, only {known}")


@dataclass(frozen=True, kw_only=True)
class Step(OneWay):
    """The join itself."""

    kind = "step"
    streams: tuple[str, ...]
    on: On
    conditions: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Helper(OneWay):
    """Prepares a step of a semijoin; keys or filters are sent once for every `interval_s` seconds."""

    on: On
    interval_s: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_interval(self)


class Match(Helper):
    """The keys that both sides have."""

    kind = "match"


class Reduce(Helper):
    """The tuples that have a match on the other side."""

    kind = "reduce"


@dataclass(frozen=True, kw_only=True)
class Keys(Operator):
    """The keys in the windows of `streams`, or Bloom filters of them, one for every `interval_s` seconds."""

    kind = "keys"
    least_inputs = most_inputs = 1
    streams: tuple[str, ...]
    key: tuple[str, ...]
    bloom: bool = False
    interval_s: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_interval(self)


@dataclass(frozen=True, kw_only=True)
class Sink(Operator):
    """Where the results of a query end."""

    kind = "sink"
    least_inputs = 1
    query: str


KINDS: Mapping[str, type[Operator]] = {
    one.kind: one
    for one in (Source, Widen, Reuse, Filter, Split, Keys, Match, Reduce, Step, Join, Outer, Sink)
}
"""All kinds, in the order of the data's way."""


def _check_interval(operator: Helper | Keys) -> None:
    if operator.interval_s is not None and not 0 < operator.interval_s < LONGEST / 1e6:
        raise ValueError(f"operator {operator.id}: interval_s can't be {operator.interval_s}")


def brought(operator: Operator) -> tuple[str, ...]:
    """The streams that enter a deployment by an operator."""
    match operator:
        case Source():
            return (operator.id,)
        case Reuse():
            return operator.streams
        case _:
            return ()


def named(operator: Operator) -> set[str]:
    """The streams that an operator's fields name."""
    found: set[str] = set()
    if isinstance(operator, Join | Step | Keys | Outer):
        found.update(operator.streams)
    if isinstance(operator, Join | Step | Helper | Outer):
        found.update(alias for by_alias in operator.on for alias in by_alias)
    if isinstance(operator, OneWay):
        found.update((operator.head, operator.stream))
    return found | set(operator.windows) if isinstance(operator, Filter) else found


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(_shown, value)) or "none"
    if isinstance(value, dict):
        return "; ".join(f"{k}: {_shown(v)}" for k, v in value.items())
    return str(value)
