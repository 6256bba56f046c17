"""Spark's own way to join N streams: a cascade of two-way stream-stream joins, for the same rule.

All windows are T, so a set of tuples is alive at one moment exactly when every two of them are at most T
apart. Each join of the cascade states that for its new stream against all streams before it: the
condition on the one event-time column that the left side still has lets Spark bound its state, the
others make the result exact.

Spark refuses an input with two event-time columns (MULTIPLE_EVENT_TIME_COLUMNS), so all but the first
stream's time travel as plain microseconds and become timestamps again at the end. Keys travel once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
IN_MEMORY = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"

_STORE = "spark.sql.streaming.stateStore.providerClass"
_FORMAT = "spark.sql.streaming.join.stateFormatVersion"
_ROCKSDB_TUNED = {
    _STORE: ROCKSDB,
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": "false",
}

CONFIGURATIONS: dict[str, dict[str, str]] = {
    "spark-memory": {_STORE: IN_MEMORY, _FORMAT: "2"},
    "spark-rocksdb-2": {**_ROCKSDB_TUNED, _FORMAT: "2"},
    "spark-rocksdb-4": {**_ROCKSDB_TUNED, _FORMAT: "4"},
}
"""The configurations of the cascade that are compared: where its state is kept, and in which format."""


def cascade(
    streams: Mapping[str, DataFrame],
    equalities: Sequence[tuple[str, str]],
    *,
    within_us: int,
    lateness_us: int,
    output: Sequence[str],
    time: str = "ts",
) -> DataFrame:
    """Join the streams, in their order, on equalities such as `("a.k", "b.k")`, one per further stream.

    The columns of the result are `output`, each `alias_column`.
    """
    prepared = {
        alias: frame.withWatermark(time, f"{lateness_us} microseconds").select(
            *(fn.col(column).alias(f"{alias}_{column}") for column in frame.columns)
        )
        for alias, frame in streams.items()
    }
    first, *others = prepared
    joined = prepared[first]
    event_time = f"{first}_{time}"
    plain: list[str] = []  # times of the streams joined so far that travel as microseconds
    same: dict[str, str] = {}  # key columns that are not carried, and which carried one they equal
    for alias, (left_key, right_key) in zip(others, equalities, strict=True):
        left, right = left_key.replace(".", "_"), right_key.replace(".", "_")
        left = same.get(left, left)
        own = f"{alias}_{time}"
        condition = (fn.col(left) == fn.col(right)) & _near(fn.col(own), fn.col(event_time), within_us)
        for earlier in plain:
            gap = fn.unix_micros(fn.col(own)) - fn.col(earlier)
            condition &= gap.between(-within_us, within_us)
        joined = joined.join(prepared[alias], condition, "inner")
        joined = joined.withColumn(own, fn.unix_micros(own)).drop(right)
        plain.append(own)
        same[right] = left
    return joined.select(*(_shown(name, plain, same) for name in output))


def _near(one: Column, other: Column, within_us: int) -> Column:
    window = fn.expr(f"INTERVAL '{within_us // 1_000_000}.{within_us % 1_000_000:06d}' SECOND")
    return (one >= other - window) & (one <= other + window)


def _shown(name: str, plain: Sequence[str], same: Mapping[str, str]) -> Column:
    if name in plain:
        return fn.timestamp_micros(fn.col(name)).alias(name)
    return fn.col(same.get(name, name)).alias(name)
