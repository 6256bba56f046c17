"""Spark's checkpoint: its logs, and what a power cut leaves of it."""

from __future__ import annotations

import json
import re

import pytest

from thalweg.catalog.model import Source, Stream
from thalweg.errors import UserError
from thalweg.spark.checkpoint import SourceLogs, mend
from thalweg.spark.streams import live

from .test_streams import COLUMNS, feed


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


def begun(root, batches, sources="12"):
    """The logs of a checkpoint whose last batch is planned and not committed."""
    checkpoint = root / "checkpoint"
    for folder in ("commits", "offsets", "state/0/1", *(f"sources/{s}" for s in sources)):
        (checkpoint / folder).mkdir(parents=True)
    (checkpoint / "metadata").write_text(json.dumps({"id": "x"}))
    for n in range(batches):
        (checkpoint / "offsets" / str(n)).write_text('v1\n{"batchWatermarkMs":0}\n{"a-b":1}\n-')
        (checkpoint / "state" / "0" / "1" / f"{n}.changelog").write_bytes(b"x")
        for source in sources:
            (checkpoint / "sources" / source / str(n)).write_text('v1\n{"path":"file:///x"}')
    for n in range(batches - 1):
        (checkpoint / "commits" / str(n)).write_text('v1\n{"nextBatchWatermarkMs":0}')
    return checkpoint


def left(checkpoint):
    return sorted(str(f.relative_to(checkpoint)) for f in checkpoint.glob("**/*") if f.is_file())


def test_a_checkpoint_without_a_power_cut_stays_as_it_is(tmp_path):
    checkpoint = begun(tmp_path, 3)
    (checkpoint / "sources" / "1" / "2").write_text("v1")  # nothing came
    before = left(checkpoint)
    mend(checkpoint)
    assert left(checkpoint) == before
    mend(tmp_path / "none")


@pytest.mark.parametrize("half", ["", "v1\n{", "\0" * 20])
@pytest.mark.parametrize("log", ["offsets/2", "sources/1/2"])
def test_a_batch_that_is_planned_in_part_is_planned_again(tmp_path, log, half):
    checkpoint = begun(tmp_path, 3)
    before = set(left(checkpoint))
    (checkpoint / log).write_text(half)
    (checkpoint / "state" / "0" / "1" / "3.zip").write_bytes(b"PK cut")
    (checkpoint / "state" / "0" / "1" / "3.changelog").write_bytes(b"")
    mend(checkpoint)
    assert before - set(left(checkpoint)) == {"offsets/2", log}
    assert set(left(checkpoint)) < before


def test_a_commit_that_is_written_in_part_is_repeated(tmp_path):
    checkpoint = begun(tmp_path, 3)
    before = set(left(checkpoint))
    (checkpoint / "commits" / "2").touch()
    mend(checkpoint)
    assert set(left(checkpoint)) == before


def test_a_checkpoint_that_was_never_on_the_disk_is_begun_again(tmp_path):
    checkpoint = begun(tmp_path, 1)
    (checkpoint / "metadata").write_text("")
    mend(checkpoint)
    assert not checkpoint.exists()


@pytest.mark.parametrize("killed", ["while it plans", "before it plans"])
def test_a_checkpoint_without_a_planned_batch_is_begun_again(tmp_path, killed):
    """Spark writes a file under another name first. It takes one that is left for an earlier run's."""
    checkpoint = begun(tmp_path, 1)
    log = checkpoint / "offsets" / "0"
    if killed == "while it plans":
        log.rename(log.with_name(".0.f3a1.tmp"))
    else:
        log.unlink()
    mend(checkpoint)
    assert not checkpoint.exists()


def test_damage_of_what_was_on_the_disk_is_not_hidden(tmp_path):
    """It can't be from a power cut: Spark says what it can't read."""
    checkpoint = begun(tmp_path, 3)
    (checkpoint / "metadata").write_text("")
    (checkpoint / "offsets" / "1").write_text("")
    before = left(checkpoint)
    mend(checkpoint)
    assert left(checkpoint) == before


def test_files_of_a_batch_that_was_not_planned_are_read_again(tmp_path):
    """Sources are killed after they have noted files, and before the batch is."""
    checkpoint = tmp_path / "checkpoint"
    for folder in ("offsets", "commits", "sources/1", "sources/2", "sources/3"):
        (checkpoint / folder).mkdir(parents=True)
    (checkpoint / "metadata").write_text('{"id": "x"}')
    (checkpoint / "commits" / "8").write_text('v1\n{"nextBatchWatermarkMs":0}')
    (checkpoint / "offsets" / "8").write_text('v1\n{}\n{"n1-n2": 3}\n{"logOffset":4}\n{"logOffset":8}\n-')
    noted = 'v1\n{"path":"file:///data/a.parquet"}\n'
    for log in ("1/4", "1/5", "2/8", "2/9.compact", "3/0"):
        (checkpoint / "sources" / log).write_text(noted)
    mend(checkpoint)
    left = sorted(str(log.relative_to(checkpoint / "sources")) for log in checkpoint.glob("sources/*/*"))
    assert left == ["1/4", "2/8", "2/9.compact", "3/0"]
