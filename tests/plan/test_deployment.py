import json
from dataclasses import replace

import pytest

from thalweg.errors import UserError
from thalweg.plan.deployment import Deployment, Edge
from thalweg.plan.operators import Filter, Join, Sink, Source

SOURCES = (
    Source("a", "n1", stream="s1", filters=("`a`.`x` > 1",)),
    Source("b", "n2", stream="s2"),
)
JOIN = Join("j", "n1", ("a", "b"), streams=("a", "b"), on=({"a": ("`a`.`k`",), "b": ("`b`.`k`",)},))
SINK = Sink("out", "n1", ("j",), query="q")
EDGES = (
    Edge("a", "j", "n1", "n1", ("a",), 1.5, 12.0),
    Edge("b", "j", "n2", "n1", ("b",), 0.1, 1 / 3),
    Edge("j", "out", "n1", "n1", ("a", "b"), 1e-9, 1e12),
)
PLAN = Deployment((*SOURCES, JOIN, SINK), EDGES)


def test_json_round_trip_is_exact():
    text = json.dumps(PLAN.to_json())
    assert Deployment.from_json(json.loads(text)) == PLAN
    assert json.loads(text)["edges"][1] == {
        "from": "b",
        "to": "j",
        "from_site": "n2",
        "to_site": "n1",
        "streams": ["b"],
        "tuples_per_s": 0.1,
        "bytes_per_s": 1 / 3,
    }


def test_explain_shows_what_flows_on_each_edge():
    assert PLAN.explain().splitlines() == [
        "out: sink at n1 (query q)",
        "  <- j: 1e-09 tuples/s, 1e+12 bytes/s",
        "  j: join at n1 (streams a, b, on a: `a`.`k`; b: `b`.`k`)",
        "    <- a: 1.5 tuples/s, 12 bytes/s",
        "    a: source at n1 (stream s1, filters `a`.`x` > 1)",
        "    <- b, n2 to n1: 0.1 tuples/s, 0.333333 bytes/s",
        "    b: source at n2 (stream s2)",
    ]


@pytest.mark.parametrize(
    ("operators", "edges", "message"),
    [
        ((*SOURCES, SOURCES[0]), (), "same id"),
        ((Sink("x", "n1", ("y",), query="q"),), (), "y, which does not exist"),
        ((replace(JOIN, streams=("a", "c")), *SOURCES), (), "operator j names stream c"),
        ((*SOURCES, JOIN), (replace(EDGES[0], streams=("z",)), EDGES[1]), "a -> j carries stream z"),
        ((*SOURCES, JOIN), EDGES[:1], "b -> j"),
        ((*SOURCES, JOIN), (*EDGES[:2], EDGES[1]), "b -> j"),
        ((*SOURCES, JOIN), EDGES, "j -> out"),
        ((*SOURCES, JOIN), (EDGES[0], Edge("b", "j", "n1", "n1", ("b",), 1, 1)), "sites"),
        (
            (Filter("x", "n", ("y",), filters=()), Filter("y", "n", ("x",), filters=())),
            (Edge("x", "y", "n", "n", (), 1, 1), Edge("y", "x", "n", "n", (), 1, 1)),
            "circle",
        ),
    ],
)
def test_a_deployment_that_does_not_hang_together_can_not_be_built(operators, edges, message):
    with pytest.raises(ValueError, match=message):
        Deployment(tuple(operators), tuple(edges))


@pytest.mark.parametrize("rate", [-1.0, float("nan"), float("inf")])
def test_rates_are_rates(rate):
    with pytest.raises(ValueError, match="not a rate"):
        Edge("a", "b", "n", "n", ("a",), rate, 0.0)


def damaged(**changes):
    data = PLAN.to_json()
    data.update(changes)
    return data


@pytest.mark.parametrize(
    "data",
    [
        None,
        [],
        "text",
        {},
        {"operators": []},
        damaged(newer=1),
        damaged(operators={}),
        damaged(operators=[1]),
        damaged(operators=[{"id": "a"}]),
        damaged(operators=[{"id": 3, "kind": "source", "site": "n", "inputs": [], "stream": "s"}]),
        damaged(edges=[]),
        damaged(edges=[{**PLAN.to_json()["edges"][0], "bytes_per_s": "many"}]),
        damaged(edges=[{**PLAN.to_json()["edges"][0], "colour": "red"}]),
    ],
)
def test_foreign_damaged_and_newer_json_is_refused(data):
    with pytest.raises(UserError, match=r"plan\.json: this is not a deployment"):
        Deployment.from_json(data, where="plan.json")
