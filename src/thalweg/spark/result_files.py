"""The results of a batch as parquet files, written once; sinks take them from there.

The workers that make results write them with Arrow, where a query asks for columns and nothing else. Where
Spark has conditions or expressions to evaluate, the workers that it hands its rows to write them. Spark's own
writer takes longer than the join does, and starts a process for each file and folder it makes; it is used for
types that only Spark can store.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql import types as t

from thalweg.compile.inputs import ResultPlan
from thalweg.files import NewFile, copied, remove_all
from thalweg.kernel.columns import decode
from thalweg.operators.output import Report, Results
from thalweg.operators.spec import START
from thalweg.spark.results import Schemas
from thalweg.spark.typing import arrow_schema
from thalweg.storage import Location, location
from thalweg.wire.message import Message

_GROUP_ROWS, _GROUP_BYTES = 1 << 20, 128 << 20
_OWN = (
    *(t.YearMonthIntervalType, t.DayTimeIntervalType, t.CalendarIntervalType, t.VariantType),
    *((t.TimeType,) if hasattr(t, "TimeType") else ()),
)
"""Types that Spark stores in parquet in a way of its own."""

_WRITTEN = t.StructType([t.StructField("file", t.StringType()), t.StructField("n", t.LongType())])

Found = Sequence[tuple[str, int]]
"""Files, each a name and its rows."""


@dataclass(frozen=True)
class DraftFiles:
    """The folder for the results of one query in the batch that is being written."""

    folder: Location

    def clear(self) -> None:
        """Remove what an earlier attempt has left."""
        remove_all(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True, exist_ok=True)  # a worker that was given up may be writing there

    def write(self, results: DataFrame) -> Found:
        """Evaluate the results of a batch, once for all sinks."""
        if _has_own(results.schema):
            results.write.mode("append").parquet(str(self.folder))
            with copied(self.folder) as folder:
                return [(f.name, pq.read_metadata(f).num_rows) for f in folder.glob("*.parquet")]
        rows = results.mapInArrow(_writer(str(self.folder), arrow_schema(results.schema)), _WRITTEN)
        return [(row.file, row.n) for row in rows.collect()]


def _has_own(kind: t.DataType) -> bool:
    if isinstance(kind, t.StructType):
        return any(_has_own(f.dataType) for f in kind)
    if isinstance(kind, t.ArrayType):
        return _has_own(kind.elementType)
    if isinstance(kind, t.MapType):
        return _has_own(kind.keyType) or _has_own(kind.valueType)
    return isinstance(kind, _OWN)


class ResultFile:
    """A file of results that is being written. An attempt that Spark gives up may go on: names are unique."""

    def __init__(self, folder: str, schema: pa.Schema) -> None:
        self.name, self.rows = f"{uuid.uuid4().hex}.parquet", 0
        self._file = NewFile(location(folder) / self.name)
        self._writer = pq.ParquetWriter(self._file.local, schema, store_schema=False)
        self._held: list[pa.RecordBatch] = []
        self._rows = self._bytes = 0
        self._schema = schema

    def add(self, batch: pa.RecordBatch) -> None:
        self._held.append(batch)
        self.rows += batch.num_rows
        self._rows += batch.num_rows
        self._bytes += batch.nbytes
        if self._rows >= _GROUP_ROWS or self._bytes >= _GROUP_BYTES:
            self._flush()

    def _flush(self) -> None:
        self._writer.write_table(pa.Table.from_batches(self._held).cast(self._schema))
        self._held, self._rows, self._bytes = [], 0, 0

    def close(self) -> None:
        if self._held:
            self._flush()
        self._writer.close()
        self._file.close()


def _writer(folder: str, schema: pa.Schema) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Writes the rows of one task to a file, and says which and how many."""

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        file: ResultFile | None = None
        for batch in batches:
            if batch.num_rows:
                file = file or ResultFile(folder, schema)
                file.add(batch)
        if file is not None:
            file.close()
            yield pa.record_batch([pa.array([file.name]), pa.array([file.rows])], names=_WRITTEN.names)

    return write


@dataclass(frozen=True)
class ResultFiles:
    """How results leave the operators that the workers write to files: only reports and names go to Spark.

    `drafts` is the folder of each query, `columns` are the fields of its output, in order.
    """

    drafts: tuple[str, ...]
    columns: tuple[tuple[str, ...], ...]
    files: tuple[pa.Schema, ...]

    @classmethod
    def of(
        cls, plans: Sequence[ResultPlan], drafts: Sequence[DraftFiles], schemas: Schemas
    ) -> ResultFiles | None:
        """None where Spark has something to evaluate, or must write a type itself."""
        columns, files = [], []
        for plan in plans:
            fields = _plain(plan)
            if fields is None:
                return None
            kinds = [
                t.TimestampType() if a == "" else schemas[plan.query.input(a).stream][c].dataType
                for a, c, _ in fields
            ]
            if any(map(_has_own, kinds)):
                return None
            names = [o.name for o in plan.query.outputs]
            columns.append(tuple(field for _, _, field in fields))
            files.append(
                arrow_schema(t.StructType([t.StructField(n, k) for n, k in zip(names, kinds, strict=True)]))
            )
        return cls(tuple(str(d.folder) for d in drafts), tuple(columns), tuple(files))

    @property
    def schema(self) -> t.StructType:
        own = [t.StructField("report", t.StringType()), t.StructField("query", t.IntegerType())]
        return t.StructType([*own, *_WRITTEN.fields])

    @property
    def arrow(self) -> pa.Schema:
        return arrow_schema(self.schema)

    def frames(self, out: Iterable[Message | Results | Report]) -> Iterator[pd.DataFrame]:
        rows: list[tuple[str | None, int, str | None, int]] = []
        files: dict[int, ResultFile] = {}
        for one in out:
            if isinstance(one, Report):
                rows.append((one.to_json(), -1, None, 0))
            elif isinstance(one, Results):
                if one.query not in files:
                    files[one.query] = ResultFile(self.drafts[one.query], self.files[one.query])
                files[one.query].add(self._restored(one))
        for query, file in files.items():
            file.close()
            rows.append((None, query, file.name, file.rows))
        yield pd.DataFrame(rows, columns=self.schema.names)

    def _restored(self, found: Results) -> pa.RecordBatch:
        schema = self.files[found.query]
        arrays = []
        for field, column in zip(self.columns[found.query], schema, strict=True):
            values = found.batch.column(field)
            arrays.append(values.view(column.type) if field == START else decode(values, column.type))
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def collected(self, flow: DataFrame) -> tuple[Report, Sequence[Found]]:
        """Run the batch: the report of all operators, and the drafts of each query."""
        rows: list[Any] = flow.collect()
        drafts: list[list[tuple[str, int]]] = [[] for _ in self.drafts]
        for row in rows:
            if row.file is not None:
                drafts[row.query].append((row.file, row.n))
        return Report.sum(row.report for row in rows if row.report is not None), drafts


def _plain(plan: ResultPlan) -> list[tuple[str, str, str]] | None:
    """The columns of the output as (alias, column, field); None where it is more than columns."""
    if plan.query.conditions or plan.query.groups is not None:
        return None
    fields = {(alias, column): field for alias, column, field, _ in plan.fields}
    found = []
    for output in plan.query.outputs:
        if output.expr.plain_column is None or len(output.expr.columns) != 1:
            return None
        (alias, column), *_ = output.expr.columns
        own = plan.same.get((alias, column), (alias, column))
        found.append((alias, column, fields[own] if alias else START))
    return found
