"""Pictures of what flowed in a run."""

import json

import pytest

from tests.planners.examples import pmjoin_1
from tests.report.test_map import plan_of, texts
from thalweg.errors import UserError
from thalweg.plan.options import Shipped
from thalweg.report import flow
from thalweg.report import map as map_
from thalweg.report.texts import saving

METRICS = {
    "input_rows": {"s1": 1_002, "s2": 13, "s3": 500},
    "output_rows": {"q": 77},
    "late_rows": {"s1": 0, "s2": 0, "s3": 0},
    "shipped": [
        {"from": "n2", "to": "n1", "tuples": 1, "payload_bytes": 8, "bytes": 600},
        {"from": "n3", "to": "n2", "tuples": 500, "payload_bytes": 5_000, "bytes": 12_345},
        {"from": "n1", "to": "n3", "tuples": 0, "payload_bytes": 0, "bytes": 90},
    ],
    "central_payload_bytes": 10_016,
    "complete": True,
}


@pytest.fixture
def ran():
    plan, known = plan_of(pmjoin_1)
    return flow.Flow.of(plan, METRICS), known


def test_the_picture_names_sites_streams_ways_and_the_central_plan(ran, tmp_path):
    found, known = ran
    flow.draw(found, known, tmp_path / "network.svg")
    said = texts(tmp_path / "network.svg")
    assert {"n1", "n2", "n3", "sink q", "source s1: 1,002 read", "join s1, s2, s3"} <= said
    assert {"8 bytes, 1 tuple", "5 kB, 500 tuples", "no tuples"} <= said
    assert {"shipped by optimal: 5.008 kB", "every stream whole to one site: 10.02 kB"} <= said
    assert "q: 77 results, planner optimal" in said
    assert any("2.0 times less than every stream" in t and "13.04 kB" in t for t in said)
    assert [p.name for p in tmp_path.iterdir()] == ["network.svg"]


def test_it_is_made_from_what_a_run_leaves(ran, tmp_path):
    found, _ = ran
    found.plan.save(tmp_path / "plan.json")
    (tmp_path / "metrics.json").write_text(json.dumps(METRICS))
    again = flow.Flow.read_from(tmp_path)
    assert again == found
    assert again.shipped[0] == Shipped("n2", "n1", 1, 8, 600)
    assert (again.payload, again.bytes, again.planner) == (5_008, 13_035, "optimal")
    with pytest.raises(UserError, match="no counts"):
        flow.Flow.read_from(tmp_path / "elsewhere")


def test_a_run_that_was_stopped_says_so_and_may_have_shipped_nothing(ran, tmp_path):
    found, known = ran
    nothing = {**METRICS, "shipped": [], "complete": False}
    flow.draw(flow.Flow.of(found.plan, nothing), known, tmp_path / "network.svg")
    assert "q: 77 results, planner optimal, stopped" in texts(tmp_path / "network.svg")


def test_nothing_overlaps_and_all_is_on_the_sheet(ran):
    found, known = ran
    figure = map_.together([flow.drawing(found, known)] * 2, below=1.0)
    figure.canvas.draw()
    boxes = [t.get_window_extent() for axes in figure.axes for t in axes.texts]
    for i, one in enumerate(boxes):
        assert not [other for other in boxes[i + 1 :] if one.overlaps(other)]
        assert figure.bbox.x0 <= one.x0 <= one.x1 <= figure.bbox.x1
        assert figure.bbox.y0 <= one.y0 <= one.y1 <= figure.bbox.y1


def test_side_by_side_the_same_width_means_the_same_bytes(ran):
    found, known = ran
    less = [{**METRICS["shipped"][1], "payload_bytes": 50}]
    small = flow.Flow.of(found.plan, {**METRICS, "shipped": less})
    figure = map_.together([flow.drawing(found, known), flow.drawing(small, known)])
    left, right = ({t.get_text() for t in axes.texts} for axes in figure.axes)
    assert {"5 kB", "500 bytes"} <= left
    assert {"5 kB", "500 bytes"} <= right
    central = "every stream whole to one site: 10.02 kB"
    lengths = [
        next(t for t in axes.texts if t.get_text() == central).get_position()[0] - axes.get_xlim()[0]
        for axes in figure.axes
    ]
    assert lengths[0] == pytest.approx(lengths[1])


def test_a_file_that_can_not_be_written(ran, tmp_path):
    found, known = ran
    (tmp_path / "network.svg").mkdir()
    with pytest.raises(UserError, match="can't be written"):
        flow.draw(found, known, tmp_path / "network.svg")
    assert [p.name for p in tmp_path.iterdir()] == ["network.svg"]


def test_equal_amounts_are_neither_less_nor_more():
    assert (saving(5, 5), saving(0, 0)) == ("no less", "no less")
