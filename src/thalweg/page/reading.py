"""What the folder of a run says at this moment."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from thalweg import live
from thalweg.adapt.history import History, Record, plan_file
from thalweg.errors import UserError
from thalweg.files import stamp
from thalweg.live.asked import Asked
from thalweg.live.operators import Operators, Running
from thalweg.live.series import LINES, POINTS, Follower, Point, files
from thalweg.live.status import Status
from thalweg.plan.document import Plan
from thalweg.storage import Location

Found = TypeVar("Found")
RATE_S = 10.0
"""Rates are those of so many seconds."""


@dataclass(frozen=True)
class Seen:
    """A run as its folder tells it; `recent` has the last batches, `whole` points of the whole run."""

    name: str
    status: Status = field(default_factory=Status)
    asked: Asked | None = None
    plan: Plan | None = None
    operators: Operators = field(default_factory=lambda: Operators(0, 0, 0, ()))
    records: Sequence[Record] = ()
    recent: Sequence[Point] = ()
    whole: Sequence[Point] = ()

    @property
    def last(self) -> Point:
        """The last batch; before the first one, all counts are 0."""
        return self.recent[-1] if self.recent else Point(-1, 0.0, 0.0)

    @property
    def goes_on(self) -> bool:
        return self.status.state in ("starting", "running")

    def since(self, now: float) -> tuple[Point, float]:
        """A point some seconds ago, and the seconds from then to now; the first one, if the run is over."""
        if not self.recent:
            return self.last, 0.0
        first = Point(-1, self.status.started or self.recent[0].at, 0.0)
        if self.recent[0].batch > 0:  # what was before is not known any more, or was counted by another start
            first = self.recent[0]
        if not self.goes_on:
            return first, max(self.last.at - first.at, 1e-3)
        until = max(now, self.last.at)
        old = (p for p in reversed(self.recent[:-1]) if p.at <= until - RATE_S)
        before = self.last if self.last.at <= until - RATE_S else next(old, first)
        return before, max(until - before.at, 1e-3)

    @property
    def streams(self) -> list[str]:
        """The streams of the queries."""
        if self.plan is None:
            return sorted(self.last.read)
        sources = (o for q in self.plan.queries for o in q.deployment.operators if o.kind == "source")
        return sorted({getattr(o, "stream", "") for o in sources})

    def alias_of(self, running: Running) -> str:
        """What an operator is called in the plan."""
        return running.operator or running.stream or running.name


class RunFolder:
    """Reads the folder of a run again and again; files that have not changed are not read anew."""

    def __init__(self, path: Location) -> None:
        self.path = path
        recent, older, whole = files(path / live.FOLDER)
        self._recent, self._older = Follower(recent, LINES), Follower(older, LINES)
        self._whole = Follower(whole, 4 * POINTS)
        self._known: dict[Location, tuple[Any, Any]] = {}

    def check(self) -> None:
        """Whether it is the folder of a run, of a version that writes down what is shown."""
        if not (self.path / "_thalweg").is_dir():
            raise UserError(
                "this is not the folder of a run", where=str(self.path), remedy="give the --out of a run"
            )
        if not live.status_file(self.path).exists():
            raise UserError(
                "the run was made by a version of Thalweg that wrote nothing down for the page",
                where=str(self.path),
                remedy="continue it with this version, by the same command",
            )

    def read(self) -> Seen:
        changes = self.path / "_thalweg" / "changes.json"
        operators = self._of(live.operators_file(self.path), Operators.load) or Operators(0, 0, 0, ())
        older, recent = self._older.read(), self._recent.read()
        first = recent[0].batch if recent else 0
        history = self._of(changes, History.load)
        return Seen(
            self.path.resolve().name,
            self._of(live.status_file(self.path), Status.load) or Status(),
            self._of(live.asked_file(self.path), Asked.load),
            self._of(self.path / plan_file(operators.change), Plan.load),
            operators,
            () if history is None else history.records,
            [*(p for p in older if p.batch < first), *recent],
            list(self._whole.read()),
        )

    def metrics(self) -> dict[str, Any]:
        """The counts of metrics.json; none where they can't be read."""
        try:
            found = json.loads((self.path / "metrics.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def _of(self, path: Location, load: Callable[[Location], Found]) -> Found | None:
        """What is in a file; what was there before, where it can't be read."""
        try:
            now = stamp(path)
            known = self._known.get(path)
            if known is not None and known[0] == now:
                return known[1]  # type: ignore[no-any-return]
            found = load(path)
            self._known[path] = (now, found)
            return found
        except (OSError, ValueError, KeyError, TypeError, UserError):
            found_before: Found | None = self._known.get(path, (None, None))[1]
            return found_before
