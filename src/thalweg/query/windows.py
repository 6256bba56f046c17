"""The windows of a query's streams: as they are written, or as conditions on the streams' times imply.

ASOF JOIN b ON a.k = b.k                        b [PARTITION BY k ROWS 1], a [RANGE 0 SECONDS]
window(a.ts, '5 minutes') = window(b.ts, ...)   [TUMBLE 5 MINUTES] for both
b.ts BETWEEN a.ts - INTERVAL 5 MINUTES AND a.ts + INTERVAL 1 MINUTE
                                                a [RANGE 1 MINUTE], b [RANGE 5 MINUTES]
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import NoReturn

from sqlglot import exp

from thalweg.names import suggestion
from thalweg.query.conditions import Conditions
from thalweg.query.model import Expr, Window, WindowKind
from thalweg.query.names import Scope
from thalweg.query.shifts import shifted
from thalweg.query.statement import Statement, StreamRef

Bound = tuple[str, str, int]
"""(a, b, d): the time of b is at most d microseconds after that of a."""


def windows_of(
    statement: Statement,
    scope: Scope,
    conditions: Conditions,
    times: Mapping[str, str],
    tables: Collection[str] = (),
) -> dict[str, Window]:
    """The window of each alias; `times` are the time columns, as far as they are known."""
    found = _Windows(statement, scope, conditions, times, tables)
    return {ref.alias: found.of(ref) for ref in statement.streams}


class _Windows:
    def __init__(
        self,
        statement: Statement,
        scope: Scope,
        conditions: Conditions,
        times: Mapping[str, str],
        tables: Collection[str],
    ) -> None:
        self.statement, self.scope, self.conditions, self.times = statement, scope, conditions, times
        self.tables = tables
        self.lexed = statement.lexed
        self.asof = any(ref.asof for ref in statement.streams)
        self.tumbles = self._tumbles()
        self._farthest: dict[tuple[str, str], int] | None = None

    def of(self, ref: StreamRef) -> Window:
        if ref.alias in self.tables:
            return Window(WindowKind.ALWAYS)
        if ref.window is not None:
            return self._as_declared(ref, ref.window)
        if ref.asof:
            return self._latest(ref)
        if ref.alias in self.tumbles:
            return Window(WindowKind.TUMBLE, self.tumbles[ref.alias])
        if self.statement.within is not None:
            return self.statement.within
        if self.asof:
            return Window(WindowKind.RANGE, 0)
        return self._implied(ref)

    def _as_declared(self, ref: StreamRef, window: Window) -> Window:
        """A window that was written, with the columns that it is counted by as they are declared."""
        by = []
        for name in window.by:
            if ref.alias not in self.scope.having(name):
                raise self.lexed.error(
                    ref.token,
                    f"{ref.alias!r} has no column {name[:80]!r} to partition by",
                    suggestion(name, self.scope.columns[ref.alias]),
                )
            by.append(self.scope.column(ref.alias, name).column)
        return replace(window, by=tuple(dict.fromkeys(by)))

    def _latest(self, ref: StreamRef) -> Window:
        """The window of ASOF JOIN: of each key by which the stream meets those before it, the latest row."""
        order = [one.alias for one in self.statement.streams]
        before = set(order[: order.index(ref.alias)])
        by: dict[str, None] = {}
        for equality in self.conditions.equalities:
            for side, other in ((equality.left, equality.right), (equality.right, equality.left)):
                if side.aliases != {ref.alias} or not other.aliases <= before:
                    continue
                if side.plain_column is None:
                    raise self.lexed.error(
                        ref.token,
                        f"ASOF JOIN {ref.stream}: {side.sql[:60]} is not a column of it",
                        f"write the window, for example {ref.stream} [PARTITION BY column ROWS 1]",
                    )
                by[side.plain_column] = None
        for condition in self.conditions.others:
            tree = condition.tree
            if ref.alias in condition.aliases and isinstance(tree, exp.GT | exp.LT):
                if self._term(tree.left) is None or self._term(tree.right) is None:
                    continue
                raise self.lexed.error(
                    ref.token,
                    f"ASOF JOIN {ref.stream}: {condition.sql[:60]} would leave out rows of the same time, "
                    "and not find those before them",
                    "write >= or <=",
                )
        return Window(WindowKind.ROWS, 1, by=tuple(by))

    def _tumbles(self) -> dict[str, int]:
        found: dict[str, int] = {}
        written = {ref.alias for ref in self.statement.streams if ref.window is not None}
        for one in self.conditions.tumbling:
            alias, column = one.column.alias, one.column.column
            if self.times.get(alias) != column:
                raise self.lexed.error(
                    one.token,
                    f"{alias}.{column} is not the time of its stream",
                    f"write window({alias}.{self.times.get(alias, 'time')}, 'length')",
                )
            if alias in written or found.setdefault(alias, one.size) != one.size:
                raise self.lexed.error(one.token, f"the stream {alias!r} has two windows", "keep one")
        return found

    def _implied(self, ref: StreamRef) -> Window:
        """The shortest window that holds a tuple until all that its times may be compared with have come."""
        if self._farthest is None:
            self._farthest = self._closure()
        others = [one.alias for one in self.statement.streams if one.alias not in {ref.alias, *self.tables}]
        if not others and self.tables:
            return Window(WindowKind.RANGE, 0)  # a table's row is there when a tuple comes
        lengths = [self._farthest.get((ref.alias, other)) for other in others]
        if not lengths or None in lengths:
            self._missing(ref)
        return Window(WindowKind.RANGE, max(0, *(length for length in lengths if length is not None)))

    def _missing(self, ref: StreamRef) -> NoReturn:
        alias = f" AS {ref.alias}" if ref.alias != ref.stream else ""
        raise self.lexed.error(
            ref.token,
            f"the stream {ref.stream!r} has no window",
            f"write for example {self.lexed.raw(ref.token)}{alias} [RANGE 5 MINUTES]",
        )

    def _closure(self) -> dict[tuple[str, str], int]:
        """How much later than a tuple of one stream that of another can be in a result, by all bounds."""
        farthest: dict[tuple[str, str], int] = {}
        for a, b, most in self._bounds():
            farthest[a, b] = min(most, farthest.get((a, b), most))
        names = [ref.alias for ref in self.statement.streams]
        for middle in names:
            for a in names:
                for b in names:
                    first, second = farthest.get((a, middle)), farthest.get((middle, b))
                    if first is not None and second is not None and a != b:
                        farthest[a, b] = min(first + second, farthest.get((a, b), first + second))
        return farthest

    def _bounds(self) -> Iterator[Bound]:
        names = [ref.alias for ref in self.statement.streams]
        for ref in self.statement.streams:
            if ref.window is not None and ref.window.kind in (WindowKind.RANGE, WindowKind.TUMBLE):
                yield from ((ref.alias, other, ref.window.size) for other in names if other != ref.alias)
        for condition in self.conditions.others:
            yield from self._compared(condition.tree)
        for equality in self.conditions.equalities:
            yield from self._compared(Expr(f"{equality.left.sql} = {equality.right.sql}").tree)

    def _compared(self, tree: exp.Expr) -> Iterator[Bound]:
        """What a comparison of times says of how far they are apart."""
        tree = tree.unnest()
        if isinstance(tree, exp.Between):
            yield from self._ordered(tree.args["low"], tree.this)
            yield from self._ordered(tree.this, tree.args["high"])
        if isinstance(tree, exp.LTE | exp.LT | exp.EQ):
            yield from self._ordered(tree.left, tree.right)
        if isinstance(tree, exp.GTE | exp.GT | exp.EQ):
            yield from self._ordered(tree.right, tree.left)

    def _ordered(self, earlier: exp.Expr, later: exp.Expr) -> Iterator[Bound]:
        before, after = self._term(earlier), self._term(later)
        if before is not None and after is not None and before[0] != after[0]:
            yield after[0], before[0], after[1] - before[1]

    def _term(self, tree: exp.Expr) -> tuple[str, int] | None:
        """The stream whose time an expression is, and how much is added to it."""
        found = shifted(tree)
        if found is None or self.times.get(found.alias, "").lower() != found.column.lower():
            return None
        return found.alias, found.by
