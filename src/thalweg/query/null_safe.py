"""Equality in which NULL equals NULL: `<=>`, or IS NOT DISTINCT FROM.

A join compares keys, and a NULL key matches nothing. So both sides become texts that are never NULL: that of
a NULL is empty, that of a value begins with a mark. The types must be known for that, as they are of columns
and of casts.
"""

from __future__ import annotations

from sqlglot import exp

from thalweg.catalog.types import SparkType, parse_type
from thalweg.errors import UserError
from thalweg.query.expressions import Expression
from thalweg.query.model import Equality, Expr

_INTEGERS = ("tinyint", "smallint", "int", "bigint")
_FLOATS = ("float", "double")
_TEXTS = ("string", "char", "varchar")
_ALIKE = ("boolean", "date", "timestamp", "timestamp_ntz", "binary")
_AS_TEXT = {
    "timestamp": "CAST(unix_micros({}) AS STRING)",
    "binary": "hex({})",
    "double": "CAST({} + 0.0D AS STRING)",  # -0.0 + 0.0 is 0.0
}


def null_safe(left: Expression, right: Expression) -> Equality:
    """The equality of two sides whose NULLs match; a ValueError says why it can't be made."""
    kind = _common(_type(left), _type(right))
    return Equality(_text(left.expr, kind), _text(right.expr, kind))


def is_null_safe(side: Expr) -> bool:
    """Whether it is a side of such an equality. That of a NULL is the empty text."""
    return side.sql.startswith(_BEGIN) and side.sql.endswith(_END)


_BEGIN, _END = "coalesce('=' || ", ", '')"


def _text(expr: Expr, kind: str) -> Expr:
    value = _AS_TEXT.get(kind, "CAST({} AS STRING)").format(f"CAST({expr.sql} AS {kind.upper()})")
    return Expr(f"{_BEGIN}{value}{_END}")


def _type(side: Expression) -> SparkType:
    if side.plain is not None and side.plain.type is not None:
        return side.plain.type
    tree = side.tree.unnest()
    if isinstance(tree, exp.Cast | exp.TryCast):
        try:
            return parse_type(tree.to.sql("spark"))
        except UserError:
            pass
    raise ValueError(f"the type of {side.expr.sql[:60]} is not known here; write CAST(... AS type)")


def _common(left: SparkType, right: SparkType) -> str:
    """The type that both sides are compared in."""
    names = {left.name, right.name}
    collated = any(kind.name == "string" and kind.arguments for kind in (left, right))
    if names <= {*_TEXTS} and not collated:
        return "string"
    if len(names) == 1 and left.name in _ALIKE:
        return left.name
    if names <= {*_INTEGERS}:
        return "bigint"
    if names <= {*_INTEGERS, *_FLOATS}:
        return "double"
    if names <= {*_INTEGERS, "decimal"}:
        scale = max(_scale(left), _scale(right))
        return f"decimal(38, {scale})"
    raise ValueError(f"{left.sql} and {right.sql} are not compared with <=>; cast both sides to one type")


def _scale(kind: SparkType) -> int:
    return int(kind.arguments[1]) if kind.name == "decimal" and len(kind.arguments) > 1 else 0
