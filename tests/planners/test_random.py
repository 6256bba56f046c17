"""Random catalogs, networks and queries through every planner: what must hold for all of them."""

import json
import math
import random

import pytest

from tests.planners.examples import catalog, query, stream
from thalweg.catalog.model import Link, Links
from thalweg.cost.price import price
from thalweg.errors import UserError
from thalweg.plan.check import check_deployments
from thalweg.plan.deployment import Deployment
from thalweg.plan.options import Objective, PlanOptions
from thalweg.planners.search.reprice import repriced
from thalweg.planners.table import PLANNERS, Session, planner

COLUMNS = {"k": "long", "x": "long", "v": "long", "w": "string"}
WINDOWS = ["[RANGE 10 SECONDS]"] * 4 + ["[RANGE 5 SECONDS]", "[RANGE 0 SECONDS]", "[ROWS 5]", "[UNBOUNDED]"]
WINDOWS += ["[TUMBLE 10 SECONDS]", "[PARTITION BY k ROWS 1]", "[PARTITION BY v, x ROWS 2]"]
FILTERS = ["k = 1", "k IN (1, 2)", "v > 3", "v > 5", "v BETWEEN 4 AND 6", "w = 'b'", "v > 3 OR {}.v < 0"]
TREES = ("local", "simple", "streamjoinopt", "top-down", "bottom-up", "npc")


def link(rng):
    return Link(
        latency_ms=rng.choice([0, 1, 5, 50]),
        mbps=rng.choice([None, 1, 10]),
        usd_per_gb=rng.choice([0, 0.01, 0.1]),
    )


def network(rng, sites):
    """A full mesh, a default with exceptions, or a sparse network, some links one way only."""
    kind = rng.randrange(4)
    if kind == 0:
        return Links()
    if kind == 1:
        chosen = [(a, b) for a in sites for b in sites if a != b and rng.random() < 0.3]
        return Links(default=link(rng), pairs={p: link(rng) for p in chosen})
    pairs = {}
    for i in range(1, len(sites)):
        a, b = sites[rng.randrange(i)], sites[i]
        pairs[a, b] = link(rng)
        if kind == 2 or rng.random() < 0.6:
            pairs[b, a] = link(rng)
    return Links(default=None, pairs=pairs)


def streams(rng, sites):
    for n in range(rng.randint(1, 4)):
        stats = {}
        if rng.random() < 0.8:
            stats["rate"] = rng.choice([0, 0.5, 10, 1000])
        if rng.random() < 0.5:
            stats["distinct"] = {c: float(rng.choice([1, 3, 100])) for c in "kxv"}
        if rng.random() < 0.3:
            stats["bytes"] = rng.choice([0, 1, 40])
        if rng.random() < 0.3:
            stats["widths"] = {"k": 8, "v": 2}
        if rng.random() < 0.4:
            stats["rates"] = {"k": {v: rng.choice([0, 0.1, 5]) for v in rng.sample(range(1, 6), 3)}}
        yield stream(f"s{n}", rng.choice(sites), COLUMNS, **stats)


def sql(rng, names):
    aliases = [f"a{i}" for i in range(rng.randint(2, 4))]
    chosen = [f"{rng.choice(names)} {rng.choice(WINDOWS)} {a}" for a in aliases]
    conditions = []
    for i in range(1, len(aliases)):
        column = rng.choice("kkkx")
        ends = (aliases[i], rng.choice(aliases[:i]))
        sides = [f"{a}.{column}" if rng.random() < 0.8 else f"abs({a}.x)" for a in ends]
        conditions.append(" = ".join(sides))
    if rng.random() < 0.3:
        conditions.append(f"{aliases[0]}.v < {aliases[-1]}.v")
    conditions += [f"({a}.{rng.choice(FILTERS).format(a)})" for a in aliases if rng.random() < 0.3]
    columns = [
        f"{a}.{rng.choice('vwk')} AS c{i}" for i, a in enumerate(aliases) if not i or rng.random() < 0.6
    ]
    return f"SELECT {', '.join(columns)} FROM {', '.join(chosen)} WHERE {' AND '.join(conditions)}"


def below(one, other):
    return one < other * (1 - 1e-7) - 1e-9


def check_plan(found, problem):
    """A plan's own truths; its price."""
    deployment = found.deployment
    before = [(r.query, r.deployment) for r in problem.deployed.running.values()]
    check_deployments([*before, (problem.query, deployment)])
    read_back = Deployment.from_json(json.loads(json.dumps(deployment.to_json())))
    assert read_back == deployment
    assert deployment.explain()
    sinks = {o.id for o in deployment.operators if o.kind == "sink"}
    if not any(o.kind == "reuse" for o in deployment.operators):
        arriving = sum(e.tuples_per_s for e in deployment.edges if e.target in sinks)
        assert arriving == pytest.approx(problem.rates.flow(problem.rates.all).rate, rel=1e-6, abs=1e-9)
        check_repriced(deployment, repriced(problem, deployment))
    return price(deployment, problem.network, problem.model)


def check_repriced(before, after):
    """By the same statistics, a plan costs the same again."""
    assert [(e.source, e.target, e.carries) for e in after.edges] == [
        (e.source, e.target, e.carries) for e in before.edges
    ]
    for one in ("tuples_per_s", "bytes_per_s"):
        flows = [[getattr(e, one) for e in d.edges] for d in (before, after)]
        assert flows[1] == pytest.approx(flows[0], rel=1e-6, abs=1e-9)
    work = [[o.work_s for o in d.operators] for d in (before, after)]
    assert work[1] == pytest.approx(work[0], rel=1e-6, abs=1e-9)


def check(seed, queries):
    rng = random.Random(seed)
    sites = [f"n{i}" for i in range(rng.randint(1, 5))]
    made = list(streams(rng, sites))
    names = [s.name for s in made]
    joins = [(f"{a}.k", f"{b}.k", rng.choice([0, 0.001, 0.5, 1])) for a in names for b in names if a < b]
    known = catalog(made, sites, rng.sample(joins, len(joins) // 3), network(rng, sites))
    objective, target = rng.choice(list(Objective)), rng.choice([None, None, *sites])
    settings = {"width": "equal"} if rng.random() < 0.2 else {}
    parts = {"partitions": rng.choice(["1", "3", "16"]), "partitioner": rng.choice(["hash", "range", "rate"])}
    session = Session(known, PlanOptions("auto", objective, target, settings))
    for n in range(queries):
        asked = query(sql(rng, names), known, f"q{n}")
        try:
            session.problem(asked)
        except UserError:  # no path between its streams
            return
        costs = {}
        for one in PLANNERS:
            own = parts if one.family == "partitioned" else {"max_cs": "2"} if one.name in TREES[3:] else {}
            options = PlanOptions(one.name, objective, target, {**settings, **own})
            problem = Session(known, options, session.deployed).problem(asked)
            try:
                found = one.plan(problem)
            except UserError:
                continue
            cost = check_plan(found, problem)
            if math.isfinite(cost):  # a heuristic may ship where no path leads, which is refused later
                costs[one.name] = cost
        assert not [t for t in TREES if t in costs and below(costs[t], costs["optimal"])]
        if "exhaustive" in costs:
            assert costs["optimal"] == pytest.approx(costs["exhaustive"], rel=1e-6, abs=1e-9)
        if "linear-optimal" in costs:
            assert costs["linear-optimal"] == pytest.approx(costs["semijoin-exhaustive"], rel=1e-6, abs=1e-9)
            greedy = [costs.get(g, math.inf) for g in ("linear-greedy", "semijoin-greedy")]
            assert not any(below(g, costs["linear-optimal"]) for g in greedy)
        if "pmjoin" in costs:
            assert not below(costs["pmjoin"], costs["pmjoin-optimal"])
        assert costs["auto"] >= 0
        session.deploy(asked, planner(rng.choice(["optimal", "top-down", "auto"])))


@pytest.mark.parametrize("seed", range(40))
def test_one_query(seed):
    check(seed, 1)


@pytest.mark.parametrize("seed", range(100, 115))
def test_several_queries(seed):
    check(seed, 4)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1000, 1150))
def test_many(seed):
    check(seed, 1 + seed % 4)
