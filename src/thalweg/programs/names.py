"""The fields of one query: its keys, what it asks of single tuples, and the types of everything."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from thalweg.kernel.columns import fixed_dtype, is_bytes
from thalweg.kernel.keys import is_exact
from thalweg.programs.job import StreamInfo, TypedQuery
from thalweg.programs.source import VALUE
from thalweg.query import classes
from thalweg.query.model import Expr, WindowKind
from thalweg.query.rename import unqualified

FLAG = "#f:"
"""Before the SQL of conditions on a stream: a field that says whether they hold."""


class Names:
    """The fields of one query: its keys, and the types of everything."""

    def __init__(self, number: int, typed: TypedQuery, infos: Mapping[str, StreamInfo]) -> None:
        self.number, self.typed, self.query = number, typed, typed.query
        self.infos = infos
        self.classes = classes(typed.equalities)
        self._typed: dict[str, set[str]] = {}  # what a plan calls a key, and as what it is compared
        for asked, cast in zip(typed.query.equalities, typed.equalities, strict=True):
            for before, after in ((asked.left, cast.left), (asked.right, cast.right)):
                self._typed.setdefault(before.sql, {before.sql}).add(after.sql)

    def classes_of(self, alias: str, keys: Iterable[str]) -> list[int]:
        """The classes in which any of these keys of an alias, as a plan names them, is."""
        meant = {sql for key in keys for sql in self._typed.get(key, {key})}
        return [c for c, m in enumerate(self.classes) if any(e.sql in meant for e in m.get(alias, ()))]

    def left_over(self, condition: Expr) -> None:
        """A comparison between streams that no join of the plan decides is one for who hands out results."""
        if condition not in self.query.conditions:
            self.query = replace(self.query, conditions=(*self.query.conditions, condition))

    def info(self, alias: str) -> StreamInfo:
        return self.infos[self.query.input(alias).stream]

    def rows(self, alias: str) -> int | None:
        window = self.query.input(alias).window
        return window.size if window.kind is WindowKind.ROWS else None

    def expr(self, alias: str, c: int) -> Expr:
        return self.classes[c][alias][0]

    def key(self, alias: str, c: int) -> str:
        """The field with the key of an alias in a class: a column, where that will do."""
        expr, info = self.expr(alias, c), self.info(alias)
        column = expr.plain_column
        if column is not None and column != info.time and expr.sql in self.typed.kinds:
            kind = info.columns[column]
            if is_exact(kind) or is_bytes(kind):
                return f"{alias}.{column}"
        return f"{alias}.{VALUE}{self.value_sql(alias, c)}"

    def value_sql(self, alias: str, c: int) -> str:
        """A key as Spark evaluates it; a cast may fail on rows that a filter was to keep from it."""
        key, filters = unqualified(self.expr(alias, c)), self.query.input(alias).filters
        if filters and self.expr(alias, c).plain_column is None:
            return f"CASE WHEN {_all(filters)} THEN {key} END"
        return key

    def exact(self, alias: str, c: int) -> bool:
        return is_exact(self.typed.kinds[self.expr(alias, c).sql])

    def value_kind(self, alias: str, c: int) -> pa.DataType:
        kind = self.typed.kinds[self.expr(alias, c).sql]
        return kind if is_bytes(kind) or fixed_dtype(kind) else pa.binary()

    def flag(self, alias: str) -> str:
        """Whether a tuple takes part under an alias: its filters hold, and no key of it is NULL."""
        filters = [f"({unqualified(f)})" for f in self.query.input(alias).filters]
        return FLAG + " AND ".join((*filters, *self.implied(alias)))

    def implied(self, alias: str) -> tuple[str, ...]:
        """What the equalities of the query ask of a tuple by itself."""
        own = [c for c in range(len(self.classes)) if alias in self.classes[c]]
        same = []
        for c in own:
            first, *others = self.classes[c][alias]
            same += [f"({unqualified(Expr(f'{first.sql} = {other.sql}'))})" for other in others]
        return (*same, *(f"({self.value_sql(alias, c)}) IS NOT NULL" for c in own))

    def filters(self, alias: str) -> tuple[str, ...]:
        return tuple(sorted(unqualified(f) for f in self.query.input(alias).filters))

    def shared(self, *sides: Iterable[str]) -> list[int]:
        """The classes with a member on every side."""
        return [c for c, m in enumerate(self.classes) if all(not m.keys().isdisjoint(s) for s in sides)]

    def carrier(self, aliases: Sequence[str], c: int) -> str:
        """The alias of a joined tuple that brings the key of a class."""
        return next(a for a in aliases if a in self.classes[c])

    def key_of(self, aliases: Sequence[str], shared: Sequence[int]) -> tuple[str, ...]:
        return tuple(self.key(self.carrier(aliases, c), c) for c in shared)


def _all(filters: Iterable[Expr]) -> str:
    return " AND ".join(f"({unqualified(f)})" for f in filters)
