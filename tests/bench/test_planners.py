"""The planners' benchmark, on tiny problems."""

import json
import random

import pytest

from thalweg.bench import cli, growth, made_up, planners
from thalweg.cost.network import Network
from thalweg.cost.objectives import MODELS
from thalweg.planners.table import PLANNERS, planner

THERE = {p.name for p in PLANNERS}


@pytest.mark.parametrize("make", [made_up.sparse, made_up.transit_stub])
@pytest.mark.parametrize("nodes", [2, 8, 60])
def test_networks_hang_together(make, nodes):
    links = make(nodes)
    known = made_up.catalog(2, nodes, links)
    network = Network.of(known, MODELS["usage"])
    network.check_paths(list(known.sites), None)
    assert make(nodes) == links
    if nodes == 60 and make is made_up.sparse:
        assert len(links.pairs) / nodes == 4


def test_random_queries_are_connected_and_of_the_size_asked_for():
    rng = random.Random(1)
    joins = made_up.schema(20)
    for count in range(2, 7):
        assert len(made_up.random_query(joins, count, "q", rng).inputs) == count


@pytest.mark.parametrize("target", planners.TARGETS, ids=lambda t: f"{t.planner}, {t.what}")
def test_every_target_can_be_measured(target):
    if target.planner not in THERE:
        pytest.skip(f"there is no {target.planner}")
    done = planners.measure(target, scale=0.01)
    assert done.seconds > 0
    assert done.peak_mb > 1
    assert done.to_json()["reached"] == done.reached


def test_a_target_is_missed_by_time_or_by_memory():
    def measured(seconds, peak_mb):
        return planners.Measured("p", "w", seconds, seconds, 1.0, peak_mb, 100.0)

    assert measured(0.9, 90).reached
    assert not measured(1.1, 90).reached
    assert not measured(0.9, 110).reached


def test_growth_stops_where_it_takes_too_long(monkeypatch):
    points = []
    planners.grow(planner("simple"), "nodes", 0.0, points.append)
    assert [(p.planner, p.by, p.size) for p in points] == [("simple", "nodes", 8)]
    monkeypatch.setattr(planners, "SIZES", {"streams": (2, 3)})
    points.clear()
    planners.grow(planner("optimal"), "streams", 60.0, points.append)
    assert [p.size for p in points] == [2, 3]


def test_a_child_tells_its_figures_or_why_there_are_none():
    (told,) = planners._child({"target": 0, "scale": 0.1}, 60)
    assert planners.Measured(**told).planner == "optimal"
    (told,) = planners._child({"planner": "none", "by": "nodes", "longest_s": 0.0}, 60)
    assert "there is no planner 'none'" in told["error"]


def test_table_plot_and_command(tmp_path, monkeypatch, capsys):
    measured = planners.Measured("optimal", "5 streams", 0.0123, 2.0, 0.02, 99.0, 2000.0)
    points = [planners.Point("optimal", by, size, 0.01 * size) for by in planners.SIZES for size in (2, 4)]
    done = planners.Report((measured,), tuple(points), ("npc, growth with nodes: none",))
    monkeypatch.setattr(planners, "run", lambda say, quick: done)
    cli.planners(out=tmp_path)
    text = (tmp_path / "planners.md").read_text()
    assert "| optimal | 5 streams | 20 ms, 2,000 MB | 12.3 ms | 2 s | 99 MB | yes |" in text
    assert "- npc, growth with nodes: none" in text
    assert (tmp_path / "planners.png").read_bytes().startswith(b"\x89PNG")
    capsys.readouterr()
    (tmp_path / "planners.md").unlink()
    cli.planners(quick=True, out=tmp_path, as_json=True)
    assert json.loads(capsys.readouterr().out) == done.to_json()
    assert not (tmp_path / "planners.md").exists()


def test_planners_that_do_not_exist_are_told_of(monkeypatch):
    target = planners.Target("none", "nothing", 1.0, planners.Objective.BYTES, planners.TARGETS[0].make)
    monkeypatch.setattr(planners, "TARGETS", (target,))
    monkeypatch.setattr(planners, "PLANNERS", (planner("simple"),))
    monkeypatch.setattr(planners, "_child", lambda task, limit: [])
    done = planners.run(lambda line: None, quick=True)
    assert done.skipped[0] == "none, nothing: there is no such planner"
    assert len(done.skipped) == 3


def test_seconds_are_readable():
    assert [growth.seconds(s) for s in (0.0005, 0.5, 60)] == ["0.5 ms", "500 ms", "60 s"]
