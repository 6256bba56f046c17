"""adaptive examples 1 to 3: the node operator sets of a three-way join; comparing plans of all families."""

import random
from itertools import permutations

import pytest

from tests.adapt.cases import Case
from tests.planners.examples import catalog, pmjoin_1, query, random_sequences, stream
from thalweg.errors import UserError
from thalweg.plan.node_operators import Change, Join, Make, Move, Ship, Update, compare, node_operators
from thalweg.plan.one_way import METHODS
from thalweg.plan.options import Objective, PlanOptions
from thalweg.planners.search.sequences import Step, deploy
from thalweg.planners.search.tree import Join as TreeJoin
from thalweg.planners.search.tree import Leaf
from thalweg.planners.search.tree import deploy as deploy_tree
from thalweg.planners.table import PLANNERS, Session

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


def strings(found):
    return {str(o) for o in found}


def test_example_3_compared(problem):
    found = compare(deployed(problem, EXAMPLE_1), deployed(problem, EXAMPLE_3))
    assert strings(found["n1"].start) == {"join(s1, s3)", "update(s3)", "ship(s1*s3^s1, n2)"}
    assert strings(found["n1"].stop) == set()  # S1 goes to N2 all the same, for S2's sequence
    assert found["n1"].moves == (Move("s3", "n3"),)
    assert strings(found["n2"].start) == {"join(s1*s3^s1, s2)", "ship(s1*s2*s3^s1, n0)"}
    assert strings(found["n2"].stop) == {"join(s1, s2)", "ship(s1*s2^s1, n3)"}
    assert {"update(s1)", "update(s2)"} < strings(found["n2"].stay)
    assert found["n2"].moves == ()
    assert strings(found["n3"].start) == {"ship(s3, n1)"}
    assert strings(found["n3"].stop) == {"join(s1*s2^s1, s3)", "ship(s1*s2*s3^s1, n0)"}
    assert found["n0"] == Change(frozenset(), frozenset(), frozenset(), ())
    assert [site for site, change in found.items() if change.affected] == ["n1", "n2", "n3"]


def test_windows_come_from_where_their_stream_arises_if_it_keeps_them(problem):
    before = deployed(problem, {1: ([2, 3], [1, 1]), 2: ([1, 3], [0, 1]), 3: ([2, 1], [1, 1])})
    after = deployed(problem, {1: ([2, 3], [0, 1]), 2: ([1, 3], [1, 1]), 3: ([1, 2], [0, 0])})
    found = compare(before, after)
    assert found["n1"].moves == (Move("s2", "n2"),)  # s1 is at n1 before as well
    assert found["n3"].moves == (Move("s1", "n1"), Move("s2", "n2"))


def test_results_of_other_streams_have_other_names(problem):
    """In both plans N3 does join(S^1_2, S_3), once with S4 joined before and once without."""
    columns = {"j": "long"}
    known = catalog([stream(f"s{i}", f"n{i}", columns, rate=10, distinct={"j": 5}) for i in range(1, 5)])
    froms = ", ".join(f"s{i} [RANGE 10 SECONDS]" for i in range(1, 5))
    asked = query(f"SELECT s1.j FROM {froms} WHERE s1.j = s2.j AND s2.j = s3.j AND s3.j = s4.j", known)
    four = Session(known, PlanOptions("linear-greedy", Objective.BYTES)).problem(asked)
    rest = {i: ([j for j in range(1, 5) if j != i], [1, 1, 1]) for i in range(2, 5)}
    before = deployed(four, {**rest, 1: ([2, 3, 4], [1, 1, 1])})
    after = deployed(four, {**rest, 1: ([4, 2, 3], [1, 1, 1])})
    assert "join(s2^s1, s3)" in shown(before, "n3", "s1") & shown(after, "n3", "s1")
    found = compare(before, after)["n3"]
    assert "join(s1*s2^s1, s3)" in strings(found.stop)
    assert "join(s1*s2*s4^s1, s3)" in strings(found.start)


def test_the_name_of_a_join_does_not_matter(problem):
    """join1 is s1 with s2 in one plan, and s2 with s3 in the other."""
    n2, n3 = (problem.network.number[n] for n in ("n2", "n3"))
    one = deploy_tree(problem, TreeJoin((TreeJoin((Leaf(0), Leaf(1)), n2), Leaf(2)), n3))
    other = deploy_tree(problem, TreeJoin((Leaf(0), TreeJoin((Leaf(1), Leaf(2)), n2)), n3))
    found = compare(one, other)
    assert found["n2"].stay == {Update("s2")}
    assert found["n2"].moves == (Move("s3", "n3"),)
    assert found["n3"].moves == (Move("s1", "n2"), Move("s2*s3", None))
    assert Ship("s1*s2*s3", "n0") in found["n3"].stay


def test_a_reduced_window_is_not_the_window(problem):
    rest = {1: (Step(0, "SP-D"), Step(2, "SP-D")), 2: (Step(1, "SP-D"), Step(0, "SP-D"))}
    before = deploy(problem, {**rest, 0: (Step(1, "SM-S1"), Step(2, "SP-D"))})
    after = deploy(problem, {**rest, 0: (Step(1, "SP-S"), Step(2, "SP-D"))})
    assert compare(before, after)["n1"].moves == (Move("s2", "n2"),)


def test_parts_of_the_key_space():
    sql, known = pmjoin_1()
    three, two = (
        Session(known, PlanOptions("pmjoin", Objective.BYTES, None, {"partitions": n})).problem(
            query(sql, known)
        )
        for n in ("3", "2")
    )
    plan = next(p for p in PLANNERS if p.name == "pmjoin").plan
    before, after = plan(three).deployment, plan(two).deployment
    made = {o for o in node_operators(before, "n1") if isinstance(o, Make)}
    assert {o.kind for o in made} == {"split"}
    assert len(made) == 3
    for site, change in compare(before, after).items():
        for move in change.moves:  # a part that was none before is computed from others
            assert move.origin != site
            assert (move.origin is None) or "[" in move.stream


def families(seed):
    """Plans of all families for one query."""
    case, rng = Case(seed, 4), random.Random(seed)
    found = []
    for one in PLANNERS:
        problem = case.problem()
        try:
            found.append(one.plan(problem).deployment)
        except UserError:
            continue
    problem = case.problem()
    found += [random_sequences(problem, rng, lambda: rng.choice(METHODS)) for _ in range(2)]
    return found, set(problem.query.aliases)


@pytest.mark.parametrize("seed", range(8))
def test_any_two_plans(seed):
    plans, aliases = families(seed)
    assert len(plans) > 8
    for before, after in permutations(plans, 2):
        changes, back = compare(before, after), compare(after, before)
        kept = {
            (site, o.stream)
            for site, change in changes.items()
            for o in change.stop | change.stay
            if isinstance(o, Update)
        }
        for site, change in changes.items():
            assert change.start == back[site].stop
            assert change.stay == back[site].stay
            assert not change.start & change.stop
            new = {o.stream for o in change.start if isinstance(o, Update)}
            assert [m.stream for m in change.moves] == sorted(new)
            for move in change.moves:
                assert (site, move.stream) not in kept
                assert move.origin is None or (move.origin, move.stream) in kept
                if move.stream in aliases and not any(o.kind == "split" for o in before.operators):
                    assert move.origin is not None
    for plan in plans:
        assert not any(change.affected for change in compare(plan, plan).values())
