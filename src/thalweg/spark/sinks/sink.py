"""What a sink of results does."""

from __future__ import annotations

from typing import Protocol

from pyspark.sql import DataFrame


class Sink(Protocol):
    """Where the results of one query go, batch by batch, each exactly once."""

    def prepare(self, results: DataFrame) -> None:
        """Called once, before the first batch, with no rows: readers may look for the columns."""

    def clear(self, batch: int) -> None:
        """Remove what an earlier attempt at this batch has left."""

    def write(self, results: DataFrame, batch: int) -> int:
        """Write the results of a batch; a repeat replaces the first attempt. Returns the number of rows."""

    def tidy(self, batch: int) -> None:
        """Called when a batch is done: the results of those before may be arranged anew."""
