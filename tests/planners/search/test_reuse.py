"""What later queries use of earlier ones: supersets, filters after, widening, and what that costs."""

import itertools
import random

import pytest

from tests.planners.examples import catalog, links, query, stream
from thalweg.cost.objectives import MODELS
from thalweg.cost.price import price
from thalweg.plan.deployment import Deployment
from thalweg.plan.options import Objective, PlanOptions
from thalweg.planners.table import Session, make_plan, planner
from thalweg.query.implied import implied, united

COLUMNS = {"k": "long", "v": "long", "w": "string"}


@pytest.fixture
def airport():
    """flights and checkins at two sites close to each other, displays far away."""
    return catalog(
        [
            stream("flights", "n1", COLUMNS, rate=1000, distinct={"k": 100000.0, "v": 50.0}),
            stream("checkins", "n2", COLUMNS, rate=1000, distinct={"k": 100000.0, "v": 50.0}),
            stream("weather", "n3", COLUMNS, rate=100, distinct={"k": 100.0, "v": 50.0}),
        ],
        sites=("n4", "n5"),
        links=links(
            {
                ("n1", "n2"): (1, 10, 1),
                ("n2", "n3"): (20, 10, 1),
                ("n3", "n4"): (50, 1, 1),
                ("n4", "n5"): (1, 1, 1),
            }
        ),
    )


W = "[RANGE 10 SECONDS]"


def deploy(known, *texts, planner_="optimal", objective="usage", target="n5"):
    queries = [query(sql, known, f"q{i}") for i, sql in enumerate(texts)]
    return make_plan(queries, known, PlanOptions(planner_, Objective(objective), target, {}))


def both(select="f.v, c.v AS x", window=W, more=""):
    return f"SELECT {select} FROM flights {window} f, checkins {window} c WHERE f.k = c.k{more}"


def kinds(planned):
    return sorted(o.kind for o in planned.deployment.operators if o.kind not in ("source", "sink"))


def test_the_same_query_again_costs_nothing(airport):
    plan = deploy(airport, both(), both())
    assert plan.queries[1].marginal_cost == 0
    assert plan.queries[1].cost == pytest.approx(plan.queries[0].cost)
    assert kinds(plan.queries[1]) == ["reuse"]
    assert plan.total == plan.queries[0].cost


def test_other_aliases_and_sides_are_the_same(airport):
    again = f"SELECT x.v AS x, a.v FROM checkins {W} x, flights {W} a WHERE x.k = a.k"
    assert deploy(airport, both(), again).queries[1].marginal_cost == 0


def test_a_narrower_filter_is_applied_after(airport):
    plan = deploy(airport, both(more=" AND f.v > 3"), both(more=" AND f.v > 5"))
    assert kinds(plan.queries[1]) == ["filter", "reuse"]
    assert plan.queries[1].marginal_cost == 0


def test_a_narrower_window_needs_the_times(airport):
    narrow = "[RANGE 5 SECONDS]"
    plan = deploy(airport, both("f.v, c.v AS x, f.ts, c.ts AS t"), both("f.v, c.v AS x", narrow))
    assert kinds(plan.queries[1]) == ["filter", "reuse"]
    plan = deploy(airport, both(), both("f.v, c.v AS x", narrow))
    reused = [o for o in plan.queries[1].deployment.operators if o.kind == "reuse"]
    assert not reused or reused[0].columns_added or len(reused[0].streams) == 1


def test_a_wider_window_or_filter_is_not_there(airport):
    for first, second in (
        (both(window="[RANGE 5 SECONDS]"), both()),
        (both(window="[ROWS 5]"), both(window="[ROWS 4]")),
    ):
        again = deploy(airport, first, second).queries[1]
        joined = [o for o in again.deployment.operators if o.kind == "reuse" and len(o.streams) > 1]
        assert joined == []


def test_a_column_that_was_left_out_is_added_upstream(airport):
    plan = deploy(airport, both("f.v"), both("f.v, f.w, c.w AS x"))
    added = plan.queries[1]
    (reused,) = (o for o in added.deployment.operators if o.kind == "reuse")
    assert reused.columns_added == {"flights": ("w",), "checkins": ("w",)}
    assert 0 < added.marginal_cost < deploy(airport, both("f.v, f.w, c.w AS x")).total


def test_a_filter_is_widened_where_that_is_cheaper(airport):
    plan = deploy(airport, both(more=" AND f.v = 3"), both(more=" AND f.v = 4"))
    assert "widen" in kinds(plan.queries[1])
    assert plan.queries[1].marginal_cost < deploy(airport, both(more=" AND f.v = 4")).total * (1 + 1e-9)


def test_what_was_widened_stays_wide(airport):
    plan = deploy(airport, both("f.v"), both("f.v, f.w"), both("f.w"))
    assert plan.queries[2].marginal_cost == pytest.approx(0)


def test_base_streams_are_reused_where_they_were_shipped(airport):
    wide = f"SELECT f.v FROM flights {W} f, checkins {W} c, weather {W} w WHERE f.k = c.k AND c.v = w.v"
    plan = deploy(airport, wide, both())
    assert plan.total <= plan.queries[0].cost + deploy(airport, both()).total


def test_a_stream_under_two_aliases(airport):
    sql = f"SELECT a.v, b.v AS x FROM flights {W} a, flights {W} b WHERE a.k = b.k"
    once, _ = deploy(airport, sql, target="n1"), None
    assert once.total == 0
    first = f"SELECT a.v FROM flights {W} a, checkins {W} b WHERE a.k = b.k"
    for name in ("optimal", "exhaustive", "top-down", "bottom-up", "npc"):
        plan = deploy(airport, first, sql, planner_=name)
        assert plan.queries[1].marginal_cost <= deploy(airport, sql, planner_=name).total * (1 + 1e-9)


TREES = ["optimal", "exhaustive", "top-down", "bottom-up", "npc"]


def random_workload(seed, count=6):
    random_ = random.Random(seed)
    names = ["flights", "checkins", "weather", "baggage"]
    sites = [f"n{i}" for i in range(6)]
    known = catalog(
        [
            stream(
                n,
                random_.choice(sites),
                COLUMNS,
                rate=random_.randint(1, 100),
                distinct={"k": random_.choice([5.0, 500.0])},
            )
            for n in names
        ],
        sites=sites,
        links=links(
            {(sites[random_.randrange(i)], sites[i]): (random_.randint(1, 50), 10, 1) for i in range(1, 6)}
            | {tuple(random_.sample(sites, 2)): (random_.randint(1, 50), 10, 1) for _ in range(3)}
        ),
    )
    texts = []
    for _ in range(count):
        chosen = random_.sample(names, random_.randint(2, 4))
        aliases = [f"{n} [RANGE {random_.choice([5, 10])} SECONDS] {n[0]}" for n in chosen]
        equal = [f"{a[0]}.k = {b[0]}.k" for a, b in itertools.pairwise(chosen)]
        filters = [f"{n[0]}.v > {random_.choice([3, 5])}" for n in chosen if random_.random() < 0.4]
        columns = ", ".join(f"{n[0]}.{random_.choice('vw')} AS {n}" for n in chosen)
        texts.append(f"SELECT {columns} FROM {', '.join(aliases)} WHERE {' AND '.join(equal + filters)}")
    return known, texts


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("objective", ["usage", "bytes", "time"])
def test_workloads(seed, objective):
    """Each query costs at most what it would alone, exact planners agree, and the sums are right."""
    known, texts = random_workload(seed)
    target = f"n{seed % 6}"
    totals = {}
    for name in TREES:
        plan = deploy(known, *texts, planner_=name, objective=objective, target=target)
        totals[name] = plan.total
        model = MODELS[objective]
        session = Session(known, PlanOptions(name, Objective(objective), target, {}))
        for q, sql in zip(plan.queries, texts, strict=True):
            assert Deployment.from_json(q.deployment.to_json()) == q.deployment
            assert q.marginal_cost == pytest.approx(price(q.deployment, session.network, model))
            assert q.marginal_cost <= q.cost * (1 + 1e-9) + 1e-12
            if name == "optimal":
                alone = deploy(known, sql, planner_=name, objective=objective, target=target).total
                assert q.marginal_cost <= alone * (1 + 1e-9)
        assert plan.total == pytest.approx(sum(q.marginal_cost for q in plan.queries))


@pytest.mark.parametrize("seed", range(10))
def test_optimal_is_exact_given_what_is_deployed(seed):
    known, texts = random_workload(seed, count=4)
    options = PlanOptions("optimal", Objective.USAGE, "n0", {})
    session = Session(known, options)
    for i, sql in enumerate(texts):
        asked = query(sql, known, f"q{i}")
        problem = session.problem(asked)
        model = MODELS["usage"]
        exact, enumerated = (planner(n).plan(problem) for n in ("optimal", "exhaustive"))
        assert price(exact.deployment, session.network, model) == pytest.approx(
            price(enumerated.deployment, session.network, model)
        )
        session.deploy(asked, planner("optimal"))


def test_a_filter_that_is_widened_by_a_hundred_queries_stays_readable():
    """Each of them is one more side of an OR. Nested sides were too deep for the parser after 70 queries."""
    filters = frozenset(["`f`.`v` = 0"])
    for n in range(1, 100):
        filters = united(filters, frozenset([f"`f`.`v` = {n}"]))
    (widened,) = filters
    assert implied(["`f`.`v` = 99"], widened)
    assert not implied(["`f`.`v` = 100"], widened)


def test_a_widened_filter_keeps_the_sides_of_an_or_together():
    """Unbracketed, `v = 1 AND w = 2 OR w = 3` passed more than its query asked for."""
    (widened,) = united(frozenset(["v = 0"]), frozenset(["v = 1", "w = 2 OR w = 3"]))
    assert implied(["v = 1", "w = 3"], widened)
    assert not implied(["v = 5", "w = 3"], widened)
