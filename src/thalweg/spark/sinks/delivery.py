"""The way of a query's results to its sinks: they are evaluated once, then each sink takes them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, IllegalArgumentException, PySparkException
from pyspark.sql import DataFrame

from thalweg.catalog.model import PARQUET, Destination
from thalweg.errors import UserError
from thalweg.spark.error_messages import in_our_words, reason
from thalweg.spark.result_files import DraftFiles, Found
from thalweg.spark.sinks.parquet import ParquetSink
from thalweg.spark.sinks.sink import BatchResults, Setting, Sink
from thalweg.spark.sinks.table import sink_of

_UNKNOWN = ("DATA_SOURCE_NOT_FOUND", "Failed to find data source", "ClassNotFoundException")


@dataclass(frozen=True)
class Delivery:
    """The sinks of one query, each with its destination. `empty` are its results without a row."""

    drafts: DraftFiles
    sinks: tuple[tuple[Destination, Sink], ...]
    empty: DataFrame

    @classmethod
    def of(
        cls,
        destinations: Sequence[Destination],
        setting: Setting,
        drafts: DraftFiles,
        files: ParquetSink,
        empty: DataFrame,
    ) -> Delivery:
        """The delivery to some destinations; `files` is the sink of the run's own folder."""
        # That one comes last: it moves the drafts away.
        ordered = sorted(destinations, key=lambda to: to.format == PARQUET)
        made = tuple((to, files if to.format == PARQUET else sink_of(to, setting)) for to in ordered)
        return cls(drafts, made, empty)

    def prepare(self) -> None:
        for to, sink in self.sinks:
            with _told(to):
                sink.prepare(self.empty)

    def clear(self, batch: int) -> None:
        self.drafts.clear()
        for _, sink in self.sinks:
            sink.clear(batch)

    def write(self, files: Found, batch: int) -> int:
        """Hand the results of a batch to each sink; returns how many there are."""
        results = BatchResults(batch, self.drafts.folder, files, self.empty.schema)
        for to, sink in self.sinks:
            with _told(to):
                sink.write(results)
        return results.count

    def tidy(self, batch: int) -> None:
        for _, sink in self.sinks:
            sink.tidy(batch)

    def describe(self) -> list[str]:
        """What each sink that the catalog names guarantees, a line for each."""
        return [f"{to.where}: {to.format}, {sink.guarantee}" for to, sink in self.sinks if to.where]


@contextmanager
def _told(to: Destination) -> Iterator[None]:
    """What a sink fails for, in our words, with its place in the catalog."""
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        if any(name in str(error) for name in _UNKNOWN):
            raise UserError(
                f"Spark has no sink of the format {to.format!r}",
                where=to.where,
                remedy="check the name, or add its package to the session (`spark.jars.packages`)",
            ) from None
        if isinstance(error, AnalysisException | IllegalArgumentException):
            raise UserError(reason(error), where=to.where) from None
        raise in_our_words(error, to.where) from error
