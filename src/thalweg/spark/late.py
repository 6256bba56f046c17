"""Late tuples are kept in files, one folder a stream; a repeat of a batch overwrites what it wrote before."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark import TaskContext
from pyspark.sql import types as t

from thalweg.kernel.columns import decode
from thalweg.spark.typing import arrow_schema


class LateFiles:
    """Where late tuples of each stream go. A stream's number is its place in `schemas`."""

    def __init__(self, folder: Path, schemas: Mapping[str, t.StructType]) -> None:
        self._folder = str(folder)
        self._schemas = [(name, arrow_schema(schema)) for name, schema in schemas.items()]

    def write(self, stream: int, batch: pa.RecordBatch, group: int, part: int) -> None:
        """Keep one packet of late tuples: the `part`-th that this group has had in this batch."""
        name, schema = self._schemas[stream]
        table = pa.Table.from_arrays([decode(batch.column(f.name), f.type) for f in schema], schema=schema)
        context = TaskContext.get()
        number = int((context and context.getLocalProperty("streaming.sql.batchId")) or 0)
        folder = Path(self._folder) / name
        folder.mkdir(parents=True, exist_ok=True)
        draft = folder / f".{uuid.uuid4().hex}"
        pq.write_table(table, draft)
        draft.replace(folder / f"{number:09d}-{group:04d}-{part:04d}.parquet")
