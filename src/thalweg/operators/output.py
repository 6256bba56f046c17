"""What operators put out beside tuples: bounds, late tuples, and reports of what they count."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from thalweg.observe.sketch import merged
from thalweg.operators.event_time import Ends


@dataclass(frozen=True)
class Bound:
    """Nothing with an earlier time will come out; `wall` is when tuples last came, on the wall clock."""

    time: int
    wall: int


@dataclass(frozen=True)
class Past:
    """Tuples of a window, for the operators that start with a change of that number; without any: no more."""

    copy: int
    batch: pa.RecordBatch | None = None


@dataclass(frozen=True)
class Stored:
    """Tuples that are an entry of the state: a reader in the same bucket need not write them again."""

    batch: pa.RecordBatch
    entry: int


@dataclass(frozen=True)
class Late:
    """Tuples of a stream that take no part, as they are kept; without a batch they are only counted.

    `reasons` are how many there are of each reason.
    """

    stream: str
    n: int
    batch: pa.RecordBatch | None
    reasons: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Results:
    """Results of a query."""

    query: int
    batch: pa.RecordBatch


class Work(NamedTuple):
    """What an operator has done in a call, and what it holds after it: in windows, in memory, on disk.

    `bound` is how far its output has come.
    """

    tuples_in: int
    tuples_out: int
    rows: int
    memory: int
    disk: int
    bound: int

    def plus(self, other: Work) -> Work:
        """The work of two buckets.

        >>> Work(1, 2, 3, 4, 0, 70).plus(Work(1, 0, 3, 4, 5, 60))
        Work(tuples_in=2, tuples_out=2, rows=6, memory=8, disk=5, bound=60)
        """
        return Work(
            self.tuples_in + other.tuples_in,
            self.tuples_out + other.tuples_out,
            self.rows + other.rows,
            self.memory + other.memory,
            self.disk + other.disk,
            min(self.bound, other.bound),
        )


_MOMENTS, _SEEN = 16, 1024


def moments(times: Sequence[pa.Array]) -> list[list[float]]:
    """Some of the results' times, each with how many results it stands for.

    >>> moments([pa.array([5, 7]), pa.array([6])])
    [[5, 1.0], [6, 1.0], [7, 1.0]]
    """
    n = sum(map(len, times))
    if not n:
        return []
    step = -(-n // _SEEN)
    seen = np.sort(np.concatenate([np.asarray(t)[::step] for t in times]))
    count = min(_MOMENTS, len(seen))
    picked = seen[((np.arange(count) + 0.5) * len(seen) / count).astype(int)]
    return [[int(time), n / count] for time in picked]


@dataclass
class Report:
    """What a call has counted. Reports of several calls add up.

    `read`, `late` and `newest` (the greatest time) are by stream. `whole` is by site the payload that its
    streams would take if they were shipped as they are. `copied` is the payload of the windows that
    were copied to other sites for operators that start. `waiting` is
    by group the tuples that wait on disk. `drafts` are the files of parcels that the call has written.
    `progress` is how far each stream, and those that it watches, have come, and when each was last heard of;
    `sketches` are what its tuples are like (`observe/sketch.py`). `ready` are the buckets of operators that
    have started, and have their windows; `ended` those of an earlier program that have put out all they will.
    `probed` are the tuples that the probes of joins would meet in nested loops, and `updated` those that were
    put into their windows: what the papers' time is counted by.
    `unshared` are calls whose windows other processes of
    the machine can't take over, for lack of memory to share.
    `reasons` are the late tuples by stream and reason, `work` what each operator has done, and `moments` some
    of the results' times with the number of results that each stands for.
    """

    read: dict[str, int] = field(default_factory=dict)
    newest: dict[str, int] = field(default_factory=dict)
    late: dict[str, int] = field(default_factory=dict)
    whole: dict[str, int] = field(default_factory=dict)
    waiting: dict[str, int] = field(default_factory=dict)
    state_rows: int = 0
    state_bytes: int = 0
    disk_bytes: int = 0
    copied: int = 0
    drafts: list[str] = field(default_factory=list)
    progress: dict[str, list[list[int]]] = field(default_factory=dict)
    sketches: dict[str, dict[str, Any]] = field(default_factory=dict)
    ready: list[str] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)
    probed: int = 0
    updated: int = 0
    unshared: int = 0
    reasons: dict[str, dict[str, int]] = field(default_factory=dict)
    work: dict[str, Work] = field(default_factory=dict)
    moments: list[list[float]] = field(default_factory=list)

    def add(self, other: Report) -> None:
        """Count another report in."""
        for mine, theirs in (
            (self.read, other.read),
            (self.late, other.late),
            (self.whole, other.whole),
            (self.waiting, other.waiting),
        ):
            for name, n in theirs.items():
                mine[name] = mine.get(name, 0) + n
        for stream, time in other.newest.items():
            self.newest[stream] = max(time, self.newest.get(stream, time))
        self.state_rows += other.state_rows
        self.state_bytes += other.state_bytes
        self.disk_bytes += other.disk_bytes
        self.copied += other.copied
        self.drafts += other.drafts
        self.progress |= other.progress
        for stream, sketch in other.sketches.items():
            self.sketches[stream] = merged(self.sketches.get(stream), sketch)
        self.ready += other.ready
        self.ended += other.ended
        self.probed += other.probed
        self.updated += other.updated
        self.unshared += other.unshared
        for stream, reasons in other.reasons.items():
            mine = self.reasons.setdefault(stream, {})
            for reason, n in reasons.items():
                mine[reason] = mine.get(reason, 0) + n
        for operator, work in other.work.items():
            self.work[operator] = work.plus(self.work[operator]) if operator in self.work else work
        self.moments += other.moments

    def to_json(self) -> str:
        return json.dumps({k: v for k, v in asdict(self).items() if v})

    @classmethod
    def sum(cls, texts: Iterable[str]) -> Report:
        """All reports of a batch, from their JSON, as one."""
        total = cls()
        for text in texts:
            report = cls(**json.loads(text))
            report.work = {operator: Work(*work) for operator, work in report.work.items()}
            total.add(report)
        return total


Output = pa.RecordBatch | Stored | Bound | Ends | Past | Late | Results | Report
"""What a call yields: tuples, progress, last moments, kept tuples; late tuples, results, counts."""
