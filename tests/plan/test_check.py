"""A plan gives each result once, or is refused; damaged plans are refused before anything runs."""

import json
import random

import pytest

from tests.planners.examples import catalog, pmjoin_1, query, stream
from tests.simulate.sites_cases import (
    Case,
    by_planner,
    by_sequences,
    catalog_of,
    compiled,
    drive,
    expected,
    found,
    rows_of,
    sql_of,
)
from thalweg.errors import UserError
from thalweg.plan.document import Plan, PlannedQuery
from thalweg.plan.one_way import METHODS
from thalweg.plan.operators import Filter
from thalweg.plan.options import PlanOptions
from thalweg.planners.table import make_plan

SQL, KNOWN = pmjoin_1()
ASKED = query(SQL, KNOWN)


def changed(planner, change, **settings):
    """The document of a plan after a change to its operators, by id, and its edges; checked for a run."""
    plan = make_plan([ASKED], KNOWN, PlanOptions(planner, settings=settings))
    document = json.loads(json.dumps(plan.document()))
    deployment = document["queries"][0]["deployment"]
    change({o["id"]: o for o in deployment["operators"]}, deployment)
    return document


def check(document, tmp_path, asked=ASKED, known=KNOWN):
    (tmp_path / "plan.json").write_text(json.dumps(document))
    plan = Plan.load(tmp_path / "plan.json")
    plan.check_is_of([asked], "plan.json")
    plan.check_fits(known, "plan.json")
    return plan


def splits(operators, source):
    return [o for o in operators.values() if o["kind"] == "split" and o["inputs"] == [source]]


def overlap(operators, _):
    for source in ("s1", "s2", "s3"):
        first, second, *_rest = splits(operators, source)
        same = {k: first[k] for k in ("values", "buckets", "ranges", "others") if k in first}
        second.pop("others", None)
        second.update(same)


def lose_a_part(operators, _):
    for source in ("s1", "s2", "s3"):
        *_, last = splits(operators, source)
        if "ranges" in last:
            last["ranges"][-1][1] = "zzz"
        elif "buckets" in last:
            last["of"] += 1
            for other in splits(operators, source):
                other["of"] = last["of"]
        else:
            next(o for o in splits(operators, source) if o.pop("others", None))


@pytest.mark.parametrize("partitioner", ["hash", "range", "rate"])
@pytest.mark.parametrize(("change", "what"), [(overlap, "overlap"), (lose_a_part, "leave a gap")])
def test_parts_that_overlap_or_leave_a_gap_are_refused(tmp_path, partitioner, change, what):
    document = changed("pmjoin", change, partitions="3", partitioner=partitioner)
    with pytest.raises(UserError, match=rf"plan\.json: the plan does not compute its queries: .* {what}"):
        check(document, tmp_path)


def drop_a_result(operators, deployment):
    sink = next(o for o in operators.values() if o["kind"] == "sink" and len(o["inputs"]) > 1)
    lost = sink["inputs"].pop()
    deployment["edges"] = [e for e in deployment["edges"] if (e["from"], e["to"]) != (lost, sink["id"])]


def other_key(operators, _):
    splits(operators, "s1")[0]["key"] = "`s1`.`ts`"


def other_streams(operators, _):
    next(o for o in operators.values() if o["kind"] == "join")["streams"].pop()


@pytest.mark.parametrize(
    ("planner", "settings", "change", "what"),
    [
        ("pmjoin", {"partitions": "3", "partitioner": "hash", "deliver": "n1"}, drop_a_result, "leave a gap"),
        ("pmjoin", {"partitions": "3"}, other_key, "is not a key of the query"),
        ("linear-optimal", {"deliver": "n1"}, drop_a_result, "not those of all heads"),
        ("optimal", {}, other_streams, "does not join"),
    ],
)
def test_results_that_are_not_the_whole_query_are_refused(tmp_path, planner, settings, change, what):
    settings = dict(settings)
    options = PlanOptions(planner, deliver_to=settings.pop("deliver", None), settings=settings)
    document = json.loads(json.dumps(make_plan([ASKED], KNOWN, options).document()))
    deployment = document["queries"][0]["deployment"]
    change({o["id"]: o for o in deployment["operators"]}, deployment)
    with pytest.raises(UserError, match=what):
        check(document, tmp_path)


@pytest.mark.parametrize("objective", ["", "speed"])
def test_an_objective_that_does_not_exist_is_refused(tmp_path, objective):
    document = changed("optimal", lambda *_: None)
    document["objective"] = objective
    with pytest.raises(UserError, match="objective"):
        check(document, tmp_path)


def leaves(value, path=()):
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, one in items:
            yield from leaves(one, (*path, key))
    yield path, value


def mutated(document, rng):
    """The document with one value replaced by another one of it, or by an odd number, or left out."""
    document = json.loads(json.dumps(document))
    deployment = document["queries"][0]["deployment"]
    every = [(p, v) for p, v in leaves(deployment) if p]
    path, value = rng.choice(every)
    holder = deployment
    for key in path[:-1]:
        holder = holder[key]
    like = [v for _, v in every if type(v) is type(value) and v != value]
    choice = rng.random()
    if choice < 0.15:
        del holder[path[-1]]
    elif choice < 0.3 or not like:
        holder[path[-1]] = rng.choice([0, -1, 1e308, 5e-324, 2**70, None, "", "x", True, [], {}])
    else:
        holder[path[-1]] = json.loads(json.dumps(rng.choice(like)))
    return document


CASE = Case(seed=4, windows=("RANGE 20 MILLISECONDS",) * 3, tuples=15)


PLANS = {
    "optimal": by_planner("optimal", CASE),
    **{how: by_planner("pmjoin", CASE, partitions="3", partitioner=how) for how in ("hash", "range", "rate")},
    **{method: by_sequences(1, [method]) for method in METHODS},
}


@pytest.mark.parametrize("name", PLANS)
def test_a_damaged_plan_is_refused_or_gives_the_same_results(name, tmp_path):
    damage(name, tmp_path, 40)


@pytest.mark.long
@pytest.mark.parametrize("name", PLANS)
def test_many_damaged_plans(name, tmp_path):
    damage(name, tmp_path, 300)


def damage(name, tmp_path, times):
    known = catalog_of(CASE)
    asked = query(sql_of(CASE), known)
    entry = PlannedQuery(asked.name, asked.text, "p", 0.0, 0.0, 1, 0.0, (), PLANS[name](asked, known))
    document = Plan("bytes", (entry,)).document()
    check(json.loads(json.dumps(document)), tmp_path, asked, known)
    rng = random.Random(f"{name} {times}")
    for _ in range(times):
        damaged = mutated(document, rng)
        try:
            plan = check(damaged, tmp_path, asked, known)
            made = compiled(CASE, known, [(asked, plan.queries[0].deployment)])
        except UserError:
            continue
        host, batches = drive(CASE, made, rows_of(CASE), crashes=0.0)
        assert found(CASE, asked, host, made.results[0].same) == expected(CASE, asked, batches), damaged


def test_a_key_may_hold_an_equals_sign():
    """A plan that the planner has made passes, also where a reused join lacks such an equality."""
    columns = dict.fromkeys(("x", "y", "id"), "long")
    known = catalog([stream("a", "n0", columns), stream("b", "n1", columns)], sites=["n0", "n1"])
    froms = "FROM a [RANGE 5 SECONDS], b [RANGE 5 SECONDS] WHERE a.x = b.x"
    sqls = {
        "p": f"SELECT a.id AS i, b.id AS j {froms}",
        "q": f"SELECT a.id AS i, b.id AS j {froms} AND (a.y = 1) = (b.y = 1)",
    }
    asked = [query(sql, known, name) for name, sql in sqls.items()]
    made = make_plan(asked, known, PlanOptions("optimal"))
    assert any(isinstance(o, Filter) for o in made.queries[1].deployment.operators)
    made.check_is_of(asked, "plan.json")
