"""Changes the plan of a run: decides beside its batches, and moves between them.

After each batch the run tells what it has counted. A decision is made in a thread of its own, so that no
batch waits for a planner. A move begins between two batches, and each further step of it is taken between two
others (`operators/migration.py`). All that a later run on the folder must know is in its programs and its
history.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from thalweg.adapt.decide import Decider, Decision
from thalweg.adapt.history import History, Record
from thalweg.adapt.observed import Observed
from thalweg.catalog.model import Catalog
from thalweg.errors import UserError
from thalweg.files import write_text
from thalweg.plan.document import Plan
from thalweg.plan.options import PlanInForce
from thalweg.spark.host import SparkHost
from thalweg.spark.tally import Tally

EVERY_S = 5.0
"""Between two decisions."""

PATIENCE_S = 120.0
"""A move is given up if an operator still has no windows after so long."""


@dataclass
class Adapting:
    """The changes of one run.

    `begin` lets a plan take over after a batch, and returns the number of the change. `plan_of` is the file
    of the plan that takes over with a batch.
    """

    host: SparkHost
    history: History
    decider: Decider
    begin: Callable[[int, Plan], int]
    plan_of: Callable[[int], Path]
    say: Callable[[str], None]
    declared: Catalog
    statistics: Path
    observed: Observed
    every_s: float = EVERY_S
    patience_s: float = PATIENCE_S
    _thread: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "thalweg-adapt"))
    _asked: Future[Decided] | None = None
    _last_s: float = field(default_factory=time.monotonic)
    _begun: tuple[int, float] | None = None  # the change that is on its way, and since when

    @classmethod
    def of(
        cls,
        host: SparkHost,
        folder: Path,
        first: Decider,
        batch: int,
        *,
        plan_of: Callable[[int], Path],
        **more: Any,
    ) -> Adapting:
        """Go on from a batch, by what the history and the program of that batch say.

        `first` has the plan that the run began with.
        """
        history, program = History.load(folder / "changes.json"), host.programs.at(batch)
        statistics = folder / "statistics.json"
        observed = Observed.from_json(statistics.read_text()) if statistics.exists() else Observed()
        there = {c for p in program.operators if p.name not in program.starting and (c := _change(p.name))}
        for record in history.records:
            if record.outcome == "moving" and not any(
                name.startswith(f"{record.change}:") for name in program.starting
            ):  # it came to its end, but that was not written down any more
                history.change(record.change, outcome="done" if record.change in there else "undone")
        made = cls(host, history, first, plan_of=plan_of, statistics=statistics, observed=observed, **more)
        # The programs say which plan is in force; the history may lack the last word.
        begun = [c for c in there if made._plan_of(c) is not None]
        if begun and (path := made._plan_of(max(begun))) is not None:
            made.decider = replace(first, plan=Plan.load(path))
        return made

    def _plan_of(self, change: int) -> Path | None:
        """The plan of a change, whose number is that of its first program among all of the run."""
        firsts = self.host.programs.firsts()
        path = self.plan_of(firsts[change]) if change < len(firsts) else None
        return path if path is not None and path.exists() else None

    def after(self, batch: int, tally: Tally, sketches: Mapping[str, Mapping[str, Any]]) -> None:
        """Go on after a batch that has been published; `sketches` are what its streams were like."""
        self.observed.add(sketches, tally.newest)
        moving = self._advance(batch, tally)
        if self._asked is not None and self._asked.done():
            asked, self._asked = self._asked, None
            if (decided := asked.result()) is not None:
                self._take(batch, tally, *decided)
        elif not moving and self._asked is None and time.monotonic() - self._last_s >= self.every_s:
            self._last_s = time.monotonic()
            write_text(self.statistics, self.observed.to_json())
            if (now := self.observed.catalog(self.declared, self.decider.queries)) is not None:
                self._asked = self._thread.submit(self._decide, now)

    def _decide(self, now: Catalog) -> Decided:
        try:
            decision = self.decider.consider(now)
            return None if decision is None else (decision, self.decider.first_cost(now))
        except (UserError, ValueError) as error:  # no plan for these statistics; the one in force goes on
            self.say(f"no other plan: {error}")
            return None

    def _take(self, batch: int, tally: Tally, decision: Decision, first_cost: float) -> None:
        """Do what was decided, and write it down."""
        newest = max(tally.newest.values(), default=None)
        record = Record.of(decision, time.time(), newest, first_cost)
        if decision.taken:
            change = self.begin(batch, decision.plan)
            self._begun = (change, time.monotonic())
            record = replace(record, change=change, first=batch + 1, copied_before=tally.totals.copied)
            self.say(f"changes its plan: {decision.reason}")
        self.history.add(record)

    def _advance(self, batch: int, tally: Tally) -> bool:
        """Take the next step of a move; whether one is on its way."""
        program = self.host.programs.at(batch)
        change = max(map(_change, program.starting), default=0)
        if change and (self._begun is None or self._begun[0] != change):
            self._begun = (change, time.monotonic())  # by an earlier run
        seconds = time.monotonic() - self._begun[1] if self._begun else 0.0
        done = self.host.advance(batch, tally, late=seconds > self.patience_s)
        if change and done in ("commit", "undo"):
            self._settle(change, seconds, tally, done=done == "commit")
        return bool(self.host.programs.at(batch + 1).starting)

    def _settle(self, change: int, seconds: float, tally: Tally, *, done: bool) -> None:
        """Write down how a move has ended."""
        record, self._begun = self.history.record(change), None
        if record is not None:  # a run that died in between may not have written it down
            self.history.change(
                change,
                outcome="done" if done else "undone",
                moment=1 + max(tally.newest.values()) if done else None,
                seconds=round(seconds, 3),
                bytes_moved=tally.totals.copied - record.copied_before,
            )
        if done and (path := self._plan_of(change)) is not None:
            self.decider.moved_to(Plan.load(path))
        elif not done:
            self.say(f"stays with its plan: after {self.patience_s:g} s some windows were not copied")

    @property
    def in_force(self) -> PlanInForce:
        """The plan in force and its last change, for the progress of the run."""
        return self.history.in_force(self.decider.plan)

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)


def _change(name: str) -> int:
    """The number of the change that an operator came with; 0 for those that a run began with."""
    number, colon, _ = name.partition(":")
    return int(number) if colon and number.isdecimal() else 0


Decided = tuple[Decision, float] | None
"""A decision, and what the plan that the run began with would cost."""
