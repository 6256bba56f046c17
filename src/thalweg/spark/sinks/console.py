"""Results as lines among the messages of the run, for a first look."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pyspark.sql import DataFrame

from thalweg.catalog.model import Destination
from thalweg.errors import UserError
from thalweg.spark.sinks.encode import as_json
from thalweg.spark.sinks.sink import BatchResults, Setting, Sink

_ROWS = 20


@dataclass(frozen=True)
class ConsoleSink(Sink):
    """The first results of each batch as JSON, and how many there are."""

    guarantee: ClassVar[str] = "at least once, and only the first of each batch"

    to: Destination
    setting: Setting

    @property
    def rows(self) -> int:
        """How many results of a batch are shown."""
        text = self.to.option("rows") or str(_ROWS)
        if not text.isdecimal():
            raise UserError(f"rows is {text[:40]!r}", where=self.to.where, remedy="it must be a whole number")
        return int(text)

    def prepare(self, results: DataFrame) -> None:
        results.select(as_json(results.columns, {}))
        _ = self.rows

    def write(self, results: BatchResults) -> None:
        if not results.count:
            return
        rows = results.frame(self.setting.spark)
        shown = rows.select(as_json(rows.columns, {}).alias("row")).take(self.rows)
        more = results.count - len(shown)
        lines = [f"{self.setting.query.name}, batch {results.batch}: {results.count:,} results"]
        lines += [row["row"] for row in shown] + ([f"and {more:,} more"] if more else [])
        self.setting.say("\n".join(lines))
