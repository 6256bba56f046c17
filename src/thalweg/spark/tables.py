"""The tables of a run: each is written down before the first batch, and read from there.

So a repeat of a batch has the same rows, whatever has become of the table, and a run can be verified with the
rows that it has had. Of a table that is refreshed, a version is written down whenever it has changed.
"""

from __future__ import annotations

import time
from collections import Counter
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from thalweg.catalog.model import Stream
from thalweg.catalog.versions import Kept, Version, digest_of
from thalweg.errors import UserError
from thalweg.exchange.disk import flush
from thalweg.files import copied_file, remove_all, whole
from thalweg.names import LIVE, SLOT, TIMELESS
from thalweg.spark.once import ONE, Once
from thalweg.spark.refreshed import Refreshed
from thalweg.spark.streams import kept_schema, load, schema_of
from thalweg.units import BEFORE_ALL

_TRIES = 20
"""So often a run that begins reads a table whose files change meanwhile."""


def keep(spark: SparkSession, table: Stream, kept: Kept) -> None:
    """Write down the rows that a table has now. No batch may have been planned yet.

    The streams would wait for the rows of a table that has none, so it is refused.
    """
    remove_all(kept.folder, ignore_errors=True)
    kept.folder.mkdir(parents=True)
    if table.refresh is not None:
        for _ in range(_TRIES):
            if _write_version(spark, table, kept, 1):
                flush(kept.folder)
                return
            time.sleep(0.1)
        raise UserError(
            f"the files of the table {table.name!r} change all the time",
            where=f"tables.{table.name}.source",
            remedy="replace them whole, by renaming",
        )
    now, files = datetime.now(UTC).isoformat(timespec="seconds"), digest_of(table)
    load(spark.read, table).write.parquet(str(kept.rows))
    count = _read(spark, table, kept).count()
    if count == 0:
        raise _empty(table)
    kept.note(Version(now, count, files))
    flush(kept.folder)


def _empty(table: Stream) -> UserError:
    return UserError(
        f"the table {table.name!r} has no rows",
        where=f"tables.{table.name}.source",
        remedy="is the path right? A table is read when a run begins",
    )


def _write_version(spark: SparkSession, table: Stream, kept: Kept, number: int) -> bool:
    """Write down what a table holds as a version; False where it is being written just now.

    Each row has a slot, and ends the row that was there before. So where the version before had more, the
    rest of its slots get what is no row.
    """
    now, files = datetime.now(UTC).isoformat(timespec="seconds"), digest_of(table)
    rows = load(spark.read, table).toArrow()
    count: int = rows.num_rows
    before = 0 if number == 1 else kept.read_of(number - 1).rows
    if files != digest_of(table):
        return False
    if count == 0:
        raise _empty(table)
    slots = max(count, before)
    rows = pa.concat_tables([rows, *([_nulls(rows.schema, slots - count)] if slots > count else [])])
    rows = rows.append_column(SLOT, pa.array(np.arange(slots)))
    rows = rows.append_column(LIVE, pa.array(np.arange(slots) < count))
    with whole(kept.rows_of(number)) as draft:
        pq.write_table(rows, draft)
    kept.note_of(number, Version(now, count, files))
    return True


def _nulls(schema: pa.Schema, count: int) -> pa.Table:
    return pa.table([pa.nulls(count, f.type) for f in schema], names=schema.names)


def renew(spark: SparkSession, table: Stream, kept: Kept) -> bool:
    """Write down what a table holds now, if it has changed; whether there is a new version."""
    last = max(kept.numbers())
    before = kept.read_of(last)
    if before.files is not None and digest_of(table) == before.files:
        return False
    if before.files is None and _same(spark, table, kept, last):
        return False
    return _write_version(spark, table, kept, last + 1)


def _same(spark: SparkSession, table: Stream, kept: Kept, number: int) -> bool:
    """Whether a table that has no local files holds what a version has."""
    with copied_file(kept.rows_of(number)) as file:
        before = pq.read_table(file).filter(pc.field(LIVE)).drop_columns([SLOT, LIVE])
    return _counted(before) == _counted(load(spark.read, table).toArrow())


def _counted(rows: pa.Table) -> Counter[str]:
    return Counter(map(repr, rows.to_pylist()))


def live(spark: SparkSession, table: Stream, kept: Kept) -> DataFrame:
    """The rows of a table as a stream, as the run has read them."""
    if table.refresh is not None:
        spark.dataSource.register(Refreshed)
        reader = spark.readStream.format(Refreshed.name()).schema(kept_schema(table))
        return reader.option("folder", str(kept.folder.absolute())).load()
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
