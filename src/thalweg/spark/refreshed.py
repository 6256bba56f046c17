"""The versions of a table that is refreshed, as a stream of Spark.

The driver writes a version down; the batch that is planned next reads it. When the batch is planned, the
version gets its time: after all that earlier batches have read. The time is noted before Spark logs the
batch, so a repeat has the same one. Spark loads this module into processes of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import types as t
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow

from thalweg.catalog.versions import Kept
from thalweg.files import copied_file
from thalweg.names import TIMELESS
from thalweg.spark.typing import arrow_schema
from thalweg.storage import location
from thalweg.units import BEFORE_ALL


class Refreshed(DataSource):
    """The versions in the folder of a table."""

    @classmethod
    def name(cls) -> str:
        return "thalweg_refreshed"

    def streamReader(self, schema: t.StructType) -> RefreshedReader:  # noqa: N802 (Spark's name)
        return RefreshedReader(self.options, schema)


class RefreshedReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Its offset is the number of the last version that was read."""

    def __init__(self, options: Mapping[str, str], schema: t.StructType) -> None:
        self.kept = Kept(location(options["folder"]))
        self.schema = schema

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"version": 0}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """What is there is the end: a run that ends when its sources do looks for no further version."""

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        last = start["version"]
        for number in self.kept.numbers():
            if number > last and self.kept.begin(number) is None:
                moment = BEFORE_ALL if number == 1 else self.kept.newest + number - last
                self.kept.begins(number, moment)
        return {"version": max([last, *self.kept.numbers()])}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        return [InputPartition(number) for number in range(start["version"] + 1, end["version"] + 1)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        number: int = partition.value
        moment = self.kept.begin(number)
        with copied_file(self.kept.rows_of(number)) as file:
            rows = pq.read_table(file)
        time = pa.array([moment], pa.timestamp("us", "UTC")).take(pa.array([0] * rows.num_rows, pa.int64()))
        whole = rows.append_column(TIMELESS, time)
        schema = arrow_schema(self.schema)
        yield from whole.select(schema.names).cast(schema).to_batches()
