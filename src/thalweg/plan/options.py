"""The checked options of planning and running, and the progress of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from thalweg.catalog.model import Catalog
    from thalweg.plan.document import Plan
    from thalweg.query.model import Query
    from thalweg.storage import Location


class Objective(StrEnum):
    """The cost that a plan minimises."""

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
    limit_s: float | None = None
    """The most seconds that a planner may take for a query."""


@dataclass(frozen=True)
class Emulated:
    """A delay between two sites that emulates a network link.

    Every message is late by the latency and, at random, by up to `jitter_s` more.
    """

    source: str
    target: str
    latency_s: float = 0.0
    bytes_per_s: float | None = None
    jitter_s: float = 0.0


@dataclass(frozen=True)
class Memory:
    """The memory budget of all windows together on a machine, in bytes.

    Results of spilled tuples can come out `delay` microseconds of event time later.
    """

    budget: int
    delay: int = 0


class Adapt(StrEnum):
    """Who changes the plan of a run: one site for all, each site with its neighbours, or nobody."""

    CENTRAL = "central"
    DISTRIBUTED = "distributed"
    OFF = "off"


@dataclass(frozen=True)
class RunOptions:
    """A run: `plan` holds one deployment for each of the queries, in their order."""

    queries: tuple[Query, ...]
    catalog: Catalog
    plan: Plan
    out: Location
    once: bool = False
    master: str | None = None
    emulated: tuple[Emulated, ...] = ()
    memory: Memory | None = None
    compact: bool = True
    adapt: Adapt | None = None
    """None where nothing is said."""
    planning: PlanOptions = PlanOptions()
    """How another plan is to be found while the run goes on."""

    @property
    def adapts(self) -> Adapt:
        """Who changes the plan; where nothing is said, one site does if there are several.

        An outer join stays where it is: which of its tuples have met a partner is known there only. So do
        groups: a change would part the results of those that are not complete. So does a table that is
        refreshed: nobody measures how far it has come.
        """
        if self.adapt is not None:
            return self.adapt
        moves = len(self.plan.sites) > 1 and not any(q.stays for q in self.queries)
        return Adapt.CENTRAL if moves else Adapt.OFF


@dataclass(frozen=True)
class Shipped:
    """The traffic from one site to another: `payload_bytes` in the plan's measure, `bytes` in all."""

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
class PlanChange:
    """A change of a run's plan: when it was decided, in seconds since 1970, and why.

    `moved` are the statistics that had changed. `outcome` is `moving`, `done` or `undone`.
    """

    at: float
    reason: str
    moved: tuple[str, ...]
    outcome: str


@dataclass(frozen=True)
class PlanInForce:
    """The plan of a run that adapts: its planner, and its cost by the statistics of the last decision."""

    planner: str
    cost: float
    unit: str
    changes: int = 0
    last: PlanChange | None = None


@dataclass(frozen=True)
class Progress:
    """How far a run has come after a batch; rows and bytes are totals since the start.

    `central_bytes` is the payload that shipping every stream whole to one site would have taken. `plan` is
    None if the plan does not change.
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
    plan: PlanInForce | None = None


class Reporter(Protocol):
    """Receives the progress of a run."""

    def starting(self) -> None: ...
    def batch(self, progress: Progress) -> None: ...
    def message(self, text: str) -> None: ...
    def warn(self, text: str) -> None: ...
    def close(self) -> None: ...
