"""A run that changes its plan by itself: when it moves, when it does not, and what it writes down."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest

from tests.simulate.sites_cases import Case, by_planner, catalog_of, compiled, query, sql_of
from thalweg.adapt.decide import Decider, Decision
from thalweg.adapt.history import History
from thalweg.adapt.observed import Observed
from thalweg.errors import UserError
from thalweg.operators import migration
from thalweg.plan.document import Plan
from thalweg.plan.options import Adapt, PlanOptions
from thalweg.planners.table import make_plan
from thalweg.spark.adapting import Adapting
from thalweg.spark.host import SparkHost
from thalweg.spark.program_files import Programs
from thalweg.spark.tally import Tally, Totals

from .places import STAR, check_complete, place

CASE = Case(seed=6, windows=("RANGE 20 MILLISECONDS",) * 3, sites=(0, 1, 2))


class Places:
    """A run's plans without Spark: two programs, and the real steps from one to the other."""

    def __init__(self, folder):
        known = catalog_of(CASE)
        asked = query(sql_of(CASE), known)
        self.catalog, self.queries = known, [asked]
        made = compiled(CASE, known, [(asked, by_planner("simple", CASE)(asked, known))], keep=True)
        self.other = compiled(
            CASE,
            known,
            [(asked, by_planner("linear-optimal", CASE)(asked, known))],
            keep=True,
            shape=made.shape,
            generation=1,
        )
        programs = Programs(str(folder / "programs"))
        programs.put(0, made.program)
        self.host = SimpleNamespace(programs=programs, _put=programs.put)
        self.host.advance = lambda *a, **k: SparkHost.advance(self.host, *a, **k)
        self.plan = make_plan(self.queries, known, PlanOptions("simple"))
        self.refuses = None

    def take_over(self, batch, plan):
        if self.refuses:
            raise UserError(self.refuses)
        programs = self.host.programs
        programs.put(batch + 1, migration.begin(programs.at(batch), self.other.program, batch + 1, 0))
        return batch + 1

    def of(self, change):
        return self.plan


class Told(Decider):
    """Always decides to move."""

    def consider(self, now):
        return Decision((), 10.0, 1.0, 5.0, True, "saves 90%", self.plan)

    def first_cost(self, now):
        return 10.0


@pytest.fixture
def adapting(tmp_path):
    plans = Places(tmp_path)
    said: list[str] = []
    made = Adapting(
        plans,
        plans.catalog,
        Told(plans.queries, PlanOptions(), plans.plan, plans.plan, plans.catalog),
        History(tmp_path / "changes.json"),
        Observed(),
        tmp_path / "statistics.json",
        said.append,
        every_s=0.0,
    )
    made.observed.catalog = lambda *_: plans.catalog
    made.said = said
    return made


def tally(batch, rows=5, **more):
    return Tally(batch, last=Totals(read={"s0": rows}), newest={"s0": 100}, **more)


def after(adapting, batch, **more):
    """A batch goes by, and the thread that decides comes to its end."""
    adapting.after(batch, tally(batch, **more), {}, {})
    if adapting._asked is not None:
        adapting._asked.result()


def coming(adapting, batch):
    return adapting.plans.host.programs.at(batch).coming


def test_moves_in_the_batch_after_the_decision(adapting):
    after(adapting, 0)
    assert not coming(adapting, 1)
    after(adapting, 1)
    assert coming(adapting, 2) == 2
    (record,) = adapting.history.records
    assert (record.outcome, record.change) == ("moving", 2)
    assert adapting.history.changes == 0


def test_does_not_move_while_nothing_is_read(adapting):
    after(adapting, 0)
    for batch in range(1, 4):
        after(adapting, batch, rows=0)
    assert not adapting.history.records
    after(adapting, 4)
    assert coming(adapting, 5)


def test_moves_when_all_have_their_windows(adapting):
    after(adapting, 0)
    after(adapting, 1)
    program = adapting.plans.host.programs.at(2)
    after(adapting, 2)
    assert coming(adapting, 3)
    ready = [f"{g}/{p.name}" for of in program.groups for p in of.operators for g in of.groups]
    after(adapting, 3, ready=ready)
    assert not coming(adapting, 4)
    assert adapting.plans.host.programs.at(4).change == 2
    (record,) = adapting.history.records
    assert (record.outcome, record.moment, adapting.history.changes) == ("done", 101, 1)
    # The old operators have not ended: no further change yet.
    after(adapting, 4)
    after(adapting, 5)
    assert len(adapting.history.records) == 1


def test_a_move_that_is_never_ready_is_given_up_and_says_where(adapting):
    after(adapting, 0)
    after(adapting, 1)
    adapting.patience_s = 0.0
    time.sleep(0.01)
    after(adapting, 2)
    program = adapting.plans.host.programs.at(3)
    assert (program.coming, program.change, program.starting) == (0, 0, frozenset())
    (record,) = adapting.history.records
    assert record.outcome == "undone"
    assert "windows were missing at" in record.reason
    assert any("stays with its plan: after 0 s windows were missing at" in line for line in adapting.said)


def test_a_move_that_was_not_written_down_is_when_it_is_done(adapting):
    after(adapting, 0)
    after(adapting, 1)
    adapting.history.records.clear()  # killed before it was written
    program = adapting.plans.host.programs.at(2)
    ready = [f"{g}/{p.name}" for of in program.groups for p in of.operators for g in of.groups]
    after(adapting, 2, ready=ready)
    (record,) = adapting.history.records
    assert (record.outcome, record.change) == ("done", 2)
    assert record.reason == "begun by a run that was killed before it wrote down why"


def test_a_move_that_an_earlier_attempt_of_the_batch_has_undone_is_written_down(adapting):
    after(adapting, 0)
    after(adapting, 1)
    programs = adapting.plans.host.programs
    programs.put(3, migration.undo(programs.at(2)))
    after(adapting, 2)
    assert [r.outcome for r in adapting.history.records] == ["undone"]


def test_a_planner_that_fails_does_not_end_the_run(adapting):
    def fails(_):
        raise KeyError("a fault of the planner")

    adapting.decider.consider = fails
    after(adapting, 0)
    after(adapting, 1)
    assert adapting.said == ["no other plan: 'a fault of the planner'"]
    assert not adapting.history.records


def test_a_plan_that_the_run_cannot_take_is_declined(adapting):
    adapting.plans.refuses = "a memory budget is not possible with probe sequences"
    after(adapting, 0)
    after(adapting, 1)
    (record,) = adapting.history.records
    assert record.outcome == "declined"
    assert record.reason == "saves 90%, but a memory budget is not possible with probe sequences"


@pytest.mark.parametrize(("change", "outcome"), [(2, "done"), (0, "undone")])
def test_a_run_that_goes_on_writes_down_how_the_last_move_ended(adapting, tmp_path, change, outcome):
    after(adapting, 0)
    after(adapting, 1)
    program = replace(adapting.plans.host.programs.at(2), change=change, coming=0)
    adapting.plans.host.programs.put(2, program)
    folder = SimpleNamespace(own=tmp_path, next_batch=2)
    plans = adapting.plans
    options = SimpleNamespace(
        plan=plans.plan, catalog=plans.catalog, planning=PlanOptions(), adapts=Adapt.CENTRAL
    )
    again = Adapting.of(plans, folder, options, print)
    assert [r.outcome for r in again.history.records] == [outcome]


@pytest.mark.parametrize("name", ["changes.json", "statistics.json"])
@pytest.mark.parametrize("text", ["", "{", "[1]", '{"sketches": 3, "top": 1}'])
def test_damaged_notes_are_named(tmp_path, name, text):
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(UserError, match="is damaged") as told:
        (History if name == "changes.json" else Observed).load(path)
    assert told.value.where == str(path)


def test_finds_a_cheaper_plan_from_no_statistics(tmp_path, thalweg, command, monkeypatch):
    monkeypatch.setattr("thalweg.spark.adapting.EVERY_S", 0.0)
    made = place(tmp_path, STAR, count=8, size=120, seconds=120.0, skewed=True)
    path = tmp_path / "catalog.yaml"
    path.write_text("".join(line for line in path.read_text().splitlines(True) if "stats:" not in line))
    code, out, err = thalweg(*made.run(), cwd=tmp_path)
    assert (code, err) == (0, ""), err
    metrics = json.loads(out)
    check_complete(made, metrics, command)
    assert metrics["plan_changes"] >= 1
    code, out, err = command("history", "out", "--json", cwd=tmp_path)
    assert code == 0, err
    told = json.loads(out)
    changes = told["changes"]
    assert {(one["from"], one["to"]) for one in told["links"]} <= {
        (s["from"], s["to"]) for s in metrics["shipped"]
    }
    assert all(one["delay_s"] > 0 for one in told["links"] if one["delay_s"] is not None)
    assert any(one["bytes_per_s"] > 0 for one in told["links"])
    assert len([c for c in changes if c["outcome"] == "done"]) == metrics["plan_changes"]
    first, last = json.loads((tmp_path / "out" / "plan.json").read_text()), Plan.load(latest(tmp_path))
    assert [q.deployment.to_json() for q in last.queries] != [q["deployment"] for q in first["queries"]]


def latest(root):
    return max((root / "out" / "_thalweg" / "programs").glob("*.plan.json"))
