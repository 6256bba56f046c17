"""Sources of streams."""

from __future__ import annotations

import json
import os
import re

import pytest

from thalweg.catalog.model import Source, Stream
from thalweg.errors import UserError
from thalweg.spark.streams import SourceLogs, live

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


def test_names_in_each_tenth_log_are_checked(tmp_path):
    """It holds the files of its own batch, which no other log has."""
    logs = SourceLogs(tmp_path)
    (tmp_path / "sources" / "0").mkdir(parents=True)
    for n, name in (("8", "plain"), ("9.compact", "b%3F")):
        line = json.dumps({"path": f"file:///data/{name}.parquet"}, separators=(",", ":"))
        (tmp_path / "sources" / "0" / n).write_text(f"v1\n{line}\n")
        if n == "8":
            logs.check()
    with pytest.raises(UserError, match=r"b\?\.parquet: Spark takes"):
        logs.check()


def place_with(root):
    feeds = {name: feed(1, 2, 3) for name in "ab"}
    written(feeds, root / "data")
    (root / "catalog.yaml").write_text(catalog_yaml(feeds, options="maxFilesPerTrigger: 100"))
    (root / "q.sql").write_text("SELECT a.id FROM a [RANGE 1 DAY], b [RANGE 1 DAY] WHERE a.k = b.k")
    return ("run", "q.sql", "--catalog", "catalog.yaml", "--out", "out", "--once", "--json")


def test_spark_forgets_files_that_are_gone_and_no_others(spark, tmp_path):
    """Its log would have the names of all files that it has ever read, and grow for ever."""
    folder, checkpoint, out = (tmp_path / name for name in ("data", "checkpoint", "out"))
    folder.mkdir()
    stream = Stream(
        name="s",
        site="here",
        time="ts",
        columns=COLUMNS,
        source=Source(format="parquet", options={"path": str(folder), "maxFilesPerTrigger": "1"}),
    )
    logs = SourceLogs(checkpoint, worth=0)

    def after(rows, batch):
        rows.write.mode("overwrite").parquet(str(out / f"batch={batch}"))
        logs.check()

    def read():
        frame = live(spark, stream)
        query = frame.writeStream.foreachBatch(after).option("checkpointLocation", str(checkpoint)).start()
        try:
            query.processAllAvailable()
        finally:
            query.stop()

    for n in range(25):
        feed(n).write(tmp_path / "new")
        (tmp_path / "new" / "00000.parquet").rename(folder / f"{n:02}.parquet")
    read()
    for n in range(20):
        (folder / f"{n:02}.parquet").unlink()
    for n in range(25, 40):
        feed(n).write(tmp_path / "new")
        (tmp_path / "new" / "00000.parquet").rename(folder / f"{n:02}.parquet")
    read()
    (log,) = (checkpoint / "sources" / "0").glob("39*.compact")
    named = re.findall(r"/(\d\d)\.parquet", log.read_text())
    assert sorted(named) == [f"{n:02}" for n in range(20, 40)]
    read()
    assert sorted(row.id for row in spark.read.parquet(str(out)).collect()) == list(range(40))


def test_names_of_a_folder_that_is_empty_now_stay(tmp_path):
    """It may be one that is not mounted."""
    logs = SourceLogs(tmp_path, worth=0)
    log = tmp_path / "sources" / "0" / "9.compact"
    log.parent.mkdir(parents=True)
    (tmp_path / "data").mkdir()
    lines = [json.dumps({"path": f"file://{tmp_path}/data/{n}"}, separators=(",", ":")) for n in range(3)]
    log.write_text("\n".join(["v1", *lines]))
    logs.check()
    assert log.read_text().splitlines() == ["v1", *lines]
    (tmp_path / "data" / "1").touch()
    SourceLogs(tmp_path, worth=0).check()
    assert log.read_text().splitlines() == ["v1", lines[1]]


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
