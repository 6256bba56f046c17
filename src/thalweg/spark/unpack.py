"""Results become rows again.

Most types of column leave the join as they are: the last join's worker hands whole Arrow columns to Spark
(`Direct`). Nested and rare types, and several queries in one job, take the long way: packets of bytes, which
another worker unpacks.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as fn
from pyspark.sql import types as t

from thalweg.kernel.columns import decode
from thalweg.programs.job import QueryPlan
from thalweg.programs.packet import Kind, Packet, load
from thalweg.programs.spec import START
from thalweg.query.model import RESULT_TIME, quoted
from thalweg.query.rename import rename
from thalweg.spark.packets import NONE
from thalweg.spark.typing import arrow_schema

Schemas = Mapping[str, t.StructType]

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
_REPORT = "report"  # a column of the flow: what an operator says of itself, and NULL in a row of the result


@dataclass(frozen=True)
class Direct:
    """How the results of a job's only query leave its last join: as columns, with counts in rows between."""

    columns: tuple[str, ...]  # of the result packets
    schema: t.StructType
    streams: tuple[str, ...]  # by number

    @classmethod
    def of(cls, queries: Sequence[QueryPlan], schemas: Schemas) -> Direct | None:
        """None where the results must take the long way."""
        if len(queries) != 1:
            return None
        plan = queries[0]
        kinds = _kinds(plan, schemas)
        if not all(isinstance(k, _AS_IT_IS) or type(k) in _AS_NUMBER for k in kinds):
            return None
        columns = [f"{alias}.{column}" for alias, column, _ in plan.fields]
        if _greatest(plan) is None:
            columns.append(START)
        else:
            kinds.pop()
        fields = [t.StructField(f"c{i}", _AS_NUMBER.get(type(k), (k, ""))[0]) for i, k in enumerate(kinds)]
        schema = t.StructType([t.StructField(_REPORT, t.StringType()), *fields])
        return cls(tuple(columns), schema, tuple(schemas))

    def frames(self, packets: Iterable[Packet]) -> Iterator[pd.DataFrame]:
        """Packets as rows of the schema. Every frame costs Spark time, so reports share one, at the end."""
        said = []
        for p in packets:
            if p.kind == Kind.RESULT:
                found = p.table
                nulls = pa.nulls(found.num_rows, pa.string())
                yield self._frame([nulls, *(_numbers(found.column(name)) for name in self.columns)])
            else:
                said.append(_report(p, self.streams))
        if said:
            kinds = list(arrow_schema(self.schema))[1:]
            yield self._frame([pa.array(said), *(pa.nulls(len(said), f.type) for f in kinds)])

    def _frame(self, arrays: Sequence[pa.Array]) -> pd.DataFrame:
        return pd.DataFrame(
            {
                f.name: pd.Series(pd.arrays.ArrowExtensionArray(array))
                for f, array in zip(self.schema, arrays, strict=True)
            },
            copy=False,
        )


def _report(p: Packet, streams: Sequence[str]) -> str:
    """What an operator says of a stream or of its state; `reports` says the same of packets."""
    if p.kind == Kind.INPUT:
        newest = {} if p.top is None else {"newest_us": p.top}
        return json.dumps({"stream": streams[p.port], "read": p.n, **newest})
    if p.kind == Kind.LATE:
        return json.dumps({"stream": streams[p.port], "late": p.n})
    if p.kind == Kind.SENT:
        return p.bytes.decode()
    if p.kind == Kind.DISK:
        return json.dumps({"group": p.feed, "waiting_rows": p.n, "disk_bytes": p.wall})
    return json.dumps({"state_rows": p.n, "state_bytes": p.wall})


def results(
    flow: DataFrame, plan: QueryPlan, number: int, schemas: Schemas, direct: Direct | None
) -> DataFrame:
    """The rows of one query's results, with its conditions and outputs evaluated by Spark."""
    names = _names(plan)
    if direct is not None:
        casts, last = [], len(plan.fields)
        for i, kind in enumerate(_kinds(plan, schemas)):
            _, cast = _AS_NUMBER.get(type(kind), (kind, "{}"))
            own = _greatest(plan) if i == last else None
            casts.append(f"{cast.format(own or f'c{i}')} AS c{i}")
        rows = flow.where(f"{_REPORT} IS NULL").selectExpr(*casts)
    else:
        fields = [t.StructField(f"c{i}", kind) for i, kind in enumerate(_kinds(plan, schemas))]
        columns = tuple(f"{alias}.{column}" for alias, column, _ in plan.fields)
        schema = t.StructType(fields)
        rows = flow.mapInArrow(_unpacker(number, columns, arrow_schema(schema)), schema)
    for condition in plan.query.conditions:
        rows = rows.where(rename(condition, names))
    return rows.selectExpr(*(f"{rename(o.expr, names)} AS {quoted(o.name)}" for o in plan.query.outputs))


def reports(direct: Direct | None, streams: Iterable[str]) -> Any:
    """An aggregate to observe on the flow: all that operators say of themselves. `counts` reads it."""
    if direct is not None:
        return fn.collect_list(_REPORT).alias("reports")
    kind, n = fn.col("kind"), fn.col("n")
    stream = fn.array(*map(fn.lit, streams))[fn.col("port")].alias("stream")
    newest = fn.when(fn.col("top") != NONE, fn.col("top")).alias("newest_us")
    state = fn.struct(n.alias("state_rows"), fn.col("wall").alias("state_bytes"))
    group, size = fn.col("feed").alias("group"), fn.col("wall").alias("disk_bytes")
    disk = fn.struct(group, n.alias("waiting_rows"), size)
    said = (
        fn.when(kind == int(Kind.INPUT), fn.to_json(fn.struct(stream, n.alias("read"), newest)))
        .when(kind == int(Kind.LATE), fn.to_json(fn.struct(stream, n.alias("late"))))
        .when(kind == int(Kind.STATE), fn.to_json(state))
        .when(kind == int(Kind.DISK), fn.to_json(disk))
        .when(kind == int(Kind.SENT), fn.decode("data", "UTF-8"))
    )
    return fn.collect_list(said).alias("reports")


_HELD = ("state_rows", "state_bytes", "disk_bytes")
"""What operators say of their windows: in memory and on disk together, in memory, on disk."""


def counts(said: Iterable[str], streams: Iterable[str]) -> dict[str, int]:
    """Rows in and late for each stream, what the state holds, what waits by group, the greatest time seen."""
    out = {f"{what}_{name}": 0 for name in streams for what in ("in", "late")}
    out |= {**dict.fromkeys(_HELD, 0), "top": NONE}
    for report in map(json.loads, said):
        for said_of, counted in (("read", "in"), ("late", "late")):
            if said_of in report:
                out[f"{counted}_{report['stream']}"] += report[said_of]
        if "whole" in report:  # what would have been sent, had this site sent all
            name = f"whole_{report['whole']}"
            out[name] = out.get(name, 0) + report["payload"]
        if "waiting_rows" in report:
            out[f"waiting_{report['group']}"] = report["waiting_rows"]
        for counted in _HELD:
            out[counted] += report.get(counted, 0)
        out["top"] = max(out["top"], report.get("newest_us", NONE))
    return out


def _names(plan: QueryPlan) -> dict[tuple[str, str], str]:
    """The columns of the result packets by what they stand for."""
    names = {(alias, column): f"c{i}" for i, (alias, column, _) in enumerate(plan.fields)}
    names |= {column: names[carrier] for column, carrier in plan.same.items()}
    return {**names, ("", RESULT_TIME): f"c{len(plan.fields)}"}


def _greatest(plan: QueryPlan) -> str | None:
    """The result's time from the times of its members, as numbers; None where not all of them are sent."""
    names = _names(plan)
    if not all(column in names for column in plan.times):
        return None
    return f"greatest({', '.join(names[column] for column in plan.times)})"


def _kinds(plan: QueryPlan, schemas: Schemas) -> list[t.DataType]:
    """The types of a query's result columns; the result's time comes last."""
    of = [schemas[plan.query.input(alias).stream][column].dataType for alias, column, _ in plan.fields]
    return [*of, t.TimestampType()]


def _numbers(array: pa.Array) -> pa.Array:
    kind = array.type
    if pa.types.is_timestamp(kind):
        return array.view(pa.int64())
    return array.view(pa.int32()) if pa.types.is_date32(kind) else array


def _unpacker(
    number: int, columns: tuple[str, ...], schema: pa.Schema
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def unpack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            kind, port, data = (batch.column(batch.schema.names.index(c)) for c in ("kind", "port", "data"))
            for i in range(batch.num_rows):
                if kind[i].as_py() == Kind.RESULT and port[i].as_py() == number:
                    yield _restore(load(data[i].as_buffer()), columns, schema)

    return unpack


def _restore(found: pa.RecordBatch, columns: tuple[str, ...], schema: pa.Schema) -> pa.RecordBatch:
    arrays = [decode(found.column(name), f.type) for name, f in zip(columns, schema, strict=False)]
    return pa.RecordBatch.from_arrays([*arrays, found.column(START).view(schema[-1].type)], schema=schema)
