"""The linear family: greedy and exact sequences of one-way joins, on random small problems."""

import random
from itertools import permutations, product

import pytest

from tests.planners.examples import catalog, links, pmjoin_1, query, stream
from thalweg.catalog.model import Costs, Link, Links
from thalweg.cost.methods import at_source
from thalweg.cost.price import price
from thalweg.plan.deployment import Deployment
from thalweg.plan.one_way import METHODS
from thalweg.plan.options import Objective, PlanOptions
from thalweg.planners import linear_greedy, linear_optimal, semijoin_exhaustive, semijoin_greedy
from thalweg.planners.linear_greedy import SIMPLE, greedy
from thalweg.planners.linear_optimal import Family
from thalweg.planners.search.problem import NotApplicableError
from thalweg.planners.search.sequences import Step, StepCosts, additive, deploy
from thalweg.planners.table import Session

OBJECTIVES = [str(o) for o in Objective]
PLANNERS = (linear_greedy, semijoin_greedy, linear_optimal, semijoin_exhaustive)
SEEDS = range(10)


def random_problem(seed, objective, most=4):
    """2 to 4 streams, some at the same site or under two aliases, one or two attributes, any network."""
    rng = random.Random(f"{seed} {objective}")
    count = rng.randint(2, most)
    sites = [f"n{i}" for i in range(rng.randint(2, 5))]
    streams = [
        stream(
            f"s{i}",
            rng.choice(sites),
            {"k": "long", "l": "int", "p": "string"},
            rate=10 ** rng.uniform(-1, 3),
            widths={"p": rng.choice([1, 20, 500])},
            distinct={c: float(rng.choice([1, 5, 40, 300, 2000])) for c in "kl"},
        )
        for i in range(count)
    ]
    pairs = [(a, b) for i, b in enumerate(sites) for a in sites[:i]]
    if rng.random() < 0.5:  # a tree with some more links
        kept = {(rng.choice(sites[:i]), b) for i, b in enumerate(sites) if i}
        pairs = sorted(kept | {p for p in pairs if rng.random() < 0.3})
    weights = {p: (rng.uniform(0, 100), rng.choice([None, 1, 10, 1000]), rng.uniform(0, 0.1)) for p in pairs}
    known = catalog(
        streams,
        sites,
        links=links(weights)
        if rng.random() < 0.8
        else Links(default=Link(latency_ms=20, mbps=100, usd_per_gb=0.05)),
        costs=Costs(interval_s=rng.choice([0.01, 0.1, 2]), probe_s=rng.choice([0, 1e-7, 1e-4])),
    )
    names = [f"s{i}" for i in range(count)]
    if rng.random() < 0.3:
        names[-1] = "s0"
    froms = ", ".join(
        f"{s} [RANGE {rng.choice([100, 2000])} MILLISECONDS] AS a{i}" for i, s in enumerate(names)
    )
    two = rng.random() < 0.5
    on = [
        f"a{rng.randrange(i)}.{rng.choice('kl' if two else 'k')} = a{i}.{rng.choice('kl' if two else 'k')}"
        for i in range(1, count)
    ]
    if rng.random() < 0.3:
        on.append("a0.p <> a1.p")
    sql = f"SELECT a0.k, a1.p FROM {froms} WHERE {' AND '.join(on)}"
    settings = {"width": "equal"} if rng.random() < 0.1 else {}
    options = PlanOptions("-", Objective(objective), rng.choice([None, *sites]), settings)
    return Session(known, options).problem(query(sql, known))


def real(problem, deployment):
    return price(deployment, problem.network, problem.model)


@pytest.fixture(params=OBJECTIVES)
def objective(request):
    return request.param


@pytest.mark.parametrize("seed", SEEDS)
def test_dynamic_programming_finds_what_looking_at_all_finds(seed, objective):
    family = Family(random_problem(seed, objective))
    for table in family.tables:
        best, all_ = table.best(), semijoin_exhaustive._Search(table).best()
        assert family.costs.additive(table.head, best) == pytest.approx(
            family.costs.additive(table.head, all_), rel=1e-9, abs=1e-30
        )
        assert best == all_  # ties are broken alike


@pytest.mark.parametrize("seed", SEEDS)
def test_no_sequence_is_cheaper(seed, objective):
    """Against sequences that are put together and priced one by one, without a table."""
    problem = random_problem(seed, objective, most=3)
    costs, family = StepCosts(problem), Family(problem)
    streams = range(len(problem.at))
    for table in family.tables:
        others = [i for i in streams if i != table.head]
        every = [
            tuple(map(Step, order, methods))
            for order in permutations(others)
            for methods in product(METHODS, repeat=len(others))
        ]
        least = min(costs.additive(table.head, steps) for steps in every)
        assert costs.additive(table.head, table.best()) == pytest.approx(least, rel=1e-9, abs=1e-30)


@pytest.mark.parametrize("seed", SEEDS)
def test_greedy_is_never_below_the_optimum(seed, objective):
    problem = random_problem(seed, objective)
    family = Family(problem)
    least = additive(problem, {t.head: t.best() for t in family.tables})
    optimum = real(problem, linear_optimal.plan(problem).deployment)
    for methods, planner in ((SIMPLE, linear_greedy), (METHODS, semijoin_greedy)):
        plan, _ = greedy(family.costs, methods)
        assert additive(problem, plan) >= least * (1 - 1e-9)
        assert real(problem, planner.plan(problem).deployment) >= optimum * (1 - 1e-9)
        assert planner.plan(problem).deployment == deploy(problem, plan)


@pytest.mark.parametrize("seed", SEEDS)
def test_both_exact_planners_give_the_same_deployment(seed, objective):
    problem = random_problem(seed, objective)
    one, other = linear_optimal.plan(problem), semijoin_exhaustive.plan(problem)
    assert one.deployment == other.deployment
    assert one.searched > 0
    assert other.searched > 0


@pytest.mark.parametrize("seed", SEEDS)
def test_price_of_a_plan_is_that_of_its_deployment(seed, objective):
    problem = random_problem(seed, objective)
    rng = random.Random(seed)
    costs = StepCosts(problem)
    plans = [random_plan(costs, rng) for _ in range(10)]
    for plan in plans:
        found = deploy(problem, plan)
        assert costs.price(plan) == pytest.approx(real(problem, found), rel=1e-9, abs=1e-30)
        # Heads that ship the same pay once; otherwise the papers' sum is what is paid.
        assert costs.price(plan) <= additive(problem, plan) * (1 + 1e-9) + 1e-30
    for head in range(len(problem.at)):
        alone = {head: plans[0][head]}
        if len({i.stream for i in problem.query.inputs}) == len(problem.at):
            assert costs.price(alone) == pytest.approx(additive(problem, alone), rel=1e-9, abs=1e-30)


def random_plan(costs, rng):
    """Any sequences, whatever they cost."""
    plan = {}
    for head in range(len(costs.problem.at)):
        mask, place, steps = 1 << head, int(costs.place[head]), []
        while waiting := costs.nexts(mask):
            stream_ = rng.choice(waiting)
            here = place == costs.place[stream_]
            steps.append(Step(stream_, "SP-D" if here else rng.choice(METHODS)))
            place = place if at_source(steps[-1].method) else int(costs.place[stream_])
            mask |= 1 << stream_
        plan[head] = tuple(steps)
    return plan


@pytest.mark.parametrize("seed", SEEDS)
def test_deployments_survive_json(seed):
    problem = random_problem(seed, "time")
    for planner in PLANNERS:
        found = planner.plan(problem).deployment
        assert Deployment.from_json(found.to_json()) == found


@pytest.mark.parametrize("seed", SEEDS)
def test_bytes_are_those_of_the_edges_between_sites(seed):
    problem = random_problem(seed, "bytes")
    stream_of = {i.alias: i.stream for i in problem.query.inputs}
    for planner in PLANNERS:
        found = planner.plan(problem).deployment
        crossing = {}
        for e in found.edges:
            if e.source_site != e.target_site:
                key = stream_of.get(e.source, f"operator {e.source}"), e.carries, e.target_site
                crossing[key] = max(crossing.get(key, 0.0), e.bytes_per_s)
        assert real(problem, found) == pytest.approx(sum(crossing.values()), abs=1e-30)


@pytest.mark.parametrize("seed", SEEDS)
def test_results_are_complete_and_arrive(seed):
    problem = random_problem(seed, "time")
    rates = problem.rates
    for planner in PLANNERS:
        found = planner.plan(problem).deployment
        sinks = [o for o in found.operators if o.kind == "sink"]
        tops = [found.operator(i) for o in sinks for i in o.inputs]
        assert sorted(t.head for t in tops) == sorted(rates.aliases)
        assert all(set(t.streams) == set(rates.aliases) for t in tops)
        arriving = sum(found.edge(i, o.id).tuples_per_s for o in sinks for i in o.inputs)
        assert arriving == pytest.approx(rates.flow(rates.all).rate)
        if problem.deliver_to is not None:
            assert [o.site for o in sinks] == [problem.deliver_to]
        # Each step checks every equality that it is the first to see, and conditions are decided once a head.
        for head in rates.aliases:
            steps = [o for o in found.operators if o.kind == "step" and o.head == head]
            assert len(steps) == len(rates.aliases) - 1
            assert all(s.on for s in steps)
            decided = [c for s in steps for c in s.conditions]
            assert decided == [c.sql for c in problem.query.conditions]


def test_two_heads_that_ship_a_stream_to_one_site_ship_it_once():
    columns = {"k": "long", "p": "string"}
    known = catalog(
        [
            stream("s0", "n0", columns, rate=1, widths={"p": 84}, distinct={"k": 1000}),
            stream("s1", "n1", columns, rate=100, widths={"p": 84}, distinct={"k": 1000}),
            stream("s2", "n1", columns, rate=100, widths={"p": 84}, distinct={"k": 1000}),
        ]
    )
    window = "[RANGE 1 SECONDS]"
    sql = f"SELECT s0.p FROM s0 {window}, s1 {window}, s2 {window} WHERE s0.k = s1.k AND s1.k = s2.k"
    problem = Session(known, PlanOptions("-", Objective.BYTES)).problem(query(sql, known))
    plan = {
        0: (Step(1, "SP-D"), Step(2, "SP-D")),
        1: (Step(0, "SP-S"), Step(2, "SP-D")),
        2: (Step(0, "SP-S"), Step(1, "SP-D")),
    }
    assert additive(problem, plan) == 300
    assert real(problem, deploy(problem, plan)) == 100
    assert real(problem, linear_optimal.plan(problem).deployment) <= 100


def test_all_at_one_site_is_found_though_no_head_alone_would_pay_for_it():
    sql, known = pmjoin_1()
    problem = Session(known, PlanOptions("-", Objective.BYTES)).problem(query(sql, known))
    # pmjoin's cheapest site for all tuples is n1, and semijoins have nothing to save: all keys match.
    assert real(problem, linear_optimal.plan(problem).deployment) == pytest.approx(100.1)


@pytest.mark.parametrize("seed", SEEDS)
def test_no_head_can_be_planned_better_by_itself(seed, objective):
    problem = random_problem(seed, objective, most=3)
    family = Family(problem)
    plan = family.share({t.head: t.best() for t in family.tables})
    cost = family.costs.price(plan)
    assert real(problem, linear_optimal.plan(problem).deployment) == pytest.approx(cost, rel=1e-9, abs=1e-30)
    for head in plan:
        other = {**plan, head: family.tables[head].best()}
        assert family.costs.price(other) >= cost * (1 - 1e-9)


def many(count):
    columns = {"k": "long"}
    known = catalog([stream(f"s{i}", f"n{i}", columns, rate=10, distinct={"k": 50}) for i in range(count)])
    froms = ", ".join(f"s{i} [RANGE 1 SECONDS]" for i in range(count))
    on = " AND ".join(f"s{i}.k = s{i + 1}.k" for i in range(count - 1))
    return Session(known, PlanOptions("-")).problem(query(f"SELECT s0.k FROM {froms} WHERE {on}", known))


def test_too_many_streams_are_refused():
    with pytest.raises(NotApplicableError, match=r"23,592,960 sequences.*"):
        semijoin_exhaustive.plan(many(6))
    with pytest.raises(NotApplicableError, match="13 streams"):
        linear_optimal.plan(many(13))
    assert len(semijoin_greedy.plan(many(13)).deployment.operators) > 13


def test_one_way_links_may_leave_no_sequence():
    known = catalog(
        [stream(f"s{i}", f"n{i}", {"k": "long"}, rate=10, distinct={"k": 50}) for i in range(2)],
        ["n0", "n1", "hub"],
        links=Links(default=None, pairs={("n0", "hub"): Link(), ("n1", "hub"): Link()}),
    )
    sql = "SELECT s0.k FROM s0 [RANGE 1 SECONDS], s1 [RANGE 1 SECONDS] WHERE s0.k = s1.k"
    problem = Session(known, PlanOptions("-")).problem(query(sql, known))
    for planner in PLANNERS:
        with pytest.raises(NotApplicableError, match="no path"):
            planner.plan(problem)


def twins(other="k"):
    """Two aliases of one stream, each joined with a stream of its own at one site."""
    columns = {"k": "long", "l": "long"}
    known = catalog(
        [stream(f"s{i}", f"n{i and 1}", columns, rate=10, distinct={"k": 50, "l": 50}) for i in range(3)]
    )
    sql = (
        "SELECT a.k FROM s0 [RANGE 8 SECONDS] AS a, s0 [RANGE 8 SECONDS] AS b, s1 [RANGE 4 SECONDS], "
        f"s2 [RANGE {{}} SECONDS] WHERE a.k = s1.k AND b.{other} = s2.{other} AND a.l = b.l"
    )
    return lambda seconds: Session(known, PlanOptions("-")).problem(query(sql.format(seconds), known))


@pytest.mark.parametrize(("other", "seconds", "count"), [("k", 4, 1), ("k", 6, 2), ("l", 4, 2)])
def test_two_aliases_share_filters_of_the_same_columns_and_time(other, seconds, count):
    problem = twins(other)(seconds)
    plan = {0: (Step(2, "SB-S1"),), 1: (Step(3, "SB-S1"),)}
    sent = [e for e in StepCosts(problem).shipped(plan).values() if e.carries.startswith("bloom")]
    assert len(sent) == count
    assert {e.carries for e in sent} <= {f"bloom({c}) of {g} s" for c in "kl" for g in (1.0, 1.5)}


@pytest.mark.parametrize("method", METHODS)
def test_operators_say_all_that_it_takes_to_run_them(method):
    problem = many(3)
    rest = {1: (Step(0, "SP-D"), Step(2, "SP-D")), 2: (Step(1, "SP-D"), Step(0, "SP-D"))}
    found = deploy(problem, {0: (Step(1, method), Step(2, "SP-D")), **rest})
    slots = {"SM-S1": "s1^s0.reduce", "SM-D2": "s1^s0.match", "SB-S1": "s1^s0.reduce", "SB-D1": "s1.bloom(k)"}
    assert {o.id: o.interval_s for o in found.operators if getattr(o, "interval_s", None)} == (
        {slots[method]: 0.25 if method.startswith("SB") else 0.1} if method in slots else {}
    )
    on = ({a: (f"`{a}`.`k`",) for a in ("s0", "s1")},)
    for operator in found.operators:
        if operator.id.startswith("s1^s0"):
            assert (operator.head, operator.stream, operator.method) == ("s0", "s1", method)
            assert operator.on == on
        elif operator.kind == "keys":
            assert operator.key == ("`s1`.`k`",)
            assert operator.bloom is (method == "SB-D1")
            assert operator.id == ("s1.bloom(k)" if method == "SB-D1" else "s1.keys(k)")
    carried = {e.carries for e in found.edges if e.target.startswith(("s1^s0", "s1."))}
    assert ("bloom" in carried) is method.startswith("SB")


def test_heads_share_one_operator_of_filters():
    problem = many(3)
    plan = {h: (Step(1, "SB-D1"), Step(2 - h, "SP-D")) for h in (0, 2)}
    found = deploy(problem, {**plan, 1: (Step(0, "SP-D"), Step(2, "SP-D"))})
    assert [o.id for o in found.operators if o.kind == "keys"] == ["s1.bloom(k)"]
    assert sum(e.source == "s1.bloom(k)" for e in found.edges) == 2


def test_filters_are_chosen_where_they_are_cheapest():
    """A wide tuple, long keys, few matches: whoever may choose takes a filter."""
    known = catalog(
        [
            stream("s0", "n0", {"k": "string"}, rate=20, widths={"k": 200}, distinct={"k": 1000}),
            stream("s1", "n1", {"k": "string"}, rate=100, widths={"k": 200}, distinct={"k": 10_000}),
        ]
    )
    sql = "SELECT s0.k FROM s0 [RANGE 10 SECONDS], s1 [RANGE 10 SECONDS] WHERE s0.k = s1.k"
    problem = Session(known, PlanOptions("-", Objective.BYTES)).problem(query(sql, known))
    for planner in PLANNERS[1:]:
        steps = [o for o in planner.plan(problem).deployment.operators if o.kind == "step"]
        assert "SB-S1" in {o.method for o in steps}
