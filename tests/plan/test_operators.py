"""Operators check themselves, and plan files with wrong ones are refused by operator and field."""

import copy
import json

import pytest

from thalweg.errors import UserError
from thalweg.plan.deployment import Deployment, Edge
from thalweg.plan.operators import (
    Filter,
    Join,
    JoinTree,
    Keys,
    Match,
    PaperCosts,
    Reduce,
    Reuse,
    Sink,
    Source,
    Split,
    Step,
    Widen,
)
from thalweg.plan.selectors import Selector

ON = ({"a": ("`a`.`k`",), "b": ("`b`.`k`",)},)
ONE_WAY = {"head": "a", "stream": "b", "method": "SM-S2", "on": ON}
TREE = JoinTree(
    tree="(a b c)",
    because="asked for",
    work_s={"one operator": 0.5},
    mjoin=PaperCosts(says="split", store=0.25, work_s=1.0),
)
OPERATORS = (
    Source("a", "n1", stream="s1", filters=("`a`.`x` > 1",)),
    Source("b", "n1", stream="s2"),
    Widen("p.j widened", "n1", query="p", operator="j", work_s=0.5),
    Reuse(
        *("p.j", "n1", ("p.j widened",)),
        query="p",
        operator="j",
        streams=("c",),
        columns_added={"s3": ("v", "w")},
        filters_widened={"s3": ()},
    ),
    Filter("f", "n1", ("p.j",), filters=(), windows={"c": "range 5"}),
    Split("a#0", "n1", ("a",), key="`a`.`k`", selector=Selector(part=0, values=("", 1, 2.5), others=True)),
    Split("a#1", "n1", ("a",), key="`a`.`k`", selector=Selector(part=1, of=8, buckets=(0, 7))),
    Split("a#2", "n1", ("a",), key="`a`.`k`", selector=Selector(part=2, ranges=((None, 3), (5, None)))),
    Keys("b.keys", "n1", ("b",), streams=("b",), key=("`b`.`k`",), bloom=True, interval_s=0.5),
    Match("m", "n1", ("a#0", "b.keys"), **ONE_WAY, interval_s=0.5),
    Reduce("r", "n1", ("m", "b"), **ONE_WAY),
    Step("b^a", "n1", ("a#0", "r"), **ONE_WAY, streams=("a", "b"), conditions=("`a`.`v` < `b`.`v`",)),
    Join("j", "n1", ("a#1", "b", "f"), streams=("a", "b", "c"), on=ON, split=(TREE,), warning="much"),
    Join("j2", "n1", ("a#2", "b"), streams=("a", "b"), on=ON, conditions=("x",), split=(TREE, TREE)),
    Sink("out", "n1", ("b^a", "j", "j2"), query="q"),
)
PLAN = Deployment(
    OPERATORS, tuple(Edge(i, o.id, "n1", "n1", (), 1.0, 1.0) for o in OPERATORS for i in o.inputs)
)


def test_every_kind_reads_back_as_it_was():
    read = Deployment.from_json(json.loads(json.dumps(PLAN.to_json())))
    assert read == PLAN
    assert {type(o) for o in read.operators} == {type(o) for o in OPERATORS}


def test_json_has_the_keys_of_the_format():
    keys = {o.id: set(o.to_json()) - {"id", "kind", "site", "inputs"} for o in OPERATORS}
    assert keys == {
        "a": {"stream", "filters"},
        "b": {"stream"},
        "p.j widened": {"query", "operator", "work_s"},
        "p.j": {"query", "operator", "streams", "columns_added", "filters_widened"},
        "f": {"filters", "windows"},
        "a#0": {"key", "part", "values", "others"},
        "a#1": {"key", "part", "buckets", "of"},
        "a#2": {"key", "part", "ranges"},
        "b.keys": {"streams", "key", "bloom", "interval_s"},
        "m": {"head", "stream", "method", "on", "interval_s"},
        "r": {"head", "stream", "method", "on"},
        "b^a": {"head", "stream", "method", "streams", "on", "conditions"},
        "j": {"streams", "on", "split", "warning"},
        "j2": {"streams", "on", "conditions", "split"},
        "out": {"query"},
    }
    tree = {"tree": "(a b c)", "because": "asked for", "work_s": {"one operator": 0.5}}
    tree["mjoin"] = {"S": 0.25, "work_s": 1.0, "says": "split"}
    split = {o.id: o.to_json()["split"] for o in OPERATORS if isinstance(o, Join)}
    assert split == {"j": tree, "j2": [tree, tree]}


@pytest.mark.parametrize(
    ("operator", "changes", "message"),
    [
        ("a", {"kind": "sauce"}, "operator a: there is no kind 'sauce'"),
        ("a", {"kind": ["source"]}, "operator a: there is no kind"),
        ("a", {"stream": None}, "operator a: stream is not text"),
        ("a", {"stream": ""}, "operator a: stream is not text"),
        ("a", {"site": 3}, "operator a: site is not text"),
        ("a", {"filters": "x"}, "operator a: filters is not a list"),
        ("a", {"filters": [1]}, r"operator a: filters\[0\] is not text"),
        ("a", {"inputs": ["b"]}, "operator a has too many inputs for a source"),
        ("a", {"colour": "red"}, "operator a has colour"),
        ("a", {"stream": ...}, "operator a lacks stream"),
        ("a", {"work_s": float("inf")}, "operator a: work_s is not a number"),
        ("a", {"work_s": True}, "operator a: work_s is not a number"),
        ("a", {"work_s": -1}, "operator a: -1.0 seconds"),
        ("a#1", {"part": 1.5}, "operator a#1: selector: part is not a whole number"),
        ("a#1", {"buckets": [8]}, "there are 8 buckets"),
        ("a#1", {"values": ["x"]}, "by buckets, by ranges or by values"),
        ("a#2", {"ranges": [[1, 2, 3]]}, "has 3 values, not 2"),
        ("a#0", {"values": [[1]]}, r"values\[0\] is not a number"),
        ("a#0", {"values": [float("nan")]}, r"values\[0\] is not a number"),
        ("b.keys", {"bloom": 1}, "operator b.keys: bloom is not true or false"),
        ("b.keys", {"interval_s": 0}, "operator b.keys: interval_s can't be 0"),
        ("m", {"interval_s": float("nan")}, "operator m: interval_s is not a number"),
        ("m", {"interval_s": 10**400}, "operator m: interval_s is not a number"),
        ("m", {"method": "SM-X9"}, "operator m: there is no method 'SM-X9'"),
        ("b^a", {"head": "z"}, "operator b.a names stream z"),
        ("b^a", {"stream": "z"}, "operator b.a names stream z"),
        ("b^a", {"inputs": ["a#0"]}, "operator b.a has too few inputs for a step"),
        ("j", {"streams": ["a", "z"]}, "operator j names stream z"),
        ("j", {"on": [{"z": ["`z`.`k`"]}]}, "operator j names stream z"),
        ("j", {"on": {"a": ["k"]}}, "operator j: on is not a list"),
        ("j", {"split": {"tree": "t"}}, r"operator j: split\[0\] lacks because"),
        ("j", {"split": "often"}, "operator j: split is not a list"),
        ("f", {"windows": {"z": "range 5"}}, "operator f names stream z"),
        ("out", {"inputs": ["j", "j"]}, "operator out reads the same input twice"),
    ],
)
def test_a_wrong_field_is_named_with_its_operator(operator, changes, message):
    data = copy.deepcopy(PLAN.to_json())
    entry = next(o for o in data["operators"] if o["id"] == operator)
    entry.update(changes)
    for key in [k for k, v in entry.items() if v is ...]:
        del entry[key]
    with pytest.raises(UserError, match=message):
        Deployment.from_json(data)
