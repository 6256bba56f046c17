"""Streams for tests: rows in batches, written as files that Spark reads one a batch; and what comes out."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession, is_remote
from pyspark.sql import types as t

import thalweg
from thalweg.catalog.model import Catalog, Site, Source, Stream
from thalweg.files import copied
from thalweg.oracle import duck, reference
from thalweg.query import parse
from thalweg.spark.typing import arrow_schema
from thalweg.storage import Location, location, scheme_of

SECOND = 1_000_000
SIMPLE = {
    "timestamp": pa.timestamp("us", "UTC"),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "string": pa.string(),
}
Row = dict[str, Any]


@dataclass
class Feed:
    """One stream: its columns as Spark SQL types, and its rows by batch. Times are microseconds."""

    columns: Mapping[str, str]
    batches: Sequence[Sequence[Row]]
    time: str = "ts"
    lateness: int = 10 * SECOND
    order: tuple[str, ...] = ()
    format: str = "parquet"
    extra: Mapping[str, str] = field(default_factory=dict)  # further lines of the catalog

    @property
    def schema(self) -> t.StructType:
        parts = (f"`{name.replace('`', '``')}` {kind}" for name, kind in self.columns.items())
        return t.StructType.fromDDL(", ".join(parts))

    def table(self, rows: Sequence[Row]) -> pa.Table:
        if all(kind in SIMPLE for kind in self.columns.values()):  # without a session, which Spark asks for
            schema = pa.schema([(name, SIMPLE[kind]) for name, kind in self.columns.items()])
        else:
            schema = arrow_schema(self.schema)
        return pa.Table.from_pylist(list(rows), schema)

    @property
    def rows(self) -> list[Row]:
        return [row for batch in self.batches for row in batch]

    def split(self) -> tuple[list[Row], list[Row]]:
        """What takes part and what is late."""
        kept, late = reference.late_split(self.batches, self.lateness, time=self.time)
        return list(map(dict, kept)), list(map(dict, late))

    def write(self, folder: Path) -> None:
        """One file a batch; Spark takes files by their modification times, so these tell the order."""
        folder.mkdir(parents=True, exist_ok=True)
        for n, batch in enumerate(self.batches):
            path = folder / f"{n:05d}.{self.format}"
            self._write(path, self.table(batch))
            os.utime(path, (1_700_000_000 + n, 1_700_000_000 + n))

    def _write(self, path: Path, table: pa.Table) -> None:
        if self.format == "parquet":
            pq.write_table(table, path)
            return
        rows = [{k: _text(v) for k, v in row.items()} for row in table.to_pylist()]
        if self.format == "json":
            path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        else:
            lines = (",".join("" if v is None else str(v) for v in row.values()) for row in rows)
            path.write_text("".join(line + "\n" for line in lines))

    def live(self, spark: SparkSession, folder: Path) -> DataFrame:
        return spark.readStream.schema(self.schema).option("maxFilesPerTrigger", 1).parquet(str(folder))

    def static(self, spark: SparkSession, folder: Path) -> DataFrame:
        return spark.read.schema(self.schema).parquet(str(folder))


def _text(value: Any) -> Any:
    return value.isoformat() if hasattr(value, "isoformat") else value


def rows(names: str, *values: tuple) -> list[Row]:
    """Rows from tuples; the first value is the time in seconds.

    >>> rows("ts k", (1, "x"), (None, "y"))
    [{'ts': 1000000, 'k': 'x'}, {'ts': None, 'k': 'y'}]
    """
    columns = names.split()
    made = [dict(zip(columns, row, strict=True)) for row in values]
    for row in made:
        if row["ts"] is not None:
            row["ts"] = round(row["ts"] * SECOND)
    return made


def written(feeds: Mapping[str, Feed], folder: Path) -> Path:
    for name, feed in feeds.items():
        feed.write(folder / name)
    return folder


def drained(result: DataFrame, checkpoint: Path) -> tuple[Counter, Any]:
    """All rows of a streaming result, and the query that gave them."""
    if is_remote():  # a function for batches would run in the server
        return _drained_to_files(result, checkpoint)
    found: dict[int, pa.Table] = {}

    def keep(frame: DataFrame, batch: int) -> None:
        found[batch] = frame.toArrow()

    query = (
        result.writeStream.foreachBatch(keep)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    try:
        query.awaitTermination()
    finally:
        query.stop()
    return sum((multiset(table) for table in found.values()), Counter()), query


def _drained_to_files(result: DataFrame, checkpoint: Path) -> tuple[Counter, Any]:
    """The same by a folder of files, which a checkpoint must keep."""
    folder = checkpoint.with_name(f"{checkpoint.name}-rows")

    def rows() -> Counter:
        there = result.sparkSession.read.schema(result.schema).parquet(str(folder))
        return multiset(there.toArrow()) if folder.exists() else Counter()

    before = rows()
    query = (
        result.writeStream.format("parquet")
        .option("path", str(folder))
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return rows() - before, query


def reports(query: Any) -> list[dict[str, Any]]:
    """What operators said of themselves, in all batches of a query."""
    said: list[dict[str, Any]] = []
    for progress in query.recentProgress:
        for name, observed in progress["observedMetrics"].items():
            if name.startswith("thalweg"):
                # A Connect session names the columns of a metric beside its values.
                said += map(json.loads, observed["values"][0] if is_remote() else observed["reports"])
    return said


def multiset(table: pa.Table) -> Counter:
    return Counter(tuple(plain(v) for v in row.values()) for row in table.to_pylist())


def plain(value: Any) -> Any:
    """A value that can be hashed; floats by their digits, so that NaN equals itself and zeros keep signs."""
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, dict):
        return tuple((k, plain(v)) for k, v in value.items())
    if isinstance(value, list | tuple):
        return tuple(plain(v) for v in value)
    return value


def expected(sql: str, feeds: Mapping[str, Feed], *, whole: bool = False) -> Counter:
    """What DuckDB gives for the query over what is not late; `whole`: over everything."""
    catalog = Catalog(
        path="catalog.yaml",
        sites={"here": Site()},
        streams={
            name: Stream(
                name=name,
                site="here",
                time=f.time,
                order=f.order,
                columns=f.columns,
                source=Source(format="memory"),
            )
            for name, f in feeds.items()
        },
    )
    tables = {name: f.table(f.rows if whole else f.split()[0]) for name, f in feeds.items()}
    query = parse(sql, name="q", schemas=catalog.schemas, times=catalog.times, tables=catalog.tables)
    with duck.connect() as con:
        duck.load(con, query, catalog, read_static=lambda stream: tables[stream.name])
        found = con.sql(duck.expected_sql(query, catalog))
        return multiset(found.to_arrow_table())


def catalog_yaml(
    feeds: Mapping[str, Feed],
    data: str = "data",
    options: str = "maxFilesPerTrigger: 1",
    at: Mapping[str, str] | None = None,
    more: str = "",
) -> str:
    """A catalog of these streams, whose files are under `data`; `at` says at which sites they arise."""
    at = dict.fromkeys(feeds, "here") if at is None else at
    sites = ", ".join(f"{site}: {{}}" for site in dict.fromkeys(at.values()))
    lines = [f"sites: {{{sites}}}", *more.splitlines(), "streams:"]
    for name, feed in feeds.items():
        schema = ", ".join(f"{json.dumps(c)}: {json.dumps(kind)}" for c, kind in feed.columns.items())
        lines += [
            f"  {name}:",
            f"    site: {at[name]}",
            f"    time: {feed.time}",
            f"    lateness: {feed.lateness} microseconds",
            f"    schema: {{{schema}}}",
            f"    source: {{format: {feed.format}, options: {{path: {data}/{name}, {options}}}}}",
        ]
        if feed.order:
            lines.append(f"    order: [{', '.join(feed.order)}]")
        lines += [f"    {key}: {value}" for key, value in feed.extra.items()]
    return "\n".join(lines) + "\n"


def place_of(out: str, root: Path) -> Location:
    """The output folder of a run that is started in `root`."""
    return location(out) if scheme_of(out) else root / out


def results_of(out: Location, query: str = "q") -> Counter:
    """What a run has written for a query."""
    with copied(out / "results" / query) as folder:
        files = sorted(folder.glob("*.parquet"))
        assert files
        return sum((multiset(pq.ParquetFile(file).read()) for file in files), Counter())


def check_sql(spark, tmp_path, feeds, sql, live=True, **arguments):
    """The same for a query; returns what it gives on streaming DataFrames, or else on static ones."""
    arguments = {
        "time": {n: f.time for n, f in feeds.items()},
        "lateness": {n: f"{f.lateness} us" for n, f in feeds.items()},
        "order": {n: f.order for n, f in feeds.items()},
        **arguments,
    }
    folder = written(feeds, tmp_path)
    frames = {n: f.static(spark, folder / n) for n, f in feeds.items()}
    found = multiset(thalweg.sql(spark, sql, frames, **arguments).toArrow())
    assert found == expected(sql, feeds, whole=True)
    if live:
        frames = {n: f.live(spark, folder / n) for n, f in feeds.items()}
        found, _ = drained(thalweg.sql(spark, sql, frames, **arguments), tmp_path / "checkpoint")
        assert found == expected(sql, feeds)
    return found
