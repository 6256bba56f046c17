"""Results as parquet files in a folder, named by batch."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql import types as t

from thalweg.spark.typing import arrow_schema

_GROUP_ROWS = 1 << 20
_WRITTEN = t.StructType([t.StructField("file", t.StringType()), t.StructField("n", t.LongType())])
_OWN = (t.YearMonthIntervalType, t.DayTimeIntervalType, t.CalendarIntervalType, t.VariantType)
"""Types that Spark stores in parquet in a way of its own."""


@dataclass(frozen=True)
class ParquetSink:
    """Flat files NUMBER-PART.parquet in `folder`, each batch's exactly once. Drafts are in `draft`.

    Workers write the files with Arrow. Spark's own writer takes longer than the join does, and starts a
    process for each file and folder it makes. It is used for types that only Spark can store.
    """

    folder: Path
    draft: Path

    def prepare(self, results: DataFrame) -> None:
        """At least one file, so that readers find the columns even where there is no result."""
        self.folder.mkdir(parents=True, exist_ok=True)
        if not any(self.folder.glob("*.parquet")):
            draft = self.folder / ".schema"
            pq.write_table(arrow_schema(results.schema).empty_table(), draft, store_schema=False)
            draft.replace(self.folder / "schema.parquet")

    def clear(self, batch: int) -> None:
        for file in self.folder.glob(f"{batch:09d}-*"):
            file.unlink()

    def write(self, results: DataFrame, batch: int) -> int:
        shutil.rmtree(self.draft, ignore_errors=True)
        self.draft.mkdir(parents=True)
        if _has_own(results.schema):
            results.write.mode("append").parquet(str(self.draft))
            files = sorted(self.draft.glob("*.parquet"))
            written = [(file, pq.read_metadata(file).num_rows) for file in files]
        else:
            rows = results.mapInArrow(_writer(str(self.draft), arrow_schema(results.schema)), _WRITTEN)
            written = sorted((self.draft / row.file, row.n) for row in rows.collect())
        with_rows = [(file, n) for file, n in written if n]
        for part, (file, _) in enumerate(with_rows):
            file.replace(self.folder / f"{batch:09d}-{part:04d}.parquet")
        shutil.rmtree(self.draft, ignore_errors=True)
        return sum(n for _, n in with_rows)


def _has_own(kind: t.DataType) -> bool:
    if isinstance(kind, t.StructType):
        return any(_has_own(f.dataType) for f in kind)
    if isinstance(kind, t.ArrayType):
        return _has_own(kind.elementType)
    if isinstance(kind, t.MapType):
        return _has_own(kind.keyType) or _has_own(kind.valueType)
    return isinstance(kind, _OWN)


def _writer(folder: str, schema: pa.Schema) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Writes the rows of one task to a file, and says which and how many."""

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # An attempt that Spark has given up may go on writing: each has a name of its own.
        file, rows = f"{uuid.uuid4().hex}.parquet", 0
        writer: pq.ParquetWriter | None = None
        held: list[pa.RecordBatch] = []
        for batch in batches:
            if batch.num_rows == 0:
                continue
            writer = writer or pq.ParquetWriter(Path(folder) / file, schema, store_schema=False)
            held.append(batch)
            rows += batch.num_rows
            if sum(b.num_rows for b in held) >= _GROUP_ROWS:
                writer.write_table(pa.Table.from_batches(held).cast(schema))
                held = []
        if writer is not None:
            if held:
                writer.write_table(pa.Table.from_batches(held).cast(schema))
            writer.close()
            yield pa.record_batch([pa.array([file]), pa.array([rows])], names=["file", "n"])

    return write
