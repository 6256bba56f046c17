"""The record of a run's decisions."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from thalweg.adapt.history import DECLINED, History, Record
from thalweg.cli.main import invoke
from thalweg.plan.document import Plan
from thalweg.plan.options import PlanChange, PlanInForce
from thalweg.report.changes import figure

ONE = Record(
    at=1_800_000_000.25,
    event_time=1_700_000_000_000_000,
    moved=("a rate: 1, now 2",),
    reason="saves 50% of the cost",
    cost_before=100.0,
    cost_after=50.0,
    first_cost=120.0,
    bytes_to_move=10.0,
    outcome="declined",
)
MOVE = replace(ONE, at=ONE.at + 60, outcome="moving", change=7)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    history = History(tmp_path / "changes.json")
    history.add(ONE)
    history.add(MOVE)
    history.change(7, outcome="done", seconds=1.5, bytes_moved=9)
    found = History.load(tmp_path / "changes.json")
    assert found.records == [ONE, replace(MOVE, outcome="done", seconds=1.5, bytes_moved=9)]
    assert found.record(7) == found.records[1]
    assert found.record(4) is None


def test_a_repeated_batch_replaces_what_it_had_begun(tmp_path: Path) -> None:
    history = History(tmp_path / "changes.json")
    history.add(MOVE)
    history.add(replace(MOVE, reason="another"))
    assert [r.reason for r in history.records] == ["another"]


def test_the_plan_in_force_costs_what_the_last_decision_said(tmp_path: Path) -> None:
    history = History(tmp_path / "changes.json")
    plan = Plan("bytes", ())
    assert history.in_force(plan) == PlanInForce("", 0.0, "bytes/s between sites")
    history.add(ONE)
    assert (history.in_force(plan).cost, history.in_force(plan).last) == (100.0, None)
    history.add(MOVE)
    moving = PlanChange(MOVE.at, "saves 50% of the cost", ("a rate: 1, now 2",), "moving")
    assert history.in_force(plan) == PlanInForce("", 100.0, "bytes/s between sites", 0, moving)
    history.change(7, outcome="done")
    done = replace(moving, outcome="done")
    assert history.in_force(plan) == PlanInForce("", 50.0, "bytes/s between sites", 1, done)
    history.add(replace(ONE, at=MOVE.at + 60, cost_before=55.0))
    assert history.in_force(plan) == PlanInForce("", 55.0, "bytes/s between sites", 1, done)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    (tmp_path / "_thalweg").mkdir()
    (tmp_path / "plan.json").write_text(
        json.dumps({"format": "thalweg-plan", "version": 1, "objective": "bytes", "queries": []})
    )
    return tmp_path


def test_the_command(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    history = History(run / "_thalweg" / "changes.json")
    history.add(ONE)
    history.add(replace(MOVE, outcome="done", seconds=1.5, bytes_moved=9))
    assert invoke(["history", str(run), "--json", "--picture", str(run / "p.svg")]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["considered"] == 2
    (change,) = told["changes"]
    assert change["outcome"] == "done"
    assert change["event_time"] == "2023-11-14T22:13:20.000Z"
    assert (change["cost_before"], change["cost_after"], change["bytes_moved"]) == (100.0, 50.0, 9)
    assert "the plan in force" in (run / "p.svg").read_text()
    assert invoke(["history", str(run)]) == 0
    assert "saves 50% of the cost; 9 bytes moved in 1.5 s" in capsys.readouterr().out


def test_nothing_was_considered(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["history", str(run)]) == 0
    assert capsys.readouterr().out.startswith("nothing was considered")
    assert len(figure([], "bytes/s").axes[0].texts) == 1


def test_not_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["history", str(tmp_path)]) == 2
    assert "this is not the folder of a run" in capsys.readouterr().err


def test_a_damaged_history(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (run / "_thalweg" / "changes.json").write_text("[{}]")
    assert invoke(["history", str(run)]) == 2
    assert "changes.json: is damaged" in capsys.readouterr().err


def test_only_the_last_decisions_to_stay_are_kept_and_all_to_move(tmp_path: Path) -> None:
    history = History(tmp_path / "changes.json")
    history.add(replace(MOVE, outcome="done"))
    for n in range(2 * DECLINED):
        history.add(replace(ONE, at=float(n), outcome="declined"))
    assert len(history.records) == 1 + DECLINED
    assert history.records[0].outcome == "done"
    assert history.records[-1].at == 2 * DECLINED - 1
