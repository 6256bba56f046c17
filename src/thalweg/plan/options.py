"""What a command is asked to do, checked, in one object each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Protocol

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
class RunOptions:
    """A run: `plan` holds one deployment for each of the queries, in their order."""

    queries: tuple[Query, ...]
    catalog: Catalog
    plan: Plan
    out: Path
    once: bool = False
    master: str | None = None


@dataclass(frozen=True)
class Progress:
    """How far a run has come after a batch; rows are totals since the start."""

    batch: int
    input_rows: int
    output_rows: int
    late_rows: int
    rows_per_s: float
    event_lag_s: float | None
    state_bytes: int
    state_rows: int
    elapsed_s: float


class Reporter(Protocol):
    """Whom a run tells how it is going."""

    def starting(self) -> None: ...
    def batch(self, progress: Progress) -> None: ...
    def message(self, text: str) -> None: ...
    def close(self) -> None: ...
