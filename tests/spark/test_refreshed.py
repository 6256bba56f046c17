"""A table that changes while a run goes on: each tuple meets the version in force when it came."""

from __future__ import annotations

import json
import os
import signal
import time

import pyarrow.parquet as pq
import pytest

from .feed import Feed, rows

CATALOG = """\
sites: {n1: {}, n2: {}}
streams:
  flights:
    site: n1
    time: ts
    lateness: 1 second
    schema: {ts: timestamp, num: int, dest: string}
    source: {format: parquet, options: {path: data/flights}}
tables:
  airports:
    site: n2
    schema: {code: string, name: string}
    source: {format: csv, options: {path: data/airports, header: true}}
    refresh: 1 second
"""
INNER = "SELECT f.num, p.name, result_time FROM flights [RANGE 1 HOUR] f, airports p WHERE f.dest = p.code"
LEFT = "SELECT f.num, p.name FROM flights [RANGE 1 HOUR] f LEFT JOIN airports p ON f.dest = p.code"
RUN = ("run", "inner.sql", "left.sql", "--catalog", "catalog.yaml", "--out", "out")
COLUMNS = {"ts": "timestamp", "num": "int", "dest": "string"}


def fly(root, number, *flights):
    """One more file of flights."""
    folder = root / "data" / "flights"
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(Feed(COLUMNS, []).table(rows("ts num dest", *flights)), folder / f".{number}")
    (folder / f".{number}").rename(folder / f"{number}.parquet")


def airports(root, *named):
    """The table as it is from now on."""
    folder = root / "data" / "airports"
    folder.mkdir(parents=True, exist_ok=True)
    draft = root / "draft.csv"
    draft.write_text("code,name\n" + "".join(f"{code},{name}\n" for code, name in named))
    draft.rename(folder / "all.csv")


def until(found, process, what):
    deadline = time.monotonic() + 180
    while not found():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


def read(root):
    try:
        return json.loads((root / "out" / "metrics.json").read_text())["input_rows"]["flights"]
    except (OSError, ValueError):
        return 0


@pytest.mark.long
def test_a_table_that_changes_while_a_run_goes_on(tmp_path, start, command):
    (tmp_path / "catalog.yaml").write_text(CATALOG)
    (tmp_path / "inner.sql").write_text(INNER)
    (tmp_path / "left.sql").write_text(LEFT)
    versions = tmp_path / "out" / "_thalweg" / "tables" / "airports"
    airports(tmp_path, ("JFK", "Idlewild"), ("BOS", "Logan"), ("SFO", "Mills"))
    fly(tmp_path, 1, (1, 1, "JFK"), (2, 2, "BOS"), (3, 3, "LAX"))
    process = start(*RUN, cwd=tmp_path)
    try:
        until(lambda: read(tmp_path) == 3, process, "the first file")
        airports(tmp_path, ("JFK", "Kennedy"), ("LAX", "Los Angeles"))
        until((versions / "000000002.json").exists, process, "the second version")
        fly(tmp_path, 2, (10, 4, "JFK"), (11, 5, "BOS"), (12, 6, "LAX"))
        until(lambda: read(tmp_path) == 6, process, "the second file")
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
        airports(tmp_path, ("JFK", "Kennedy"), ("BOS", "Logan International"))  # while nobody looks
        process = start(*RUN, cwd=tmp_path)
        until((versions / "000000003.json").exists, process, "the third version")
        (tmp_path / "data" / "airports" / "all.csv").rename(tmp_path / "gone.csv")  # the last one stays
        fly(tmp_path, 3, (20, 7, "BOS"), (21, 8, "LAX"))
        until(lambda: read(tmp_path) == 8, process, "the third file")
        process.terminate()
        _, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
    finally:
        process.kill()
        process.wait()
    assert "the last version of airports stays" in err
    code, _, err = command(*RUN, "--once", cwd=tmp_path)
    assert code == 0, err
    found = {
        query: sorted(
            (row["num"], row["name"])
            for file in (tmp_path / "out" / "results" / query).glob("*.parquet")
            for row in pq.ParquetFile(file).read().to_pylist()
        )
        for query in ("inner", "left")
    }
    met = [(1, "Idlewild"), (2, "Logan"), (4, "Kennedy"), (6, "Los Angeles"), (7, "Logan International")]
    assert found["inner"] == met
    assert found["left"] == sorted([*met, (3, None), (5, None), (8, None)], key=lambda row: row[0])
    for query in ("inner", "left"):
        verify = ("verify", f"{query}.sql", *RUN[3:], "--json")
        code, out, err = command(*verify, cwd=tmp_path)
        assert code == 0, err
        assert json.loads(out)["tables"]["airports"]["rows"] == 2
