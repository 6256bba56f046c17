"""Results become rows of Spark.

Most types of column leave the last operator as they are: its worker hands whole Arrow columns to Spark
(`Columns`). Nested and rare types, and several queries in one run, take the long way (`Packed`): bytes, which
another worker unpacks. Reports of the operators travel between the results, in a column of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as fn
from pyspark.sql import types as t

from thalweg.compile.inputs import ResultPlan
from thalweg.kernel.columns import decode
from thalweg.operators.output import Report, Results
from thalweg.operators.spec import START
from thalweg.query.model import RESULT_TIME, quoted
from thalweg.query.rename import rename
from thalweg.spark.groups import grouped
from thalweg.spark.typing import arrow_schema
from thalweg.wire.message import Message, dump, load, pieces

Schemas = Mapping[str, t.StructType]
"""The columns of each stream."""

# Spark's way from pandas to Arrow touches every timestamp and date; as numbers they pass untouched.
_AS_NUMBER: dict[type[t.DataType], tuple[t.DataType, str]] = {
    t.TimestampType: (t.LongType(), "timestamp_micros({})"),
    t.TimestampNTZType: (t.LongType(), "timestampadd(MICROSECOND, {}, TIMESTAMP_NTZ'1970-01-01')"),
    t.DateType: (t.IntegerType(), "date_from_unix_date({})"),
}
_AS_IT_IS = (
    t.BooleanType,
    t.ByteType,
    t.ShortType,
    t.IntegerType,
    t.LongType,
    t.FloatType,
    t.DoubleType,
    t.StringType,
    t.BinaryType,
    t.DecimalType,
)
_REPORT = "report"  # a column of the flow: a report of the operators, and NULL in a row of the result


class Outgoing(Protocol):
    """How results and reports leave the last stage, as rows of a schema."""

    @property
    def schema(self) -> t.StructType: ...

    @property
    def arrow(self) -> pa.Schema:
        """The schema, as Arrow has it."""

    def frames(self, out: Iterable[Message | Results | Report]) -> Iterator[pd.DataFrame]:
        """Results and reports as rows of the schema."""


class ResultRows(Outgoing, Protocol):
    """The same, where the rows have the results."""

    def rows(self, flow: DataFrame, number: int) -> DataFrame:
        """The results of one query: its result columns c0, c1 and so on, the result's time last."""


def result_rows(plans: Sequence[ResultPlan], schemas: Schemas, *, packed: bool = False) -> ResultRows:
    """The best way for the results of some queries."""
    kinds = [_kinds(plan, schemas) for plan in plans]
    plain = all(isinstance(k, _AS_IT_IS) or type(k) in _AS_NUMBER for k in kinds[0])
    fields = tuple(tuple(field for _, _, field, _ in plan.fields) for plan in plans)
    if len(plans) == 1 and plain and not packed:
        return Columns.of(fields[0], kinds[0], _greatest(plans[0]))
    return Packed(fields, tuple(map(tuple, kinds)))


@dataclass(frozen=True)
class Columns:
    """The results of a run's only query, as whole columns; reports are in rows between them."""

    fields: tuple[str, ...]
    casts: tuple[str, ...]
    schema: t.StructType

    @classmethod
    def of(cls, fields: tuple[str, ...], kinds: Sequence[t.DataType], greatest: str | None) -> Columns:
        """`greatest` is the result's time by the times of its members; without it that comes from START."""
        sent = kinds if greatest is None else kinds[:-1]
        numbers = [_AS_NUMBER.get(type(k), (k, "{}")) for k in kinds]
        names = [f"c{i}" for i in range(len(kinds))]
        casts = [cast.format(name) for (_, cast), name in zip(numbers, names, strict=True)]
        if greatest is not None:
            casts[-1] = numbers[-1][1].format(greatest)
        columns = [t.StructField(name, kind) for name, (kind, _) in zip(names, numbers, strict=True)]
        schema = t.StructType([t.StructField(_REPORT, t.StringType()), *columns[: len(sent)]])
        selected = tuple(f"{cast} AS {name}" for cast, name in zip(casts, names, strict=True))
        return cls(fields if greatest is not None else (*fields, START), selected, schema)

    @property
    def arrow(self) -> pa.Schema:
        return arrow_schema(self.schema)

    def frames(self, out: Iterable[Message | Results | Report]) -> Iterator[pd.DataFrame]:
        said = []  # every frame costs Spark time, so reports share one, at the end
        for one in out:
            if isinstance(one, Report):
                said.append(one.to_json())
            elif isinstance(one, Results):
                nulls = pa.nulls(one.batch.num_rows, pa.string())
                yield self._frame([nulls, *(_numbers(one.batch.column(name)) for name in self.fields)])
        if said:
            kinds = list(self.arrow)[1:]
            yield self._frame([pa.array(said), *(pa.nulls(len(said), f.type) for f in kinds)])

    def _frame(self, arrays: Sequence[pa.Array]) -> pd.DataFrame:
        return pd.DataFrame(
            {
                f.name: pd.Series(pd.arrays.ArrowExtensionArray(array))
                for f, array in zip(self.schema, arrays, strict=True)
            },
            copy=False,
        )

    def rows(self, flow: DataFrame, number: int) -> DataFrame:
        return flow.where(f"{_REPORT} IS NULL").selectExpr(*self.casts)


_PIECE = 256 << 10  # bytes of a row of packed results: Spark hands 4,096 rows at a time to Python


@dataclass(frozen=True)
class Packed:
    """The results of one or several queries, as bytes."""

    fields: tuple[tuple[str, ...], ...]
    kinds: tuple[tuple[t.DataType, ...], ...]

    @property
    def schema(self) -> t.StructType:
        return t.StructType(
            [
                t.StructField(_REPORT, t.StringType()),
                t.StructField("query", t.IntegerType()),
                t.StructField("data", t.BinaryType()),
            ]
        )

    @property
    def arrow(self) -> pa.Schema:
        return arrow_schema(self.schema)

    def frames(self, out: Iterable[Message | Results | Report]) -> Iterator[pd.DataFrame]:
        for one in out:
            if isinstance(one, Report):
                yield self._frame([(one.to_json(), -1, b"")])
            elif isinstance(one, Results):
                yield self._frame([(None, one.query, dump(part)) for part in pieces(one.batch, _PIECE)])

    def _frame(self, rows: list[tuple[str | None, int, bytes]]) -> pd.DataFrame:
        return pd.DataFrame(rows, columns=self.schema.names)

    def rows(self, flow: DataFrame, number: int) -> DataFrame:
        fields, kinds = self.fields[number], self.kinds[number]
        schema = t.StructType([t.StructField(f"c{i}", kind) for i, kind in enumerate(kinds)])
        return flow.mapInArrow(_unpacker(number, fields, arrow_schema(schema)), schema)


def results(flow: DataFrame, plan: ResultPlan, number: int, output: ResultRows) -> DataFrame:
    """The rows of one query's results, or their groups, with conditions and outputs evaluated by Spark."""
    names, rows = _names(plan), output.rows(flow, number)
    for condition in plan.query.conditions:
        rows = rows.where(rename(condition, names))
    if plan.query.groups is not None:
        return grouped(rows, plan.query, names)
    return rows.selectExpr(*(f"{rename(o.expr, names)} AS {quoted(o.name)}" for o in plan.query.outputs))


def reports() -> Any:
    """An aggregate to observe on the flow: all reports. `Report.sum` reads them."""
    return fn.collect_list(_REPORT).alias("reports")


def _names(plan: ResultPlan) -> dict[tuple[str, str], str]:
    """The result columns, by alias and column."""
    names = {(alias, column): f"c{i}" for i, (alias, column, _, _) in enumerate(plan.fields)}
    names |= {column: names[carrier] for column, carrier in plan.same.items()}
    return {**names, ("", RESULT_TIME): f"c{len(plan.fields)}"}


def _greatest(plan: ResultPlan) -> str | None:
    """The result's time from the times of its members, as numbers; None where not all of them are sent."""
    names = _names(plan)
    if not all(column in names for column in plan.times):
        return None
    return f"greatest({', '.join(names[column] for column in plan.times)})"


def _kinds(plan: ResultPlan, schemas: Schemas) -> list[t.DataType]:
    """The types of a query's result columns; the result's time comes last."""
    of = [schemas[plan.query.input(alias).stream][column].dataType for alias, column, _, _ in plan.fields]
    return [*of, t.TimestampType()]


def _numbers(array: pa.Array) -> pa.Array:
    kind = array.type
    if pa.types.is_timestamp(kind):
        return array.view(pa.int64())
    return array.view(pa.int32()) if pa.types.is_date32(kind) else array


def _unpacker(
    number: int, fields: tuple[str, ...], schema: pa.Schema
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def unpack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            query, data = batch.column("query"), batch.column("data")
            for i in range(batch.num_rows):
                if query[i].as_py() == number:
                    yield _restore(load(data[i].as_buffer()), fields, schema)

    return unpack


def _restore(found: pa.RecordBatch, fields: tuple[str, ...], schema: pa.Schema) -> pa.RecordBatch:
    arrays = [decode(found.column(name), f.type) for name, f in zip(fields, schema, strict=False)]
    return pa.RecordBatch.from_arrays([*arrays, found.column(START).view(schema[-1].type)], schema=schema)
