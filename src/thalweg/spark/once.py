"""A stream of a single row, which comes in the first batch. What is joined with it comes once, too.

Spark loads this module into processes of its own, so it imports little.
"""

from __future__ import annotations

from collections.abc import Iterator

from pyspark.sql import types as t
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow

ONE = "#one"


class Once(DataSource):
    """A stream of a single row."""

    @classmethod
    def name(cls) -> str:
        return "thalweg_once"

    def schema(self) -> t.StructType:
        return t.StructType([t.StructField(ONE, t.IntegerType())])

    def streamReader(self, schema: t.StructType) -> OnceReader:  # noqa: N802 (Spark's name)
        return OnceReader()


class OnceReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Its offset is the number of rows read: none, then one."""

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"read": 0}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Its end is known."""

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        return {"read": 1}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        return [InputPartition(n) for n in range(start["read"], end["read"])]

    def read(self, partition: InputPartition) -> Iterator[tuple[int]]:
        yield (1,)
