"""Other engines over the benchmark's data: Flink, and DuckDB over static tables as the limit.

Flink lives in an environment of its own, `.peers`, which the first run creates. Its job reads CSV,
one file per stream, and is timed whole; every result leaves as one number made of all its columns, so
that all columns take part and the result can be checked against DuckDB's.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
from pyarrow import csv

from thalweg.bench import report, truth
from thalweg.bench.data import Workload, generate, workload
from thalweg.bench.join import Run
from thalweg.bench.memory import PeakMemory

ROOT = Path(__file__).resolve().parents[2]
PEERS = ROOT / ".peers"
FLINK = "apache-flink==2.3.0"
PYTHONS = ("python3.12", "python3.11", "python3.10")
"""Flink 2.3 supports no later Python than 3.12."""


def environment() -> Path:
    """The Python of the peers' environment, with Flink in it."""
    python = PEERS / "bin" / "python"
    marker = PEERS / "installed"
    if marker.exists() and marker.read_text() == FLINK:
        return python
    base = (
        sys.executable if sys.version_info < (3, 13) else next(filter(None, map(shutil.which, PYTHONS)), None)
    )
    if base is None:
        raise SystemExit(f"Flink needs one of {', '.join(PYTHONS)} on the PATH")
    print(f"installing {FLINK} into {PEERS.name} (some minutes, once)", file=sys.stderr)
    subprocess.run([base, "-m", "venv", "--clear", str(PEERS)], check=True)
    subprocess.run([str(python), "-m", "pip", "install", "--quiet", "setuptools<81", "wheel"], check=True)
    subprocess.run([str(python), "-m", "pip", "install", "--quiet", FLINK], check=True)
    marker.write_text(FLINK)
    return python


def checksum(spec: Workload, data: Path, threads: int = 2) -> tuple[int, int, float]:
    """Results, the sum of all their columns, and DuckDB's seconds, over tables it holds in memory."""
    names = spec.aliases
    with duckdb.connect(config={"threads": threads}) as db:
        for alias in names:
            db.execute(f"CREATE TABLE {alias} AS SELECT * FROM read_parquet('{data / alias}/*.parquet')")
        total = " + ".join(f"epoch_us({c})" if c.endswith("_ts") else c for c in spec.output)
        rule = truth.query(spec, {alias: alias for alias in names})
        started = time.monotonic()
        row = db.execute(f"SELECT count(*), sum({total}) FROM ({rule})").fetchone()
        seconds = time.monotonic() - started
    assert row is not None
    return int(row[0]), int(row[1]), seconds


def to_csv(spec: Workload, data: Path, home: Path) -> None:
    """One file per stream, times as microseconds."""
    for alias in spec.aliases:
        table = pq.read_table(data / alias)
        times = table["ts"].cast("int64")
        table = table.set_column(table.schema.get_field_index("ts"), "us", times)
        csv.write_csv(table, home / f"{alias}.csv", csv.WriteOptions(include_header=False))


def statements(spec: Workload, how: str, home: Path) -> dict[str, object]:
    """The tables and the query of one way to join in Flink."""
    keys = ("x", "y") if spec.two_attributes else ("k",)
    declared = ", ".join(f"{name} BIGINT" for name in ("us", *keys, "v"))
    interval = how == "flink-interval"
    event_time = (
        ", ts AS TO_TIMESTAMP_LTZ(us / 1000, 3),"
        f" WATERMARK FOR ts AS ts - INTERVAL '{spec.lateness_us // 1_000_000}' SECOND"
    )
    tables = [
        f"CREATE TABLE {alias} ({declared}{event_time if interval else ''})"
        f" WITH ('connector' = 'filesystem', 'path' = '{home / alias}.csv', 'format' = 'csv')"
        for alias in spec.aliases
    ]
    tables.append(
        "CREATE TABLE results (total BIGINT) WITH ('connector' = 'filesystem',"
        f" 'path' = '{home / how}', 'format' = 'csv')"
    )
    window = f"INTERVAL '{spec.window_us // 1_000_000}' SECOND"
    joins = spec.aliases[0]
    for place, alias in enumerate(spec.aliases[1:], start=1):
        left, right = spec.equalities[place - 1]
        conditions = [f"{left} = {right}"]
        for earlier in spec.aliases[:place]:
            # An interval join takes one pair of event times; the other pairs are plain numbers.
            if interval and earlier == spec.aliases[0]:
                conditions.append(f"{alias}.ts BETWEEN {earlier}.ts - {window} AND {earlier}.ts + {window}")
            else:
                gap = f"{alias}.us - {earlier}.us"
                conditions.append(f"{gap} BETWEEN -{spec.window_us} AND {spec.window_us}")
        joins += f" JOIN {alias} ON " + " AND ".join(conditions)
    columns = [f"{a}.{'us' if c == 'ts' else c}" for a in spec.aliases for c in spec.columns(a)]
    return {
        "how": how,
        "tables": tables,
        "insert": f"INSERT INTO results SELECT {' + '.join(columns)} FROM {joins}",
    }


def flink(spec: Workload, how: str, *, python: Path, home: Path, expected: tuple[int, int]) -> Run:
    """Run one Flink job and check what it wrote."""
    job = home / f"{how}.json"
    job.write_text(json.dumps(statements(spec, how, home)))
    command = [str(python), str(Path(__file__).with_name("flink_join.py")), str(job)]
    # Flink's Python starts its JVM with what the environment names; nothing of this process's should leak in.
    clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=clean)
    with PeakMemory(process.pid) as memory:
        told, _ = process.communicate()
    if process.returncode:
        raise SystemExit(f"{how} failed with status {process.returncode}")
    seconds = json.loads(told.strip().splitlines()[-1])["seconds"]
    files = [str(path) for path in (home / how).rglob("*") if path.is_file()]
    row = duckdb.execute(
        "SELECT count(*), sum(total) FROM read_csv(?, header = false, columns = {'total': 'BIGINT'})", [files]
    ).fetchone()
    assert row is not None
    if (int(row[0]), int(row[1])) != expected:
        raise SystemExit(f"{how} gave {row}, DuckDB {expected}: the results differ")
    return Run(how, spec.streams * spec.batches * spec.batch_tuples, seconds, memory.peak_mb)


@contextmanager
def scratch(parent: Path) -> Iterator[Path]:
    """A directory that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="peers-", dir=parent) as name:
        yield Path(name)


def main() -> None:
    """Run the peers and write their table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workload", default="300k")
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results")
    parser.add_argument("--data", type=Path, default=ROOT / "benchmarks" / "data")
    options = parser.parse_args()
    spec = workload(options.workload).scaled(options.scale)
    if spec.tick_us % 1_000:
        raise SystemExit(
            f"{spec.name}: Flink's event time has milliseconds, this workload's has microseconds"
        )
    data = generate(spec, options.data.resolve())
    rows = spec.streams * spec.batches * spec.batch_tuples
    python = environment()
    found, total, seconds = checksum(spec, data)
    runs = [Run("duckdb", rows, seconds, 0.0)]
    with scratch(data.parent) as home:
        to_csv(spec, data, home)
        for how in ("flink-interval", "flink-multijoin"):
            if how == "flink-multijoin" and spec.two_attributes:
                continue  # it needs one key that all inputs share
            runs.append(flink(spec, how, python=python, home=home, expected=(found, total)))
            print(f"{how}: {runs[-1].rows_per_s:,.0f} rows/s", file=sys.stderr)
    cells = report.rows_of(runs, None)
    table = report.markdown(report.COLUMNS, cells)
    title = f"{report.describe(spec)}; Flink from CSV, the whole job"
    figures = {"workload": spec.name, "results": found, "runs": [run.to_json() for run in runs]}
    report.write_files(
        options.out,
        f"peers-{spec.name}",
        text=f"{title}.\n\n{table}\n\nAll gave the same {found:,} results.\n",
        figures=figures,
        runs=runs,
        title=title,
    )
    print(table)


if __name__ == "__main__":
    main()
