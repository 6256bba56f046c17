"""Joins on a Spark Connect session; `test_connect.py` runs them in a process that has one.

`python -m tests.spark.connect_cases FOLDER` is a join that can be killed, over the feeds in a folder.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pyarrow.dataset as ds
import pyarrow.parquet as pq

import thalweg

from .feed import SECOND, Feed, drained, expected, multiset, reports, rows
from .remote import session

SQL = (
    "SELECT a.ts AS x, a.k, b.ts AS y, c.ts AS z, a.id + b.id AS n, result_time "
    "FROM a [RANGE 6 SECONDS], b [RANGE 4 SECONDS], c [RANGE 5 SECONDS] "
    "WHERE a.k = b.k AND b.k = c.k AND a.id < 2 * b.id + 90"
)


def feeds_of(seed: int, batches: int, size: int) -> dict[str, Feed]:
    """Three streams, whose keys have different types; a few tuples of each are late."""
    rng = random.Random(seed)

    def batch(n: int) -> list[dict]:
        moments = [4 * n + rng.uniform(-9, 4) for _ in range(size)]
        return rows("ts k id", *((at, rng.randrange(4), rng.randrange(100)) for at in moments))

    kinds = {"a": "int", "b": "bigint", "c": "bigint"}
    return {
        name: Feed(
            {"ts": "timestamp", "k": kind, "id": "int"},
            [batch(n) for n in range(batches)],
            lateness=6 * SECOND,
        )
        for name, kind in kinds.items()
    }


def test_a_join_goes_on_where_it_stopped(spark, tmp_path):
    """In two runs with one checkpoint, with less memory than the windows need; and at once, when static."""
    feeds = feeds_of(1, 4, 40)
    late, spill = tmp_path / "late", tmp_path / "spill"
    arguments = {"time": "ts", "lateness": "6 seconds", "late": late, "memory_budget": 500, "spill": spill}
    found, said = multiset(feeds["a"].table([])), []
    for batches in (2, 4):
        for name, feed in feeds.items():
            Feed(feed.columns, feed.batches[:batches]).write(tmp_path / name)
        live = {name: feed.live(spark, tmp_path / name) for name, feed in feeds.items()}
        new, query = drained(thalweg.sql(spark, SQL, live, **arguments), tmp_path / "checkpoint")
        found += new
        said += reports(query)
    assert found == expected(SQL, feeds)
    assert sum(found.values()) > 100
    assert spark.conf.get("spark.sql.shuffle.partitions") == "2"
    for name, feed in feeds.items():
        kept = ds.dataset(late / name).to_table()
        assert multiset(kept) == multiset(feed.table(feed.split()[1]))
        assert sum(r.get("late", {}).get(name, 0) for r in said) == kept.num_rows > 0
        assert sum(r.get("read", {}).get(name, 0) for r in said) == len(feed.rows)
    assert any(r.get("disk_bytes") for r in said)
    static = {name: feed.static(spark, tmp_path / name) for name, feed in feeds.items()}
    assert multiset(thalweg.sql(spark, SQL, static, time="ts").toArrow()) == expected(SQL, feeds, whole=True)


LONG = 2, 12, 30
"""Seed, batches and size of the feeds of a join that is killed."""


def main(folder: Path) -> None:
    """Join the feeds of a folder, from where an earlier process was killed; write all results to a file."""
    spark = session()
    live = {name: feed.live(spark, folder / name) for name, feed in feeds_of(*LONG).items()}
    joined = thalweg.sql(spark, SQL, live, time="ts", lateness="6 seconds")
    query = (
        joined.writeStream.format("parquet")
        .option("path", str(folder / "results"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    pq.write_table(spark.read.parquet(str(folder / "results")).toArrow(), folder / "all.parquet")
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
