"""The second act in figures: the bytes between sites while traffic shifts, for two plans.

One plan adapts, the other stays. Both runs read the same files, the one live, the other one afterwards. So
their bytes are counted over the time of the packets: a run's metrics say how many packets it has read so far,
and the traffic says when that many had been sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from thalweg.adapt.history import History
from thalweg.demo.figures import Ran
from thalweg.demo.packets import Traffic

FOLDER, ADAPTING, STAYING = "shift", "adapting", "staying"
"""The folder of the second act, and those of its runs in it."""
PHASE_S = 10.0
_PHASES = 4
_SPEED = 4.0
_AT_ONCE = 4


def shifting(rate: int) -> Traffic:
    """The traffic of the second act. It shifts after the first phase.

    Statistics of 20 seconds ago count half. The packets' time passes four times as fast, so that nobody has
    to watch for so long. The run that reads the files afterwards has batches about as large as the live ones.
    """
    return Traffic(rate=rate, seconds=_PHASES * PHASE_S, speed=_SPEED, shift_s=PHASE_S, at_once=_AT_ONCE)


@dataclass(frozen=True)
class Course:
    """What a run has sent between sites in all, after so many seconds of the replay."""

    seconds: np.ndarray = field(repr=False)
    sent: np.ndarray = field(repr=False)

    @classmethod
    def of(cls, samples: Sequence[tuple[int, int]], traffic: Traffic) -> Course:
        """From the packets read and the bytes sent so far, as a run's metrics had them from time to time."""
        by_read = dict(samples)  # the last sample of each number of packets
        return cls(traffic.seconds_of(np.array([*by_read])), np.array([*by_read.values()]))

    def between(self, begin: float, end: float) -> float:
        """The bytes that were sent within some seconds."""
        return float(np.diff(np.interp([begin, end], self.seconds, self.sent))[0])


@dataclass(frozen=True)
class Change:
    """A change of plan: when it was decided and when the new plan took over, in seconds of the replay.

    `seconds` is how long the move took.
    """

    decided_s: float
    in_force_s: float | None
    reason: str
    moved: tuple[str, ...]
    cost_before: float
    cost_after: float
    bytes_moved: int
    seconds: float

    def to_json(self) -> dict[str, Any]:
        return {
            "decided_s": round(self.decided_s, 3),
            "in_force_s": None if self.in_force_s is None else round(self.in_force_s, 3),
            "reason": self.reason,
            "moved": list(self.moved),
            "cost_before": self.cost_before,
            "cost_after": self.cost_after,
            "bytes_moved": self.bytes_moved,
            "seconds": self.seconds,
        }


@dataclass(frozen=True)
class Phase:
    """The bytes between sites in some seconds of the replay, of the run that adapts and of the other."""

    begin_s: float
    end_s: float
    adapting: float
    staying: float

    def to_json(self) -> dict[str, Any]:
        spent = {ADAPTING: round(self.adapting), STAYING: round(self.staying)}
        return {"from_s": self.begin_s, "to_s": self.end_s, **spent}


@dataclass(frozen=True)
class Shift:
    """Two runs over the same packets, the one with changes of plan, the other without."""

    traffic: Traffic
    adapting: Ran
    staying: Ran
    adapting_course: Course
    staying_course: Course
    changes: tuple[Change, ...]

    @property
    def phases(self) -> list[Phase]:
        """The first is before the shift. The last has what was sent after the replay as well."""
        begins = np.arange(0.0, self.traffic.seconds, self.traffic.shift_s)
        ends = [*begins[1:], np.inf]
        return [
            Phase(
                float(begin),
                min(float(end), self.traffic.seconds),
                self.adapting_course.between(begin, end),
                self.staying_course.between(begin, end),
            )
            for begin, end in zip(begins, ends, strict=True)
        ]

    @property
    def verified(self) -> bool:
        """Whether both gave DuckDB's results on the same packets."""
        both = self.adapting, self.staying
        return all(ran.verified for ran in both) and both[0].expected == both[1].expected

    def to_json(self) -> dict[str, Any]:
        return {
            "after_s": self.traffic.shift_s,
            "phases": [phase.to_json() for phase in self.phases],
            "changes": [change.to_json() for change in self.changes],
            "plans": [self.adapting.to_json(), self.staying.to_json()],
        }


def read_changes(folder: Path, traffic: Traffic, origin_us: int) -> tuple[Change, ...]:
    """The changes of plan of the run in a folder, whose packets' times begin at `origin_us`."""

    def second(time_us: int) -> float:
        return (time_us - origin_us) / 1e6 / traffic.speed

    records = History.load(folder / "_thalweg" / "changes.json").records
    return tuple(
        Change(
            second(r.event_time),
            None if r.moment is None else second(r.moment),
            r.reason,
            r.moved,
            r.cost_before,
            r.cost_after,
            r.bytes_moved,
            r.seconds,
        )
        for r in records
        if r.outcome == "done" and r.event_time is not None
    )
