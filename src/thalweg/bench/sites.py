"""How fast three sites in one application are, what a hop between sites adds, and what a parcel adds."""

from __future__ import annotations

import shutil
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa

from thalweg.bench.data import Workload, generate
from thalweg.catalog import load
from thalweg.plan.options import Objective, PlanOptions, Progress, RunOptions
from thalweg.planners.table import make_plan
from thalweg.programs.packet import Kind, dump
from thalweg.programs.parcel import Parcel
from thalweg.query import parse

WARM_UP = 8
"""Batches that are left out: the first ones load classes, start workers and fill the pipe between sites."""

LARGE = Workload("300k", tuples_per_stream=2_400_000)
TINY = Workload("sites", keys=1_000, rate=100.0, tuples_per_stream=3_000, rows_per_batch=300)
SETTINGS = {
    "one site": ("one", "simple"),
    "three sites, all shipped to one": ("three", "simple"),
    "three sites, by `optimal`": ("three", "optimal"),
    "three sites, probe sequences by `linear-greedy`": ("three", "linear-greedy"),
}
"""What is run: where the streams are, and by which planner."""


@dataclass(frozen=True)
class Speed:
    """One setting: rows a second with large batches, and how long a small batch takes."""

    setting: str
    rows_per_s: float
    small_batch_ms: float
    payload_bytes: int
    all_bytes: int


@dataclass(frozen=True)
class ParcelCost:
    """What a parcel of so many tuples takes, and how much of that is not the tuples' own."""

    tuples: int
    bytes: int
    own: int

    @property
    def added(self) -> int:
        return self.bytes - self.own


class _Watch:
    """Notes when each batch ended."""

    def __init__(self) -> None:
        self.seen: list[tuple[float, int]] = []

    def starting(self) -> None:
        pass

    def batch(self, progress: Progress) -> None:
        self.seen.append((time.perf_counter(), progress.input_rows))

    def message(self, text: str) -> None:
        pass

    def close(self) -> None:
        pass


def speeds(home: Path, say: Callable[[str], None], large: Workload = LARGE) -> list[Speed]:
    """Run every setting, one after another in one process."""
    found = []
    for setting, (where, planner) in SETTINGS.items():
        say(setting)
        watch, metrics = _run(large, where, planner, home)
        data = [s for s in watch.seen if s[1] < large.streams * large.batches * large.batch_tuples]
        first, last = data[min(WARM_UP, len(data) - 2)], data[-1]
        rows_per_s = (last[1] - first[1]) / (last[0] - first[0])
        small, _ = _run(TINY, where, planner, home)
        times = [b[0] - a[0] for a, b in pairwise(small.seen[WARM_UP:])]
        payload, size = (sum(s[k] for s in metrics["shipped"]) for k in ("payload_bytes", "bytes"))
        found.append(Speed(setting, rows_per_s, 1e3 * median(times), payload, size))
    return found


def _run(spec: Workload, where: str, planner: str, home: Path) -> tuple[_Watch, dict[str, Any]]:
    from thalweg.spark.run import run

    data = generate(spec, home / "data")
    catalog_file = home / f"{spec.name}-{where}.yaml"
    sites = {a: f"n{i}" if where == "three" else "n0" for i, a in enumerate(spec.aliases)}
    streams = "".join(
        f"  {a}:\n    site: {site}\n    time: ts\n    lateness: {spec.lateness_us // 1000} milliseconds\n"
        "    schema: {ts: timestamp, k: long, v: long}\n"
        f"    source: {{format: parquet, options: {{path: {data / a}, maxFilesPerTrigger: 1}}}}\n"
        f"    stats: {{rate: {spec.rate}, distinct: {{k: {spec.keys}}}}}\n"
        for a, site in sites.items()
    )
    catalog_file.write_text(f"sites: {{n0: {{}}, n1: {{}}, n2: {{}}}}\nstreams:\n{streams}")
    catalog = load(catalog_file)
    window = f"[RANGE {spec.window_us // 1000} MILLISECONDS]"
    columns = ", ".join(f"{a}.{c} AS {a}_{c}" for a in spec.aliases for c in ("ts", "k", "v"))
    on = " AND ".join(f"{a} = {b}" for a, b in spec.equalities)
    sql = f"SELECT {columns} FROM {', '.join(f'{a} {window}' for a in spec.aliases)} WHERE {on}"
    query = parse(sql, name="q", schemas=catalog.schemas)
    plan = make_plan([query], catalog, PlanOptions(planner, Objective("bytes"), None, {}))
    out = home / f"out-{uuid.uuid4().hex}"  # Spark may still tidy up an earlier one's state
    watch = _Watch()
    metrics = run(RunOptions((query,), catalog, plan, out, once=True), watch)
    shutil.rmtree(out, ignore_errors=True)
    return watch, metrics


def parcel_costs(counts: Sequence[int] = (0, 1, 10, 100, 1_000, 100_000)) -> list[ParcelCost]:
    """A file of one parcel of tuples with a time, a key and a number, by how many they are."""
    from thalweg.spark.parcels import Edge, Label, encode

    found = []
    for n in counts:
        rng = np.random.default_rng(1)
        columns = {
            "#start": np.sort(rng.integers(0, 10**7, n)),
            "k": rng.integers(0, 10**5, n),
            "v": np.arange(n),
        }
        batch = pa.record_batch([pa.array(c) for c in columns.values()], names=list(columns))
        parcel = Parcel("stream", int(Kind.DATA), n, 0, 0, 24 * n, dump(batch) if n else b"")
        size = len(encode(Label("0" * 32, Edge("n0", "n1"), 1, 1), 0.0, [parcel]))
        found.append(ParcelCost(n, size, 24 * n))
    return found
