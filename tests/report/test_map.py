"""Pictures of plans: files that can be opened, with everything named in them."""

import xml.etree.ElementTree as ET
from itertools import combinations, permutations
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from tests.planners.examples import catalog, links, pmjoin_1, pmjoin_2, query, stream
from thalweg.catalog import load
from thalweg.errors import UserError
from thalweg.plan.deployment import Deployment, Edge
from thalweg.plan.document import Plan, PlannedQuery
from thalweg.plan.operators import Sink, Source
from thalweg.plan.options import Objective, PlanOptions
from thalweg.planners.table import make_plan
from thalweg.query import parse
from thalweg.report import map as map_
from thalweg.report.layout import Box, label, place, positions, room, route
from thalweg.report.texts import Line, Shipped, amount, lines_of, shipped_by

PNG = b"\x89PNG\r\n\x1a\n"


def texts(path):
    """All texts of an SVG, which must be XML for that."""
    root = ET.fromstring(path.read_text())
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    return {t.text for t in root.iter("{http://www.w3.org/2000/svg}text")}


def plan_of(example, planner="optimal", **settings):
    sql, known = example()
    return make_plan([query(sql, known)], known, PlanOptions(planner, settings=settings)), known


def deployed(*operators, edges=(), name="q"):
    plan = PlannedQuery(name, "", "p", 1.0, 1.0, 1, 1.0, (), Deployment(tuple(operators), tuple(edges)))
    return Plan("bytes", (plan,))


def test_a_plan_as_svg_names_sites_operators_streams_and_cost(tmp_path):
    plan, known = plan_of(pmjoin_1)
    map_.draw(plan, known, tmp_path / "new" / "plan.svg")
    said = texts(tmp_path / "new" / "plan.svg")
    assert {"n1", "n2", "n3", "source s1", "join s1, s2, s3", "sink q", "s3: 50.03 bytes/s"} <= said
    assert "q: planner optimal, 54.0316 bytes/s between sites" in said


def test_the_same_plan_is_the_same_file(tmp_path):
    plan, known = plan_of(pmjoin_2)
    for name in ("a.svg", "b.svg"):
        map_.draw(plan, known, tmp_path / name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


@pytest.mark.parametrize("name", ["plan.png", "plan.PNG"])
def test_a_plan_as_png(tmp_path, name):
    plan, known = plan_of(pmjoin_2)
    map_.draw(plan, known, tmp_path / name)
    assert (tmp_path / name).read_bytes().startswith(PNG)


@pytest.mark.parametrize("name", ["plan.pdf", "plan", "plan.json"])
def test_another_suffix_is_refused(tmp_path, name):
    plan, known = plan_of(pmjoin_1)
    with pytest.raises(UserError, match=r"plan\.svg or plan\.png"):
        map_.draw(plan, known, tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_a_file_that_can_not_be_written(tmp_path):
    plan, known = plan_of(pmjoin_1)
    (tmp_path / "taken.svg").mkdir()
    with pytest.raises(UserError, match="can't be written"):
        map_.draw(plan, known, tmp_path / "taken.svg")


@pytest.mark.parametrize("example", [pmjoin_1, pmjoin_2])
@pytest.mark.parametrize("planner", ["simple", "optimal"])
def test_nothing_overlaps_in_the_papers_examples(example, planner):
    plan, known = plan_of(example, planner)
    figure = map_.figure(plan, known)
    figure.canvas.draw()
    boxes = [t.get_window_extent() for t in figure.axes[0].texts]
    for i, one in enumerate(boxes):
        assert not [other for other in boxes[i + 1 :] if one.overlaps(other)]


def test_everything_is_on_the_sheet():
    plan, known = plan_of(pmjoin_2)
    figure = map_.figure(plan, known)
    figure.canvas.draw()
    for text in figure.axes[0].texts:
        extent = text.get_window_extent()
        assert figure.bbox.x0 <= extent.x0 <= extent.x1 <= figure.bbox.x1
        assert figure.bbox.y0 <= extent.y0 <= extent.y1 <= figure.bbox.y1


def test_sites_lie_as_their_latencies_say():
    pairs = {("a", "b"): (10, 1, 0), ("b", "c"): (20, 1, 0), ("c", "d"): (70, 1, 0)}
    known = catalog([stream("s", "a", {"k": "long"})], sites="abcd", links=links(pairs))
    at = positions("abcd", known)
    apart = np.linalg.norm(at[:, None] - at[None], axis=2)
    assert apart[0] / apart[0, 1] == pytest.approx([0, 1, 3, 10], abs=1e-6)


def test_equal_latencies_give_a_circle_and_missing_paths_no_error():
    known = catalog([stream("s", "a", {"k": "long"})], sites="abcd")
    at = positions("abcd", known)
    assert np.linalg.norm(at, axis=1) == pytest.approx(np.ones(4))
    apart = catalog([stream("s", "a", {"k": "long"})], sites="abcd", links=links({("a", "b"): (1, 1, 0)}))
    assert np.isfinite(positions("abcd", apart)).all()
    assert positions("a", known).shape == (1, 2)


def test_several_queries_in_one_picture(tmp_path):
    sql, known = pmjoin_1()
    queries = [query(sql, known, name) for name in ("first", "second")]
    plan = make_plan(queries, known, PlanOptions("simple", Objective.USAGE))
    map_.draw(plan, known, tmp_path / "plan.svg")
    said = texts(tmp_path / "plan.svg")
    assert any(t.startswith("2 queries: planner simple, ") for t in said)
    assert any(t.startswith("second: adds ") for t in said)
    assert {"join s1, s2, s3 (first)", "sink first, second"} <= said


def test_a_plan_without_shipments(tmp_path):
    known = catalog([stream(s, "n", {"k": "long"}) for s in "ab"])
    window = "[RANGE 1 SECOND]"
    asked = query(f"SELECT a.k FROM a {window}, b {window} WHERE a.k = b.k", known)
    map_.draw(make_plan([asked], known, PlanOptions("local")), known, tmp_path / "plan.svg")
    assert "join a, b" in texts(tmp_path / "plan.svg")


def test_in_a_large_network_only_sites_that_take_part_are_drawn(tmp_path):
    names = [f"n{i}" for i in range(100)]
    known = catalog([stream("s", "n0", {"k": "long"})], sites=names)
    sources = [Source(f"s{i}", names[i], stream=f"s{i}") for i in range(70)]
    sink = Sink("out", "n99", tuple(o.id for o in sources), query="q")
    edges = [Edge(o.id, "out", o.site, "n99", (o.id,), 1.0, float(i)) for i, o in enumerate(sources)]
    map_.draw(deployed(*sources, sink, edges=edges), known, tmp_path / "plan.svg")
    said = texts(tmp_path / "plan.svg")
    assert "n99" in said
    assert len(said & set(names)) == map_.MOST_SITES
    assert "11 sites are not drawn" in said
    assert not [t for t in said if t.startswith("s69: ")], "so many labels can't be read"


AIRPORT = Path(__file__).parents[2] / "docs/examples"


def rectangles(drawing):
    """All boxes and labels, as (centre, half the size)."""
    yield from ((b.centre, b.half) for b in drawing.boxes.values())
    yield from ((a.at, a.half) for a in drawing.arrows if a.at is not None)


def assert_nothing_overlaps(drawing):
    for (a, half), (b, other) in combinations(rectangles(drawing), 2):
        assert (np.abs(a - b) >= half + other).any()


def drawn(plan, known):
    return map_.laid_out(plan, known, shipped_by(plan), lines_of(plan), [("title", None)], amount)


def test_labels_of_several_shipments_between_close_sites_lie_apart():
    known = load(AIRPORT / "airport.yaml")
    queries = [
        parse((AIRPORT / f"{name}.sql").read_text(), name=name, schemas=known.schemas, times=known.times)
        for name in ("terminal", "gate")
    ]
    made = drawn(make_plan(queries, known, PlanOptions("linear-optimal")), known)
    assert len(made.arrows) > 5
    assert_nothing_overlaps(made)


@pytest.mark.parametrize("n", [2, 3, 7, 12])
def test_labels_have_room_in_any_network(n):
    """Shipments between all sites, both ways, with long labels and ten operators at each site."""
    names, lines = [f"n{i}" for i in range(n)], tuple(Line("join", f"join s1, s2 {k}") for k in range(10))
    known = catalog([stream("s1", "n0", {})], names)
    boxes = {name: Box(name, lines, True) for name in names}
    pairs = list(permutations(boxes, 2))[: map_.MOST_LABELS]
    shipped = [Shipped(a, b, 0, 10.0, ("keys of s1, s2, s3: 12.34 kB/s",) * 3) for a, b in pairs]
    place(list(boxes.values()), known, room(shipped))
    arrows = route(shipped, boxes)
    label(arrows, boxes.values())
    assert_nothing_overlaps(SimpleNamespace(boxes=boxes, arrows=arrows))


def test_a_label_without_a_place_stands_aside():
    """Two sites side by side, with no room between them."""
    boxes = {name: Box(name, (Line("join", "join a, b"),), True) for name in ("n1", "n2")}
    boxes["n2"].centre = np.array([2 * boxes["n1"].half[0] + 0.1, 0.0])
    shipped = [Shipped("n1", "n2", n, 10.0, ("a, b: 12.34 kB/s",) * 3) for n in range(8)]
    arrows = route(shipped, boxes)
    label(arrows, boxes.values())
    assert_nothing_overlaps(SimpleNamespace(boxes=boxes, arrows=arrows))
    assert any(a.lead is not None for a in arrows)
