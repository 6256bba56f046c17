"""adaptive examples 1 to 3: the node operator sets of a three-way join."""

import pytest

from tests.planners.examples import catalog, query, stream
from thalweg.plan.node_operators import Join, Ship, Update, node_operators
from thalweg.plan.options import Objective, PlanOptions
from thalweg.planners.search.sequences import Step, deploy
from thalweg.planners.search.tree import Join as TreeJoin
from thalweg.planners.search.tree import Leaf
from thalweg.planners.search.tree import deploy as deploy_tree
from thalweg.planners.table import Session

METHOD = {0: "SP-S", 1: "SP-D"}
"""adaptive's join placements: at the source, at the destination."""

EXAMPLE_1 = {1: ([2, 3], [1, 1]), 2: ([1, 3], [0, 1]), 3: ([1, 2], [0, 0])}
EXAMPLE_3 = {**EXAMPLE_1, 1: ([3, 2], [0, 1])}


@pytest.fixture(scope="module")
def problem():
    columns = {"j": "long"}
    known = catalog(
        [stream(f"s{i}", f"n{i}", columns, rate=10, distinct={"j": 5}) for i in (1, 2, 3)], ["n0"]
    )
    window = "[RANGE 10 SECONDS]"
    sql = f"SELECT s1.j FROM s1 {window}, s2 {window}, s3 {window} WHERE s1.j = s2.j AND s2.j = s3.j"
    return Session(known, PlanOptions("linear-greedy", Objective.BYTES, "n0")).problem(query(sql, known))


def deployed(problem, seps):
    """The deployment of per-stream execution plans: for each head the order and the placements."""
    plan = {
        head - 1: tuple(Step(s - 1, METHOD[p]) for s, p in zip(order, placements, strict=True))
        for head, (order, placements) in seps.items()
    }
    return deploy(problem, plan)


def shown(deployment, site, head=None):
    return {str(o) for o in node_operators(deployment, site, head)}


def test_example_2(problem):
    found = deployed(problem, EXAMPLE_1)
    assert shown(found, "n1") == {"ship(s1, n2)", "ship(s1, n3)"}
    assert shown(found, "n2") == {
        "join(s1, s2)",
        "update(s2)",
        "ship(s2^s1, n3)",
        "update(s1)",
        "join(s2, s1)",
        "ship(s1^s2, n3)",
        "ship(s2, n3)",
    }
    assert shown(found, "n3") == {
        "join(s2^s1, s3)",  # the paper prints S^1_1, a slip for S^1_2: see its example 3
        "update(s3)",
        "ship(s3^s1, n0)",
        "join(s1^s2, s3)",
        "ship(s3^s2, n0)",
        "join(s3, s1)",
        "join(s1^s3, s2)",
        "update(s1)",
        "update(s2)",
        "ship(s2^s3, n0)",
    }
    assert shown(found, "n0") == set()


def test_each_site_has_the_union_of_its_heads(problem):
    found = deployed(problem, EXAMPLE_1)
    for site in found.sites:
        by_head = [node_operators(found, site, head) for head in ("s1", "s2", "s3")]
        assert node_operators(found, site) == frozenset().union(*by_head)
    assert shown(found, "n1", "s2") == {"ship(s1, n2)"}
    assert shown(found, "n1", "s3") == {"ship(s1, n3)"}


def test_example_3_before_and_after(problem):
    before, after = deployed(problem, EXAMPLE_1), deployed(problem, EXAMPLE_3)
    assert shown(before, "n1", "s1") == {"ship(s1, n2)"}
    assert shown(before, "n2", "s1") == {"join(s1, s2)", "update(s2)", "ship(s2^s1, n3)"}
    assert shown(before, "n3", "s1") == {"join(s2^s1, s3)", "update(s3)", "ship(s3^s1, n0)"}

    assert shown(after, "n1", "s1") == {"join(s1, s3)", "update(s3)", "ship(s3^s1, n2)"}
    assert shown(after, "n2", "s1") == {"join(s3^s1, s2)", "update(s2)", "ship(s2^s1, n0)"}
    assert shown(after, "n3", "s1") == {"ship(s3, n1)"}
    for head in ("s2", "s3"):
        for site in before.sites:
            assert node_operators(before, site, head) == node_operators(after, site, head)


def test_a_tree_of_n_way_joins(problem):
    n2, n3 = (problem.network.number[n] for n in ("n2", "n3"))
    found = deploy_tree(problem, TreeJoin((TreeJoin((Leaf(0), Leaf(1)), n2), Leaf(2)), n3))
    assert node_operators(found, "n1") == {Ship("s1", "n2")}
    assert node_operators(found, "n2") == {
        Join(("s1", "s2")),
        Update("s1"),
        Update("s2"),
        Ship("join1", "n3"),
    }
    assert node_operators(found, "n3") == {
        Join(("join1", "s3")),
        Update("join1"),
        Update("s3"),
        Ship("join2", "n0"),
    }


def test_a_semijoin_has_its_helpers(problem):
    plan = {0: (Step(1, "SM-D2"), Step(2, "SP-D")), 1: (Step(0, "SP-D"), Step(2, "SP-D"))}
    found = deploy(problem, {**plan, 2: (Step(1, "SP-D"), Step(0, "SP-D"))})
    assert shown(found, "n1", "s1") == {
        "ship(s1, n2)",
        "join(s1, s2^s1.match)",
        "update(s1)",
        "update(s2^s1.match)",
        "ship(s2^s1.reduce, n2)",
    }
    assert "ship(s2^s1.match, n1)" in shown(found, "n2", "s1")
    assert "join(s2^s1.reduce, s2)" in shown(found, "n2", "s1")


def test_filters_are_shipped_as_keys_are(problem):
    plan = {0: (Step(1, "SB-D1"), Step(2, "SP-D")), 1: (Step(0, "SP-D"), Step(2, "SP-D"))}
    found = deploy(problem, {**plan, 2: (Step(1, "SP-D"), Step(0, "SP-D"))})
    bloom = next(o.id for o in found.operators if o.kind == "keys")
    assert bloom.startswith("s2.bloom(")
    assert shown(found, "n1", "s1") == {
        f"join(s1, {bloom})",
        "update(s1)",
        f"update({bloom})",
        "ship(s2^s1.reduce, n2)",
    }
    assert f"ship({bloom}, n1)" in shown(found, "n2", "s1")
