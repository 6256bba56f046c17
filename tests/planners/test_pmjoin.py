"""pmjoin's algorithms: its examples as golden numbers, and what must hold for any problem."""

import random

import pytest

from tests.planners.examples import catalog, planned, pmjoin_1, pmjoin_2, query, stream
from thalweg.errors import UserError
from thalweg.plan.deployment import Deployment
from thalweg.plan.options import Objective, PlanOptions
from thalweg.planners.table import Session


def joins(found):
    """site and inputs of every join, by its streams"""
    return {
        tuple(sorted(o.streams)): (o.site, o.inputs) for o in found.deployment.operators if o.kind == "join"
    }


def test_example_1_centralised():
    assert planned(*pmjoin_1(), "simple").cost == pytest.approx(100.1)


def test_example_1_distributed():
    found = planned(*pmjoin_1(), "streamjoinopt")
    assert found.cost == pytest.approx(54.03, abs=0.005)
    assert joins(found) == {("s2", "s3"): ("n2", ("s3", "s2")), ("s1", "s2", "s3"): ("n1", ("join1", "s1"))}


@pytest.mark.parametrize("planner", ["pmjoin", "pmjoin-optimal"])
def test_example_1_partitioned_as_in_figure_4(planner):
    found = planned(*pmjoin_1(), planner, partitions="3", partitioner="range")
    assert found.cost == pytest.approx(0.0696)
    ways = {(o.site, frozenset(o.streams)) for o in found.deployment.operators if o.kind == "join"}
    assert ways == {
        ("n1", frozenset(["s1", "s2"])), ("n3", frozenset(["s1", "s2", "s3"])),  # a: s2 to n1, then to n3
        ("n1", frozenset(["s1", "s3"])), ("n2", frozenset(["s1", "s2", "s3"])),  # b: s3 to n1, then to n2
        ("n2", frozenset(["s2", "s3"])), ("n1", frozenset(["s1", "s2", "s3"])),  # c: s3 to n2, then to n1
    }  # fmt: skip
    assert Deployment.from_json(found.deployment.to_json()) == found.deployment


def test_example_1_by_rate_finds_the_same():
    assert planned(*pmjoin_1(), "pmjoin", partitions="3").cost == pytest.approx(0.0696)


def test_example_2():
    found = planned(*pmjoin_2(), "streamjoinopt", width="equal")
    assert joins(found) == {
        ("s2", "s3"): ("n1", ("s2", "s3")),
        ("s0", "s2", "s3"): ("n1", ("s0", "join1")),
        ("s0", "s1", "s2", "s3", "s4"): ("n0", ("join2", "s4", "s1")),
    }
    assert found.cost == pytest.approx(10 + 9 + 15)


def test_example_2_with_all_local_joins():
    """S_0 with S_1 gives more than it takes, which the paper's Local variant does not look at."""
    assert ("s0", "s1") in joins(planned(*pmjoin_2(), "streamjoinopt", width="equal", local="always"))


def random_problem(seed, streams=4, sites=3, values=6, attributes=1):
    random_ = random.Random(seed)
    names = [f"s{i}" for i in range(streams)]
    columns = [f"c{i}" for i in range(attributes)]
    known = catalog(
        [
            stream(
                name,
                f"n{random_.randrange(sites)}",
                dict.fromkeys(columns, "long"),
                bytes=random_.randint(1, 20),
                rates={c: {v: random_.random() ** 4 for v in range(values)} for c in columns[:1]},
                distinct=dict.fromkeys(columns[1:], float(random_.randint(2, 50))),
            )
            for name in names
        ],
        sites=[f"n{i}" for i in range(sites)],
    )
    windows = ", ".join(f"{n} [RANGE {random_.randint(1, 20)} SECONDS]" for n in names)
    equal = " AND ".join(
        f"s{random_.randrange(i)}.{c} = s{i}.{c}"
        for i in range(1, streams)
        for c in [random_.choice(columns)]
    )
    return f"SELECT s0.c0 FROM {windows} WHERE {equal}", known


@pytest.mark.parametrize("seed", range(12))
def test_one_part_is_no_part(seed):
    sql, known = random_problem(seed)
    whole = planned(sql, known, "streamjoinopt")
    parts = planned(sql, known, "pmjoin", partitions="1")
    assert parts.cost == pytest.approx(whole.cost)
    assert parts.deployment == whole.deployment


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("partitioner", ["hash", "range", "rate"])
def test_the_exact_tree_of_each_part_is_the_cheapest(seed, partitioner):
    sql, known = random_problem(seed)
    options = {"partitions": str(seed % 5 + 1), "partitioner": partitioner}
    greedy = planned(sql, known, "pmjoin", **options)
    exact = planned(sql, known, "pmjoin-optimal", **options)
    assert exact.cost <= greedy.cost * (1 + 1e-9)
    assert exact.cost <= planned(sql, known, "optimal").cost * (1 + 1e-9)  # which uses one tree for all


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("selection", ["heuristic", "random", "alternative"])
def test_several_attributes(seed, selection):
    sql, known = random_problem(seed, streams=6, attributes=3)
    options = {"partitions": "3", "selection": selection}
    greedy = planned(sql, known, "pmjoin", **options)
    exact = planned(sql, known, "pmjoin-optimal", **options)
    assert exact.cost <= greedy.cost * (1 + 1e-9)
    for found in (greedy, exact):
        assert Deployment.from_json(found.deployment.to_json()) == found.deployment
        _results_add_up(found, query(sql, known), known)


def test_a_join_of_a_larger_query_is_partitioned():
    """Three streams on one attribute, whose result then meets a fourth on another one."""
    rates = {"s1": [0.1, 0.1, 100], "s2": [0.03, 50, 0.04], "s3": [50, 0.01, 0.02]}
    known = catalog(
        [
            *(
                stream(s, s.replace("s", "n"), {"x": "string", "y": "long"}, bytes=1,
                       rates={"x": dict(zip("abc", r, strict=True))}, distinct={"y": 1000.0})
                for s, r in rates.items()
            ),
            stream("s4", "n4", {"x": "string", "y": "long"}, bytes=1, rate=1000, distinct={"y": 1000.0}),
        ]
    )  # fmt: skip
    w = "[RANGE 500 MILLISECONDS]"
    sql = f"SELECT s1.x FROM s1 {w}, s2 {w}, s3 {w}, s4 {w} WHERE s1.x = s2.x AND s2.x = s3.x AND s3.y = s4.y"
    whole, parts = (
        planned(sql, known, "streamjoinopt"),
        planned(sql, known, "pmjoin", partitions="3", partitioner="range"),
    )
    assert whole.cost > 50
    assert parts.cost < 1.5
    assert sum(1 for o in parts.deployment.operators if o.kind == "split") == 9
    (last,) = (o for o in parts.deployment.operators if o.kind == "join" and "s4" in o.streams)
    assert (last.site, len(last.inputs)) == ("n4", 4)
    _results_add_up(parts, query(sql, known), known)


def _results_add_up(found, asked, known):
    whole = Session(known, PlanOptions("simple", Objective.BYTES, None, {})).problem(asked).rates
    arriving = sum(
        e.tuples_per_s for e in found.deployment.edges if found.deployment.operator(e.target).kind == "sink"
    )
    assert arriving == pytest.approx(whole.flow(whole.all).rate)


def test_parts_are_told_apart():
    """Every key belongs to exactly one part of a plan."""
    for partitioner in ("hash", "range", "rate"):
        found = planned(*pmjoin_1(), "pmjoin", partitions="3", partitioner=partitioner)
        of = [o.selector for o in found.deployment.operators if o.kind == "split" and o.inputs == ("s1",)]
        named = frozenset(v for s in of for v in s.values)
        for key in ("a", "b", "c", "aa", "", "zz", "42"):
            assert sum(s.matches(key, named) for s in of) == 1


def test_without_rates_by_value_parts_are_alike():
    sql, known = pmjoin_2()
    simple = "SELECT s0.a FROM s0 [RANGE 1 SECOND], s2 [RANGE 1 SECOND] WHERE s0.a = s2.a"
    found = planned(simple, known, "pmjoin", partitions="8", partitioner="range")
    assert not [o for o in found.deployment.operators if o.kind == "split"]
    assert any("all parts are alike" in a for a in found.assumed)
    assert sql


def test_settings_are_checked():
    for bad in ({"partitions": "0"}, {"partitions": "many"}, {"partitioner": "magic"}, {"selection": "best"}):
        with pytest.raises(UserError, match=next(iter(bad))):
            planned(*pmjoin_1(), "pmjoin", **bad)
