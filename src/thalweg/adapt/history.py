"""What was decided in a run, and what came of it: a file that is written anew with each record."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal

from pydantic import TypeAdapter

from thalweg.adapt.decide import Decision
from thalweg.cost.objectives import MODELS
from thalweg.errors import UserError
from thalweg.files import write_text
from thalweg.plan.document import Plan
from thalweg.plan.options import PlanChange, PlanInForce
from thalweg.storage import Location

WITHOUT = "remove it; the run goes on without"
"""What to do with a damaged file that only tells what was."""

DECLINED = 100
"""So many of the last decisions to stay are kept; those to move are all kept."""

Outcome = Literal["declined", "moving", "done", "undone"]


@dataclass(frozen=True)
class Record:
    """One decision. `at` is in seconds since 1970, `event_time` in microseconds of the streams' own time.

    `messages` are those between sites that finding the plan took, where the nodes found it themselves.
    `change` is the number of the move: the first batch of the new plan's operators. `first_cost` is what the
    plan that the run began with would cost now. `moment` is t*: results before it came from the plan before.
    """

    at: float
    event_time: int | None
    moved: tuple[str, ...]
    reason: str
    cost_before: float
    cost_after: float
    first_cost: float
    bytes_to_move: float
    outcome: Outcome
    messages: int = 0
    change: int = 0
    moment: int | None = None
    bytes_moved: int = 0
    seconds: float = 0.0
    copied_before: int = 0  # of the run in all, when the move began

    @classmethod
    def of(cls, decision: Decision, at: float, event_time: int | None, first_cost: float) -> Record:
        return cls(
            at,
            event_time,
            tuple(map(str, decision.moved)),
            decision.reason,
            decision.cost_before,
            decision.cost_after,
            first_cost,
            decision.bytes_to_move,
            "moving" if decision.taken else "declined",
            decision.messages,
        )


def plan_file(change: int) -> str:
    """Where the plan of a change is, in the output folder of a run; the first plan has 0."""
    return f"_thalweg/programs/{change:09d}.plan.json" if change else "plan.json"


@dataclass
class History:
    """All records of a run, in the order of their times."""

    path: Location
    records: list[Record] = field(default_factory=list)

    @classmethod
    def of_run(cls, out: Location) -> History:
        """That of the run with this output folder."""
        return cls.load(out / "_thalweg" / "changes.json")

    @classmethod
    def load(cls, path: Location) -> History:
        try:
            return cls(path, _ADAPTER.validate_json(path.read_bytes()) if path.exists() else [])
        except ValueError:
            raise UserError("is damaged", where=str(path), remedy=WITHOUT) from None

    def add(self, record: Record) -> None:
        """A batch that is repeated may decide otherwise: what it had begun is replaced."""
        self.records = [r for r in self.records if not (record.change and r.change == record.change)]
        self.records.append(record)
        declined = [r for r in self.records if r.outcome == "declined"]
        for old in declined[:-DECLINED]:
            self.records.remove(old)
        self._save()

    def change(self, number: int, **what: Any) -> None:
        """More is known of a move."""
        self.records = [replace(r, **what) if r.change == number else r for r in self.records]
        self._save()

    @property
    def ended(self) -> list[Record]:
        """The moves that have come to their end: done or undone."""
        return [r for r in self.records if r.outcome in ("done", "undone")]

    def record(self, change: int) -> Record | None:
        return next((r for r in self.records if r.change == change), None)

    def in_force(self, plan: Plan) -> PlanInForce:
        """The plan in force, with its cost by the last decision, and the last change of plan."""
        last = self.records[-1] if self.records else None
        cost = plan.total if last is None else last.cost_after if last.outcome == "done" else last.cost_before
        change = next((r for r in reversed(self.records) if r.outcome != "declined"), None)
        return PlanInForce(
            plan.planner,
            cost,
            MODELS[plan.objective].unit,
            self.changes,
            None if change is None else PlanChange(change.at, change.reason, change.moved, change.outcome),
        )

    @property
    def changes(self) -> int:
        """How often the plan has changed."""
        return sum(r.outcome == "done" for r in self.records)

    def _save(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        write_text(self.path, _ADAPTER.dump_json(self.records).decode())


_ADAPTER = TypeAdapter(list[Record])
