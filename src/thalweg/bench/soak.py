"""A live run at a steady rate for a long time: what of it grows.

Streams are files that come once a second. Every few seconds the run is looked at from outside: its memory,
threads, open files, batches and files. What is in its last quarter is compared with its second one; the first
is left out, while windows fill and the JVM compiles.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from thalweg.bench.memory import processes, tree_bytes
from thalweg.bench.report import markdown

NAMES = "abc"
RATE = 2_000
"""Tuples a second in each stream."""

KEYS = 2_000
WINDOW_S = 10
QUERY = (
    f"SELECT a.v AS x, b.v AS y, c.v AS z, result_time FROM a [RANGE {WINDOW_S} SECONDS], "
    f"b [RANGE {WINDOW_S} SECONDS], c [RANGE {WINDOW_S} SECONDS] WHERE a.k = b.k AND b.k = c.k"
)
SETTINGS = {"one site": ("one", "simple"), "three sites": ("three", "optimal")}
COLUMNS = ("", "second quarter", "last quarter", "ratio")


@dataclass(frozen=True)
class Sample:
    """The run at one moment: seconds since its start, and what it held then."""

    at_s: float
    memory_mb: float
    threads: int
    open_files: int
    batch_ms: float
    """Since the sample before, on average."""
    result_files: int
    source_log_kb: float
    checkpoint_mb: float
    parcels_mb: float
    shared_mb: float


MEASURES = tuple(f.name for f in fields(Sample) if f.name != "at_s")
TITLES = {
    "memory_mb": "memory of all processes, MB",
    "threads": "threads",
    "open_files": "open files",
    "batch_ms": "a batch, ms",
    "result_files": "result files",
    "source_log_kb": "Spark's log of source files, kB",
    "checkpoint_mb": "checkpoint, MB",
    "parcels_mb": "parcels, MB",
    "shared_mb": "shared windows, MB",
}


@dataclass(frozen=True)
class Soaked:
    """The samples of one setting, and the metrics that the run ended with."""

    setting: str
    samples: tuple[Sample, ...]
    metrics: dict[str, Any]

    def quarter(self, n: int, measure: str) -> float:
        """The mean of a measure in the n-th quarter of the time."""
        end = self.samples[-1].at_s
        inside = [s for s in self.samples if (n - 1) / 4 <= s.at_s / end <= n / 4]
        return float(mean(getattr(s, measure) for s in inside or self.samples[-1:]))


def soak(minutes: float, home: Path, say: Callable[[str], None], every_s: float = 5.0) -> list[Soaked]:
    """Each setting for half of the time."""
    seconds = minutes * 60 / len(SETTINGS)
    return [_soaked(name, seconds, home / name.replace(" ", "-"), say, every_s) for name in SETTINGS]


def _soaked(setting: str, seconds: float, home: Path, say: Callable[[str], None], every_s: float) -> Soaked:
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    where, planner = SETTINGS[setting]
    (home / "catalog.yaml").write_text(_catalog(where))
    (home / "q.sql").write_text(QUERY)
    command = [sys.executable, "-m", "thalweg", "run", "q.sql", "--catalog", "catalog.yaml", "--out", "out"]
    stop = threading.Event()
    feeder = threading.Thread(target=_feed, args=(home, stop))
    samples: list[Sample] = []
    with (home / "said").open("w") as said:
        run = subprocess.Popen([*command, "--planner", planner], cwd=home, stdout=said, stderr=said)
        feeder.start()
        try:
            begun, batches, last = time.monotonic(), 0, time.monotonic()
            while (at := time.monotonic() - begun) < seconds and run.poll() is None:
                time.sleep(every_s)
                now, done = time.monotonic(), _metrics(home).get("batches", 0)
                if done > batches:
                    samples.append(_sample(run.pid, home, now - begun, 1e3 * (now - last) / (done - batches)))
                    batches, last = done, now
                    if len(samples) % 12 == 0:
                        say(f"{setting}: {at / 60:.0f} of {seconds / 60:.0f} minutes, {done:,} batches")
        finally:
            stop.set()
            feeder.join()
            run.send_signal(signal.SIGTERM)
            run.wait()
    if run.returncode or not samples:
        raise RuntimeError(f"the run ended with {run.returncode}: {(home / 'said').read_text()[-2000:]}")
    return Soaked(setting, tuple(samples), _metrics(home))


def _catalog(where: str) -> str:
    sites = {a: f"n{i}" if where == "three" else "n0" for i, a in enumerate(NAMES)}
    streams = "".join(
        f"  {a}: {{site: {site}, time: ts, lateness: 1 second, schema: {{ts: timestamp, k: long, v: long}}, "
        f"source: {{format: parquet, options: {{path: data/{a}}}}}, "
        f"stats: {{rate: {RATE}, distinct: {{k: {KEYS}}}}}}}\n"
        for a, site in sites.items()
    )
    return f"sites: {{n0: {{}}, n1: {{}}, n2: {{}}}}\nstreams:\n{streams}"


def _feed(home: Path, stop: threading.Event) -> None:
    """A file for each stream and second; those that are surely read are removed."""
    rng = np.random.default_rng(1)
    for name in NAMES:
        (home / "data" / name).mkdir(parents=True)
    for second in range(1 << 30):
        now = time.time_ns() // 1000
        for name in NAMES:
            times = np.sort(rng.integers(now - 1_000_000, now, RATE))
            rows = pa.table(
                {
                    "ts": pa.array(times, pa.timestamp("us", "UTC")),
                    "k": rng.integers(0, KEYS, RATE),
                    "v": rng.integers(0, 1 << 40, RATE),
                }
            )
            folder = home / "data" / name
            pq.write_table(rows, home / f"{name}.parquet")
            (home / f"{name}.parquet").rename(folder / f"{second:09d}.parquet")
            (folder / f"{second - 600:09d}.parquet").unlink(missing_ok=True)
        if stop.wait(1.0):
            return


def _metrics(home: Path) -> dict[str, Any]:
    path = home / "out" / "metrics.json"
    found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return found


def _sample(pid: int, home: Path, at_s: float, batch_ms: float) -> Sample:
    psutil = processes()
    root = psutil.Process(pid)
    threads = files = 0
    for process in (root, *root.children(recursive=True)):
        try:
            threads += process.num_threads()
            files += process.num_fds()
        except psutil.Error:
            continue  # it ended meanwhile
    own = home / "out" / "_thalweg"
    return Sample(
        round(at_s, 1),
        tree_bytes(root) / 1e6,
        threads,
        files,
        batch_ms,
        len(list((home / "out" / "results" / "q").glob("*.parquet"))),
        _size(own / "checkpoint" / "sources") / 1e3,
        _size(own / "checkpoint") / 1e6,
        _size(own / "exchange") / 1e6,
        sum(_size(f) for f in Path("/dev/shm").glob(f"thalweg-{os.geteuid()}-*")) / 1e6,
    )


def _size(folder: Path) -> int:
    """The bytes of all files in a folder, which changes meanwhile."""
    total = 0
    for at, _, names in os.walk(folder):
        for name in names:
            try:
                total += Path(at, name).lstat().st_size
            except OSError:
                continue
    return total


def rows(done: Soaked) -> list[tuple[str, ...]]:
    """The cells of the table of one setting."""
    found: list[tuple[str, ...]] = []
    for measure in MEASURES:
        early, late = done.quarter(2, measure), done.quarter(4, measure)
        ratio = f"{late / early:.2f}" if early else "-"
        found.append((TITLES[measure], f"{early:,.1f}", f"{late:,.1f}", ratio))
    return found


def write(done: Sequence[Soaked], out: Path) -> list[Path]:
    """Writes soak.md, soak.json and soak.png."""
    out.mkdir(parents=True, exist_ok=True)
    paths = [out / f"soak.{kind}" for kind in ("md", "json", "png")]
    tables = (
        f"{d.setting}, {d.samples[-1].at_s / 60:.0f} minutes, {d.metrics['batches']:,} batches\n\n"
        f"{markdown(COLUMNS, rows(d))}\n"
        for d in done
    )
    paths[0].write_text("\n".join(tables))
    paths[1].write_text(json.dumps([asdict(d) for d in done]) + "\n")
    _plot(done, paths[2])
    return paths


def _plot(done: Sequence[Soaked], path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 9), layout="constrained")
    for axes, measure in zip(figure.subplots(3, 3).flat, MEASURES, strict=True):
        for one in done:
            line = [(s.at_s / 60, getattr(s, measure)) for s in one.samples]
            axes.plot(*zip(*line, strict=True), linewidth=1.2, label=one.setting)
        axes.set_title(TITLES[measure], fontsize=9)
        axes.set_ylim(bottom=0)
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    figure.supxlabel("minutes")
    axes.legend(frameon=False)
    figure.savefig(path, dpi=110)
