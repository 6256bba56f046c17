"""Runs the same data through Thalweg and through Spark's cascade, and compares results and speed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from thalweg.bench import truth
from thalweg.bench.data import CASCADES, Workload, generate, prefix
from thalweg.bench.memory import PeakMemory, processes
from thalweg.bench.side import KERNEL, SIDES, THALWEG, Task

Progress = Callable[[str], None]


WARM_SCALE = 0.1
"""The warm-up of every side, as a part of the workload."""

BUSY = 0.5
"""Other work, in cores, from which on figures are doubtful."""


class ResultsDifferError(Exception):
    """Two sides gave different results for the same input: no figure of theirs means anything."""


@dataclass(frozen=True)
class Run:
    """The figures of one side: all micro-batches after the first."""

    name: str
    rows: int
    seconds: float
    peak_rss_mb: float
    batches: Sequence[Mapping[str, Any]] = field(default=(), repr=False)

    @property
    def rows_per_s(self) -> float:
        """Input rows of all streams a second."""
        return self.rows / self.seconds if self.seconds else 0.0

    def results(self, batches: int) -> tuple[int, int]:
        """How many results the first `batches` micro-batches gave, and their checksum."""
        part = self.batches[:batches]
        return sum(b["results"] for b in part), sum(b["checksum"] for b in part)

    def to_json(self) -> dict[str, Any]:
        """As the command prints it."""
        return {
            "name": self.name,
            "rows": self.rows,
            "seconds": round(self.seconds, 3),
            "rows_per_s": round(self.rows_per_s, 1),
            "peak_rss_mb": self.peak_rss_mb,
        }


@dataclass(frozen=True)
class Comparison:
    """All sides over one workload."""

    workload: Workload
    runs: Sequence[Run]
    results: int | None
    """Results of the batches that all sides ran, counted by DuckDB as well; None with a lone kernel."""
    unfinished: Sequence[str] = ()
    """Sides that were stopped at the time limit."""
    busy: float = 0.0
    """The most that other work used before a side began, in cores: figures beside it are too low."""

    @property
    def best_spark(self) -> Run | None:
        """The fastest configuration of Spark's cascade."""
        cascades = [run for run in self.runs if run.name in CASCADES]
        return max(cascades, key=lambda run: run.rows_per_s, default=None)

    @property
    def ratio_to_best_spark(self) -> float | None:
        """How many times the rows a second of the best cascade Thalweg reaches."""
        own, best = self._named(THALWEG), self.best_spark
        return round(own.rows_per_s / best.rows_per_s, 2) if own and best else None

    @property
    def kernel_tuples_per_s(self) -> float | None:
        """The kernel alone, without Spark."""
        kernel = self._named(KERNEL)
        return round(kernel.rows_per_s, 1) if kernel else None

    def _named(self, name: str) -> Run | None:
        return next((run for run in self.runs if run.name == name), None)

    def to_json(self) -> dict[str, Any]:
        """As the command prints it."""
        return {
            "runs": [run.to_json() for run in self.runs],
            "ratio_to_best_spark": self.ratio_to_best_spark,
            "kernel_tuples_per_s": self.kernel_tuples_per_s,
            "workload": self.workload.name,
            "results": self.results,
            "results_equal": self.results is not None,
            "unfinished": list(self.unfinished),
            "busy": round(self.busy, 2),
        }


def compare(
    spec: Workload,
    data_root: Path,
    sides: Sequence[str] = SIDES,
    limit_s: float = 1800,
    warm_s: float = 0.0,
    progress: Progress = lambda line: None,
) -> Comparison:
    """Run every side over the workload; raise ResultsDifferError unless all give what DuckDB gives."""
    progress(f"{spec.name}: {spec.streams} streams of {spec.tuples_per_stream:,} tuples")
    data = generate(spec, data_root)
    warm = (generate(spec.scaled(WARM_SCALE), data_root), warm_s) if warm_s else None
    runs, unfinished, busy = [], [], 0.0
    for side in sides:
        if side in CASCADES and side not in spec.cascades:
            continue
        if side == KERNEL and spec.two_attributes:  # the kernel is one join, on one key
            continue
        load = _load()
        busy = max(busy, load)
        if load > BUSY:
            progress(
                f"{spec.name}: {side}: other work keeps {load:.1f} cores busy, the figure will be too low"
            )
        batches = min(spec.batches, spec.cascade_batches) if side in CASCADES else spec.batches
        started = time.monotonic()
        run = run_side(side, spec, data, batches, limit_s, warm)
        if run is None:
            unfinished.append(side)
            progress(f"{spec.name}: {side}: stopped at the limit of {limit_s:.0f} s")
            continue
        runs.append(run)
        took = time.monotonic() - started
        figures = f"{run.rows_per_s:,.0f} rows/s, {run.peak_rss_mb:,.0f} MB"
        progress(f"{spec.name}: {side}: {figures} ({took:.0f} s in all)")
    return Comparison(spec, runs, _same_results(spec, data, runs), unfinished, busy)


def run_side(
    side: str,
    spec: Workload,
    data: Path,
    batches: int,
    limit_s: float,
    warm: tuple[Path, float] | None = None,
) -> Run | None:
    """Run one side over the first `batches` micro-batches; None when it was stopped at the time limit."""
    # Beside the data, so that its files can be linked rather than copied.
    with tempfile.TemporaryDirectory(prefix=f"run-{side}-", dir=data.parent) as scratch:
        home = Path(scratch)
        task = Task(side, spec, prefix(data, spec, batches, home / "input"), home, *(warm or ()))
        log = home / "stderr"
        with log.open("wb") as errors:
            command = [sys.executable, "-m", "thalweg.bench.side", str(task.save())]
            process = subprocess.Popen(command, stdout=errors, stderr=errors)
            with PeakMemory(process.pid) as memory:
                try:
                    process.wait(limit_s + task.warm_s)
                except subprocess.TimeoutExpired:
                    return None
                finally:
                    _end(process)
        if process.returncode != 0:
            tail = "\n".join(log.read_text(errors="replace").splitlines()[-40:])
            raise RuntimeError(f"the side {side} failed with status {process.returncode}:\n{tail}")
        figures = json.loads(task.figures.read_text())
    if side == KERNEL:
        peak = figures.get("peak_rss_mb") or memory.peak_mb
        return Run(KERNEL, figures["rows"], figures["seconds"], peak)
    measured = figures["batches"][1:]
    rows, seconds = sum(b["rows"] for b in measured), sum(b["seconds"] for b in measured)
    return Run(side, rows, seconds, memory.peak_mb, figures["batches"])


def _load(seconds: float = 2.0) -> float:
    """The cores that are in use while no side runs."""
    psutil = processes()
    return float(psutil.cpu_percent(interval=seconds)) / 100 * (os.cpu_count() or 1)


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is not None:
        return
    psutil = processes()
    tree = [*psutil.Process(process.pid).children(recursive=True), psutil.Process(process.pid)]
    for member in tree:
        try:
            member.kill()
        except psutil.Error:
            continue  # it ended by itself
    process.wait()


def _same_results(spec: Workload, data: Path, runs: Sequence[Run]) -> int | None:
    """Compare over the batches that all ran, and over all that a single side ran with DuckDB's count."""
    joins = [run for run in runs if run.batches]
    if not joins:
        return None
    common = min(len(run.batches) for run in joins)
    for run in joins:
        expected = truth.count(spec, data, len(run.batches))
        found = run.results(len(run.batches))[0]
        if found != expected:
            raise ResultsDifferError(
                f"{spec.name}: {run.name} gave {found:,} results over {len(run.batches)} batches,"
                f" DuckDB {expected:,}"
            )
    totals = {run.name: run.results(common) for run in joins}
    if len(set(totals.values())) > 1:
        told = "; ".join(f"{name}: {n:,} with checksum {checksum}" for name, (n, checksum) in totals.items())
        raise ResultsDifferError(f"{spec.name}: results over {common} batches differ: {told}")
    return joins[0].results(common)[0]
