"""Which stream's column a name means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from thalweg.catalog.types import SparkType, parse_type
from thalweg.errors import UserError
from thalweg.names import suggestion
from thalweg.query.model import RESULT_TIME, quoted
from thalweg.query.result_id import RESULT_ID


@dataclass(frozen=True)
class Resolved:
    """A column of an alias, and the path of fields into it; the result time has the alias ''."""

    alias: str
    column: str
    fields: tuple[str, ...] = ()
    type: SparkType | None = None

    @property
    def name(self) -> str:
        """The default name of an output column that selects it."""
        return self.fields[-1] if self.fields else self.column

    @property
    def sql(self) -> str:
        if not self.alias:
            return quoted(self.column)
        column = f"{quoted(self.alias)}.{quoted(self.column)}"
        # A path of fields is set apart, so that no reader takes `alias` for a database.
        return f"({column})" + "".join(f".{quoted(f)}" for f in self.fields) if self.fields else column


class UnresolvedError(Exception):
    """A name that means nothing, or more than one thing."""

    def __init__(self, what: str, remedy: str | None = None) -> None:
        super().__init__(what)
        self.what, self.remedy = what, remedy


@dataclass
class Scope:
    """The columns of every alias, by name in lower case, and the columns that USING has merged."""

    columns: Mapping[str, Mapping[str, str]]  # alias -> column -> type
    merged: dict[str, list[str]] = field(default_factory=dict)  # column -> aliases

    def __post_init__(self) -> None:
        self._aliases = {alias.lower(): alias for alias in self.columns}
        self._columns = {a: {c.lower(): c for c in columns} for a, columns in self.columns.items()}

    def having(self, column: str) -> list[str]:
        """The aliases that have a column."""
        return [alias for alias, columns in self._columns.items() if column.lower() in columns]

    def column(self, alias: str, column: str) -> Resolved:
        """A column of an alias, both as they are declared."""
        declared = self._columns[alias][column.lower()]
        return Resolved(alias, declared, (), self._type(alias, declared))

    def alias(self, name: str) -> str:
        """An alias by its name in any case."""
        if name.lower() not in self._aliases:
            raise UnresolvedError(f"unknown alias {name[:80]!r}", suggestion(name, self.columns))
        return self._aliases[name.lower()]

    def resolve(self, parts: Sequence[str], *, result_time: bool = False) -> Resolved:
        """The meaning of a dotted name: alias.column first, then column.field, as in Spark."""
        first, *rest = parts
        alias = self._aliases.get(first.lower())
        if alias is not None and rest and rest[0].lower() in self._columns[alias]:
            return self._with_fields(self.column(alias, rest[0]), rest[1:])
        having = self.having(first)
        if len(having) > 1 and set(having) <= set(self.merged.get(first.lower(), ())):
            having = having[:1]
        if len(having) == 1:
            return self._with_fields(self.column(having[0], first), rest)
        if len(having) > 1:
            choices = " or ".join(f"{a}.{self._columns[a][first.lower()]}" for a in having)
            raise UnresolvedError(f"the column {first!r} is ambiguous", f"write {choices}")
        if alias is not None and rest:
            known = self.columns[alias]
            raise UnresolvedError(f"{alias!r} has no column {rest[0][:80]!r}", suggestion(rest[0], known))
        if first.lower() == RESULT_TIME and not rest:
            if result_time:
                return Resolved("", RESULT_TIME)
            raise UnresolvedError(
                "result_time is known only when a result is complete", "use it in SELECT only"
            )
        if first.lower() == RESULT_ID and not rest:
            raise UnresolvedError(
                "result_id is no part of an expression",
                "select it as a column: result_id, or result_id AS name",
            )
        if alias is not None:
            raise UnresolvedError(f"{first!r} is a stream, not a column", f"write {first}.column")
        if rest:
            raise UnresolvedError(f"unknown alias {first[:80]!r}", suggestion(first, self.columns))
        every = {column: None for columns in self.columns.values() for column in columns}
        raise UnresolvedError(f"unknown column {first[:80]!r}", suggestion(first, every))

    def _with_fields(self, found: Resolved, path: Sequence[str]) -> Resolved:
        fields: list[str] = []
        type_ = found.type
        for name in path:
            inner = type_
            while inner is not None and inner.name == "array":
                inner = inner.parts[0]
            field_ = None
            if inner is not None and inner.name == "struct":
                field_ = inner.field(name)
                if field_ is None:
                    shown = ".".join((found.alias, found.column, *fields))
                    raise UnresolvedError(
                        f"{shown} has no field {name[:80]!r}", suggestion(name, inner.fields)
                    )
            elif inner is not None and inner.name == "map":
                field_ = name, inner.parts[1]
            elif inner is not None:
                shown = ".".join((found.alias, found.column, *fields))
                raise UnresolvedError(f"{shown} is of type {inner.sql} and has no field {name[:80]!r}")
            fields.append(field_[0] if field_ else name)
            if field_ is not None and type_ is not inner:
                type_ = SparkType("array", parts=(field_[1],))
            else:
                type_ = field_[1] if field_ else None
        return Resolved(found.alias, found.column, tuple(fields), type_)

    def all(self) -> list[tuple[str, str, SparkType | None]]:
        """All columns of all aliases, in order, with their types as far as they are known."""
        return [(a, c, self._type(a, c)) for a, columns in self.columns.items() for c in columns]

    def _type(self, alias: str, column: str) -> SparkType | None:
        try:
            return parse_type(self.columns[alias][column])
        except UserError:
            return None  # a type of a DataFrame that has no name in SQL: nothing is known of it
