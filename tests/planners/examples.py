"""The papers' examples as catalogs and queries."""

from thalweg.catalog.model import Catalog, JoinSelectivity, Link, Links, Site, Source, Stats, Stream
from thalweg.cost.methods import at_source
from thalweg.plan.options import Objective, PlanOptions
from thalweg.planners.search.sequences import Step, StepCosts, deploy
from thalweg.planners.table import make_plan
from thalweg.query import parse_over


def stream(name, site, columns, **stats):
    return Stream(
        name=name,
        site=site,
        time="ts",
        columns={"ts": "timestamp", **columns},
        source=Source(format="parquet"),
        stats=Stats(**stats),
    )


def catalog(streams, sites=(), joins=(), links=None, **more):
    """A catalog of streams, at least at their own sites."""
    names = dict.fromkeys([*sites, *(s.site for s in streams)])
    return Catalog(
        path="c.yaml",
        sites={n: Site() for n in names},
        streams={s.name: s for s in streams},
        joins=tuple(
            JoinSelectivity(left=tuple(a.split(".")), right=tuple(b.split(".")), selectivity=f)
            for a, b, f in joins
        ),
        links=links or Links(),
        **more,
    )


def query(sql, known, name="q"):
    return parse_over(known, sql, name=name)


def planned(sql, known, planner, objective="bytes", deliver_to=None, **settings):
    options = PlanOptions(planner, Objective(objective), deliver_to, settings)
    return make_plan([query(sql, known)], known, options).queries[0]


def random_sequences(problem, rng, method):
    """A deployment of probe sequences in random order; `method()` gives that of each step over a link."""
    costs = StepCosts(problem)
    plan = {}
    for head in range(len(problem.query.inputs)):
        mask, place, steps = 1 << head, costs.place[head], []
        while len(steps) + 1 < len(problem.query.inputs):
            to = rng.choice(costs.nexts(mask))
            steps.append(Step(to, method() if place != costs.place[to] else "SP-D"))
            mask |= 1 << to
            place = place if at_source(steps[-1].method) else costs.place[to]
        plan[head] = tuple(steps)
    return deploy(problem, plan)


def pmjoin_1():
    """pmjoin example 1: three routers, rates by destination (its table 1), tuples of 1 byte."""
    rates = {
        "s1": {"a": 0.1, "b": 0.1, "c": 100},
        "s2": {"a": 0.03, "b": 50, "c": 0.04},
        "s3": {"a": 50, "b": 0.01, "c": 0.02},
    }
    known = catalog(
        [
            stream(s, s.replace("s", "n"), {"dest": "string"}, bytes=1, rates={"dest": by_value})
            for s, by_value in rates.items()
        ]
    )
    window = "[RANGE 500 MILLISECONDS]"
    sql = (
        f"SELECT s1.dest FROM s1 {window}, s2 {window}, s3 {window} "
        "WHERE s1.dest = s2.dest AND s2.dest = s3.dest"
    )
    return sql, known


def pmjoin_2():
    """pmjoin example 2: five streams at three sites; to be counted with `width=equal`."""
    rates = {"s0": ("n0", 10), "s1": ("n0", 35), "s2": ("n1", 25), "s3": ("n1", 30), "s4": ("n2", 15)}
    known = catalog(
        [
            stream(s, site, dict.fromkeys("abcd", "long"), rate=rate, distinct=dict.fromkeys("abcd", 1.0))
            for s, (site, rate) in rates.items()
        ],
        joins=[
            ("s0.a", "s1.a", 0.01),
            ("s2.b", "s3.b", 0.001),
            ("s0.c", "s2.c", 0.04),
            ("s0.d", "s3.d", 0.1),
            ("s0.b", "s4.b", 0.01),
        ],
    )
    window = "[RANGE 10 SECONDS]"
    sql = (
        f"SELECT s0.a FROM s0 {window}, s1 {window}, s2 {window}, s3 {window}, s4 {window} "
        "WHERE s0.a = s1.a AND s2.b = s3.b AND s0.c = s2.c AND s0.d = s3.d AND s0.b = s4.b"
    )
    return sql, known


def links(pairs, default=None):
    """A network of two-way links: (a, b) -> (latency in ms, mbps, dollars a GB)."""
    found = {}
    for (a, b), (latency, mbps, price) in pairs.items():
        link = Link(latency_ms=latency, mbps=mbps, usd_per_gb=price)
        found[a, b] = found[b, a] = link
    return Links(default=default, pairs=found)
