"""`result_id`: the same text for the same result, in every plan, batch and order of arrival.

It is a hash of the result's members: of all columns of each, which have its time among them. So it is an
expression like any other, for Spark as for DuckDB. Equal results have equal ids.
"""

from __future__ import annotations

from collections.abc import Iterable

from thalweg.catalog.types import SparkType
from thalweg.query.model import Expr

RESULT_ID = "result_id"
"""A column that every query may select."""

_FLOATS = ("float", "double")
_TEXTS = ("string", "char", "varchar")
_NESTED = ("array", "map", "struct", "variant")
_MISSING = "'-'"  # no other value is written so
_JSON = "map('timeZone', 'UTC', 'timestampFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSSXXX')"


def result_id(columns: Iterable[tuple[Expr, SparkType | None]]) -> Expr:
    """The id by the columns of all members, with their types as far as they are known.

    >>> result_id([(Expr.column("a", "n"), SparkType("int"))]).sql
    "md5(concat_ws(',', CASE WHEN `a`.`n` IS NULL THEN '-' ELSE CAST(`a`.`n` AS STRING) END))"
    """
    parts = (
        f"CASE WHEN {column.sql} IS NULL THEN {_MISSING} ELSE {_text(column.sql, kind)} END"
        for column, kind in columns
    )
    return Expr(f"md5(concat_ws(',', {', '.join(parts)}))")


def _text(column: str, kind: SparkType | None) -> str:
    """A value as text that does not depend on the session, and that two values don't share."""
    if kind is None:
        return _counted(f"to_json(named_struct('v', {column}), {_JSON})")
    if kind.name in _NESTED:
        return _counted(f"to_json({column}, {_JSON})")
    if kind.name in _TEXTS:
        return _counted(column)
    if kind.name == "timestamp":
        return f"CAST(unix_micros({column}) AS STRING)"
    if kind.name in _FLOATS:
        return f"format_string('%a', CAST({column} AS DOUBLE))"  # exact, and the same in every Java
    return f"hex({column})" if kind.name == "binary" else f"CAST({column} AS STRING)"


def _counted(text: str) -> str:
    """A text with its length, as it may have anything in it."""
    return f"concat(CAST(length({text}) AS STRING), ':', {text})"
