"""Results as parquet files in a folder, named by batch."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as fn

from thalweg.spark.typing import arrow_schema


@dataclass(frozen=True)
class ParquetSink:
    """Flat files NUMBER-PART.parquet in `folder`. Spark writes them to `draft`; they are then moved."""

    folder: Path
    draft: Path

    def prepare(self, results: DataFrame) -> None:
        """At least one file, so that readers find the columns even where there is no result."""
        self.folder.mkdir(parents=True, exist_ok=True)
        if not any(self.folder.glob("*.parquet")):
            draft = self.folder / ".schema"
            pq.write_table(arrow_schema(results.schema).empty_table(), draft)
            draft.replace(self.folder / "schema.parquet")

    def clear(self, batch: int) -> None:
        for file in self.folder.glob(f"{batch:09d}-*"):
            file.unlink()

    def write(self, results: DataFrame, batch: int) -> int:
        count = Observation()
        counted = results.observe(count, fn.count(fn.lit(1)).alias("n"))
        counted.write.mode("overwrite").parquet(str(self.draft))
        for n, file in enumerate(sorted(self.draft.glob("*.parquet"))):
            if pq.read_metadata(file).num_rows:
                file.replace(self.folder / f"{batch:09d}-{n:04d}.parquet")
        shutil.rmtree(self.draft, ignore_errors=True)
        return int(count.get["n"])
