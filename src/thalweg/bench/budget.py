"""A join with less memory than its windows need, beside the same join with enough."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from thalweg.bench.data import Workload
from thalweg.bench.memory import WorkerMemory
from thalweg.bench.watched import watched
from thalweg.plan.options import Memory

WORKLOAD = Workload(
    "memory", keys=1_000_000, window_us=100_000_000, lateness_us=1_000_000, tuples_per_stream=3_000_000
)
"""Windows of ten micro-batches: three million tuples, one result a tuple."""

WARM_UP = 12
"""Batches that are left out: until the windows are full."""

SHARE = 5
"""The budget, as a part of the windows' size with enough memory."""

DELAY_US = 10_000_000

SHARED = Path("/dev/shm/thalweg-*")
"""Where workers share windows."""


@dataclass(frozen=True)
class Kept:
    """One run with full windows: rows a second, and bytes."""

    name: str
    rows_per_s: float
    windows: int
    """The most that the windows' arrays took, those of parts that were brought in too."""
    on_disk: int
    shared: int
    """The most memory that the workers shared for windows, resident."""
    workers: int
    """All that the Python workers had, resident: the median, with full windows."""
    results: int
    checksum: int


@dataclass(frozen=True)
class Comparison:
    enough: Kept
    less: Kept
    budget: int

    @property
    def throughput(self) -> float:
        return self.less.rows_per_s / self.enough.rows_per_s

    @property
    def same(self) -> bool:
        """Whether both runs have the same results, as multisets."""
        return (self.enough.results, self.enough.checksum) == (self.less.results, self.less.checksum)

    def to_json(self) -> dict[str, Any]:
        """As the command prints it."""
        return {
            "runs": [vars(run) for run in (self.enough, self.less)],
            "budget": self.budget,
            "kept": max(self.less.windows, self.less.shared) <= self.budget,
            "throughput_ratio": round(self.throughput, 3),
            "same_results": self.same,
        }


def compare(home: Path, say: Callable[[str], None], spec: Workload = WORKLOAD) -> Comparison:
    """The same streams with enough memory, and with a fifth of the windows' size then."""
    say("with enough memory")
    enough = _run("enough", spec, home, None)
    budget = enough.windows // SHARE
    say(f"with a budget of {budget:,} bytes")
    return Comparison(enough, _run("a fifth", spec, home, Memory(budget, DELAY_US)), budget)


def _run(name: str, spec: Workload, home: Path, memory: Memory | None) -> Kept:
    workers = WorkerMemory(os.getpid(), SHARED)
    with workers:
        watch, metrics = watched(spec, "one", "simple", home, memory)
    full = watch.seen[min(WARM_UP, len(watch.seen) - 3) : spec.batches]
    seconds = median(b[0] - a[0] for a, b in pairwise(full))
    rows = (full[-1][1] - full[0][1]) / (len(full) - 1)
    private, shared = zip(*(s[1:] for s in workers.samples if s[0] > full[0][0]), strict=True)
    return Kept(
        name,
        rows / seconds,
        watch.windows,
        watch.on_disk,
        max(shared),
        int(median(p + s for p, s in zip(private, shared, strict=True))),
        sum(metrics["output_rows"].values()),
        watch.checksum,
    )
