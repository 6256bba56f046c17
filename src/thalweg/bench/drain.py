"""Runs a streaming join over files, and reports the time and results of each micro-batch."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

LOW_32_BITS = 0xFFFFFFFF


@dataclass(frozen=True)
class Batch:
    """The input, time and results of one micro-batch."""

    rows: int
    seconds: float
    results: int
    checksum: int
    """The sum of the results' 64-bit hashes: equal for equal multisets, whatever their order."""
    duration_ms: Mapping[str, int] = field(default_factory=dict)
    state: Sequence[Mapping[str, int]] = ()
    """Per stateful operator: the time spent on state, in ms over all tasks, and the rows it holds."""


def read_streams(spark: SparkSession, home: Path, aliases: Sequence[str]) -> dict[str, DataFrame]:
    """The streams below `home`, one file of each a micro-batch."""
    streams = {}
    for alias in aliases:
        path = str(home / alias)
        schema = spark.read.parquet(path).schema
        streams[alias] = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(path)
    return streams


def drain(results: DataFrame, output: Sequence[str], checkpoint: Path) -> list[Batch]:
    """Run to the end of the input; every result is made whole in the JVM and hashed there."""
    tallies: dict[int, tuple[int, int]] = {}
    digest = fn.xxhash64(*(fn.col(name) for name in output)).alias("h")
    # Two sums of halves can't overflow, whatever the ANSI setting, and cost less than a decimal.
    low, high = fn.col("h").bitwiseAND(fn.lit(LOW_32_BITS)), fn.shiftrightunsigned("h", 32)
    sums = fn.count("*"), fn.sum(low), fn.sum(high)

    def tally(frame: DataFrame, batch: int) -> None:
        row = frame.select(digest).agg(*sums).first()
        assert row is not None  # an aggregate over everything gives one row
        tallies[batch] = (row[0], (row[1] or 0) + ((row[2] or 0) << 32))

    query = (
        results.select(*output)
        .writeStream.foreachBatch(tally)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    try:
        query.awaitTermination()
    finally:
        query.stop()
    progress = {p["batchId"]: p for p in map(_as_dict, query.recentProgress) if p["batchId"] in tallies}
    return [_batch(progress[number], *tallies[number]) for number in sorted(tallies)]


def _as_dict(progress: Any) -> dict[str, Any]:
    return progress if isinstance(progress, dict) else json.loads(progress.json)


def _batch(progress: Mapping[str, Any], results: int, checksum: int) -> Batch:
    spent = {name: int(ms) for name, ms in progress["durationMs"].items()}
    wanted = ("allUpdatesTimeMs", "allRemovalsTimeMs", "commitTimeMs", "numRowsTotal", "memoryUsedBytes")
    state = [{name: int(op.get(name, 0)) for name in wanted} for op in progress.get("stateOperators", [])]
    rows = sum(int(source["numInputRows"]) for source in progress["sources"])
    return Batch(rows, spent["triggerExecution"] / 1000, results, checksum, spent, state)
