"""Sources of streams."""

from __future__ import annotations

import json
import os

import pytest

from thalweg.catalog.model import Source, Stream
from thalweg.spark.streams import live

from .feed import SECOND, Feed, catalog_yaml, written

COLUMNS = {"ts": "timestamp", "k": "bigint", "id": "bigint"}


def feed(*ids: int) -> Feed:
    return Feed(COLUMNS, [[{"ts": n * SECOND, "k": 1, "id": n}] for n in ids])


def test_a_file_that_is_far_older_than_the_newest_is_read(spark, tmp_path):
    """As `cp -p` and `rsync -t` leave them."""
    folder = tmp_path / "data"
    source = Source(format="parquet", options={"path": str(folder)})
    stream = Stream(name="s", site="here", time="ts", columns=COLUMNS, source=source)
    feed(1, 2).write(folder)
    query = live(spark, stream).writeStream.format("memory").queryName("aged").start()
    try:
        query.processAllAvailable()
        old = tmp_path / "old"
        feed(3).write(old)
        os.utime(old / "00000.parquet", (1, 1))
        (old / "00000.parquet").rename(folder / "old.parquet")
        query.processAllAvailable()
        assert sorted(row.id for row in spark.table("aged").collect()) == [1, 2, 3]
    finally:
        query.stop()


PATTERNS = ["a*.parquet", "b?.parquet", "[c].parquet", "{d}.parquet", "back\\slash.parquet"]


@pytest.mark.parametrize(
    "name", [PATTERNS[0], *(pytest.param(name, marks=pytest.mark.long) for name in PATTERNS[1:])]
)
def test_a_name_that_spark_takes_for_a_pattern_is_refused(tmp_path, thalweg, name):
    """It would read all other files of the batch twice."""
    made = place_with(tmp_path)
    (tmp_path / "data" / "b" / "00001.parquet").rename(tmp_path / "data" / "b" / name)
    code, _, err = thalweg(*made, cwd=tmp_path)
    assert code == 2
    assert f"{tmp_path}/data/b/{name}: Spark takes this name for a pattern" in err


def test_a_batch_with_such_a_name_is_not_published(tmp_path, thalweg, monkeypatch):
    """It came when the run had begun."""
    made = place_with(tmp_path)
    (tmp_path / "data" / "b" / "00001.parquet").rename(tmp_path / "data" / "b" / "b?.parquet")
    monkeypatch.setattr("thalweg.spark.run.check_names", lambda _: None)
    code, _, err = thalweg(*made, cwd=tmp_path)
    assert code == 2
    assert "b?.parquet: Spark takes this name for a pattern" in err
    assert not list((tmp_path / "out" / "results" / "q").glob("0*"))


def place_with(root):
    feeds = {name: feed(1, 2, 3) for name in "ab"}
    written(feeds, root / "data")
    (root / "catalog.yaml").write_text(catalog_yaml(feeds, options="maxFilesPerTrigger: 100"))
    (root / "q.sql").write_text("SELECT a.id FROM a [RANGE 1 DAY], b [RANGE 1 DAY] WHERE a.k = b.k")
    return ("run", "q.sql", "--catalog", "catalog.yaml", "--out", "out", "--once", "--json")


def test_files_that_were_empty_are_named(tmp_path, thalweg):
    feeds = {name: feed(1, 2, 3) for name in "ab"}
    for stream in feeds.values():
        stream.format = "json"
    written(feeds, tmp_path / "data")
    (tmp_path / "data" / "b" / "late-writer.json").touch()
    (tmp_path / "catalog.yaml").write_text(catalog_yaml(feeds))
    (tmp_path / "q.sql").write_text("SELECT a.id FROM a [RANGE 1 DAY], b [RANGE 1 DAY] WHERE a.k = b.k")
    code, out, err = thalweg(
        *("run", "q.sql", "--catalog", "catalog.yaml", "--out", "out", "--once", "--json"), cwd=tmp_path
    )
    assert code == 0
    assert json.loads(out)["output_rows"] == {"q": 9}
    assert err.count("\n") == 1
    assert f"stream b: {tmp_path}/data/b/late-writer.json was empty; what is written into a file" in err
