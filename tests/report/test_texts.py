"""What pictures say of operators and shipments."""

from tests.report.test_map import deployed
from thalweg.plan.deployment import Edge
from thalweg.plan.operators import Keys, Reuse, Source, Split, Step
from thalweg.plan.selectors import Selector
from thalweg.report.layout import Box
from thalweg.report.texts import amount, lines_of, shipped_by


def test_what_is_said_of_operators_and_shipments():
    sources = [Source("a", "n1", stream="s", filters=("x",)), Source("b", "n3", stream="b")]
    parts = [
        Split(f"a#{i}", "n1", ("a",), key="`a`.`k`", selector=Selector(part=i, of=2, buckets=(i,)))
        for i in range(2)
    ]
    asked = {"head": "a", "stream": "b", "method": "SM-D1", "streams": ("a", "b"), "on": ()}
    step = Step("st", "n2", ("a#0", "a#1"), **asked)
    again = Reuse("r", "n2", query="old", operator="join1", streams=())
    edges = [
        *(Edge("a", p.id, "n1", "n1", ("a",), 1.0, 8.0) for p in parts),
        Edge("a#0", "st", "n1", "n2", ("a",), 1.0, 8.0),
        Edge("a#1", "st", "n1", "n2", ("a",), 1.0, 2.0, "keys"),
    ]
    keys = Keys("b.bloom(k)", "n3", ("b",), streams=("b",), key=("`b`.`k`",), bloom=True)
    edges.append(Edge("b", keys.id, "n3", "n3", ("b",), 1.0, 1.0))
    plan = deployed(*sources, *parts, step, again, keys, edges=edges)
    said = {site: [one.text for one in lines] for site, lines in lines_of(plan).items()}
    assert said == {
        "n1": ["source s as a, filtered", "split a in 2"],
        "n2": ["reuse join1 of old", "head a: b by SM-D1"],
        "n3": ["source b", "bloom b"],
    }
    (shipped,) = shipped_by(plan)
    assert shipped.size == 10.0
    assert shipped.label == ("a: 8 bytes/s", "keys of a: 2 bytes/s")
    assert amount(1500) == "1.5 kB/s"


def test_a_long_list_is_cut():
    many = [Source(f"x{i}", "n", stream=f"x{i}") for i in range(40)]
    lines = lines_of(deployed(*many))["n"]
    assert lines[-1].text == "and 29 more"
    assert Box("n", tuple(lines), named=True).half[1] < 1.5
