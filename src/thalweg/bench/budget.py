"""A join with less memory than its windows need, beside the same join with enough."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from thalweg.bench.data import Workload
from thalweg.bench.memory import PeakMemory
from thalweg.bench.watched import watched
from thalweg.plan.options import Memory

WORKLOAD = Workload(
    "memory", keys=1_000_000, window_us=100_000_000, lateness_us=1_000_000, tuples_per_stream=3_000_000
)
"""Windows of ten micro-batches: three million tuples, one result a tuple."""

WARM_UP = 12
"""Batches that are left out: until the windows are full."""

SHARE = 5
"""The budget is this part of what the windows take when there is enough."""

DELAY_US = 10_000_000


@dataclass(frozen=True)
class Kept:
    """One run: rows a second with full windows, what the windows took, and what the workers did."""

    name: str
    rows_per_s: float
    windows: int
    on_disk: int
    workers: int
    """The most memory that the Python workers had at once, resident, each page counted once."""
    results: int


@dataclass(frozen=True)
class Comparison:
    enough: Kept
    less: Kept
    bare: Kept
    """With windows and keys of a thousandth, so with as many results: what workers take beside windows."""
    budget: int

    @property
    def throughput(self) -> float:
        return self.less.rows_per_s / self.enough.rows_per_s

    @property
    def resident(self) -> int:
        """What the workers had for windows with the budget, those of parts that were brought in too."""
        return self.less.workers - self.bare.workers

    def to_json(self) -> dict[str, Any]:
        """As the command prints it."""
        return {
            "runs": [vars(run) for run in (self.enough, self.less, self.bare)],
            "budget": self.budget,
            "resident_for_windows": self.resident,
            "throughput_ratio": round(self.throughput, 3),
            "same_results": self.enough.results == self.less.results,
        }


def compare(home: Path, say: Callable[[str], None], spec: Workload = WORKLOAD) -> Comparison:
    """The same streams with enough memory, with a fifth of it, and with windows of nearly nothing."""
    say("with enough memory")
    enough = _run("enough", spec, home, None)
    budget = enough.windows // SHARE
    say(f"with a budget of {budget:,} bytes")
    less = _run("a fifth", spec, home, Memory(budget, DELAY_US))
    say("with windows of nearly nothing")
    small = replace(
        spec, name=f"{spec.name}-bare", window_us=spec.window_us // 1000, keys=max(1, spec.keys // 1000)
    )
    bare = _run("windows of a thousandth", small, home, None)
    return Comparison(enough, less, bare, budget)


def _run(name: str, spec: Workload, home: Path, memory: Memory | None) -> Kept:
    with PeakMemory(os.getpid(), 0.2, workers=True) as workers:
        watch, metrics = watched(spec, "one", "simple", home, memory)
    full = watch.seen[min(WARM_UP, len(watch.seen) - 3) : spec.batches]
    seconds = median(b[0] - a[0] for a, b in pairwise(full))
    rows = (full[-1][1] - full[0][1]) / (len(full) - 1)
    return Kept(
        name,
        rows / seconds,
        watch.windows,
        watch.on_disk,
        workers.peak_bytes,
        sum(metrics["output_rows"].values()),
    )
