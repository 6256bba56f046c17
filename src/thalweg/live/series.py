"""What a run has counted after each batch: the last batches whole, and fewer points of the whole run.

    recent.jsonl, recent.1.jsonl    a line for each of the last batches
    whole.jsonl                     a line every five seconds, less often the longer the run lasts

Counts are totals since the run began, so any two points give the rates between them, and a batch that is
repeated replaces its point. A line that a crash has cut off is skipped.
"""

from __future__ import annotations

import json
import os
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from thalweg.files import Lines, stamp
from thalweg.storage import Location, RemotePath

LINES = 600
"""So many batches are in one file of the recent ones."""
POINTS = 400
"""About so many points show the whole run."""
EVERY_S = 5.0
"""The least time between two points of the whole run."""

SECONDS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 3600.0)
"""The upper bounds of a histogram's buckets; one more has all that is above."""


@dataclass(frozen=True)
class Histogram:
    """Counts by bucket of `SECONDS`, and the sum of all values."""

    counts: tuple[float, ...] = (0.0,) * (len(SECONDS) + 1)
    sum: float = 0.0

    def plus(self, value: float, n: float = 1.0) -> Histogram:
        """With a value that occurs n times.

        >>> Histogram().plus(0.25).plus(0.3, 4).counts[:4]
        (0.0, 1.0, 4.0, 0.0)
        """
        at = bisect_left(SECONDS, value)
        counts = tuple(c + n if i == at else c for i, c in enumerate(self.counts))
        return Histogram(counts, self.sum + value * n)


@dataclass(frozen=True)
class Point:
    """A run after a batch. Times are in seconds since 1970, times of streams in microseconds.

    `late` is by stream and reason, `sent` by edge: tuples, payload and bytes. `central` is the payload of
    shipping every stream whole to one site. `newest` is the greatest time of each stream, `bounds` how far it
    has come; None where it has ended. `p50` and `p95` are the latencies of the batch's results, from their
    time to the moment they were there. `work` is by operator: tuples in and out, then what it holds: rows,
    bytes in memory and on disk, and how far it has come.
    """

    batch: int
    at: float
    seconds: float
    read: dict[str, int] = field(default_factory=dict)
    results: dict[str, int] = field(default_factory=dict)
    late: dict[str, dict[str, int]] = field(default_factory=dict)
    sent: dict[str, list[int]] = field(default_factory=dict)
    central: int = 0
    newest: dict[str, int] = field(default_factory=dict)
    bounds: dict[str, int | None] = field(default_factory=dict)
    durations: Histogram = Histogram()
    latencies: Histogram = Histogram()
    p50: float | None = None
    p95: float | None = None
    state: tuple[int, int, int] = (0, 0, 0)
    work: dict[str, tuple[int, int, int, int, int, int | None]] = field(default_factory=dict)
    delays: dict[str, float] = field(default_factory=dict)
    changes: int = 0

    def line(self, *, work: bool = True) -> str:
        told = asdict(self)
        if not work:
            del told["work"]
        return json.dumps(told, separators=(",", ":")) + "\n"

    @classmethod
    def read_from(cls, line: str) -> Self | None:
        """The inverse of `line`; None for anything else."""
        try:
            told = json.loads(line)
            for name in ("durations", "latencies"):
                told[name] = Histogram(tuple(told[name]["counts"]), told[name]["sum"])
            told["state"] = tuple(told["state"])
            told["work"] = {name: tuple(one) for name, one in told.get("work", {}).items()}
            return cls(**told)
        except (ValueError, TypeError, KeyError, AttributeError):
            return None


class Series:
    """The points of a run, written after each batch."""

    def __init__(self, folder: Location) -> None:
        self.folder = folder
        recent, self._older, whole = files(folder)
        self._known = [*points(self._older), *points(recent)][-2:]
        self._lines = sum(1 for _ in points(recent))
        self._times = [p.at for p in points(whole)]
        self._recent, self._whole = Lines(recent), Lines(whole)

    def before(self, batch: int) -> Point | None:
        """The last point before a batch, which may be repeated."""
        return next((p for p in reversed(self._known) if p.batch < batch), None)

    def add(self, point: Point) -> None:
        """Write down a point."""
        if self._lines >= LINES:
            self._recent.hand_over(self._older)
            self._lines = 0
        self._recent.append(point.line())
        self._lines += 1
        self._known = [*(p for p in self._known if p.batch < point.batch), point][-2:]
        if not self._times or point.at - self._times[-1] >= self._every(point.at):
            self._whole.append(point.line(work=False))
            self._times.append(point.at)
            if len(self._times) > 2 * POINTS:
                self._thin(point.at)

    def close(self) -> None:
        """Write down what has not been written yet."""
        self._recent.close()
        self._whole.close()

    def _every(self, at: float) -> float:
        return max(EVERY_S, (at - self._times[0]) / POINTS)

    def _thin(self, at: float) -> None:
        kept: list[Point] = []
        self._whole.close()
        for point in points(self._whole.path):
            if not kept or point.at - kept[-1].at >= self._every(at):
                kept.append(point)
        self._whole.rewrite("".join(p.line(work=False) for p in kept))
        self._times = [p.at for p in kept]


def files(folder: Location) -> tuple[Location, Location, Location]:
    """The files of the recent batches, of those before them, and of the whole run."""
    return folder / "recent.jsonl", folder / "recent.1.jsonl", folder / "whole.jsonl"


def points(file: Location) -> Iterator[Point]:
    """The points in a file."""
    try:
        text = file.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return
    yield from (point for line in text.splitlines() if (point := Point.read_from(line)) is not None)


class Follower:
    """Reads a file of points as it grows."""

    def __init__(self, file: Location, most: int) -> None:
        self.file, self.most = file, most
        self.points: list[Point] = []
        self._at: tuple[Any, int] = (None, 0)  # which file, and how far it has been read

    def read(self) -> Sequence[Point]:
        """All points; the last of each batch."""
        known, offset = self._at
        try:
            if isinstance(self.file, RemotePath):
                # It is written anew each time, whole.
                which: Any = stamp(self.file)
                if which == known:
                    return self.points
                fresh, offset, self.points = self.file.read_bytes(), 0, []
            else:
                with self.file.open("rb") as file:
                    stat = os.fstat(file.fileno())
                    if stat.st_ino != known or stat.st_size < offset:  # another file has taken its place
                        self.points, offset = [], 0
                    file.seek(offset)
                    which, fresh = stat.st_ino, file.read()
        except FileNotFoundError:
            self.points, self._at = [], (None, 0)
            return self.points
        whole = fresh[: fresh.rfind(b"\n") + 1]
        for line in whole.decode(errors="replace").splitlines():
            if (point := Point.read_from(line)) is not None:
                while self.points and self.points[-1].batch >= point.batch:
                    self.points.pop()
                self.points.append(point)
        del self.points[: -self.most]
        self._at = which, offset + len(whole)
        return self.points
