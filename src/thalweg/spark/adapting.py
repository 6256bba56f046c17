"""Changes the plan of a run: decides beside its batches, and moves between them.

After each batch the run tells what it has counted. A decision is made in a thread of its own, so that no
batch waits for a planner. A move begins between two batches, and each further step of it is taken between two
others (`operators/migration.py`). All that a later run on the folder must know is in its programs and its
history.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any

from thalweg.adapt.decide import Decider, Decision, check_for_nodes
from thalweg.adapt.history import History, Record
from thalweg.adapt.observed import Observed, Way
from thalweg.catalog.model import Catalog
from thalweg.errors import UserError
from thalweg.files import write_text
from thalweg.operators import migration
from thalweg.operators.program import Program
from thalweg.plan.options import Adapt, PlanInForce, RunOptions
from thalweg.spark.folder import Folder
from thalweg.spark.plans import Plans
from thalweg.spark.tally import Tally
from thalweg.storage import Location

EVERY_S = 5.0
"""Between two decisions."""

PATIENCE_S = 120.0
"""A move is given up if an operator still has no windows after so long."""

Decided = tuple[Decision, float] | None
"""A decision, and what the plan that the run began with would cost."""


@dataclass
class Adapting:
    """The changes of one run."""

    plans: Plans
    declared: Catalog
    decider: Decider
    history: History
    observed: Observed
    statistics: Location
    say: Callable[[str], None]
    every_s: float = EVERY_S
    patience_s: float = PATIENCE_S
    _asked: Future[Decided] | None = None
    _last_s: float = field(default_factory=time.monotonic)
    _seen_s: float = field(default_factory=time.monotonic)  # the end of the batch before
    _begun: tuple[int, float] | None = None  # the change that is on its way, and since when

    @classmethod
    def of(cls, plans: Plans, folder: Folder, options: RunOptions, say: Callable[[str], None]) -> Adapting:
        """Go on from where the run has come. Its programs say so; the history may lack the last word."""
        program = plans.host.programs.at(folder.next_batch)
        plan = plans.of(program.change)
        by_nodes = options.adapts is Adapt.DISTRIBUTED
        if by_nodes:
            check_for_nodes(plan, "--adapt distributed")
        history = History.load(folder.own / "changes.json")
        _complete(history, program)
        decider = Decider(
            plans.queries, options.planning, options.plan, plan, options.catalog, by_nodes=by_nodes
        )
        statistics = folder.own / "statistics.json"
        every_s = math.inf if options.adapts is Adapt.OFF else EVERY_S
        observed = Observed.load(statistics)
        return cls(plans, options.catalog, decider, history, observed, statistics, say, every_s)

    def after(
        self,
        batch: int,
        tally: Tally,
        sketches: Mapping[str, Mapping[str, Any]],
        delays: Mapping[Way, Sequence[float]],
    ) -> None:
        """Go on after a batch that has been published.

        `sketches` are what its streams were like, `delays` those of what it has read from other sites.
        """
        self.observed.add(sketches, tally.newest)
        before, self._seen_s = self._seen_s, time.monotonic()
        sent = {(s.source, s.target): s.bytes for s in tally.last.shipped}
        self.observed.add_traffic(self._seen_s - before, sent, delays)
        self._advance(batch, tally)
        now = self.plans.host.programs.at(batch + 1)
        _complete(self.history, now)
        # One change after the other: operators that end hold state, and their streams still go to them.
        if now.coming or now.ending or not tally.read:
            return
        if self._asked is None:
            self._ask()
        elif self._asked.done():
            asked, self._asked = self._asked, None
            if (decided := asked.result()) is not None:
                self._take(batch, tally, *decided)

    def _ask(self) -> None:
        if time.monotonic() - self._last_s < self.every_s:
            return
        self._last_s = time.monotonic()
        write_text(self.statistics, self.observed.to_json())
        observed = deepcopy(self.observed)  # batches go on meanwhile
        self._asked = Future()
        # Nobody waits for it at the end.
        threading.Thread(target=self._decide, args=(observed, self._asked), daemon=True).start()

    def _decide(self, observed: Observed, asked: Future[Decided]) -> None:
        found: Decided = None
        try:
            if (now := observed.catalog(self.declared, self.decider.queries)) is not None:
                decision = self.decider.consider(now)
                found = None if decision is None else (decision, self.decider.first_cost(now))
        except Exception as error:  # whatever it is, the plan in force goes on
            self.say(f"no other plan: {error}")
        asked.set_result(found)

    def _take(self, batch: int, tally: Tally, decision: Decision, first_cost: float) -> None:
        """Do what was decided, and write it down."""
        change = 0
        if decision.taken:
            try:
                change = self.plans.take_over(batch, decision.plan)
            except UserError as error:  # the run can't run it, with a memory budget for example
                decision = replace(decision, taken=False, reason=f"{decision.reason}, but {error.what}")
        newest = max(tally.newest.values(), default=None)
        record = Record.of(decision, time.time(), newest, first_cost)
        if change:
            self._begun = (change, time.monotonic())
            record = replace(record, change=change, copied_before=tally.totals.copied)
            self.say(f"changes its plan: {decision.reason}")
        self.history.add(record)

    def _advance(self, batch: int, tally: Tally) -> None:
        """Take the next step of a move, if one is on its way."""
        program = self.plans.host.programs.at(batch)
        change = program.coming
        if change and (self._begun is None or self._begun[0] != change):
            self._begun = (change, time.monotonic())  # by an earlier run
        seconds = time.monotonic() - self._begun[1] if self._begun else 0.0
        done = self.plans.host.advance(batch, tally, late=seconds > self.patience_s)
        if change and done:
            missing = sorted({site for site, _ in migration.missing(program, tally.ready)})
            self._settle(change, seconds, tally, missing if done == "undo" else None)

    def _settle(self, change: int, seconds: float, tally: Tally, missing: list[str] | None) -> None:
        """Write down how a move has ended: undone, where windows were missing at some sites."""
        record, self._begun = self.history.record(change) or self._unwritten(change, tally), None
        why = f"after {self.patience_s:g} s windows were missing at {', '.join(missing or ())}"
        self.history.add(
            replace(
                record,
                outcome="done" if missing is None else "undone",
                reason=record.reason if missing is None else f"{record.reason}; given up: {why}",
                moment=tally.after_all if missing is None else None,
                seconds=round(seconds, 3),
                bytes_moved=tally.totals.copied - record.copied_before,
            )
        )
        if missing is None:
            self.decider.plan = self.plans.of(change)
        else:
            self.say(f"stays with its plan: {why}")

    def _unwritten(self, change: int, tally: Tally) -> Record:
        """The record of a move that a run began just before it was killed."""
        before, after = self.decider.plan.total, self.plans.of(change).total
        why = "begun by a run that was killed before it wrote down why"
        newest = max(tally.newest.values(), default=None)
        return Record(time.time(), newest, (), why, before, after, before, 0.0, "moving", change=change)

    @property
    def in_force(self) -> PlanInForce:
        """The plan in force and its last change, for the progress of the run."""
        return self.history.in_force(self.decider.plan)


def _complete(history: History, program: Program) -> None:
    """Write down how moves have ended whose run was killed before it did."""
    for record in history.records:
        if record.outcome == "moving" and record.change != program.coming:
            history.change(record.change, outcome="done" if record.change == program.change else "undone")
