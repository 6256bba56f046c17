"""The benchmark's streams: made from a seed, one parquet file per stream and micro-batch.

Each stream is a Poisson process, in order, on a clock of `tick_us`; ties are common. With n streams at
equal rates, windows T and K keys, a key's tuples come at rate r/K in each stream, and the join gives
(r T / K)^(n-1) results a tuple: 10,000 tuples a second, 10 s and 100,000 keys give one.
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from thalweg.errors import UserError

ALIASES = "abcdefgh"
"""Streams are called a, b, c and so on."""

EPOCH_US = 1_767_225_600_000_000
"""2026-01-01T00:00:00Z, when every stream starts."""

HOT_KEY = 0

CASCADES = ("spark-memory", "spark-rocksdb-2", "spark-rocksdb-4")
"""The configurations of Spark's cascade, as `bench/cascade.py` names them."""


@dataclass(frozen=True)
class Workload:
    """One set of streams and the window join over them.

    >>> WORKLOADS["300k"].batches, WORKLOADS["300k"].aliases, WORKLOADS["300k"].output[:3]
    (10, ('a', 'b', 'c'), ('a_ts', 'a_k', 'a_v'))
    """

    name: str
    streams: int = 3
    keys: int = 100_000
    window_us: int = 10_000_000
    lateness_us: int = 10_000_000
    rate: float = 10_000.0
    """Tuples a second in each stream."""
    tuples_per_stream: int = 1_000_000
    rows_per_batch: int = 300_000
    """Rows of one micro-batch, all streams together."""
    two_attributes: bool = False
    """a.x = b.x and b.y = c.y instead of one key that all share."""
    hot_fraction: float = 0.0
    """The part of all tuples that bear one and the same key."""
    tick_us: int = 1_000
    cascade_batches: int = 10
    """How many micro-batches Spark's cascade gets: enough for a steady figure in bounded time."""
    cascades: tuple[str, ...] = CASCADES
    """The configurations of Spark's cascade that are run over it."""
    seed: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "cascades", tuple(self.cascades))  # a list, when it comes from JSON
        if not 2 <= self.streams <= len(ALIASES):
            raise ValueError(f"{self.name}: {self.streams} streams; 2 to {len(ALIASES)} are supported")
        if self.two_attributes and self.streams != 3:
            raise ValueError(f"{self.name}: the join on two attributes has three streams")
        if self.tuples_per_stream < self.batch_tuples or self.batch_tuples < 1:
            raise ValueError(f"{self.name}: not a whole micro-batch of data")

    @property
    def aliases(self) -> tuple[str, ...]:
        """The streams' names."""
        return tuple(ALIASES[: self.streams])

    @property
    def batch_tuples(self) -> int:
        """Tuples of one stream in a micro-batch."""
        return self.rows_per_batch // self.streams

    @property
    def batches(self) -> int:
        """Micro-batches in the data."""
        return self.tuples_per_stream // self.batch_tuples

    def columns(self, alias: str) -> tuple[str, ...]:
        """The columns of a stream that its results show."""
        if not self.two_attributes:
            return ("ts", "k", "v")
        return {"a": ("ts", "x", "v"), "b": ("ts", "x", "y", "v"), "c": ("ts", "y", "v")}[alias]

    @property
    def output(self) -> tuple[str, ...]:
        """The columns of a result, in the order in which they are hashed."""
        return tuple(f"{alias}_{column}" for alias in self.aliases for column in self.columns(alias))

    @property
    def equalities(self) -> tuple[tuple[str, str], ...]:
        """The equality of each stream after the first with an earlier one: (earlier column, own column)."""
        if self.two_attributes:
            return (("a.x", "b.x"), ("b.y", "c.y"))
        return tuple(("a.k", f"{alias}.k") for alias in self.aliases[1:])

    def scaled(self, scale: float) -> Workload:
        """Fewer tuples and keys at a lower rate, with as many results a tuple."""
        if scale == 1:
            return self
        if not 0 < scale < 1:
            raise UserError(f"a scale of {scale}", where="--scale", remedy="give a number above 0, at most 1")
        shrink = {
            field: max(1, round(getattr(self, field) * scale))
            for field in ("keys", "tuples_per_stream", "rows_per_batch")
        }
        # The hot key's results come from the rate alone, however few other keys there are.
        rate = self.rate if self.hot_fraction else self.rate * scale
        return replace(self, **shrink, rate=rate)


WORKLOADS: dict[str, Workload] = {
    w.name: w
    for w in (
        Workload("300k"),
        Workload("1500k", tuples_per_stream=5_000_000, rows_per_batch=1_500_000, cascade_batches=6),
        Workload("five", streams=5, tuples_per_stream=600_000, cascade_batches=7),
        Workload("two-attributes", two_attributes=True, cascade_batches=7),
        # The hot key alone gives f (f r T)^2 results a tuple: f = 1/3, T = 1 ms and r = 5,200/s give 1.0.
        Workload(
            "hot",
            hot_fraction=1 / 3,
            window_us=1_000,
            lateness_us=10_000,
            rate=5_200.0,
            tick_us=1,
            cascade_batches=6,
            # The cascade pairs all tuples of the hot key in a batch; RocksDB is expected to take hours.
            cascades=("spark-memory",),
        ),
    )
}


def workload(name: str) -> Workload:
    """The workload of that name."""
    if name not in WORKLOADS:
        raise UserError(f"no workload {name!r}", where="--workload", remedy=f"one of {', '.join(WORKLOADS)}")
    return WORKLOADS[name]


def generate(spec: Workload, root: Path) -> Path:
    """Write the streams below `root` unless they are there, and return their directory."""
    home = root / f"{spec.name}-{spec.tuples_per_stream}"
    marker = home / "workload.json"
    text = json.dumps(asdict(spec), indent=2)
    if marker.exists() and marker.read_text() == text:
        return home
    shutil.rmtree(home, ignore_errors=True)
    for number, alias in enumerate(spec.aliases):
        _write(spec, stream(spec, number), home / alias)
    marker.write_text(text)
    return home


def prefix(data: Path, spec: Workload, batches: int, home: Path) -> Path:
    """Link the first `batches` micro-batches of the data below `home`."""
    for alias in spec.aliases:
        (home / alias).mkdir(parents=True)
        for name in sorted(path.name for path in (data / alias).iterdir())[:batches]:
            os.link(data / alias / name, home / alias / name)
    return home


def stream(spec: Workload, number: int) -> pa.Table:
    """All tuples of one stream, in order."""
    rng = np.random.default_rng([spec.seed, number])
    n = spec.batches * spec.batch_tuples
    offset = np.cumsum(rng.exponential(1e6 / spec.rate, n)).astype(np.int64)
    ts = EPOCH_US + offset // spec.tick_us * spec.tick_us
    columns = {"ts": pa.array(ts, pa.timestamp("us", tz="UTC"))}
    for name in ("x", "y") if spec.two_attributes else ("k",):
        key = rng.integers(1, spec.keys + 1, n)
        key[rng.random(n) < spec.hot_fraction] = HOT_KEY
        columns[name] = pa.array(key, pa.int64())
    columns["v"] = pa.array(np.arange(n, dtype=np.int64))
    return pa.table(columns)


def _write(spec: Workload, table: pa.Table, home: Path) -> None:
    home.mkdir(parents=True)
    for batch in range(spec.batches):
        path = home / f"{batch:05d}.parquet"
        part = table.slice(batch * spec.batch_tuples, spec.batch_tuples)
        # Several row groups a file, as real writers make them, so that Spark can read it with all cores.
        pq.write_table(part, path, row_group_size=max(1, spec.batch_tuples // 4))
        # Spark's file source takes files by modification time: a second apart, the order is the name's.
        when = EPOCH_US // 1_000_000 + batch
        os.utime(path, (when, when))
