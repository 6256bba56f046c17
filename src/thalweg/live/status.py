"""Whether a run goes on, how often it was started, and what it has said: a small file, written anew."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal

from pydantic import TypeAdapter

from thalweg.files import write_text
from thalweg.processes import Process
from thalweg.storage import Location

EVENTS = 100
"""So many of the last messages are kept."""

Outcome = Literal["starting", "running", "complete", "stopped", "failed"]
Level = Literal["info", "warning", "error"]


@dataclass(frozen=True)
class Event:
    """A message of the run; `at` is in seconds since 1970."""

    at: float
    level: Level
    text: str


@dataclass(frozen=True)
class Status:
    """How a run is. Times are in seconds since 1970; `ended` is None while it goes on."""

    process: str = ""
    starts: int = 0
    first_start: float = 0.0
    started: float = 0.0
    ended: float | None = None
    outcome: Outcome = "starting"
    events: tuple[Event, ...] = field(default=())

    @property
    def state(self) -> str:
        """The outcome, or `lost` where the process is gone and has not said how it ended."""
        if self.outcome not in ("starting", "running"):
            return self.outcome
        try:
            process = Process.parse(self.process)
        except ValueError:
            return self.outcome
        return "lost" if process.is_here and not process.alive else self.outcome

    def begun(self, now: float) -> Status:
        """The status of the same run, started by this process."""
        return replace(
            self,
            process=str(Process.of(os.getpid()) or ""),
            starts=self.starts + 1,
            first_start=self.first_start or now,
            started=now,
            ended=None,
            outcome="starting",
        )

    def saying(self, event: Event) -> Status:
        return replace(self, events=(*self.events, event)[-EVENTS:])

    def save(self, path: Location) -> None:
        write_text(path, _ADAPTER.dump_json(self).decode())

    @classmethod
    def load(cls, path: Location) -> Status:
        """What is written down; nothing where there is no file, or a damaged one."""
        try:
            return _ADAPTER.validate_json(path.read_bytes())
        except (OSError, ValueError):
            return cls()


_ADAPTER = TypeAdapter(Status)


@dataclass
class Diary:
    """Keeps the status of a run up to date in its file."""

    path: Location
    status: Status
    clock: Callable[[], float] = time.time

    @classmethod
    def begin(cls, path: Location, clock: Callable[[], float] = time.time) -> Diary:
        diary = cls(path, Status.load(path).begun(clock()), clock)
        diary.status.save(path)
        return diary

    def say(self, level: Level, text: str) -> None:
        self.status = self.status.saying(Event(self.clock(), level, text))
        self.status.save(self.path)

    def running(self) -> None:
        """Batches come."""
        if self.status.outcome != "running":
            self.status = replace(self.status, outcome="running")
            self.status.save(self.path)

    def end(self, outcome: Outcome, text: str = "") -> None:
        if text:
            self.status = self.status.saying(Event(self.clock(), "error", text))
        self.status = replace(self.status, outcome=outcome, ended=self.clock())
        self.status.save(self.path)
