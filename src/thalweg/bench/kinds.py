"""The throughput of each kind of window, with as many tuples alive and results; of an outer join."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import log
from pathlib import Path
from statistics import median

from thalweg.bench.data import Workload
from thalweg.bench.sites import LARGE, rows_per_s
from thalweg.bench.watched import watched

TURNS = 3
_RATE_BY_WINDOW = 2 * 10_000.0 * 10
"""A tuple meets so many of the other stream, over all keys: 10,000 a second, for 10 s before and after it."""
OUTER = Workload("outer", streams=2, keys=round(_RATE_BY_WINDOW / log(2)), tuples_per_stream=3_600_000)
"""Half of the tuples have no partner: the number of partners is Poisson, with a mean of log 2."""


@dataclass(frozen=True)
class Kind:
    """A kind of join or window: rows a second of each turn, and the results of one."""

    name: str
    rows_per_s: list[float] = field(default_factory=list)
    results: list[int] = field(default_factory=list)


def windows_of(spec: Workload) -> tuple[str, ...]:
    """One window of each kind: a tumbling window has half of its length alive, on average."""
    length = spec.window_us // 1000
    return (
        f"[RANGE {length} MILLISECONDS]",
        "[PARTITION BY k ROWS 1]",
        f"[TUMBLE {2 * length} MILLISECONDS]",
    )


def measure(
    home: Path, say: Callable[[str], None], scale: float = 1.0, turns: int = TURNS
) -> list[list[Kind]]:
    """Run one join with each kind of window, and one as an inner and an outer join, in turns.

    The first kind of each list is the one that the others are compared with.
    """
    windows, outer = LARGE.scaled(scale), OUTER.scaled(scale)
    sides: list[list[tuple[Workload, str | None, str]]] = [
        [(windows, window, "JOIN") for window in windows_of(windows)],
        [(outer, None, kind) for kind in ("JOIN", "LEFT JOIN")],
    ]
    found = []
    for side in sides:
        kinds = [Kind(window or joined) for _, window, joined in side]
        for turn in range(turns):
            for kind, (spec, window, joined) in zip(kinds, side, strict=True):
                say(f"{kind.name}, turn {turn + 1}")
                watch, metrics = watched(spec, "one", "simple", home, window=window, kind=joined)
                kind.rows_per_s.append(rows_per_s(watch, spec))
                kind.results.append(metrics["output_rows"]["q"])
        found.append(kinds)
    return found


COLUMNS = ("", "rows/s", "to the first", "wanted", "results")


def rows(found: Sequence[Sequence[Kind]]) -> list[tuple[str, ...]]:
    """The figures beside those of the first kind of each list."""
    told: list[tuple[str, ...]] = []
    for kinds in found:
        first = median(kinds[0].rows_per_s)
        for kind in kinds:
            own = median(kind.rows_per_s)
            ratio, wanted = f"{own / first:.2f}", "" if kind is kinds[0] else "at least 0.7"
            told.append((f"`{kind.name}`", f"{own:,.0f}", ratio, wanted, f"{kind.results[0]:,}"))
    return told
