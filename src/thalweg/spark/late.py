"""Late tuples are kept in files, one folder a stream; a repeat of a batch overwrites what it wrote before."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import types as t

from thalweg.compile.query_fields import field_of
from thalweg.files import whole
from thalweg.kernel.columns import decode
from thalweg.operators.spec import REASON
from thalweg.spark.program_files import batch_number
from thalweg.spark.typing import arrow_schema
from thalweg.storage import Location, location

WHY = "_late_reason"
"""A further column of the files of a stream with encoded values."""


class LateFiles:
    """Where late tuples of each stream go."""

    def __init__(self, folder: Location, schemas: Mapping[str, t.StructType]) -> None:
        self._folder = str(folder)
        self._schemas = {name: arrow_schema(schema) for name, schema in schemas.items()}

    def write(self, stream: str, batch: pa.RecordBatch, group: int, part: int) -> None:
        """Keep one batch of late tuples: the `part`-th that this group has had in this micro-batch."""
        schema = self._schemas[stream]
        arrays = [decode(batch.column(field_of(f.name)), f.type) for f in schema]
        table = pa.Table.from_arrays(arrays, schema=schema)
        if REASON in batch.schema.names:
            table = table.append_column(WHY, batch.column(REASON))
        folder = location(self._folder) / stream
        folder.mkdir(parents=True, exist_ok=True)
        with whole(folder / f"{batch_number():09d}-{group:04d}-{part:04d}.parquet") as draft:
            pq.write_table(table, draft)
