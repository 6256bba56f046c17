"""Streams joined with tables on Spark: a run at two sites, and DataFrames, streaming and static."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import thalweg
from thalweg.catalog import load
from thalweg.oracle import duck
from thalweg.query import parse

from ..conftest import environment
from .feed import Feed, drained, multiset, rows, written

CATALOG = """\
sites: {n1: {}, n2: {}}
streams:
  flights:
    site: n1
    time: ts
    schema: {ts: timestamp, num: int, dest: string}
    source: {format: parquet, options: {path: data/flights, maxFilesPerTrigger: 1}}
  weather:
    site: n2
    time: ts
    schema: {ts: timestamp, region: string, temp: int}
    source: {format: parquet, options: {path: data/weather, maxFilesPerTrigger: 1}}
tables:
  airports:
    site: n2
    schema: {code: string, region: string, name: string}
    source: {format: csv, options: {path: data/airports, header: true}}
    stats: {rows: 3}
"""
SQL = """\
SELECT f.num, p.name, upper(p.region) || '/' || w.temp AS at, w.temp + f.num AS x, result_time
FROM flights [RANGE 5 SECONDS] f
JOIN airports p ON f.dest = p.code
LEFT JOIN weather [RANGE 3 SECONDS] w ON w.region = p.region AND w.temp > f.num
"""
AIRPORTS = "code,region,name\nJFK,east,Kennedy\nBOS,east,Logan\nBOS,north,Logan too\nSFO,,San Francisco\n"
FEEDS = {
    "flights": Feed(
        {"ts": "timestamp", "num": "int", "dest": "string"},
        [
            rows("ts num dest", (1, 1, "JFK"), (2, 2, "BOS"), (3, 3, "XXX"), (4, 4, None)),
            rows("ts num dest", (6, 5, "BOS"), (7, 6, "SFO")),
            rows("ts num dest", (9, 7, "JFK"), (60, 8, "JFK")),
        ],
    ),
    "weather": Feed(
        {"ts": "timestamp", "region": "string", "temp": "int"},
        [
            rows("ts region temp", (1, "east", 9), (2, "north", 1)),
            rows("ts region temp", (5, "north", 12), (6, None, 20)),
            rows("ts region temp", (10, "east", 30), (60, "west", 1)),
        ],
    ),
}


@pytest.fixture
def place(tmp_path):
    written(FEEDS, tmp_path / "data")
    (tmp_path / "data" / "airports").mkdir()
    (tmp_path / "data" / "airports" / "all.csv").write_text(AIRPORTS)
    (tmp_path / "catalog.yaml").write_text(CATALOG)
    (tmp_path / "q.sql").write_text(SQL)
    return tmp_path


def wanted(place, spark):
    known = load(place / "catalog.yaml")
    query = parse(SQL, name="q", schemas=known.schemas, times=known.times, tables=known.tables)

    def read(stream):
        path, kind = stream.source.options["path"], stream.source.format
        frame = spark.read.csv(path, header=True) if kind == "csv" else spark.read.parquet(path)
        return frame.toArrow()

    with duck.connect() as con:
        duck.load(con, query, known, read_static=read)
        return multiset(con.sql(duck.expected_sql(query, known)).to_arrow_table())


RUN = ("run", "q.sql", "--catalog", "catalog.yaml", "--out", "out", "--once", "--json")


def test_a_run_joins_streams_with_a_table(place, thalweg):
    code, out, err = thalweg(*RUN, cwd=place)
    assert code == 0, err
    metrics = json.loads(out)
    assert metrics["input_rows"] == {"airports": 4, "flights": 8, "weather": 6}
    assert metrics["output_rows"]["q"] > 5
    verify = ("verify", *RUN[1:6])
    code, out, err = thalweg(*verify, "--json", cwd=place)
    verdict = json.loads(out)
    assert verdict["same"], out
    assert verdict["tables"]["airports"]["rows"] == 4
    assert verdict["tables"]["airports"]["changed"] is False
    (place / "data" / "airports" / "all.csv").write_text("code,region,name\nJFK,west,Another\n")
    code, out, err = thalweg(*verify, cwd=place)
    assert code == 0, err
    assert "table airports: 4 rows, as the run has read them at 20" in out
    assert "; its files have changed since" in out


@pytest.mark.long
def test_a_batch_that_is_repeated_has_the_same_rows(place, thalweg):
    """The run is killed in its first batch, when it has read the table; then the table changes."""
    (place / "die-0").touch()
    there = {**environment(), "PYTHONPATH": str(Path(__file__).parents[2])}
    killed = [sys.executable, "-m", "tests.spark.dying", *RUN]
    done = subprocess.run(killed, cwd=place, env=there, capture_output=True, check=False)
    assert done.returncode == -signal.SIGKILL
    (place / "data" / "airports" / "all.csv").write_text("code,region,name\nJFK,west,Another\n")
    code, _, err = thalweg(*RUN, cwd=place)
    assert code == 0, err
    code, out, err = thalweg("verify", *RUN[1:6], "--json", cwd=place)
    verdict = json.loads(out)
    assert verdict["same"], out
    assert verdict["found"] > 5
    assert verdict["tables"]["airports"]["rows"] == 4
    assert verdict["tables"]["airports"]["changed"] is True


def test_a_table_without_rows_is_named(place, thalweg):
    (place / "data" / "airports" / "all.csv").write_text("code,region,name\n")
    code, out, err = thalweg(*RUN, cwd=place)
    assert (code, out) == (2, "")
    assert "tables.airports.source: the table 'airports' has no rows" in err


def test_data_frames_that_are_tables(place, spark):
    expected = wanted(place, spark)
    assert sum(expected.values()) > 5
    frames = {n: f.static(spark, place / "data" / n) for n, f in FEEDS.items()}
    frames["airports"] = spark.read.csv(str(place / "data" / "airports"), header=True)
    times = dict.fromkeys(FEEDS, "ts")
    assert multiset(thalweg.sql(spark, SQL, frames, time=times).toArrow()) == expected


def test_a_query_that_goes_on_has_its_table_already(place, spark):
    expected = wanted(place, spark)
    later = place / "later"
    for name in FEEDS:
        (later / name).mkdir(parents=True)
        for file in sorted((place / "data" / name).glob("*.parquet"))[1:]:
            shutil.move(file, later / name / file.name)

    def go_on():
        frames = {n: f.live(spark, place / "data" / n) for n, f in FEEDS.items()}
        frames["airports"] = spark.read.csv(str(place / "data" / "airports"), header=True)
        return drained(thalweg.sql(spark, SQL, frames, time="ts"), place / "checkpoint")[0]

    found = go_on()
    (place / "data" / "airports" / "all.csv").write_text("code,region,name\nJFK,west,Another\n")
    for name in FEEDS:
        for file in (later / name).iterdir():
            shutil.move(file, place / "data" / name / file.name)
    found += go_on()
    assert found <= expected
    # What has no partner waits for the end of the streams; all else is there.
    assert all(row[2] is None for row in expected - found)
