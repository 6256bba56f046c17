"""What Spark can do with the results of a join, as docs/spark.md shows it: nothing is lost on the way."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame

import thalweg

from .feed import SECOND, Feed, written

DOCUMENT = Path(__file__).parents[2] / "docs" / "spark.md"
COLUMNS = {"ts": "timestamp", "dest": "string", "size": "bigint"}
KEYS = ("a", "b", "c")


def block(heading: str) -> str:
    """The example of a section."""
    found = re.search(
        rf"^## {heading}\n.*?^```python\n(.*?)^```", DOCUMENT.read_text(), re.DOTALL | re.MULTILINE
    )
    assert found is not None, heading
    return found[1]


@pytest.fixture(scope="module")
def feeds() -> dict[str, Feed]:
    """Packets as late as they may be, of streams that are far apart: r2 lags by 9 s behind the others."""
    rng = random.Random(3)
    feeds = {}
    for name, lag in (("r1", 0), ("r2", 9), ("r3", 0)):
        batches = []
        for n in range(8):
            times = [20 * n + rng.uniform(-5, 20) - lag for _ in range(40)] if n else [20.0 - lag]
            rows = [
                {"ts": round(t * SECOND), "dest": rng.choice(KEYS), "size": rng.randrange(4)} for t in times
            ]
            batches.append(rows)
        feeds[name] = Feed(COLUMNS, batches, lateness=5 * SECOND)
    return feeds


def joined(frames: dict[str, DataFrame]) -> DataFrame:
    return thalweg.join(frames, on="dest", within="10 seconds", time="ts", lateness="5 seconds")


@pytest.fixture
def one_watermark(spark):
    """What the section on watermarks sets."""
    exec(block("Watermarks"), {"spark": spark})
    yield
    spark.conf.unset("spark.sql.streaming.statefulOperator.allowMultiple")


@pytest.fixture
def live(spark, tmp_path, monkeypatch, feeds, one_watermark) -> DataFrame:
    written(feeds, tmp_path / "packets")
    monkeypatch.chdir(tmp_path)
    return joined({n: f.live(spark, tmp_path / "packets" / n) for n, f in feeds.items()})


@pytest.fixture
def whole(spark, tmp_path_factory, feeds) -> list[Any]:
    """All results, of what is not late."""
    folder = tmp_path_factory.mktemp("whole")
    kept = {n: Feed(COLUMNS, [f.split()[0]]) for n, f in feeds.items()}
    written(kept, folder)
    rows: list[Any] = joined({n: f.static(spark, folder / n) for n, f in kept.items()}).collect()
    return rows


def run(frame: DataFrame, tmp_path: Path, mode: str = "append") -> tuple[list[Any], list[dict[str, Any]]]:
    """All rows, and what Spark says of its own stateful operator after the join."""
    writer = frame.writeStream.format("parquet").outputMode(mode).trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(tmp_path / "cp")).start(str(tmp_path / "rows"))
    query.awaitTermination()
    said = [p["stateOperators"] for p in map(json.loads, (p.json for p in query.recentProgress))]
    assert sum(op["numRowsDroppedByWatermark"] for operators in said for op in operators) == 0
    rows: list[Any] = pq.read_table(tmp_path / "rows").to_pylist()
    return rows, [op for operators in said for op in operators]


def test_aggregates(live, whole, tmp_path):
    names: dict[str, Any] = {"joined": live}
    exec(block("Aggregate"), names)
    found, _ = run(names["counts"], tmp_path)
    want: dict[Any, list[int]] = {}
    for row in whole:
        minute = row.result_time.replace(second=0, microsecond=0)
        one = want.setdefault((minute, row.r1_dest), [0, 0])
        one[0] += 1
        one[1] += row.r1_size
    assert len(found) >= 2 * len(KEYS)
    groups = Counter((r["window"]["start"].replace(tzinfo=None), r["r1_dest"]) for r in found)
    assert set(groups.values()) == {1}
    for row in found:
        start = row["window"]["start"]
        n, size = next(v for (minute, k), v in want.items() if k == row["r1_dest"] and same(minute, start))
        assert (row["n"], row["bytes"]) == (n, size)


def same(naive: Any, aware: Any) -> bool:
    """Collected times are in the zone of this process."""
    return bool(naive.timestamp() == aware.timestamp())


@pytest.mark.long
def test_duplicates(live, whole, tmp_path):
    names: dict[str, Any] = {"joined": live}
    exec(block("Remove duplicates"), names)
    found, _ = run(names["first"], tmp_path)
    pairs = Counter((r["r1_dest"], r["r2_size"]) for r in found)
    assert set(pairs) == {(r.r1_dest, r.r2_size) for r in whole}
    assert max(pairs.values()) > 1  # the same pair again, longer after
    assert len(found) < len(whole) / 3


@pytest.mark.long
def test_batches(live, whole, tmp_path):
    names: dict[str, Any] = {"joined": live}
    # A path is relative to the folder in which the JVM was started, by whichever test came first.
    text = block("Write each batch").replace('f"joined/', f'f"{tmp_path}/joined/')
    exec(text.replace('"batches"', f'"{tmp_path}/batches"'), names)
    rows = pq.read_table(tmp_path / "joined")
    assert len(rows) == len(whole)
    assert len(set(rows["batch"].to_pylist())) > 2


@pytest.mark.long
def test_a_slide_puts_results_in_order(spark, tmp_path, feeds, one_watermark):
    """An outer join, whose results come out late, and a watermark without any delay."""
    written(feeds, tmp_path / "packets")
    frames = {n: f.live(spark, tmp_path / "packets" / n) for n, f in feeds.items()}
    sql = (
        "SELECT a.dest, b.size, result_time FROM r1 [RANGE 10 SECONDS SLIDE 1 SECOND] a "
        "LEFT JOIN r2 [RANGE 10 SECONDS] b ON a.dest = b.dest AND a.size = b.size"
    )
    results = thalweg.sql(spark, sql, frames, time="ts", lateness="5 seconds")
    counts = results.withWatermark("result_time", "0 seconds").groupBy("result_time").count()
    found, _ = run(counts, tmp_path)
    assert len(found) > 50
    assert max(Counter(r["result_time"] for r in found).values()) == 1
