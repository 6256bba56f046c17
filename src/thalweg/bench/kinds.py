"""The throughput of each kind of window, with as many tuples alive and as many results, in one run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from thalweg.bench.data import Workload
from thalweg.bench.sites import LARGE, rows_per_s
from thalweg.bench.watched import watched

TURNS = 2


@dataclass(frozen=True)
class Kind:
    """Rows a second of each turn, and the results of one."""

    window: str
    rows_per_s: list[float]
    results: int


def windows_of(spec: Workload) -> tuple[str, ...]:
    """One window of each kind: a tumbling window has half of its length alive, on average."""
    length = spec.window_us // 1000
    return (
        f"[RANGE {length} MILLISECONDS]",
        "[PARTITION BY k ROWS 1]",
        f"[TUMBLE {2 * length} MILLISECONDS]",
    )


def measure(home: Path, say: Callable[[str], None], spec: Workload = LARGE) -> list[Kind]:
    """Run the same join with each kind of window, in turns."""
    speeds: dict[str, list[float]] = {window: [] for window in windows_of(spec)}
    results: dict[str, int] = {}
    for turn in range(TURNS):
        for window, own in speeds.items():
            say(f"{window}, turn {turn + 1}")
            watch, metrics = watched(spec, "one", "simple", home, window=window)
            own.append(rows_per_s(watch, spec))
            results[window] = metrics["output_rows"]["q"]
    return [Kind(window, own, results[window]) for window, own in speeds.items()]


COLUMNS = ("window", "rows/s", "to RANGE", "results")


def rows(found: Sequence[Kind]) -> list[tuple[str, str, str, str]]:
    """The figures beside those of the first kind."""
    first = median(found[0].rows_per_s)
    return [
        (f"`{k.window}`", f"{(own := median(k.rows_per_s)):,.0f}", f"{own / first:.2f}", f"{k.results:,}")
        for k in found
    ]
