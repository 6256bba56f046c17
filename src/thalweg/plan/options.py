"""What a command is asked to do, checked, in one object each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from thalweg.catalog.model import Catalog
    from thalweg.plan.document import Plan
    from thalweg.query.model import Query


class Objective(StrEnum):
    """What a plan is to keep small."""

    BYTES = "bytes"
    USAGE = "usage"
    DOLLARS = "dollars"
    TIME = "time"


@dataclass(frozen=True)
class PlanOptions:
    planner: str = "auto"
    objective: Objective = Objective.BYTES
    deliver_to: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Emulated:
    """What is laid on the way from one site to another, to make it as slow as a network would be.

    Everything is late by the latency and, at random, by up to `jitter_s` more.
    """

    source: str
    target: str
    latency_s: float = 0.0
    bytes_per_s: float | None = None
    jitter_s: float = 0.0


@dataclass(frozen=True)
class Memory:
    """What the windows of all joins together may take on a machine, in bytes.

    What there is no room for may come out so much later, in microseconds of event time.
    """

    budget: int
    delay: int = 0


@dataclass(frozen=True)
class RunOptions:
    """A run: `plan` holds one deployment for each of the queries, in their order."""

    queries: tuple[Query, ...]
    catalog: Catalog
    plan: Plan
    out: Path
    once: bool = False
    master: str | None = None
    emulated: tuple[Emulated, ...] = ()
    memory: Memory | None = None


@dataclass(frozen=True)
class Shipped:
    """What has gone from one site to another: `payload_bytes` in the plan's measure, `bytes` all of it."""

    source: str
    target: str
    tuples: int
    payload_bytes: int
    bytes: int

    def to_json(self) -> dict[str, Any]:
        """As metrics.json has it."""
        counts = {"tuples": self.tuples, "payload_bytes": self.payload_bytes, "bytes": self.bytes}
        return {"from": self.source, "to": self.target, **counts}


@dataclass(frozen=True)
class Progress:
    """How far a run has come after a batch; rows and bytes are totals since the start.

    `central_bytes` is the payload that shipping every stream whole to one site would have taken.
    """

    batch: int
    input_rows: int
    output_rows: int
    late_rows: int
    rows_per_s: float
    event_lag_s: float | None
    state_bytes: int
    state_rows: int
    elapsed_s: float
    disk_bytes: int = 0
    shipped: tuple[Shipped, ...] = ()
    central_bytes: int = 0


class Reporter(Protocol):
    """Whom a run tells how it is going."""

    def starting(self) -> None: ...
    def batch(self, progress: Progress) -> None: ...
    def message(self, text: str) -> None: ...
    def close(self) -> None: ...
