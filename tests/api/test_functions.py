"""What `plan`, `compare`, `stats` and `verify` return: typed, frozen, and the same as the commands print."""

import dataclasses
import json
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import thalweg
from tests.cli.conftest import QUERY
from thalweg.catalog import load
from thalweg.cli.main import invoke
from thalweg.plan.document import Plan
from thalweg.planners.table import PLANNERS


@pytest.fixture
def printed(capsys):
    def run(*arguments):
        invoke([*arguments])
        return capsys.readouterr().out

    return run


def without_times(told):
    """JSON without what differs from one time to the next."""
    text = json.dumps(told)
    found = json.loads(text)
    for one in (*found.get("queries", ()), *found.get("planners", ())):
        if isinstance(one, dict):
            one.pop("elapsed_ms", None)
    return found


def frozen(result, name):
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(result, name, None)


def test_a_plan(apart, printed):
    made = thalweg.plan("q.sql", "catalog.yaml", planner="optimal", objective="usage")
    assert isinstance(made, thalweg.Planned)
    frozen(made, "plan")
    assert (made.objective, len(made.queries), made.queries[0].planner) == ("usage", 1, "optimal")
    assert made.total == made.queries[0].marginal_cost > 0
    command = ("plan", "q.sql", "--catalog", "catalog.yaml", "--planner", "optimal", "--objective", "usage")
    assert without_times(made.to_json()) == without_times(json.loads(printed(*command, "--json")))
    assert f"{made!r}\n" == printed(*command)
    made.save("plan.json")
    assert Plan.load(apart / "plan.json") == made.plan


def test_settings_may_be_numbers(apart):
    equal = thalweg.plan({"q": QUERY}, load("catalog.yaml"), settings={"width": "equal"}, deliver_to="n2")
    assert equal.queries[0].query == "q"
    with pytest.raises(thalweg.UserError, match="'top-down' takes no setting 'colour'"):
        thalweg.plan(QUERY, "catalog.yaml", planner="top-down", settings={"colour": 7})


def test_a_comparison(apart, monkeypatch):
    few = [p for p in PLANNERS if p.name in ("local", "simple", "optimal")]
    monkeypatch.setattr("thalweg.planners.compare.PLANNERS", few)
    done = thalweg.compare("q.sql", "catalog.yaml", deliver_to="n2")
    assert isinstance(done, thalweg.Comparison)
    frozen(done, "planners")
    assert (done.objective, done.queries) == ("bytes", ("q",))
    assert "optimal</text>" in shown_as_picture(done, apart, monkeypatch)
    assert "q: bytes/s between sites" in repr(done)
    assert all(one.name in repr(done) for one in done.planners)
    for seconds in (-1, float("nan")):
        with pytest.raises(thalweg.UserError, match="a planner can't take"):
            thalweg.compare("q.sql", "catalog.yaml", seconds=seconds)


def test_a_notebook_shows_a_plan_as_a_map(apart, monkeypatch):
    made = thalweg.plan("q.sql", "catalog.yaml", planner="optimal")
    assert ">n1</text>" in shown_as_picture(made, apart, monkeypatch)


def shown_as_picture(made, folder, monkeypatch):
    """What a notebook shows: the picture, or where it can't be drawn the text and what is missing."""
    picture = made._repr_svg_()
    assert picture.startswith("<?xml") and "</svg>" in picture
    assert made._repr_html_() is None
    made.draw(folder / "picture.svg")
    assert (folder / "picture.svg").read_text() == picture
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert made._repr_svg_() is None
    shown = made._repr_html_()
    assert "<pre>" in shown
    assert "the picture needs matplotlib; pip install &#x27;thalweg[draw]&#x27;" in shown
    return picture


def test_statistics(apart, printed):
    found = thalweg.stats("q.sql", "catalog.yaml")
    assert isinstance(found, thalweg.Statistics)
    frozen(found, "streams")
    assert (found.streams["s1"].tuples, found.streams["s1"].widths["k"]) == (2, 8.0)
    assert found.joins[0].selectivity == 0.5
    command = ("stats", "q.sql", "--catalog", "catalog.yaml")
    assert found.to_json() == json.loads(printed(*command, "--json"))
    assert repr(found).splitlines()[-1] == "s2: its tuples span no time, so its rate is unknown"
    planned = thalweg.plan("q.sql", found.catalog)
    assert "streams.s1.stats.widths.v = 16" not in planned.queries[0].assumed
    assert load("catalog.yaml").joins == ()
    thalweg.stats("q.sql", "catalog.yaml", write=True)
    assert load("catalog.yaml").joins == found.joins
    with pytest.raises(thalweg.UserError, match="the catalog was not read from a file; give the path of one"):
        thalweg.stats("q.sql", (apart / "catalog.yaml").read_text(), write=True)


def test_a_verdict_is_true_if_the_results_are_the_same(apart):
    (apart / "out" / "results" / "q").mkdir(parents=True)

    def verdict(*rows):
        columns = {"x": [x for x, _ in rows], "y": [y for _, y in rows]}
        pq.write_table(pa.table(columns), apart / "out" / "results" / "q" / "0.parquet")
        return thalweg.verify("q.sql", "catalog.yaml", "out")

    same = verdict(("s1.1", "s2.1"), ("s1.2", "s2.2"))
    assert isinstance(same, thalweg.Verdict)
    frozen(same, "same")
    assert same and (same.expected, same.found) == (2, 2)
    assert not verdict(("s1.1", "s2.1"))
    with pytest.raises(thalweg.UserError, match="one query is verified at a time, and these are 2"):
        thalweg.verify({"a": QUERY, "b": QUERY}, "catalog.yaml", "out")
