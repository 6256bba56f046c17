"""The throughput of three sites in one application, and the costs of a hop and of a parcel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa

from thalweg.bench.data import Workload
from thalweg.bench.watched import Watch, watched
from thalweg.exchange.parcel_file import Edge, Label
from thalweg.exchange.parcel_file import encode as encode_file
from thalweg.wire.codec import encode
from thalweg.wire.parcel import Kind, Parcel

WARM_UP = 8
"""Batches that are left out: the first ones load classes, start workers and fill the pipe between sites."""

LARGE = Workload("300k", tuples_per_stream=2_400_000)
TINY = Workload("sites", keys=1_000, rate=100.0, tuples_per_stream=3_000, rows_per_batch=300)
NOW = 1_790_000_000_000_000
"""A bound and a moment of sending as they are in a run, in microseconds."""

SETTINGS = {
    "one site": ("one", "simple"),
    "three sites, all shipped to one": ("three", "simple"),
    "three sites, by `optimal`": ("three", "optimal"),
    "three sites, probe sequences by `linear-greedy`": ("three", "linear-greedy"),
}
"""A setting: the sites of the streams, and the planner."""


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
    """The bytes of a parcel of so many tuples, and its overhead."""

    tuples: int
    bytes: int
    own: int

    @property
    def added(self) -> int:
        return self.bytes - self.own


def speeds(home: Path, say: Callable[[str], None], large: Workload = LARGE) -> list[Speed]:
    """Run every setting, one after another in one process."""
    found = []
    for setting, (where, planner) in SETTINGS.items():
        say(setting)
        watch, metrics = watched(large, where, planner, home)
        small, _ = watched(TINY, where, planner, home)
        times = [b[0] - a[0] for a, b in pairwise(small.seen[WARM_UP:])]
        payload, size = (sum(s[k] for s in metrics["shipped"]) for k in ("payload_bytes", "bytes"))
        found.append(Speed(setting, rows_per_s(watch, large), 1e3 * median(times), payload, size))
    return found


def rows_per_s(watch: Watch, spec: Workload) -> float:
    """Of the batches that read, after those that warm up."""
    data = [s for s in watch.seen if s[1] < spec.streams * spec.batches * spec.batch_tuples]
    first, last = data[min(WARM_UP, len(data) - 2)], data[-1]
    return (last[1] - first[1]) / (last[0] - first[0])


def parcel_costs(counts: Sequence[int] = (0, 1, 10, 100, 1_000, 100_000)) -> list[ParcelCost]:
    """A file of one parcel of tuples with a time, a key and a number, by how many they are."""
    found = []
    for n in counts:
        rng = np.random.default_rng(1)
        columns = {
            "#start": np.sort(rng.integers(0, 10**7, n)),
            "k": rng.integers(0, 10**5, n),
            "v": np.arange(n),
        }
        batch = pa.record_batch([pa.array(c) for c in columns.values()], names=list(columns))
        parcel = Parcel(1, Kind.TUPLES, n, NOW, 0, 24 * n, encode(batch) if n else b"")
        size = len(encode_file(Label("0" * 32, Edge("n0", "n1"), 1000, 2000), NOW / 1e6, [parcel]))
        found.append(ParcelCost(n, size, 24 * n))
    return found
