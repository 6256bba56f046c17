"""The texts of pictures: a line for each operator at its site, a label for each shipment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

from thalweg.cost.price import shipments
from thalweg.plan.deployment import TUPLES, Edge
from thalweg.plan.document import Plan
from thalweg.plan.operators import (
    KINDS,
    Join,
    Keys,
    OneWay,
    Operator,
    Reuse,
    Sink,
    Source,
    Split,
    Step,
    Widen,
)

MOST_LINES = 12
"""The most lines at one site; the rest are counted."""
_LABEL_LINES = 3
_NAMES = 5
"""The most streams that a line names; if there are more, it has their number."""
MOST_COLOURS = 8
"""The most queries that have a colour each."""
_ORDER = tuple(KINDS)


@dataclass(frozen=True)
class Shipped:
    """All shipments of a query from one site to another: `size` is bytes a second, or bytes of a run."""

    source: str
    target: str
    query: int
    size: float
    label: tuple[str, ...]


@dataclass(frozen=True)
class Line:
    """A line for an operator: its kind, its text and, for a source, its stream."""

    kind: str
    text: str
    stream: str = ""


def lines_of(plan: Plan, read: Mapping[str, int] | None = None) -> dict[str, list[Line]]:
    """The lines of each site, sources first; equal lines of several queries are one.

    `read` is how many tuples of each stream a run has read.
    """
    told: dict[str, Counter[Line]] = {}
    several = len(plan.queries) > 1
    for query in plan.queries:
        own: dict[str, Counter[Line]] = {}
        for operator in query.deployment.operators:
            stream = operator.stream if isinstance(operator, Source) else ""
            line = Line(operator.kind, _line(operator, query.query if several else ""), stream)
            own.setdefault(operator.site, Counter())[line] += 1
        for site, lines in own.items():
            told[site] = told.get(site, Counter()) | lines
    found = {site: _shortened(lines) for site, lines in told.items()}
    if read:
        return {site: [_counted(line, read) for line in lines] for site, lines in found.items()}
    return found


def shipped_by(plan: Plan) -> list[Shipped]:
    """The shipments of each query between any two sites, without those that it reuses."""
    apart = len(plan.queries) <= MOST_COLOURS
    found: dict[tuple[str, str, int], list[Edge]] = {}
    for nth, query in enumerate(plan.queries):
        for edge in shipments(query.deployment):
            way = (edge.source_site, edge.target_site, nth if apart else 0)
            found.setdefault(way, []).append(edge)
    return [Shipped(*way, sum(e.bytes_per_s for e in edges), _label(edges)) for way, edges in found.items()]


def amount(bytes_per_s: float) -> str:
    """Bytes a second with a unit.

    >>> amount(0.0696), amount(54.03), amount(12_345_678)
    ('0.0696 bytes/s', '54.03 bytes/s', '12.35 MB/s')
    """
    return f"{volume(bytes_per_s)}/s"


def volume(size: float) -> str:
    """Bytes with a unit.

    >>> volume(0), volume(999), volume(52_024), volume(3e9)
    ('0 bytes', '999 bytes', '52.02 kB', '3 GB')
    """
    for factor, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if size >= factor:
            return f"{size / factor:.4g} {unit}"
    return f"{size:.4g} bytes"


def saving(shipped: float, central: float) -> str:
    """Compares shipped bytes with those of shipping every stream whole to one site.

    >>> saving(52_024, 793_392), saving(30, 20), saving(0, 8), saving(8, 0), saving(100, 101)
    ('15.3 times less', '1.5 times more', 'less', 'no less', 'no less')
    """
    if not shipped or not central:
        return "less" if shipped < central else "no less"
    times, more = max(shipped, central) / min(shipped, central), shipped > central
    # Widths are rounded: a share that can't be seen is no difference.
    return "no less" if times < 1.05 else f"{times:.1f} times {'more' if more else 'less'}"


def number(cost: float) -> str:
    """A cost, without an exponent as long as it can be read without.

    >>> number(54.0316), number(5_131_020.4), number(0.0696)
    ('54.0316', '5,131,020', '0.0696')
    """
    return f"{cost:,.0f}" if 1e5 <= cost < 1e15 else f"{cost:,.6g}"


def names(those: tuple[str, ...], what: str = "streams") -> str:
    """Streams or others by name, or how many they are."""
    return ", ".join(those) if len(those) <= _NAMES else f"{len(those)} {what}"


def _line(operator: Operator, query: str) -> str:
    whose = f" ({query})" if query else ""
    match operator:
        case Source():
            alias = f" as {operator.id}" if operator.id != operator.stream else ""
            return f"source {operator.stream}{alias}" + (", filtered" if operator.filters else "")
        case Split():
            return f"split {names(operator.inputs)}"
        case Sink():
            return f"sink {operator.query}"
        case Reuse() | Widen():
            return f"{operator.kind} {operator.operator} of {operator.query}"
        case OneWay():
            how = f" {operator.kind}" if not isinstance(operator, Step) else ""
            return f"head {operator.head}:{how} {operator.stream} by {operator.method}"
        case Keys():
            return f"{'bloom' if operator.bloom else 'keys'} {names(operator.streams)}{whose}"
        case Join():
            return f"join {names(operator.streams)}{whose}"
        case _:
            return f"{operator.kind}{whose}"


def _counted(line: Line, read: Mapping[str, int]) -> Line:
    """A source, with how much of it was read."""
    return replace(line, text=f"{line.text}: {read[line.stream]:,} read") if line.stream in read else line


def _shortened(lines: Counter[Line]) -> list[Line]:
    sinks = [one for one in lines if one.kind == "sink"]
    if len(sinks) > 1:
        which = names(tuple(one.text.removeprefix("sink ") for one in sinks), "queries")
        lines = Counter({one: n for one, n in lines.items() if one not in sinks})
        lines[Line("sink", f"sink {which}")] = 1
    ordered = sorted(lines, key=lambda one: _ORDER.index(one.kind))
    found = [
        Line(one.kind, one.text + (f" in {lines[one]}" if one.kind == "split" else f" ×{lines[one]}"))
        if lines[one] > 1
        else one
        for one in ordered
    ]
    if len(found) > MOST_LINES:
        left = len(found) - MOST_LINES + 1
        found = [*found[: MOST_LINES - 1], Line("", f"and {left} more")]
    return found


def _label(edges: list[Edge]) -> tuple[str, ...]:
    """The label of an arrow: the bytes of each set of streams, parts of the key space together."""
    size: dict[str, float] = {}
    for edge in edges:
        what = names(edge.streams) if edge.carries == TUPLES else f"{edge.carries} of {names(edge.streams)}"
        size[what] = size.get(what, 0.0) + edge.bytes_per_s
    ordered = sorted(size, key=lambda what: -size[what])
    if len(ordered) > _LABEL_LINES:
        rest = ordered[_LABEL_LINES - 1 :]
        ordered = ordered[: _LABEL_LINES - 1]
        return (
            *(f"{what}: {amount(size[what])}" for what in ordered),
            f"{len(rest)} more: {amount(sum(size[w] for w in rest))}",
        )
    return tuple(f"{what}: {amount(size[what])}" for what in ordered)
