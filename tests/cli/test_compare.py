"""`thalweg compare`, and the picture of `thalweg plan`."""

import pytest

from tests.cli.test_commands import PLAN, wrong
from thalweg.planners.table import PLANNERS

COMPARE = ("compare", "q.sql", "--catalog", "catalog.yaml")
KEYS = ["name", "family", "cost", "distance_percent", "searched", "elapsed_ms"]


@pytest.fixture
def apart(folder):
    """The streams at different sites, so that there is something to plan."""
    text = (folder / "catalog.yaml").read_text()
    head, _, tail = text.rpartition("site: n1")
    (folder / "catalog.yaml").write_text(f"{head}site: n2{tail}")
    return folder


def test_json_has_the_shape_that_is_promised(apart, thalweg):
    told = thalweg(*COMPARE, "--json").json
    assert list(told) == ["objective", "unit", "queries", "planners", "not_applicable"]
    assert (told["objective"], told["unit"], told["queries"]) == ("bytes", "bytes/s between sites", ["q"])
    for planner in told["planners"]:
        assert list(planner)[: len(KEYS)] == KEYS
        assert set(planner) - set(KEYS) == ({"chose"} if planner["family"] == "any" else set())
    assert all(list(p) == ["name", "family", "reason"] for p in told["not_applicable"])
    named = [p["name"] for p in (*told["planners"], *told["not_applicable"])]
    assert sorted(named) == sorted(p.name for p in PLANNERS)
    assert "local" in {p["name"] for p in told["not_applicable"]}


def test_the_table_is_whole_where_it_is_not_on_a_terminal(apart, thalweg, monkeypatch):
    monkeypatch.setenv("COLUMNS", "20")
    shown = thalweg(*COMPARE)
    assert (shown.status, shown.err) == (0, "")
    assert "q: bytes/s between sites" in shown.out
    assert "…" not in shown.out
    for column in ("family", "planner", "cost", "from the best", "plans searched", "ms"):
        assert column in shown.out
    for planner in PLANNERS:
        assert planner.name in shown.out
    assert "  local (tree): local needs all streams at one site" in shown.out


def test_several_queries_objectives_and_settings(apart, thalweg):
    (apart / "r.sql").write_text((apart / "q.sql").read_text())
    arguments = ("compare", "q.sql", "r.sql", "--catalog", "catalog.yaml", "--objective", "usage")
    told = thalweg(*arguments, "--deliver-to", "n2", "--set", "width=equal", "--json").json
    assert told["queries"] == ["q", "r"]
    assert told["unit"] == "bytes in flight between sites"


@pytest.mark.parametrize("name", ["bars.svg", "bars.png"])
def test_chart(apart, thalweg, name):
    assert thalweg(*COMPARE, "--chart", name).status == 0
    assert (apart / name).stat().st_size > 1000


@pytest.mark.parametrize("name", ["plan.svg", "plan.png"])
def test_picture_of_a_plan(apart, thalweg, name):
    shown = thalweg(*PLAN, "--planner", "optimal", "--picture", name, "--json")
    assert (shown.status, shown.err) == (0, "")
    assert (apart / name).stat().st_size > 1000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((*COMPARE, "--set", "height=3"), "there are: width"),
        ((*COMPARE, "--set", "width=round"), "columns, equal"),
        ((*COMPARE, "--set", "width"), "KEY=VALUE"),
        ((*COMPARE, "--objective", "fame"), "bytes, usage, dollars, time"),
        ((*COMPARE, "--deliver-to", "n9"), "n1, n2"),
        (
            (*COMPARE, "--chart", "bars.pdf"),
            "bars.pdf: a picture can't be .pdf; name it bars.svg or bars.png",
        ),
        ((*PLAN, "--picture", "plan"), "name it plan.svg or plan.png"),
        (("compare", "none.sql", "--catalog", "catalog.yaml"), "none.sql"),
    ],
)
def test_wrong_input_is_one_message_and_status_2(apart, thalweg, arguments, message):
    assert message in wrong(thalweg(*arguments))


def test_a_plan_says_what_a_query_adds_where_it_shares(apart, thalweg):
    (apart / "r.sql").write_text((apart / "q.sql").read_text())
    shown = thalweg("plan", "q.sql", "r.sql", "--catalog", "catalog.yaml", "--planner", "optimal")
    first, second = (line for line in shown.out.splitlines() if ": planner optimal, cost " in line)
    assert "is added" not in first
    assert second.endswith("of which 0 is added to the queries before it")
