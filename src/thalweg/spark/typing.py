"""What Spark's analyzer says of expressions: their types, and how it would compare two of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import pyarrow as pa
from pyspark.errors import AnalysisException, ParseException, PySparkTypeError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as t
from pyspark.sql.pandas.types import to_arrow_type

from thalweg.compile.inputs import StreamInfo, TypedQuery
from thalweg.errors import UserError
from thalweg.query.model import RESULT_TIME, Equality, Expr, Query
from thalweg.query.rename import rename, unqualified
from thalweg.spark.error_messages import reason
from thalweg.spark.groups import grouped

_DIGITS: dict[type[t.DataType], int] = {t.ByteType: 3, t.ShortType: 5, t.IntegerType: 10, t.LongType: 20}
_NARROW = tuple(_DIGITS)


def arrow_type(kind: t.DataType) -> pa.DataType:
    """The Arrow type in which Spark hands this type to Python; instants are in UTC for any session."""
    try:
        return to_arrow_type(kind, timezone="UTC")
    except PySparkTypeError:
        raise UserError(
            f"columns of type {kind.simpleString()} are not supported", remedy="cast it to another type"
        ) from None


def arrow_schema(schema: t.StructType) -> pa.Schema:
    """A whole schema, likewise."""
    return pa.schema([(f.name, arrow_type(f.dataType)) for f in schema.fields])


def stream_info(
    name: str,
    schema: t.StructType,
    time: str,
    lateness: int,
    idle: int | None = None,
    max_ahead: int | None = None,
    order: tuple[str, ...] = (),
    *,
    follows: bool = False,
) -> StreamInfo:
    """What operators must know of a stream, once its time has been found fit."""
    kind = schema[time].dataType
    if not isinstance(kind, t.TimestampType | t.TimestampNTZType):
        raise UserError(
            f"stream {name}: the time column {time!r} is a {kind.simpleString()}",
            remedy="it must be a timestamp: cast it first",
        )
    columns = {f.name: arrow_type(f.dataType) for f in schema.fields}
    folded = frozenset(f.name for f in schema.fields if _is_folded(f.dataType))
    return StreamInfo(name, columns, time, lateness, idle, max_ahead, order, folded, follows)


def typed_query(spark: SparkSession, query: Query, schemas: Mapping[str, t.StructType]) -> TypedQuery:
    """The query with what Spark says of its keys; raises what Spark has against any part of it."""
    try:
        return _typed(spark, query, schemas)
    except UserError as error:
        raise UserError(error.what, where=error.where or query.where, remedy=error.remedy) from error


def _typed(spark: SparkSession, query: Query, schemas: Mapping[str, t.StructType]) -> TypedQuery:
    typer = Typer(spark, {i.alias: schemas[i.stream] for i in query.inputs})
    equalities = tuple(typer.typed(e) for e in query.equalities)
    outer = tuple(tuple(typer.typed(e) for e in one.equalities) for one in query.outer)
    every = (*equalities, *(e for one in outer for e in one))
    kinds = {s.sql: arrow_type(typer.type_of(s)) for e in every for s in (e.left, e.right)}
    for f in (f for i in query.inputs for f in i.filters if f.aliases):
        kind = typer.type_of(f)
        if not isinstance(kind, t.BooleanType):
            raise UserError(f"{f.sql} is a {kind.simpleString()}, not a condition")
    for condition in (*query.conditions, *(e for one in query.outer for e in one.conditions)):
        kind = typer.type_across(condition)
        if not isinstance(kind, t.BooleanType):
            raise UserError(f"{condition.sql} is a {kind.simpleString()}, not a condition")
    for expr in query.evaluated:
        typer.type_across(expr)
    if query.groups is not None:
        typer.check_groups(query)
    return TypedQuery(query, equalities, kinds, outer)


class Typer:
    """Asks Spark, with empty tables in place of the streams."""

    def __init__(self, spark: SparkSession, schemas: Mapping[str, t.StructType]) -> None:
        self._spark, self._schemas = spark, schemas
        self._empty = {alias: spark.createDataFrame([], schema) for alias, schema in schemas.items()}

    def type_of(self, expr: Expr) -> t.DataType:
        """The type of an expression over one alias."""
        (alias,) = expr.aliases
        try:
            return self._select(alias, expr, "x").schema["x"].dataType
        except (AnalysisException, ParseException) as error:
            raise UserError(f"{expr.sql}: {reason(error)}") from None

    def type_across(self, expr: Expr) -> t.DataType:
        """The type of an expression over any number of aliases, and the result's time."""
        names = _named(expr.columns)
        try:
            empty = self._across(names)
            return empty.selectExpr(f"{rename(expr, names)} AS x").schema["x"].dataType
        except (AnalysisException, ParseException) as error:
            raise UserError(f"{expr.sql}: {reason(error)}") from None

    def check_groups(self, query: Query) -> None:
        """Raise what Spark has against the groups of a query's results."""
        assert query.groups is not None
        for key in (*query.groups.keys, *(o.expr for o in query.outputs if not o.aggregate)):
            _refuse(key, self.type_across(key), "grouped by")
        time = ("", RESULT_TIME)
        names = _named(dict.fromkeys([time, *(c for e in query.evaluated for c in e.columns)]))
        try:
            _ = grouped(self._across(names), query, names).schema
        except (AnalysisException, ParseException) as error:
            raise UserError(f"GROUP BY or DISTINCT: {reason(error)}") from None

    def _across(self, names: Mapping[tuple[str, str], str]) -> DataFrame:
        """A table without rows, with columns of any aliases and the result's time."""
        kinds = [self._schemas[a][c].dataType if a else t.TimestampType() for a, c in names]
        schema = t.StructType([t.StructField(n, k) for n, k in zip(names.values(), kinds, strict=True)])
        return self._spark.createDataFrame([], schema)

    def typed(self, equality: Equality) -> Equality:
        """The equality with both sides cast to the type in which Spark would compare them."""
        left, right = self.type_of(equality.left), self.type_of(equality.right)
        for side, kind in ((equality.left, left), (equality.right, right)):
            _refuse(side, kind)
        if left != right:
            left = self._common(equality, left, right)
        target = _canonical(left)
        return Equality(self._cast(equality.left, target), self._cast(equality.right, target))

    def _cast(self, expr: Expr, kind: t.DataType) -> Expr:
        own = self.type_of(expr)
        # All integers have the same words; a struct's cast also settles the names of its fields.
        if own == kind and not isinstance(kind, t.StructType):
            return expr
        if isinstance(own, _NARROW) and isinstance(kind, t.LongType):
            return expr
        return Expr(f"CAST({expr.sql} AS {kind.simpleString()})")

    def _select(self, alias: str, expr: Expr, name: str) -> DataFrame:
        return self._empty[alias].selectExpr(f"{unqualified(expr)} AS {name}")

    def _common(self, equality: Equality, left: t.DataType, right: t.DataType) -> t.DataType:
        """The type in which Spark compares two types: the one where a cast of both sides changes nothing."""
        (a,), (b,) = equality.left.aliases, equality.right.aliases
        pair = self._select(a, equality.left, "l").crossJoin(self._select(b, equality.right, "r"))
        where = f"{equality.left.sql} = {equality.right.sql}"
        remedy = "cast one side to the type of the other"
        try:
            plain = pair.where("l = r")
            plain.sameSemantics(pair)  # a Connect session looks at an expression only when it is asked
            for kind in _candidates(pair, left, right):
                if plain.sameSemantics(pair.where(f"{_as(kind, 'l', left)} = {_as(kind, 'r', right)}")):
                    return kind
        except (AnalysisException, ParseException) as error:
            raise UserError(f"{where}: {reason(error)}", remedy=remedy) from None
        types = f"{left.simpleString()} and {right.simpleString()}"
        raise UserError(f"{where}: the type in which Spark compares {types} is not known", remedy=remedy)


def _candidates(pair: DataFrame, left: t.DataType, right: t.DataType) -> Iterator[t.DataType]:
    """Types in which Spark may compare two columns."""
    yield from (left, right)
    yield pair.selectExpr("coalesce(l, r) AS x").schema["x"].dataType
    yield t.DoubleType()


def _as(kind: t.DataType, column: str, own: t.DataType) -> str:
    """A column cast to a type as Spark does it to compare: an integer becomes a decimal of its own first."""
    if isinstance(kind, t.DecimalType) and type(own) in _DIGITS:
        exact = t.DecimalType(_DIGITS[type(own)], 0)
        column, own = f"CAST({column} AS {exact.simpleString()})", exact
    return column if own == kind else f"CAST({column} AS {kind.simpleString()})"


def _named(columns: Iterable[tuple[str, str]]) -> dict[tuple[str, str], str]:
    return {(a, c): f"{a}.{c}" if a else c for a, c in columns}


def _canonical(kind: t.DataType) -> t.DataType:
    """One type for those that compare alike: integers are longs, floats doubles, all text strings."""
    if isinstance(kind, _NARROW):
        return t.LongType()
    if isinstance(kind, t.FloatType):
        return t.DoubleType()
    if isinstance(kind, t.CharType | t.VarcharType):
        return t.StringType()
    return kind


def _is_folded(kind: t.DataType) -> bool:
    """Whether it is text that is not compared byte by byte."""
    return isinstance(kind, t.CharType) or getattr(kind, "collation", "UTF8_BINARY") != "UTF8_BINARY"


def _refuse(expr: Expr, kind: t.DataType, use: str = "a key") -> None:
    if isinstance(kind, t.MapType | t.VariantType):
        raise UserError(
            f"{expr.sql} is a {kind.simpleString()}, which can't be {use}",
            remedy="take one of its values instead",
        )
    if isinstance(kind, t.StringType) and _is_folded(kind):
        raise UserError(
            f"{expr.sql} has the collation {kind.collation}, which can't be {use}",
            remedy="take lower(...) of it, or a plain string",
        )
    for inner in _children(kind):
        _refuse(expr, inner, use)


def _children(kind: t.DataType) -> list[t.DataType]:
    if isinstance(kind, t.StructType):
        return [f.dataType for f in kind.fields]
    return [kind.elementType] if isinstance(kind, t.ArrayType) else []
