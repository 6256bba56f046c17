"""Result files that are merged while others read them."""

from __future__ import annotations

import errno
import json
import os
import random
import threading

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from thalweg.spark.sinks import parquet
from thalweg.spark.sinks.parquet import ParquetSink
from thalweg.spark.sinks.versions import Versions

from .places import check_complete, place


@pytest.fixture
def sink(tmp_path, monkeypatch):
    """One that merges early."""
    monkeypatch.setattr(parquet, "_MANY", 5)
    made = ParquetSink(tmp_path / "results" / "q", tmp_path / "draft", merges=True)
    made.folder.parent.mkdir()
    assert Versions(made.folder).open()
    made.draft.mkdir()
    pq.write_table(pa.table({"n": pa.array([], pa.int64())}), made.folder / "schema.parquet")
    return made


def publish(sink, batch, rows=3):
    """Two files of a batch, whose rows are numbered through."""
    for part in range(2):
        first = 100 * batch + 10 * part
        table = pa.table({"n": list(range(first, first + rows))})
        pq.write_table(table, sink.draft / f"{part}.parquet")
    sink.publish([("0.parquet", rows), ("1.parquet", rows)], batch)
    return [100 * batch + 10 * part + i for part in range(2) for i in range(rows)]


def versions(sink):
    return list((sink.folder.parents[1] / ".results" / "q").iterdir())


def read(folder):
    return sorted(n for f in folder.glob("*.parquet") for n in pq.read_table(f)["n"].to_pylist())


def test_files_stay_few_and_keep_their_rows(sink):
    wanted = []
    for batch in range(50):
        wanted += publish(sink, batch)
        sink.tidy(batch)
        assert read(sink.folder) == wanted
        assert len(list(sink.folder.iterdir())) <= 1 + 5 + 4
    assert len(versions(sink)) == 2  # this one and the one before


def test_the_batch_that_may_be_repeated_is_not_merged(sink):
    wanted = []
    for batch in range(20):
        publish(sink, batch)
        sink.tidy(batch)
        sink.clear(batch)
        wanted += publish(sink, batch)
        assert read(sink.folder) == wanted


def test_many_files_of_one_batch_take_several_merges(sink, monkeypatch):
    """Each gives a file of its own."""
    monkeypatch.setattr(parquet, "_TOGETHER", 3_000)
    wanted = []
    for batch in range(4):
        for part in range(16):
            first = 1000 * batch + 10 * part
            pq.write_table(pa.table({"n": list(range(first, first + 5))}), sink.draft / f"{part:02d}.parquet")
            wanted += range(first, first + 5)
        sink.publish([(f"{part:02d}.parquet", 5) for part in range(16)], batch)
        sink.tidy(batch)
        sink.tidy(batch)
        assert read(sink.folder) == wanted
    assert len(list(sink.folder.glob("merged-*"))) > 2


@pytest.mark.parametrize("lacking", ["symlink", "link"])
def test_without_links_files_stay_as_they_are(tmp_path, monkeypatch, lacking):
    def fail(*_, **__):
        raise OSError(errno.EPERM, "not supported")

    monkeypatch.setattr(os, lacking, fail)
    monkeypatch.setattr(parquet, "_MANY", 5)
    made = ParquetSink(tmp_path / "results" / "q", tmp_path / "draft", merges=True)
    made.folder.parent.mkdir()
    made.draft.mkdir()
    assert Versions(made.folder).open() == (lacking == "link")
    made.folder.mkdir(exist_ok=True)
    wanted = [n for batch in range(10) for n in publish(made, batch)]
    made.tidy(9)  # the files of the last batch would be linked
    assert read(made.folder) == wanted
    assert len(list(made.folder.iterdir())) == 20


def test_large_files_are_left_alone(sink, monkeypatch):
    monkeypatch.setattr(parquet, "_SMALL", 10)
    for batch in range(10):
        publish(sink, batch)
        sink.tidy(batch)
    assert len(list(sink.folder.iterdir())) == 1 + 20


def test_a_merge_that_was_interrupted_is_undone_or_done(sink):
    """At any of its steps."""
    steps = ((parquet, "_merged"), (os, "link"), (Versions, "_link"), (Versions, "_remove_all_but"))
    for n, step in enumerate(steps):
        wanted = read(sink.folder)
        for batch in range(10 * n, 10 * n + 6):
            wanted += publish(sink, batch)

        def fail(*_, **__):
            raise KeyboardInterrupt

        with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(*step, fail)
            sink.tidy(10 * n + 6)
        assert read(sink.folder) == wanted
        assert Versions(sink.folder).open()
        assert len(versions(sink)) == 1
        sink.tidy(10 * n + 6)
        assert read(sink.folder) == wanted


def test_a_reader_never_misses_or_doubles_a_row(sink):
    """It lists and reads while files are merged. A file may be gone; what it reads whole is exact."""
    done, seen, wrong = threading.Event(), [], []

    def follow():
        while not done.is_set():
            try:
                found = read(sink.folder)
            except OSError:
                continue
            seen.append(len(found))
            if found != sorted(set(found)) or any(n % 10 > 2 for n in found):
                wrong.append(found)
            batches = sorted({n // 100 for n in found})
            if batches != list(range(len(batches))):
                wrong.append(batches)

    reader = threading.Thread(target=follow)
    reader.start()
    rng = random.Random(1)
    try:
        for batch in range(120):
            publish(sink, batch)
            if rng.random() < 0.7:
                sink.tidy(batch)
    finally:
        done.set()
        reader.join()
    assert not wrong
    assert len(seen) > 3
    assert read(sink.folder) == [100 * b + 10 * p + i for b in range(120) for p in range(2) for i in range(3)]


def test_a_plain_folder_stays_as_it_is(sink, tmp_path):
    plain = ParquetSink(tmp_path / "plain", tmp_path / "draft", merges=True)
    plain.folder.mkdir()
    assert not Versions(plain.folder).open()
    for batch in range(10):
        publish(plain, batch)
        plain.tidy(batch)
    assert len(list(plain.folder.iterdir())) == 20


@pytest.mark.parametrize("merged", [True, pytest.param(False, marks=pytest.mark.long)])
def test_a_run(tmp_path, thalweg, monkeypatch, merged):
    monkeypatch.setattr(parquet, "_MANY", 2)
    made = place(tmp_path, at=dict.fromkeys("abcd", "n1"), count=6, size=40)
    code, out, err = thalweg(*made.run(*(() if merged else ("--no-compact",))), cwd=made.root)
    assert (code, err) == (0, "")
    check_complete(made, json.loads(out), thalweg)
    names = {f.name[:6] for f in (tmp_path / "out" / "results" / "q").glob("*.parquet")}
    assert ("merged" in names) == merged
