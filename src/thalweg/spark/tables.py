"""The tables of a run: each is written down before the first batch, and read from there.

So a repeat of a batch has the same rows, whatever has become of the table, and a run can be verified with the
rows that it has had.
"""

from __future__ import annotations

from datetime import UTC, datetime

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from thalweg.catalog.model import TIMELESS, Stream
from thalweg.catalog.versions import Kept, Version, digest_of
from thalweg.errors import UserError
from thalweg.exchange.disk import flush
from thalweg.files import remove_all
from thalweg.spark.once import ONE, Once
from thalweg.spark.streams import load, schema_of
from thalweg.units import BEFORE_ALL


def keep(spark: SparkSession, table: Stream, kept: Kept) -> None:
    """Write down the rows that a table has now. No batch may have been planned yet.

    The streams would wait for the rows of a table that has none, so it is refused.
    """
    remove_all(kept.folder, ignore_errors=True)
    kept.folder.mkdir(parents=True)
    now, files = datetime.now(UTC).isoformat(timespec="seconds"), digest_of(table)
    load(spark.read, table).write.parquet(str(kept.rows))
    count = _read(spark, table, kept).count()
    if count == 0:
        raise UserError(
            f"the table {table.name!r} has no rows",
            where=f"tables.{table.name}.source",
            remedy="is the path right? A table is read once, when a run begins",
        )
    kept.note(Version(now, count, files))
    flush(kept.folder)


def live(spark: SparkSession, table: Stream, kept: Kept) -> DataFrame:
    """The rows of a table as a stream, as the run has read them."""
    # A run that an earlier version of Thalweg began has its rows in its state only.
    rows = load(spark.read, table) if kept.version is None else _read(spark, table, kept)
    return at_once(spark, rows)


def _read(spark: SparkSession, table: Stream, kept: Kept) -> DataFrame:
    reader = spark.read.schema(schema_of(table))
    # As Spark reads what streams have listed: a folder is no pattern, whatever its name.
    return reader.option("__globPaths__", "false").parquet(str(kept.rows))


def at_once(spark: SparkSession, rows: DataFrame) -> DataFrame:
    """The rows of a table as a stream that brings them once.

    Spark reads a static DataFrame in each batch that needs it; only the first one does. What is read is then
    part of the state: a query that goes on does not read it again.
    """
    spark.dataSource.register(Once)
    return with_time(spark.readStream.format(Once.name()).load().crossJoin(rows).drop(ONE))


def with_time(rows: DataFrame) -> DataFrame:
    """The rows of a table with the time that stands for none."""
    return rows.withColumn(TIMELESS, f.expr(f"timestamp_micros({BEFORE_ALL})"))
