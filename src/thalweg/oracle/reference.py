"""The meaning of a windowed join, written to be read; it is slow and obvious on purpose.

A tuple is alive on an interval that begins at its time:

    [RANGE T]     [ts, ts + T]                                 closed
    [ROWS k]      [ts, time of the k-th later tuple)           half-open
    [PARTITION BY c ROWS k]    the same, of the tuples with the same c (NULL is a value here)
    [TUMBLE T]    [ts, end of its window)                      half-open; windows begin at multiples of T
    [UNBOUNDED]   [ts, for ever)
    of a table    always

A result is one tuple of each stream, all matching, all alive at the same moment. Its time is the
greatest of theirs: the intervals meet exactly when all of them contain that moment.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from thalweg.query.model import Window, WindowKind
from thalweg.units import BEFORE_ALL, FARTHEST

Row = Mapping[str, Any]
Key = Callable[[Row], tuple[Any, ...]]


class Result(NamedTuple):
    """The members of one result, by their positions in their streams, and the result's time."""

    members: tuple[int, ...]
    time: int


class DuplicateOrderError(ValueError):
    """Two tuples of a stream with a window of rows have the same time and order."""


@dataclass(frozen=True)
class Stream:
    """All tuples of one stream, in any order. Times are microseconds, or None."""

    rows: Sequence[Row]
    window: Window
    time: str = "ts"
    order: tuple[str, ...] = ()


def join(
    streams: Sequence[Stream],
    keys: Sequence[Key] | None = None,
    condition: Callable[[tuple[Row, ...]], bool] = lambda rows: True,
) -> list[Result]:
    """All results of a join; `keys` gives one key for each stream, and all keys of a result are equal.

    >>> ten = Window(WindowKind.RANGE, 10)
    >>> a = Stream([{"ts": 0, "k": 1}, {"ts": 5, "k": None}], ten)
    >>> b = Stream([{"ts": 10, "k": 1}, {"ts": 11, "k": 1}, {"ts": 5, "k": None}], ten)
    >>> join([a, b], [lambda row: (row["k"],)] * 2)
    [Result(members=(0, 0), time=10)]
    """
    results = []
    intervals = [alive(stream) for stream in streams]
    for members in itertools.product(*intervals):
        time = max(intervals[s][m][0] for s, m in enumerate(members))
        if not all(time <= intervals[s][m][1] for s, m in enumerate(members)):
            continue
        rows = tuple(streams[s].rows[m] for s, m in enumerate(members))
        if keys is not None:
            of = [key(row) for key, row in zip(keys, rows, strict=True)]
            if not all(equal(x, y) for x, y in itertools.pairwise(of)):
                continue
        if condition(rows):
            results.append(Result(members, time))
    return results


def alive(stream: Stream) -> dict[int, tuple[int, float]]:
    """The first and the last moment of each tuple's life; a tuple without a time has none.

    Time is in whole microseconds, so the last moment before `t` is `t - 1`.
    """
    window = stream.window
    if window.kind is WindowKind.ALWAYS:
        return dict.fromkeys(range(len(stream.rows)), (BEFORE_ALL, math.inf))
    times = {n: row[stream.time] for n, row in enumerate(stream.rows) if row[stream.time] is not None}
    if window.kind is WindowKind.RANGE:
        return {n: (ts, ts + window.size) for n, ts in times.items()}
    if window.kind is WindowKind.TUMBLE:
        return {n: (ts, ts // window.size * window.size + window.size - 1) for n, ts in times.items()}
    if window.kind is WindowKind.UNBOUNDED:
        return {n: (ts, math.inf) for n, ts in times.items()}
    parts: dict[Any, dict[int, int]] = {}
    for n, ts in times.items():
        parts.setdefault(tuple(_sortable(stream.rows[n][c]) for c in window.by), {})[n] = ts
    return {n: life for part in parts.values() for n, life in _counted(stream, part).items()}


def _counted(stream: Stream, times: Mapping[int, int]) -> dict[int, tuple[int, float]]:
    """The lives of tuples that are counted together."""
    size = stream.window.size
    place = {n: (ts, *(_sortable(stream.rows[n][c]) for c in stream.order)) for n, ts in times.items()}
    in_order = sorted(times, key=place.__getitem__)
    for one, other in itertools.pairwise(in_order):
        if place[one] == place[other]:
            raise DuplicateOrderError(f"tuples {one} and {other} have the same time and order: {place[one]}")
    return {
        n: (times[n], times[in_order[i + size]] - 1 if i + size < len(in_order) else math.inf)
        for i, n in enumerate(in_order)
    }


def equal(x: Any, y: Any) -> bool:
    """Equality of keys: NULL equals nothing, NaN equals NaN, -0.0 equals 0.0, numbers go by value.

    >>> equal(1, 1.0), equal(None, None), equal(math.nan, math.nan), equal((1, None), (1, None))
    (True, False, True, False)
    """
    if isinstance(x, tuple) and isinstance(y, tuple):
        return len(x) == len(y) and all(equal(a, b) for a, b in zip(x, y, strict=True))
    if x is None or y is None:
        return False
    if isinstance(x, float) and isinstance(y, float) and math.isnan(x) and math.isnan(y):
        return True
    return bool(x == y)


def late_split(
    batches: Iterable[Sequence[Row]], lateness: int, *, time: str = "ts"
) -> tuple[list[Row], list[Row]]:
    """The tuples of a stream in batches that take part, and those that are kept aside.

    A tuple is late when it is older than the greatest time of *earlier* batches by more than the lateness.
    A tuple without a time, or with one that is farther away than any usable time, is kept aside as well.

    >>> late_split([[{"ts": 100}, {"ts": 1}], [{"ts": 90}, {"ts": 89}, {"ts": None}]], lateness=10)
    ([{'ts': 100}, {'ts': 1}, {'ts': 90}], [{'ts': 89}, {'ts': None}])
    """
    kept: list[Row] = []
    late: list[Row] = []
    greatest = -math.inf
    for batch in batches:
        for row in batch:
            aside = not _usable(row[time]) or row[time] < greatest - lateness
            (late if aside else kept).append(row)
        greatest = max([greatest, *(row[time] for row in batch if _usable(row[time]))])
    return kept, late


def _usable(time: int | None) -> bool:
    return time is not None and abs(time) < FARTHEST


def _sortable(value: Any) -> tuple[int, Any]:
    """NULL first and NaN last, as Spark sorts."""
    if value is None:
        return (0, 0)
    return (2, 0) if isinstance(value, float) and math.isnan(value) else (1, value)
