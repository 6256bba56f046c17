"""The fields of one query: its keys, its conditions on single tuples, and the types of everything."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

import pyarrow as pa

from thalweg.compile.inputs import StreamInfo, TypedQuery
from thalweg.kernel.columns import fixed_dtype, is_bytes
from thalweg.kernel.keys import is_exact
from thalweg.operators.pack import VALUE
from thalweg.operators.spec import RowWindow
from thalweg.query.classes import classes, equated
from thalweg.query.model import Expr, OuterKind, WindowKind
from thalweg.query.rename import unqualified

FLAG = "#f:"
"""Before the SQL of conditions on a stream: a field that says whether they hold."""


def field_of(column: str) -> str:
    """The field of a column; names that begin with # are kept for fields of our own.

    >>> field_of("x"), field_of("#x"), column_of(field_of("#x"))
    ('x', '=#x', '#x')
    """
    return f"={column}" if column.startswith(("#", "=")) else column


def field_named(alias: str, column: str) -> str:
    """The field of a column of an alias."""
    return f"{alias}.{field_of(column)}"


def column_of(field: str) -> str:
    """The inverse of `field_of`."""
    return field.removeprefix("=")


def restorable(kind: pa.DataType) -> bool:
    """Whether a value can be had back from its key word: a float's zeros and NaNs were made one."""
    return is_exact(kind) and not pa.types.is_floating(kind) and not pa.types.is_decimal(kind)


class QueryFields:
    """The fields of one query: its keys, and the types of everything.

    The classes of the inner part come first: their members are equal in every result. Each equality of an
    outer join is a class of its own after them (`compared`).
    """

    def __init__(self, number: int, typed: TypedQuery, infos: Mapping[str, StreamInfo]) -> None:
        self.number, self.typed, self.query = number, typed, typed.query
        self.infos = infos
        self.classes = classes(typed.equalities)
        self.compared = [
            [{next(iter(s.aliases)): [s] for s in (e.left, e.right)} for e in one] for one in typed.outer
        ]
        self.every = [*self.classes, *(c for one in self.compared for c in one)]
        self._typed: dict[str, set[str]] = {}  # what a plan calls a key, and as what it is compared
        for asked, cast in zip(typed.query.equalities, typed.equalities, strict=True):
            for before, after in ((asked.left, cast.left), (asked.right, cast.right)):
                self._typed.setdefault(before.sql, {before.sql}).add(after.sql)

    def classes_of(self, alias: str, keys: Iterable[str]) -> list[int]:
        """The classes in which any of these keys of an alias, as a plan names them, is."""
        meant = {sql for key in keys for sql in self._typed.get(key, {key})}
        return [c for c, m in enumerate(self.classes) if any(e.sql in meant for e in m.get(alias, ()))]

    def equates(self, condition: Expr) -> bool:
        """Whether a condition is an equality of keys; Spark evaluates all others between streams."""
        return equated(condition.sql, self._typed) is not None

    def equal(self, aliases: Sequence[str]) -> list[tuple[str, str]]:
        """The pairs of key fields that are the same wherever all these aliases have been joined.

        Where a stream has several keys that must be the same, its flag says so.
        """
        found = []
        for c, members in enumerate(self.classes):
            first, *others = [a for a in aliases if a in members] or [""]
            found += [(self.key(first, c), self.key(other, c)) for other in others]
        return found

    def info(self, alias: str) -> StreamInfo:
        return self.infos[self.query.input(alias).stream]

    def rows(self, alias: str) -> RowWindow | None:
        """The window of rows of an alias, if it has one."""
        window = self.query.input(alias).window
        if window.kind is not WindowKind.ROWS:
            return None
        return RowWindow(window.size, tuple(map(field_of, window.by)))

    def tumble(self, alias: str) -> int | None:
        """The size of the tumbling window of an alias, if it has one."""
        window = self.query.input(alias).window
        return window.size if window.kind is WindowKind.TUMBLE else None

    def outer_classes(self, number: int) -> list[int]:
        """The classes of an outer join."""
        first = len(self.classes) + sum(len(one) for one in self.compared[:number])
        return list(range(first, first + len(self.compared[number])))

    def expr(self, alias: str, c: int) -> Expr:
        return self.every[c][alias][0]

    def key(self, alias: str, c: int) -> str:
        """The field with the key of an alias in a class: a column, where that will do."""
        expr, info = self.expr(alias, c), self.info(alias)
        column = expr.plain_column
        if column is not None and column != info.time and expr.sql in self.typed.kinds:
            kind = info.columns[column]
            if is_exact(kind) or is_bytes(kind):
                return f"{alias}.{field_of(column)}"
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

    def compares_within(self, alias: str) -> bool:
        """Whether the query asks that fields of one tuple are the same."""
        return bool(self._same(alias))

    def condition(self, alias: str) -> str | None:
        """The part of the flag that Spark evaluates; the rest asks that no key is NULL."""
        filters = [f"({unqualified(f)})" for f in self.query.input(alias).filters]
        return " AND ".join((*filters, *self._same(alias))) or None

    def implied(self, alias: str) -> tuple[str, ...]:
        """What the equalities of the query ask of a tuple by itself."""
        present = (f"({self.value_sql(alias, c)}) IS NOT NULL" for c in self.required(alias))
        return (*self._same(alias), *present)

    def _same(self, alias: str) -> tuple[str, ...]:
        found = []
        for members in self.classes:
            first, *others = members.get(alias, [Expr("")])
            found += [f"({unqualified(Expr(f'{first.sql} = {other.sql}'))})" for other in others]
        return tuple(found)

    def classes_with(self, alias: str) -> list[int]:
        """The classes that an alias is a member of."""
        return [c for c, members in enumerate(self.every) if alias in members]

    def required(self, alias: str) -> list[int]:
        """The classes in which a tuple of an alias must have a key: without one it is in no result."""
        optional = {
            c
            for n, one in enumerate(self.query.outer)
            if one.alias != alias or one.kind is OuterKind.FULL
            for c in self.outer_classes(n)
        }
        return [c for c in self.classes_with(alias) if c not in optional]

    def sent(self, alias: str) -> list[str]:
        """The columns of an alias that its results bring; the others equal one of another alias."""
        return [c for c in self.query.columns_after_join(alias) if (alias, c) not in self.same]

    @cached_property
    def same(self) -> dict[tuple[str, str], tuple[str, str]]:
        """Key columns that are equal in every result are sent once: which stands for which."""
        found: dict[tuple[str, str], tuple[str, str]] = {}
        for members in self.classes:
            carriers: dict[pa.DataType, tuple[str, str]] = {}
            for alias, (first, *_) in members.items():
                column = first.plain_column
                if column is None or column not in self.query.columns_after_join(alias):
                    continue
                kind = self.info(alias).columns[column]
                if (alias, column) in found or not (restorable(kind) or is_bytes(kind)):
                    continue
                carrier = carriers.setdefault(kind, (alias, column))
                if carrier != (alias, column):
                    found[alias, column] = carrier
        return found

    def filters(self, alias: str) -> tuple[str, ...]:
        return tuple(sorted(unqualified(f) for f in self.query.input(alias).filters))

    def shared(self, *sides: Iterable[str]) -> list[int]:
        """The classes with a member on every side."""
        return [c for c, m in enumerate(self.classes) if all(not m.keys().isdisjoint(s) for s in sides)]

    def carrier(self, aliases: Sequence[str], c: int) -> str:
        """The alias of a joined tuple that brings the key of a class."""
        return next(a for a in aliases if a in self.every[c])

    def key_of(self, aliases: Sequence[str], shared: Sequence[int]) -> tuple[str, ...]:
        return tuple(self.key(self.carrier(aliases, c), c) for c in shared)


def _all(filters: Iterable[Expr]) -> str:
    return " AND ".join(f"({unqualified(f)})" for f in filters)
