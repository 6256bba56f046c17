"""What a sink of results does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Protocol

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as t

from thalweg.catalog.model import Destination
from thalweg.errors import UserError
from thalweg.names import suggestion
from thalweg.query.model import Query
from thalweg.spark.result_files import Found
from thalweg.storage import Location


@dataclass(frozen=True)
class BatchResults:
    """The results of a query in one batch: parquet files that nobody reads yet."""

    batch: int
    folder: Location
    files: Found
    schema: t.StructType

    @property
    def count(self) -> int:
        return sum(rows for _, rows in self.files)

    def frame(self, spark: SparkSession) -> DataFrame:
        """The results as rows of Spark. There must be some."""
        paths = [str(self.folder / name) for name, rows in self.files if rows]
        return spark.read.schema(self.schema).parquet(*paths)


@dataclass(frozen=True)
class Setting:
    """What a sink may know of its run. `begun` says that the run has written results before."""

    spark: SparkSession
    run: str
    query: Query
    begun: bool
    say: Callable[[str], None]


class Sink(Protocol):
    """Where results of one query go, batch by batch. A repeat of a batch brings the same results again."""

    guarantee: ClassVar[str]
    """How often the sink has each result after a crash, in a few words."""

    def prepare(self, results: DataFrame) -> None:
        """Called before the first batch, with no rows: fails where the sink can't take results like these."""

    def clear(self, batch: int) -> None:
        """Remove what an earlier attempt at this batch has left, where that is possible."""

    def write(self, results: BatchResults) -> None:
        """Take the results of a batch, if there are any."""

    def tidy(self, batch: int) -> None:
        """Called when a batch is done: the results of those before may be arranged anew."""


def key_of(to: Destination, results: DataFrame) -> list[str]:
    """The columns of a sink's key, named as in the results."""
    known = {name.lower(): name for name in results.columns}
    for name in to.key:
        if name.lower() not in known:
            raise UserError(
                f"the key {name[:80]!r} is no column of the results",
                where=to.where,
                remedy=suggestion(name, results.columns),
            )
    return [known[name.lower()] for name in to.key]
