"""How many tuples and bytes flow: declared where the catalog says so, estimated by pmjoin elsewhere.

Whatever is neither declared nor implied is assumed, and `Rates.assumed` lists it: unknown is never zero.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from thalweg.catalog.model import Catalog, Stream
from thalweg.query.model import Expr, Input, Query, WindowKind

RATE = 1000.0
DISTINCT = 1000.0
PASSES = 1 / 3
FOREVER_S = 3600.0
_WIDTHS = {
    **dict.fromkeys(("boolean", "byte", "tinyint"), 1.0),
    **dict.fromkeys(("short", "smallint"), 2.0),
    **dict.fromkeys(("int", "integer", "float", "real", "date"), 4.0),
    **dict.fromkeys(("long", "bigint", "double", "timestamp", "timestamp_ntz", "timestamp_ltz"), 8.0),
}
_VARIABLE_WIDTH = 16.0


@dataclass(frozen=True)
class Flow:
    """A stream of tuples or of partial results: its rate, and how many are in its window at a time."""

    aliases: tuple[str, ...]
    rate: float
    window: float


@dataclass
class Rates:
    """Estimates for one query, and what had to be assumed for them."""

    query: Query
    catalog: Catalog
    equal_width: bool = False
    assumed: dict[str, None] = field(default_factory=dict)

    def source(self, one: Input) -> Flow:
        stream = self._stream(one.alias)
        whole = self._rate(stream)
        rate = whole
        for condition in one.filters:
            rate *= self._passes(one, condition)
        if one.window.kind is WindowKind.ROWS:
            # Rows are counted before the filters; the window holds those of the last k that passed.
            return Flow((one.alias,), rate, one.window.size * (rate / whole if whole else 1.0))
        seconds = one.window.size / 1e6
        if one.window.kind is WindowKind.UNBOUNDED:
            seconds = FOREVER_S
            self._assume(f"the unbounded window of {one.alias} is as long as {FOREVER_S:g} seconds")
        return Flow((one.alias,), rate, rate * seconds)

    def join(self, flows: Sequence[Flow], classes: Sequence[Mapping[str, Sequence[Expr]]]) -> Flow:
        """The join of several flows on all their equalities: pmjoin eq. 2 and 3, one flow after another."""
        joined = flows[0]
        for flow in flows[1:]:
            f = 1.0
            for members in classes:
                f *= self._selectivity(joined.aliases, flow.aliases, members)
            rate = f * (joined.rate * flow.window + flow.rate * joined.window)
            joined = Flow((*joined.aliases, *flow.aliases), rate, f * joined.window * flow.window)
        return joined

    def conditions(self, flow: Flow) -> Flow:
        """What is left after the comparisons that do not connect streams."""
        rate, window = flow.rate, flow.window
        for condition in self.query.conditions:
            self._assume(f"{condition.sql} passes 1/3")
            rate, window = rate * PASSES, window * PASSES
        return Flow(flow.aliases, rate, window)

    def bytes_per_s(self, flow: Flow, later: Sequence[Expr] = ()) -> float:
        """A base tuple counts whole, a joined one as the columns that outputs, conditions or `later` read."""
        if self.equal_width:
            return flow.rate
        if len(flow.aliases) == 1:
            return flow.rate * self._width(flow.aliases[0], None)
        read = {c for e in later for c in e.columns}
        widths = [
            self._width(a, {*self.query.columns_after_join(a), *(c for owner, c in read if owner == a)})
            for a in flow.aliases
        ]
        return flow.rate * sum(widths)

    def _selectivity(
        self, left: Sequence[str], right: Sequence[str], members: Mapping[str, Sequence[Expr]]
    ) -> float:
        """The share of pairs that are equal in one class: declared, or 1 / max(distinct)."""
        ours = [(a, e) for a in left for e in members.get(a, ())]
        theirs = [(a, e) for a in right for e in members.get(a, ())]
        if not ours or not theirs:
            return 1.0
        for a, x in ours:
            for b, y in theirs:
                one, other = self._column(a, x), self._column(b, y)
                declared = self.catalog.selectivity(one, other) if one and other else None
                if declared is not None:
                    return declared
        here = min(self._distinct(a, e) for a, e in ours)
        there = min(self._distinct(a, e) for a, e in theirs)
        return 1 / max(here, there)

    def _stream(self, alias: str) -> Stream:
        return self.catalog.streams[self.query.input(alias).stream]

    def _column(self, alias: str, expr: Expr) -> tuple[str, str] | None:
        tree = expr.tree
        return (self._stream(alias).name, tree.name) if isinstance(tree, exp.Column) else None

    def _rate(self, stream: Stream) -> float:
        if stream.stats.rate is not None:
            return stream.stats.rate
        for by_value in stream.stats.rates.values():
            return sum(by_value.values())
        self._assume(f"streams.{stream.name}.stats.rate = {RATE:g}")
        return RATE

    def _distinct(self, alias: str, expr: Expr) -> float:
        stream = self._stream(alias)
        column = self._column(alias, expr)
        if column is None:
            self._assume(f"{expr.sql} has {DISTINCT:g} distinct values")
            return DISTINCT
        name = column[1]
        if name in stream.stats.distinct:
            return max(1.0, stream.stats.distinct[name])
        if stream.stats.rates.get(name):
            return float(len(stream.stats.rates[name]))
        self._assume(f"streams.{stream.name}.stats.distinct.{name} = {DISTINCT:g}")
        return DISTINCT

    def _passes(self, one: Input, condition: Expr) -> float:
        tree = condition.tree
        if isinstance(tree, exp.EQ):
            for column, value in ((tree.this, tree.expression), (tree.expression, tree.this)):
                known = (
                    isinstance(column, exp.Column) and column.name in self._stream(one.alias).stats.distinct
                )
                if known and isinstance(value, exp.Literal):
                    return 1 / self._distinct(one.alias, Expr(column.sql("spark")))
        self._assume(f"{condition.sql} passes 1/3")
        return PASSES

    def _width(self, alias: str, columns: set[str] | None) -> float:
        stream = self._stream(alias)
        if stream.stats.bytes is not None and (columns is None or not stream.stats.widths):
            return stream.stats.bytes
        total = 0.0
        for column, type_ in stream.columns.items():
            if columns is not None and column not in columns:
                continue
            known = stream.stats.widths.get(column, _WIDTHS.get(type_.lower().split("(")[0]))
            if known is None:
                self._assume(f"streams.{stream.name}.stats.widths.{column} = {_VARIABLE_WIDTH:g}")
            total += _VARIABLE_WIDTH if known is None else known
        return total

    def _assume(self, what: str) -> None:
        self.assumed[what] = None
