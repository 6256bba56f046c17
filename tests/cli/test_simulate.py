"""`thalweg simulate`."""

import pytest

from .conftest import CATALOG

SIMULATE = ("simulate", "q.sql", "--catalog", "catalog.yaml", "--seconds", "3", "--planner", "simple")


@pytest.fixture(autouse=True)
def two_sites(folder):
    catalog = CATALOG.replace("s2:\n    site: n1", "s2:\n    site: n2")
    (folder / "catalog.yaml").write_text(catalog)


def test_json_has_the_shape_that_is_promised(folder, thalweg):
    found = thalweg(*SIMULATE, "--json").json
    assert set(found) >= {"results", "shipped", "cost"}
    assert list(found["results"]) == ["q"]
    assert {"from", "to", "tuples", "payload_bytes", "bytes"} == set(found["shipped"][0])
    assert [second for second, _ in found["cost"]][:3] == [0, 1, 2]
    assert found == thalweg(*SIMULATE, "--json").json
    assert found["shipped"] != thalweg(*SIMULATE, "--json", "--seed", "5").json["shipped"]


def test_readers_see_a_table_and_a_plot(folder, thalweg):
    (folder / "changes.yaml").write_text("- {at: 1, stream: s1, rate: 100}\n")
    shown = thalweg(*SIMULATE, "--changes", "changes.yaml", "--plot", "p.svg")
    assert shown.status == 0
    assert "between sites" in shown.out
    assert "a stream changes" in (folder / "p.svg").read_text()


def test_rates_are_simulated_where_there_are_too_many_tuples(folder, thalweg):
    shown = thalweg(*SIMULATE[:4], "--seconds", "50000", "--json")
    assert shown.json["how"] == "flows"
    assert shown.err.startswith("thalweg: too many tuples")


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--seconds", "0"), "--seconds can't be 0"),
        (("--plot", "p.gif"), "a picture can't be .gif"),
        (("--changes", "none.yaml"), "there is no file 'none.yaml'"),
        (("--plan", "plan.json"), "--plan can't be combined with planning options"),
    ],
)
def test_wrong_input_is_named(folder, thalweg, more, said):
    result = thalweg(*SIMULATE, *more)
    assert result.status == 2
    assert said in result.err
    assert result.err.count("\n") == 1
