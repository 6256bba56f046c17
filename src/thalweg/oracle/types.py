"""Spark SQL types as DuckDB types."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.errors import SqlglotError

from thalweg.errors import UserError

_UNSUPPORTED = ("collate", "variant", "geometry", "geography")


def duck_type(spark: str) -> str:
    """The DuckDB type that holds the same values.

    >>> duck_type("struct<a: int, `b c`: array<decimal>>")
    'STRUCT("a" INT, "b c" DECIMAL(10, 0)[])'
    >>> duck_type("timestamp"), duck_type("timestamp_ntz"), duck_type("map<string, float>")
    ('TIMESTAMPTZ', 'TIMESTAMP', 'MAP(TEXT, REAL)')
    """
    words = spark.lower()
    if words.strip() in ("void", "null"):
        return "INTEGER"
    if any(word in words for word in _UNSUPPORTED):
        raise UserError(f"DuckDB has no type that behaves as Spark's {spark}")
    try:
        tree = exp.DataType.build(spark, dialect="spark")
    except SqlglotError as error:
        raise UserError(f"DuckDB has no type for Spark's {spark}") from error
    return _plain(tree).sql("duckdb", identify=True)


def _plain(tree: exp.DataType) -> exp.DataType:
    for constraint in list(tree.find_all(exp.ColumnConstraint)):
        constraint.pop()
    for node in tree.find_all(exp.DataType):
        if node.is_type(exp.DataType.Type.DECIMAL):
            # Spark's default is DECIMAL(10, 0), DuckDB's is DECIMAL(18, 3).
            missing = ("10", "0")[len(node.expressions) :]
            for value in missing:
                node.append("expressions", exp.DataTypeParam(this=exp.Literal.number(value)))
        elif node.is_type(*exp.DataType.TEXT_TYPES):
            node.set("expressions", [])
        elif isinstance(node.this, exp.Interval):
            node.set("this", exp.DataType.Type.INTERVAL)
    return tree
