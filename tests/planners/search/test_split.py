"""Splitting N-way joins: the search is exact, the pass leaves costs alone, and says what it did and why."""

from __future__ import annotations

import json
import math
import random
from itertools import combinations

import pytest

from tests.planners.examples import catalog, query, stream
from thalweg.cost.operations import prices
from thalweg.cost.splitting import Inputs, Moment, Work, mask_in
from thalweg.errors import UserError
from thalweg.plan.document import Plan
from thalweg.plan.options import Objective, PlanOptions
from thalweg.planners.search.shapes import cheapest, cheapest_binary, depth, single
from thalweg.planners.table import PLANNERS, make_plan


def all_trees(parts):
    """Every tree over some inputs: any two or more of them meet first, and so on; each tree once or more."""
    if len(parts) == 1:
        yield parts[0]
        return
    for size in range(2, len(parts) + 1):
        for some in combinations(range(len(parts)), size):
            rest = [p for i, p in enumerate(parts) if i not in some]
            yield from all_trees([*rest, tuple(parts[i] for i in some)])


def random_work(rng, n):
    keys = [10 ** rng.uniform(2, 4) for _ in range(n)]
    rate = tuple(10 ** rng.uniform(1, 5) for _ in range(n))
    span = tuple(rng.choice([0.5, 1.0, 10.0]) for _ in range(n))

    def agree(mask):
        inside = [k for i, k in enumerate(keys) if mask >> i & 1]
        return min(inside) / math.prod(inside)

    content = tuple(r * s for r, s in zip(rate, span, strict=True))
    return Work(Inputs((Moment(rate, content),), agree, span, (2.0,) * n))


@pytest.mark.parametrize("seed", range(12))
def test_no_tree_is_cheaper_than_the_one_that_is_found(seed):
    rng = random.Random(seed)
    n = rng.choice([3, 4, 4, 5])
    work, each = random_work(rng, n), prices()
    known = {}
    for tree in all_trees(list(range(n))):
        if tree not in known:
            known[tree] = work.tree(tree).seconds(each)

    def binary(tree):
        return isinstance(tree, int) or (len(tree) == 2 and all(map(binary, tree)))

    best = cheapest(work, each)
    assert best.seconds == pytest.approx(min(known.values()))
    assert best.seconds == pytest.approx(work.tree(best.shape).seconds(each))
    least = min(seconds for tree, seconds in known.items() if binary(tree))
    assert cheapest_binary(work, each).seconds == pytest.approx(least)


@pytest.mark.parametrize("seed", range(6))
def test_no_tree_is_cheaper_when_each_level_of_joins_has_its_price(seed):
    rng = random.Random(seed)
    n = rng.choice([4, 5])
    work, each = random_work(rng, n), prices()
    one = single(work, each).seconds

    def cost(tree, level):
        return work.tree(tree).seconds(each) + level * depth(tree)

    trees = set(all_trees(list(range(n))))
    for level in (one / 100, one / 10, one / 3):
        found = cheapest(work, each, level)
        assert found.seconds == pytest.approx(work.tree(found.shape).seconds(each))
        assert cost(found.shape, level) == pytest.approx(min(cost(tree, level) for tree in trees))


def test_some_settings_are_best_split_and_some_are_not():
    def work(rate, keys):
        moment = Moment(rate, tuple(10 * r for r in rate))
        agree = lambda mask: keys / keys ** mask.bit_count()  # noqa: E731
        return Work(Inputs((moment,), agree, (10.0,) * 4, (2.0,) * 4))

    even, fast = work((2000.0,) * 4, 20_000), work((1e6, 10.0, 10.0, 10.0), 100)
    assert cheapest(even, prices()).shape == single(even, prices()).shape
    assert cheapest(fast, prices()).shape[0] == 0  # alone, and the slow ones together
    assert len(cheapest(fast, prices()).shape) == 2


def test_with_more_inputs_the_tree_is_never_dearer_than_one_operator():
    rng = random.Random(2)
    for n in (9, 11):
        work = random_work(rng, n)
        found = cheapest(work, prices())
        assert mask_in(found.shape) == (1 << n) - 1
        assert found.seconds <= single(work, prices()).seconds
        assert found.seconds == pytest.approx(work.tree(found.shape).seconds(prices()))
        binary = cheapest_binary(work, prices())
        assert mask_in(binary.shape) == (1 << n) - 1
        assert found.seconds <= binary.seconds


def equal_work(n, rate, span, keys):
    agree = lambda mask: keys / keys ** mask.bit_count()  # noqa: E731
    return Work(Inputs((Moment((rate,) * n, (rate * span,) * n),), agree, (span,) * n, (2.0,) * n))


def test_many_equal_inputs_are_joined_in_a_chain_where_that_is_cheaper():
    """No pair of nine inputs helps to be joined first, and a chain of all of them does."""
    work = equal_work(9, 1e6, 3600.0, 1000)
    assert depth(cheapest(work, prices()).shape) == 8
    assert cheapest(work, prices()).seconds < single(work, prices()).seconds


def test_work_beyond_all_numbers_is_one_operator():
    work = equal_work(4, 1e200, 10.0, 10)
    assert cheapest(work, prices()).shape == (0, 1, 2, 3)


FOUR = (
    "SELECT a.k FROM s0 [RANGE 10 SECONDS] a, s1 [RANGE 10 SECONDS] b, s2 [RANGE 10 SECONDS] c, "
    "s3 [RANGE 10 SECONDS] d WHERE a.k = b.k AND b.k = c.k AND c.k = d.k AND a.v < b.v"
)
KEYED = {"k": "long", "v": "long", "w": "long"}


def known(rates=(1000, 1000, 1000, 1000), distinct=10_000, sites=("n1",) * 4):
    """Four streams with declared statistics; without rates, with none."""
    stats = [{"rate": r, "distinct": {"k": distinct, "w": distinct}} if r else {} for r in rates]
    return catalog([stream(f"s{n}", sites[n], KEYED, **stats[n]) for n in range(4)])


def plan(sql, catalog_, planner="auto", objective="bytes", **settings):
    options = PlanOptions(planner, Objective(objective), None, settings)
    return make_plan([query(sql, catalog_)], catalog_, options)


def joins(planned):
    return {o.id: o for o in planned.queries[0].deployment.operators if o.kind == "join"}


def test_a_join_that_is_little_work_stays_one_operator_and_says_why():
    (join,) = joins(plan(FOUR, known())).values()
    assert join.inputs == ("a", "b", "c", "d")
    (split,) = join.split
    assert split.tree == "(a b c d)"
    assert "stages take" in split.because or "no tree" in split.because
    assert {"one operator", "chosen"} < set(split.work_s)
    assert set(join.to_json()["split"]["mjoin"]) == {"S", "D", "says", "work_s"}
    assert join.warning is None


def test_never_leaves_the_plan_as_it_is():
    (join,) = joins(plan(FOUR, known(), split="never")).values()
    assert not join.split


@pytest.mark.parametrize("objective", ["bytes", "time"])
def test_a_binary_tree_costs_the_same_and_is_kept(objective, tmp_path):
    whole = plan(FOUR, known(), "local", objective, split="never")
    tree = plan(FOUR, known(), "local", objective, split="binary")
    found = joins(tree)
    assert [len(o.inputs) for o in found.values()] == [2, 2, 2]
    assert tree.total == whole.total
    assert sum(o.work_s for o in found.values()) == pytest.approx(
        sum(o.work_s for o in joins(whole).values())
    )
    assert {o.site for o in found.values()} == {"n1"}
    top = found["join1"]
    assert set(top.streams) == {"a", "b", "c", "d"}
    (decided,) = [o.id for o in found.values() if o.conditions]
    assert {"a", "b"} <= set(found[decided].streams)
    edges = tree.queries[0].deployment.edges
    assert {e.target for e in edges if e.source == "join1"} == {"q"}
    tree.save(tmp_path / "plan.json")
    assert Plan.load(tmp_path / "plan.json").queries[0].deployment == tree.queries[0].deployment


def test_much_work_is_split_and_a_backlog_is_foretold():
    """A very fast stream over slow ones that it nearly always meets: one probe instead of three."""
    rates = (30_000_000, 10, 10, 10)
    planned = plan(FOUR.replace("AND a.v < b.v", ""), known(rates, distinct=100))
    found = joins(planned)
    assert len(found) > 1
    top = found["join1"]
    assert "a" in top.inputs
    (tree,) = top.split
    assert "saves" in tree.because
    work = tree.work_s
    assert work["chosen"] < work["one operator"]
    assert "a backlog grows" in top.warning


TWO = "SELECT a.k FROM s0 [RANGE 10 SECONDS] a, s1 [RANGE 10 SECONDS] b WHERE a.k = b.k"


@pytest.mark.parametrize("mode", ["auto", "never", "binary"])
@pytest.mark.parametrize("sql", [FOUR, TWO])
def test_a_backlog_is_foretold_however_a_join_is_run(mode, sql):
    slow, fast = (joins(plan(sql, known((rate, 10, 10, 10)), split=mode)) for rate in (1000, 300_000_000))
    assert not [o for o in slow.values() if o.warning]
    (warning,) = [o.warning for o in fast.values() if o.warning]
    assert "a backlog grows" in warning


def test_a_backlog_is_foretold_of_an_operator_on_several_attributes_but_not_by_what_is_assumed():
    sql = (
        "SELECT a.k FROM s0 [RANGE 1 SECOND] a, s1 [RANGE 1 SECOND] b, s2 [RANGE 1 SECOND] c "
        "WHERE a.k = b.k AND b.w = c.w"
    )
    (join,) = joins(plan(sql, known((10, 10, 300_000_000, 10)), "simple")).values()
    assert "a backlog grows" in join.warning
    (join,) = joins(plan(FOUR, known((300_000_000, 10, None, 10)))).values()
    assert join.warning is None


def test_work_that_no_number_can_tell_is_left_out():
    (join,) = joins(plan(FOUR, known((1e200, 1e200, 10, 10)))).values()
    json.dumps(join.to_json(), allow_nan=False)


def test_what_is_assumed_decides_nothing():
    (join,) = joins(plan(FOUR, known((1000, 1000, None, 1000)))).values()
    (tree,) = join.split
    assert tree.because.startswith("assumed: ")
    assert not tree.work_s
    assert len(joins(plan(FOUR, known((1000, 1000, None, 1000)), split="binary"))) == 3


def test_joins_on_several_attributes_are_split_within_each():
    sql = (
        "SELECT a.k FROM s0 [RANGE 1 SECOND] a, s1 [RANGE 1 SECOND] b, s2 [RANGE 1 SECOND] c, "
        "s3 [RANGE 1 SECOND] d WHERE a.k = b.k AND b.k = c.k AND c.w = d.w"
    )
    planned = plan(sql, known(sites=("n1", "n1", "n1", "n1")), "simple", split="binary")
    found = joins(planned)
    assert [len(o.inputs) for o in found.values()] == [2, 2, 2]
    assert found["join1"].on == ({"c": ("`c`.`w`",), "d": ("`d`.`w`",)},)


def test_only_planners_of_n_way_joins_take_the_setting():
    takes = {p.name for p in PLANNERS if "split" in p.settings}
    assert takes == {p.name for p in PLANNERS if p.family != "linear"}
    with pytest.raises(UserError, match="takes no setting 'split'"):
        plan(FOUR, known(), "linear-greedy", split="binary")
    with pytest.raises(UserError, match="never"):
        plan(FOUR, known(), split="sometimes")


def test_plans_over_sites_and_parts_are_split_where_they_join():
    spread = known(sites=("n1", "n2", "n2", "n2"))
    for planner in ("simple", "streamjoinopt", "pmjoin", "optimal", "bottom-up"):
        whole, tree = (plan(FOUR, spread, planner, split=mode) for mode in ("never", "binary"))
        assert tree.total == whole.total
        assert all(len(o.inputs) == 2 for o in joins(tree).values())
