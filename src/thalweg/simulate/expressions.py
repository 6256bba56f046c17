"""SQL without Spark: DuckDB evaluates the expressions of a query, and tells their types."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pyarrow as pa

from thalweg.catalog.model import Catalog, Stream
from thalweg.compile.inputs import ResultPlan, StreamInfo, TypedQuery
from thalweg.compile.query_fields import field_of
from thalweg.errors import UserError
from thalweg.extras import need
from thalweg.oracle.statement import types_of
from thalweg.oracle.translate import Types, translate
from thalweg.oracle.types import duck_type
from thalweg.query.model import Equality, Expr, Query, quoted

if TYPE_CHECKING:
    import duckdb

TIME = pa.timestamp("us", "UTC")
_ROW = "r"


@contextmanager
def connected() -> Iterator[duckdb.DuckDBPyConnection]:
    """A DuckDB of its own, on one core, that keeps rows in their order."""
    need("simulating", "verify")
    import duckdb

    with duckdb.connect(config={"threads": 1}) as con:
        con.execute("SET TimeZone = 'UTC'")
        yield con


def arrow_type(con: duckdb.DuckDBPyConnection, spark: str) -> pa.DataType:
    """The Arrow type of a Spark SQL type.

    >>> with connected() as con:
    ...     [str(arrow_type(con, t)) for t in ("long", "timestamp", "decimal(4,1)")]
    ['int64', 'timestamp[us, tz=UTC]', 'decimal128(4, 1)']
    """
    return _type(con, f"NULL::{duck_type(spark)}")


def info_of(con: duckdb.DuckDBPyConnection, stream: Stream, columns: Sequence[str]) -> StreamInfo:
    """What operators must know of a stream; other columns than those named are left out."""
    return StreamInfo(
        stream.name,
        {c: arrow_type(con, stream.columns[c]) for c in stream.columns if c in columns},
        stream.time,
        stream.lateness,
        stream.idle,
        stream.max_ahead,
        stream.order,
    )


def typed_query(con: duckdb.DuckDBPyConnection, query: Query, catalog: Catalog) -> TypedQuery:
    """The query with the types of its keys, both sides of an equality cast to one type."""
    types = types_of(query, catalog)
    equalities = tuple(_same_type(con, e, types) for e in query.equalities)
    outer = tuple(tuple(_same_type(con, e, types) for e in one.equalities) for one in query.outer)
    every = (*equalities, *(e for one in outer for e in one))
    kinds = {s.sql: _type_of(con, s, types) for e in every for s in (e.left, e.right)}
    return TypedQuery(query, equalities, kinds, outer)


def select(
    con: duckdb.DuckDBPyConnection,
    stream: Stream,
    rows: pa.RecordBatch,
    columns: Sequence[tuple[str, str]],
) -> pa.RecordBatch:
    """Expressions on the rows of a stream: (SQL, name) pairs, as operators want them."""
    plain = [_plain(sql) for sql, _ in columns]
    if all(name in rows.schema.names for name in plain):
        return pa.record_batch([rows.column(name) for name in plain], names=[n for _, n in columns])
    terms = ", ".join(
        f'{translate(_of_row(sql), {_ROW: stream.columns}, {_ROW: _ROW})} AS "{name}"'
        for sql, name in columns
    )
    con.register("rows", pa.Table.from_batches([rows]))
    found = con.sql(f"SELECT {terms} FROM rows {_ROW}").to_arrow_table().combine_chunks()
    con.unregister("rows")
    arrays = [
        column.chunk(0).cast(TIME) if pa.types.is_timestamp(column.type) else column.chunk(0)
        for column in found.columns
    ]
    return pa.record_batch(arrays, names=[name for _, name in columns])


def outputs(
    con: duckdb.DuckDBPyConnection, plan: ResultPlan, catalog: Catalog, results: pa.RecordBatch
) -> pa.Table:
    """The rows of a query's results, with its conditions and outputs evaluated."""
    columns = ", ".join(f"{_result(plan, catalog, o.expr)} AS {_quoted(o.name)}" for o in plan.query.outputs)
    con.register("results", pa.Table.from_batches([results]))
    return con.sql(_passing(plan, catalog, columns)).to_arrow_table()


def passing(
    con: duckdb.DuckDBPyConnection, plan: ResultPlan, catalog: Catalog, results: pa.RecordBatch
) -> int:
    """How many results pass the conditions of their query."""
    if not plan.query.conditions:
        return int(results.num_rows)
    con.register("results", pa.Table.from_batches([results]))
    ((count,),) = con.execute(_passing(plan, catalog, "count(*)")).fetchall()
    return int(count)


def _passing(plan: ResultPlan, catalog: Catalog, what: str) -> str:
    """A statement over the results that pass the conditions of their query."""
    where = " AND ".join(f"({_result(plan, catalog, c)})" for c in plan.query.conditions) or "true"
    names = {a: f"i{n}" for n, a in enumerate(plan.query.aliases)}
    structs = [
        f"{{{', '.join(f'{_literal(c)}: {_field(plan, a, c)}' for c in columns)}}} AS {names[a]}"
        for a, columns in _columns(plan).items()
    ]
    inner = f"SELECT {', '.join((*structs, _START))} FROM results"
    return f"SELECT {what} FROM ({inner}) WHERE {where}"


_START = '"#start"'


def _columns(plan: ResultPlan) -> dict[str, list[str]]:
    """The columns of results by alias, those that others stand for among them."""
    found: dict[str, list[str]] = {}
    for alias, column in (*((a, c) for a, c, _, _ in plan.fields), *plan.same):
        found.setdefault(alias, []).append(column)
    return found


def _field(plan: ResultPlan, alias: str, column: str) -> str:
    alias, column = plan.same.get((alias, column), (alias, column))
    return _quoted(f"{alias}.{field_of(column)}")


def _result(plan: ResultPlan, catalog: Catalog, expr: Expr) -> str:
    names = {a: f"i{n}" for n, a in enumerate(plan.query.aliases)}
    return translate(expr, types_of(plan.query, catalog), names, f"make_timestamptz({_START})")


def _same_type(con: duckdb.DuckDBPyConnection, equality: Equality, types: Types) -> Equality:
    """Both sides in a type in which Spark would compare them."""
    left, right = (_canonical(_type_of(con, s, types)) for s in (equality.left, equality.right))
    if left == right:
        floats = left == pa.float64()
        return Equality(_cast(equality.left), _cast(equality.right)) if floats else equality
    if not (_is_number(left) and _is_number(right)):
        raise UserError(
            f"{equality.left.sql} = {equality.right.sql} compares {left} with {right}: not simulated",
            remedy="cast one side to the type of the other",
        )
    return Equality(_cast(equality.left), _cast(equality.right))


def _cast(expr: Expr) -> Expr:
    return Expr(f"CAST({expr.sql} AS double)")


def _canonical(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_integer(kind):
        return pa.int64()
    return pa.float64() if pa.types.is_floating(kind) else kind


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _type_of(con: duckdb.DuckDBPyConnection, expr: Expr, types: Types) -> pa.DataType:
    (alias,) = expr.aliases
    known: Mapping[str, str] = types[alias]
    read = [c for a, c in expr.columns if a == alias]
    nothing = ", ".join(f"NULL::{duck_type(known[c])} AS {_quoted(c)}" for c in read)
    return _type(con, translate(expr, types, {alias: _ROW}), f"(SELECT {nothing}) {_ROW}")


def _type(con: duckdb.DuckDBPyConnection, sql: str, table: str = "") -> pa.DataType:
    found = con.sql(f"SELECT {sql} AS x" + (f" FROM {table}" if table else "")).to_arrow_table()
    kind = found.schema.field("x").type
    return TIME if pa.types.is_timestamp(kind) and kind.tz is not None else kind


def _plain(sql: str) -> str:
    return sql[1:-1].replace("``", "`") if sql.startswith("`") and sql.count("`") == 2 else ""


def _of_row(sql: str) -> Expr:
    """An expression over unqualified columns, as one over the row; `a`.`b` there is a field of a column."""
    return Expr(
        Expr(sql).rename(lambda a, c: ".".join(quoted(n) for n in ((_ROW, a, c) if a else (_ROW, c))))
    )


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
