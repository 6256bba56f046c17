"""Views: the outputs of parts of queries, in a form that can be compared between queries.

Streams stand for aliases; a stream that occurs twice is numbered in the order of its aliases. One view
yields a *superset* of another when its windows are at least as wide, its filters at most as strict, its
equalities and conditions among the other's, and it has the columns that the other needs and those by which
the rest can be filtered away.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from thalweg.cost.masks import members
from thalweg.cost.rates import Rates
from thalweg.query.implied import implied, united
from thalweg.query.model import Expr, Query, Window, WindowKind

Columns = Mapping[str, frozenset[str]]


@dataclass(frozen=True)
class View:
    """The join of some streams: their windows and filters, the equalities, the output columns.

    All by label, a stream's name or numbered name. `times` are the labels' time columns.
    """

    labels: tuple[str, ...]
    windows: Mapping[str, Window] = field(hash=False)
    filters: Mapping[str, frozenset[str]] = field(hash=False)
    equal: frozenset[frozenset[tuple[str, str]]]
    conditions: frozenset[str]
    columns: Columns = field(hash=False)
    times: Mapping[str, str] = field(hash=False)

    @classmethod
    def of(cls, query: Query, mask: int, rates: Rates) -> View:
        """The view of a set of a query's streams."""
        inputs = [query.inputs[i] for i in members(mask)]
        label = labels(query, mask)

        def text(expr: Expr) -> str:
            return expr.rename(lambda alias, column: Expr.column(label[alias], column).sql)

        streams = rates.statistics.catalog.streams
        if len(inputs) == 1:  # a stream's own tuples are whole
            columns = {label[i.alias]: frozenset(streams[i.stream].columns) for i in inputs}
        else:
            needed = rates.widths.needed(mask)
            columns = {label[a]: frozenset(c) for a, c in needed.items()}
        equal = [
            frozenset((label[a], text(e)) for a, exprs in by_alias.items() if a in label for e in exprs)
            for by_alias in rates.keys
        ]
        return cls(
            tuple(sorted(label.values())),
            {label[i.alias]: i.window for i in inputs},
            {label[i.alias]: frozenset(text(f) for f in i.filters) for i in inputs},
            frozenset(e for e in equal if len({name for name, _ in e}) > 1),
            frozenset(text(c) for c in query.conditions if c.aliases <= label.keys()),
            columns,
            {label[i.alias]: streams[i.stream].time for i in inputs},
        )

    @cached_property
    def key(self) -> tuple[object, ...]:
        """The key of a view: equal views have equal keys."""
        return (
            *(self.labels, self.equal, self.conditions),
            tuple((n, self.windows[n], self.filters[n], self.columns[n]) for n in self.labels),
        )


def labels(query: Query, mask: int) -> dict[str, str]:
    """The labels of a set's aliases in its view."""
    inputs = [query.inputs[i] for i in members(mask)]
    count, numbers = Counter(i.stream for i in inputs), Counter[str]()
    found = {}
    for one in inputs:
        numbers[one.stream] += 1
        found[one.alias] = one.stream if count[one.stream] == 1 else f"{one.stream}#{numbers[one.stream]}"
    return found


@dataclass(frozen=True)
class Gap:
    """The difference between a deployed view and the one wanted.

    `filters`, and with `windows` the narrower windows, are applied after it. The `lacking` columns and the
    `weaker` filters, both by label, must be changed upstream.
    """

    filters: tuple[str, ...]
    windows: bool
    lacking: Columns
    weaker: Mapping[str, frozenset[str]]

    @property
    def must_widen(self) -> bool:
        return bool(self.lacking or self.weaker)


def gap(deployed: View, wanted: View) -> Gap | None:
    """The gap between two views; None if the one can't be made from the other."""
    if deployed.labels != wanted.labels or not deployed.conditions <= wanted.conditions:
        return None
    if not all(any(e <= w for w in wanted.equal) for e in deployed.equal):
        return None
    narrower = [n for n in wanted.labels if not _same(deployed.windows[n], wanted.windows[n])]
    if len(wanted.labels) == 1:
        # Windows act where streams meet. But rows are counted over the whole stream, before any filter.
        (name,) = wanted.labels
        if wanted.windows[name].kind is WindowKind.ROWS and narrower and deployed.filters[name]:
            return None
        narrower = []
    if not all(_wider(deployed.windows[n], wanted.windows[n]) for n in narrower):
        return None
    after: list[str] = []
    weaker: dict[str, frozenset[str]] = {}
    for name in wanted.labels:
        ours, theirs = deployed.filters[name], wanted.filters[name]
        if not all(implied(theirs, f) for f in ours):
            weaker[name] = theirs
        after += sorted(theirs - ours)
    after += sorted(wanted.conditions - deployed.conditions)
    for equal in wanted.equal - deployed.equal:
        sides = sorted(text for _, text in equal)
        after += [f"{sides[0]} = {other}" for other in sides[1:]]
    needed = {n: set(c) for n, c in wanted.columns.items()}
    for text in after:
        for name, column in Expr(text).columns:
            needed[name].add(column)
    if narrower:
        for name in wanted.labels:
            needed[name].add(wanted.times[name])
    lacking = {n: frozenset(c - deployed.columns[n]) for n, c in needed.items() if c - deployed.columns[n]}
    return Gap(tuple(after), bool(narrower), lacking, weaker)


def widened(deployed: View, found: Gap) -> View:
    """A deployed view after the lacking columns and tuples have been added upstream."""
    filters = dict(deployed.filters)
    for name, theirs in found.weaker.items():
        filters[name] = united(deployed.filters[name], theirs)
    columns = {n: c | found.lacking.get(n, frozenset()) for n, c in deployed.columns.items()}
    return View(
        deployed.labels,
        deployed.windows,
        filters,
        deployed.equal,
        deployed.conditions,
        columns,
        deployed.times,
    )


def _same(deployed: Window, wanted: Window) -> bool:
    return str(deployed) == str(wanted)


def _wider(deployed: Window, wanted: Window) -> bool:
    """Whether a shorter life of a tuple can be told from its time alone, and from what was deployed."""
    if wanted.kind is not WindowKind.RANGE:
        return _same(deployed, wanted)
    return deployed.kind is WindowKind.UNBOUNDED or (
        deployed.kind is WindowKind.RANGE and deployed.size >= wanted.size
    )
