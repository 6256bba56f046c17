"""integrated.txt: exhaustive search, the hierarchy of clusters, and planning on it."""

import math
import random
from itertools import pairwise, product

import numpy as np
import pytest

from tests.planners.examples import catalog, links, query, stream
from thalweg.catalog.model import Link, Links
from thalweg.cost.network import Network
from thalweg.cost.objectives import MODELS
from thalweg.cost.price import price
from thalweg.errors import UserError
from thalweg.plan.options import Objective, PlanOptions
from thalweg.planners import bottom_up, exhaustive, npc, optimal, top_down
from thalweg.planners.exhaustive import covers, histories, lemma1, plans
from thalweg.planners.search.hierarchy import Hierarchy, beta
from thalweg.planners.search.problem import NotApplicableError
from thalweg.planners.table import Session, planner

HEURISTICS = (top_down, bottom_up, npc)
OBJECTIVES = ("bytes", "usage", "dollars", "time")


def network(rng, sites, *, directed, sparse):
    """Links both ways, so that each site can be reached from each; if directed, each way at its own cost."""

    def link():
        return Link(
            latency_ms=rng.choice([0, 1, 5, rng.uniform(1, 100)]),
            mbps=rng.choice([None, 0.1, 1, 10]),
            usd_per_gb=rng.choice([0, 0.01, rng.random()]),
        )

    pairs = {}

    def connect(a, b):
        pairs[a, b] = link()
        pairs[b, a] = link() if directed else pairs[a, b]

    for i in range(1, len(sites)):
        connect(sites[i], sites[rng.randrange(i)])
    for a, b in product(sites, sites):
        if a < b and rng.random() < (2 / len(sites) if sparse else 0.6):
            connect(a, b)
    return Links(default=None if sparse else link(), pairs=pairs)


def problem(
    rng, streams, sites, objective, *, directed=False, sparse=True, twice=False, deliver=False, **settings
):
    """A random query; with `twice` its first stream is also its last."""
    names = [f"n{i}" for i in range(sites)]
    known = catalog(
        [
            stream(
                f"s{i}",
                rng.choice(names),
                {"a": "long", "b": "long", "c": "string"},
                rate=rng.choice([1, 10, 100, rng.uniform(0, 1000)]),
                distinct={"a": rng.choice([1, 10, 1000]), "b": rng.choice([1, 10, 1000])},
                bytes=rng.choice([10, 100]),
            )
            for i in range(streams - twice)
        ],
        sites=names,
        links=network(rng, names, directed=directed, sparse=sparse),
    )
    read = [f"s{i}" for i in range(streams - twice)] + ["s0"] * twice
    inputs = ", ".join(f"{s} [RANGE {rng.choice([1, 10])} SECONDS] AS x{i}" for i, s in enumerate(read))
    equal = " AND ".join(
        f"x{i}.{c} = x{rng.randrange(i)}.{c}" for i in range(1, streams) for c in rng.choice("ab")
    )
    where = f" WHERE {equal}" if equal else ""
    options = PlanOptions("optimal", Objective(objective), rng.choice(names) if deliver else None, settings)
    session = Session(known, options)
    return session.problem(query(f"SELECT x0.a FROM {inputs}{where}", known))


def real(problem, found):
    return price(found.deployment, problem.network, problem.model)


def same(a, b):
    return math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-12)


def at_least(a, b):
    return a >= b * (1 - 1e-9) - 1e-12


def coin(rng):
    return rng.random() < 0.5


# Exhaustive search


def test_the_papers_numbers():
    assert f"{lemma1(5, 64):.2e}" == "3.02e+09"
    assert f"{lemma1(5, 128):.2e}" == "4.83e+10"  # 4.2: nearly three hours
    assert lemma1(4, 57) == pytest.approx(3.3e6, rel=0.02)  # 4.2.1
    assert beta(1.5, 100, 1000, 4) == pytest.approx(0.0015)  # 3.2.1


@pytest.mark.parametrize("count", range(1, 7))
def test_histories_are_as_many_as_lemma_1_says(count):
    found = list(histories(count))
    assert len(found) == len(set(found)) == lemma1(count, 1)


def test_plans_with_reuse_are_those_of_all_covers():
    offered = {0b0011, 0b0110, 0b1111, 0b0001}
    by_hand = sum(lemma1(len(parts), 7) for parts in covers(0b1111, offered))
    assert plans(0b1111, offered, 7) == by_hand
    assert plans(0b11111, (), 9) == lemma1(5, 9)


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("seed", range(40))
def test_optimal_is_what_exhaustive_search_finds(objective, seed):
    rng = random.Random(f"{objective} {seed}")
    streams = rng.randint(2, 4)
    sites = rng.randint(2, 6 if streams < 4 else 5)
    flags = {"directed": coin(rng), "sparse": coin(rng), "twice": rng.random() < 0.4, "deliver": coin(rng)}
    width = {"width": "equal"} if coin(rng) else {}
    one = problem(rng, streams, sites, objective, **flags, **width, max_cs=str(rng.choice([2, 3, 8])))
    every, best = exhaustive.plan(one), optimal.plan(one)
    assert every.searched == lemma1(streams, sites)
    assert same(real(one, every), real(one, best))
    for heuristic in HEURISTICS:
        assert at_least(real(one, heuristic.plan(one)), real(one, best))


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("seed", range(4))
def test_optimal_is_what_exhaustive_search_finds_with_reuse(objective, seed):
    rng = random.Random(f"reuse {objective} {seed}")
    names = [f"n{i}" for i in range(4)]
    known = catalog(
        [
            stream(f"s{i}", rng.choice(names), {"a": "long"}, rate=rng.uniform(1, 100), distinct={"a": 50.0})
            for i in range(4)
        ],
        sites=names,
        links=network(rng, names, directed=True, sparse=True),
    )
    settings = {"max_cs": "2"}
    session = Session(
        known, PlanOptions("optimal", Objective(objective), rng.choice([None, *names]), settings)
    )
    for number in range(4):
        read = rng.sample(list(known.streams), rng.randint(2, 4))
        inputs = ", ".join(f"{s} [RANGE 1 SECOND]" for s in read)
        equal = " AND ".join(f"{a}.a = {read[0]}.a" for a in read[1:])
        asked = query(f"SELECT {read[0]}.a FROM {inputs} WHERE {equal}", known, name=f"q{number}")
        one = session.problem(asked)
        best = real(one, optimal.plan(one))
        assert same(real(one, exhaustive.plan(one)), best)
        for heuristic in HEURISTICS:
            assert at_least(real(one, heuristic.plan(one)), best)
        session.deploy(asked, planner("optimal"))


@pytest.mark.parametrize("module", [exhaustive, optimal, *HEURISTICS])
def test_a_query_that_runs_already_is_had_for_nothing(module):
    known = catalog(
        [stream(f"s{i}", f"n{i}", {"a": "long"}, rate=10, distinct={"a": 10.0}) for i in range(3)],
        sites=[f"n{i}" for i in range(7)],
    )
    session = Session(known, PlanOptions("optimal", Objective.USAGE, "n1", {"max_cs": "2"}))
    sql = (
        "SELECT s0.a FROM s0 [RANGE 1 SECOND], s1 [RANGE 1 SECOND], s2 [RANGE 1 SECOND] "
        "WHERE s0.a = s1.a AND s1.a = s2.a"
    )
    session.deploy(query(sql, known, name="q1"), planner("optimal"))
    again = session.problem(query(sql, known, name="q2"))
    found = module.plan(again)
    assert "reuse" in {o.kind for o in found.deployment.operators}
    assert real(again, found) == 0


def test_exhaustive_refuses_what_takes_too_long():
    one = problem(random.Random(1), 4, 150, "usage")
    with pytest.raises(NotApplicableError, match=f"{lemma1(4, 150):,} plans.*optimal"):
        exhaustive.plan(one)


def test_streams_that_cannot_meet_are_refused():
    known = catalog(
        [stream(f"s{i}", f"n{i}", {"a": "long"}, rate=10) for i in range(2)],
        sites=["n0", "n1", "n2"],
        links=Links(default=None, pairs={("n2", "n0"): Link(), ("n2", "n1"): Link()}),
    )
    session = Session(known, PlanOptions("optimal", Objective.USAGE))
    sql = "SELECT s0.a FROM s0 [RANGE 1 SECOND], s1 [RANGE 1 SECOND] WHERE s0.a = s1.a"
    with pytest.raises(UserError, match="no path by which streams at n1 could meet those at n0"):
        session.problem(query(sql, known))


# The hierarchy


def theorem_cases(name, count, most_sites=40, objectives=OBJECTIVES):
    for seed in range(count):
        rng = random.Random(f"{name} {seed}")
        max_cs = rng.choice([2, 3, 4, 8])
        one = problem(
            rng,
            rng.randint(2, 5),
            rng.randint(1, most_sites),
            rng.choice(objectives),
            directed=coin(rng),
            sparse=rng.random() < 0.7,
            deliver=coin(rng),
            max_cs=str(max_cs),
        )
        yield one, max_cs, Hierarchy.of(one, max_cs)


def test_clusters_are_small_and_stand_for_every_site():
    for one, max_cs, hierarchy in theorem_cases("clusters", 40, most_sites=100):
        sites = list(range(len(one.network.sites)))
        at = sites
        for level, here in enumerate(hierarchy.levels, start=1):
            assert max(map(len, here.clusters)) <= max_cs
            assert sorted(s for c in here.clusters for s in c.tolist()) == sorted(at)
            for site in sites:
                assert hierarchy.representative(level, site) in hierarchy.cluster(level, site)
            for cluster, coordinator in zip(here.clusters, here.coordinators, strict=True):
                assert coordinator in cluster
            at = list(here.coordinators)
        assert len(hierarchy.levels[-1].clusters) == 1
        assert hierarchy.visible(hierarchy.height, 0) == len(sites)


def test_near_sites_go_together():
    names = [f"{group}{i}" for group in "abcd" for i in range(5)]
    far = {(a, b): (1 if a[0] == b[0] else 100, None, 0.0) for a, b in product(names, names) if a < b}
    known = catalog(
        [stream("s0", "a0", {"a": "long"}), stream("s1", "d4", {"a": "long"})], sites=names, links=links(far)
    )
    sql = "SELECT s0.a FROM s0 [RANGE 1 SECOND], s1 [RANGE 1 SECOND] WHERE s0.a = s1.a"
    for objective in ("usage", "bytes"):  # in bytes all are equally far apart: there latency decides
        session = Session(known, PlanOptions("optimal", Objective(objective)))
        hierarchy = Hierarchy.of(session.problem(query(sql, known)), 5)
        groups = {frozenset(names[s][0] for s in c) for c in hierarchy.levels[0].clusters}
        assert groups == {frozenset(g) for g in "abcd"}
        assert hierarchy.height == 2


def test_the_papers_number_of_clusters():
    rng = random.Random("128 nodes")
    one = problem(rng, 2, 128, "usage")
    for max_cs, top in ((16, 10), (32, 5), (64, 3)):  # 4.2.1: five, and three, at the top
        hierarchy = Hierarchy.of(one, max_cs)
        assert (hierarchy.height, len(hierarchy.levels[0].clusters)) == (2, top)


def test_a_hierarchy_is_built_once_and_always_the_same():
    one = problem(random.Random("again"), 3, 60, "usage")
    first = Hierarchy.of(one, 8)
    assert Hierarchy.of(one, 8).levels is first.levels
    again = Hierarchy.of(problem(random.Random("again"), 3, 60, "usage"), 8)
    assert again.levels is not first.levels
    for a, b in zip(first.levels, again.levels, strict=True):
        assert np.array_equal(a.representative, b.representative)


def test_theorem_1_bounds_what_an_estimate_leaves_out():
    for one, _, hierarchy in theorem_cases("theorem 1", 40):
        some = range(0, len(one.network.sites), 3)
        for level in range(1, hierarchy.height + 1):
            left_out = sum(2 * hierarchy.d(i) for i in range(1, level))
            for a, b in product(some, some):
                assert at_least(hierarchy.estimated(level, a, b) + left_out, one.network.cost(a, b, 1.0))


# Planning on it


def test_theorems_2_and_4_bound_the_search():
    # With the true height; there is no such theorem for npc, which may search a level and then wait.
    for one, max_cs, hierarchy in theorem_cases("theorem 2", 80):
        sites, streams = len(one.network.sites), len(one.at)
        most = beta(hierarchy.height, max_cs, sites, streams) * lemma1(streams, sites)
        for heuristic in (top_down, bottom_up):
            assert heuristic.plan(one).searched <= most * (1 + 1e-9)


def test_theorem_3_bounds_the_cost_of_top_down():
    # The paper's proof bounds the error on the chosen tree only, not that on the optimal one, which was
    # estimated too. The bound as it is stated has held in thousands of random cases, with much to spare.
    for one, _, hierarchy in theorem_cases("theorem 3", 80, objectives=("bytes", "usage", "dollars")):
        found = top_down.plan(one)
        shipped = sum(edge.bytes_per_s for edge in found.deployment.edges)
        more = shipped * sum(2 * hierarchy.d(i) for i in range(1, hierarchy.height))
        best = real(one, optimal.plan(one))
        assert at_least(best + more, real(one, found))
        for heuristic in HEURISTICS:
            assert at_least(real(one, heuristic.plan(one)), best)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_with_one_cluster_all_find_the_optimum(objective):
    for seed in range(5):
        rng = random.Random(f"one cluster {objective} {seed}")
        one = problem(rng, rng.randint(2, 4), rng.randint(1, 8), objective, directed=True, deliver=coin(rng))
        best = real(one, optimal.plan(one))
        for heuristic in HEURISTICS:
            found = heuristic.plan(one)
            assert same(real(one, found), best)
            assert found.searched == lemma1(len(one.at), len(one.network.sites))


@pytest.mark.parametrize("module", [exhaustive, *HEURISTICS])
def test_all_streams_at_the_only_site(module):
    one = problem(random.Random("one"), 4, 1, "usage", deliver=True, max_cs="2")
    found = module.plan(one)
    assert real(one, found) == 0
    assert {o.site for o in found.deployment.operators} == {"n0"}


def line(*at, deliver_to, objective="usage", rates=(10, 10, 10), **settings):
    """Streams at places on a line of sites; sites one apart cost 1 each, those of different tens 100."""
    names = [f"n{p}" for p in range(40)]
    steps = {(a, b): (100 if i % 10 == 9 else 1, None, 0.0) for i, (a, b) in enumerate(pairwise(names))}
    known = catalog(
        [
            stream(f"s{i}", f"n{p}", {"a": "long"}, rate=r, distinct={"a": 1000.0})
            for i, (p, r) in enumerate(zip(at, rates, strict=False))
        ],
        sites=names,
        links=links(steps, default=None),
    )
    inputs = ", ".join(f"{s} [RANGE 10 SECONDS]" for s in known.streams)
    equal = " AND ".join(f"s{i}.a = s0.a" for i in range(1, len(at)))
    options = PlanOptions("optimal", Objective(objective), deliver_to, settings)
    return Session(known, options).problem(query(f"SELECT s0.a FROM {inputs} WHERE {equal}", known))


def joins(found):
    return [(set(o.streams), o.site) for o in found.deployment.operators if o.kind == "join"]


def test_bottom_up_joins_first_what_the_sinks_cluster_has():
    # s2 is far away; the streams near the sink are joined within its cluster, and only then with s2.
    one = line(11, 13, 35, deliver_to="n12", max_cs="10")
    (first, near), (last, _) = joins(bottom_up.plan(one))
    assert first == {"s0", "s1"} and near in {f"n{i}" for i in range(10, 20)}
    assert last == {"s0", "s1", "s2"}
    assert real(one, top_down.plan(one)) <= real(one, bottom_up.plan(one))


def test_npc_waits_where_a_remote_stream_is_large():
    # 3.3.2: the remote stream is much larger than the query's results. All is left to the top level.
    one = line(11, 13, 35, deliver_to="n12", rates=(10, 10, 10_000), max_cs="10")
    late = npc.plan(one)
    assert late.searched == top_down.plan(one).searched > bottom_up.plan(one).searched
    assert same(real(one, late), real(one, top_down.plan(one)))


def test_npc_joins_at_once_where_results_are_larger_than_what_is_missing():
    one = line(11, 13, 35, deliver_to="n12", rates=(1000, 1000, 1), max_cs="10", width="equal")
    now, early = npc.plan(one), bottom_up.plan(one)
    assert (now.deployment, now.searched) == (early.deployment, early.searched)
    # That is the join order which 3.3.2 warns of.
    assert real(one, now) > 2 * real(one, top_down.plan(one))


def test_bottom_up_makes_no_cross_product_that_it_need_not_make():
    known = catalog(
        [stream(f"s{i}", f"n{p}", {"a": "long", "b": "long"}, rate=1) for i, p in enumerate((0, 1, 9))],
        sites=[f"n{i}" for i in range(10)],
        links=links({(f"n{i}", f"n{i + 1}"): (50 if i == 4 else 1, None, 0.0) for i in range(9)}),
    )
    sql = (
        "SELECT s0.a FROM s0 [RANGE 1 SECOND], s1 [RANGE 1 SECOND], s2 [RANGE 1 SECOND] "
        "WHERE s0.a = s2.a AND s1.b = s2.b"
    )
    session = Session(known, PlanOptions("optimal", Objective.USAGE, "n0", {"max_cs": "5"}))
    for heuristic in (bottom_up, npc):
        found = heuristic.plan(session.problem(query(sql, known)))
        assert all(o.on for o in found.deployment.operators if o.kind == "join")


def test_max_cs_is_a_number_from_2_on():
    for text in ("1", "many"):
        with pytest.raises(UserError, match="max_cs"):
            top_down.plan(problem(random.Random(1), 2, 3, "usage", max_cs=text))


@pytest.mark.parametrize("objective", ("usage", "time"))
def test_a_large_sparse_network(objective):
    one = problem(random.Random("large"), 5, 2100, objective, directed=True, deliver=True)
    hierarchy = Hierarchy.of(one, 32)
    assert hierarchy.height == 3
    assert max(len(c) for here in hierarchy.levels for c in here.clusters) <= 32
    best = real(one, optimal.plan(one))
    for heuristic in HEURISTICS:
        assert at_least(real(one, heuristic.plan(one)), best)


def test_links_of_little_cost_are_links():
    # A thousandth of a dollar for a gigabyte is 3.6e-9 dollars an hour for a byte a second.
    pairs = {("n0", "n1"): (1, None, 0.001), ("n1", "n2"): (1, None, 0.0), ("n0", "n2"): (1, None, 5.0)}
    known = catalog([], sites=["n0", "n1", "n2"], links=links(pairs, default=None))
    assert Network.of(known, MODELS["dollars"]).cost(0, 2, 1.0) == pytest.approx(3.6e-9)
