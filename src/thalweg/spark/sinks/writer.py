"""Results through any batch writer of Spark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from pyspark.sql import DataFrame

from thalweg.catalog.model import Destination
from thalweg.spark.sinks.sink import BatchResults, Setting, Sink


@dataclass(frozen=True)
class WriterSink(Sink):
    """Appends the results of each batch."""

    guarantee: ClassVar[str] = "at least once: a batch that a crash interrupts is appended again"

    to: Destination
    setting: Setting

    def prepare(self, results: DataFrame) -> None:
        """Appends no rows, so that a mistake in the catalog shows before anything is read."""
        if not self.setting.begun:
            self._append(results, {})

    def write(self, results: BatchResults) -> None:
        if results.count:
            self._append(results.frame(self.setting.spark), self.options(results.batch))

    def records(self, results: DataFrame) -> DataFrame:
        """The rows that the writer takes."""
        return results

    def options(self, batch: int) -> Mapping[str, str]:
        """Options of the writer for one batch, beside those of the catalog."""
        return {}

    def _append(self, results: DataFrame, more: Mapping[str, str]) -> None:
        writer = self.records(results).write.format(self.to.format).mode("append")
        writer.options(**self.to.options, **more).save()
