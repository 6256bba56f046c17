"""Unpack: result packets become rows again, and late tuples go to their files."""

from __future__ import annotations

import copy
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql import functions as fn
from pyspark.sql import types as t

from thalweg.kernel.columns import decode, stored_type
from thalweg.programs.compile import QueryPlan
from thalweg.programs.packet import Kind, load
from thalweg.programs.spec import START
from thalweg.query.model import RESULT_TIME
from thalweg.query.rename import rename
from thalweg.spark.packets import NONE
from thalweg.spark.typing import arrow_schema


def unpacked(
    packets: DataFrame,
    plan: QueryPlan,
    number: int,
    schemas: Mapping[str, t.StructType],
    late: LateFiles | None,
) -> DataFrame:
    """The rows of one query's results, with its conditions and outputs evaluated by Spark."""
    names = {(alias, column): f"c{i}" for i, (alias, column, _) in enumerate(plan.fields)}
    names["", RESULT_TIME] = RESULT_TIME
    schema = t.StructType(
        [
            t.StructField(f"c{i}", schemas[plan.query.input(alias).stream][column].dataType)
            for i, (alias, column, _) in enumerate(plan.fields)
        ]
        + [t.StructField(RESULT_TIME, t.TimestampType())]
    )
    columns = tuple(f"{alias}.{column}" for alias, column, _ in plan.fields)
    result = packets.mapInArrow(_unpacker(number, columns, arrow_schema(schema), late), schema)
    for condition in plan.query.conditions:
        result = result.where(rename(condition, names))
    return result.selectExpr(*(f"{rename(o.expr, names)} AS `{o.name}`" for o in plan.query.outputs))


class LateFiles:
    """Where late tuples are kept: one folder a stream, one file a batch and task, so that a repeat overwrites."""

    def __init__(self, folder: Path, schemas: Mapping[str, t.StructType]) -> None:
        self._folder = str(folder)
        self._batch: int | None = None
        self._schemas = {n: (name, arrow_schema(schema)) for n, (name, schema) in enumerate(schemas.items())}

    def at(self, batch: int) -> LateFiles:
        """The same, for a batch whose number is known; otherwise Spark is asked for it."""
        out = copy.copy(self)
        out._batch = batch
        return out

    def write(self, stream: int, data: bytes, part: int) -> None:
        name, schema = self._schemas[stream]
        batch = load(data)
        table = pa.Table.from_arrays([decode(batch.column(f.name), f.type) for f in schema], schema=schema)
        context = TaskContext.get()
        number = self._batch
        if number is None and context is not None:
            number = int(context.getLocalProperty("streaming.sql.batchId") or 0)
        folder = Path(self._folder) / name
        folder.mkdir(parents=True, exist_ok=True)
        task = context.partitionId() if context else 0
        target = folder / f"{number or 0:09d}-{task:04d}-{part:04d}.parquet"
        draft = folder / f".{uuid.uuid4().hex}"
        pq.write_table(table, draft)
        draft.replace(target)


def _unpacker(
    number: int, columns: tuple[str, ...], schema: pa.Schema, late: LateFiles | None
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    kinds = [f.type for f in schema]

    def unpack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        part = 0
        for batch in batches:
            kind, port, data = (batch.column(batch.schema.names.index(c)) for c in ("kind", "port", "data"))
            for i in range(batch.num_rows):
                what = kind[i].as_py()
                if what == Kind.LATE and late is not None and len(data[i].as_buffer()):
                    late.write(port[i].as_py(), data[i].as_buffer(), part)
                    part += 1
                if what == Kind.RESULT and port[i].as_py() == number:
                    yield _restore(load(data[i].as_buffer()), columns, kinds, schema)

    return unpack


def _restore(
    found: pa.RecordBatch, columns: tuple[str, ...], kinds: list[pa.DataType], schema: pa.Schema
) -> pa.RecordBatch:
    arrays: list[pa.Array] = []
    for name, kind in zip(columns, kinds[:-1], strict=True):
        arrays.append(decode(found.column(name), kind) if stored_type(kind) != kind else found.column(name))
    start = found.column(START)
    arrays.append(pa.Array.from_buffers(kinds[-1], len(start), start.buffers(), 0, start.offset))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def counts(streams: Iterable[str]) -> list[Any]:
    """Aggregates to observe on the packets: rows in and late for each stream, and what the state holds."""

    def total(what: Kind, port: int | None, column: str) -> Any:
        match = fn.col("kind") == int(what)
        if port is not None:
            match &= fn.col("port") == port
        return fn.coalesce(fn.sum(fn.when(match, fn.col(column))), fn.lit(0))

    out = []
    for number, name in enumerate(streams):
        out.append(total(Kind.INPUT, number, "n").alias(f"in_{name}"))
        out.append(total(Kind.LATE, number, "n").alias(f"late_{name}"))
    out.append(total(Kind.STATE, None, "n").alias("state_rows"))
    out.append(total(Kind.STATE, None, "wall").alias("state_bytes"))
    bound = fn.when((fn.col("kind") == int(Kind.STATE)), fn.col("top"))
    out.append(fn.coalesce(fn.min(bound), fn.lit(NONE)).alias("bound"))
    top = fn.when((fn.col("kind") == int(Kind.INPUT)) & (fn.col("top") > NONE), fn.col("top"))
    out.append(fn.coalesce(fn.max(top), fn.lit(NONE)).alias("top"))
    return out


__all__ = ["LateFiles", "counts", "unpacked"]
