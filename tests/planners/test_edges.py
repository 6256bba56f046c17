"""Cases that once went wrong, or could."""

from functools import cache

import pytest

from tests.planners.examples import catalog, links, planned, query, stream
from thalweg.bench import made_up
from thalweg.catalog.model import Link, Links
from thalweg.errors import UserError
from thalweg.plan.options import Objective, PlanOptions
from thalweg.planners.table import Session, make_plan, planner
from thalweg.query.implied import implied
from thalweg.query.model import Equality, Expr, Input, Output, Query, Window, WindowKind

W = "[RANGE 10 SECONDS]"


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("v > '9'", "v > '10'"),  # another order for numbers than for strings
        ("v = '5'", "v >= '10'"),
        ("ts > '2024-1-5'", "ts > '2024-01-10'"),
        ("v = 9007199254740993", "v = 9007199254740992"),  # the same as doubles
        ("v = 9007199254740993", "v <= 9007199254740992"),
        ("v > 3", "w > 3"),
        ("v > 3", "v > 3.5"),
        ("v <= 3", "v < 3"),
        ("v IN (1, 9)", "v BETWEEN 1 AND 8"),
        ("v > 3 OR w > 3", "v > 3"),
        ("NOT v > 3", "v > 2"),
    ],
)
def test_what_is_not_implied(given, wanted):
    assert not implied([given], wanted)


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("v > 3", "v >= 3"),
        ("3 < v", "v > 2"),
        ("v = -5", "v < -4"),
        ("v BETWEEN 2 AND 3", "v <= 3"),
        ("v IN ('a', 'b')", "v IN ('b', 'a', 'c')"),
        ("v = 4", "(v = 3) OR (v = 4)"),
        ("v = 4", "(v > 3 AND v < 5) OR (w = 1)"),
    ],
)
def test_what_is_implied(given, wanted):
    assert implied([given], wanted)


def pair(**more):
    columns = {"k": "long", "v": "long", "a`b": "long", "s": "string"}
    return catalog(
        [stream(n, f"n{i}", columns, rate=10, distinct={"k": 100.0, "v": 10.0}) for i, n in enumerate("ab")],
        sites=("n0", "n1", "n2"),
        **more,
    )


def two(known, first, second, target="n2"):
    queries = [query(sql, known, f"q{i}") for i, sql in enumerate((first, second))]
    return make_plan(queries, known, PlanOptions("optimal", Objective.BYTES, target, {})).queries[1]


def reused(planned_query):
    return [o for o in planned_query.deployment.operators if o.kind == "reuse"]


def test_rows_are_not_counted_in_a_filtered_copy():
    known = pair()
    ranges = f"SELECT a.v FROM a {W}, b {W} WHERE a.k = b.k AND a.v = 3"
    rows = "SELECT a.v FROM a [ROWS 5], b [ROWS 5] WHERE a.k = b.k AND a.v = 3"
    assert "a" not in [o.operator for o in reused(two(known, ranges, rows))]


def test_a_slide_is_no_other_window():
    known = pair()
    slid = f"SELECT a.v FROM a [RANGE 10 SECONDS SLIDE 5 SECONDS], b {W} WHERE a.k = b.k"
    assert two(known, f"SELECT a.v FROM a {W}, b {W} WHERE a.k = b.k", slid).marginal_cost == 0


def test_names_that_need_quotes():
    known = pair()
    sql = f"SELECT a.v, a.`a``b` AS w FROM a {W}, b {W} WHERE a.k = b.k AND a.`a``b` > "
    assert two(known, sql + "3", sql + "5").marginal_cost == 0


def test_what_is_left_to_filter_is_sql_in_the_querys_own_names():
    known = pair()
    first = f"SELECT a.v, b.v AS w, b.k FROM a {W}, b {W} WHERE a.k = b.k"
    second = f"SELECT x.v FROM a {W} x, b {W} y WHERE x.k = y.k AND x.v = y.v AND y.k > 7"
    (after,) = (o for o in two(known, first, second).deployment.operators if o.kind == "filter")
    assert sorted(after.filters) == ["`x`.`v` = `y`.`v`", "`y`.`k` > 7"]


def test_widened_filters_are_told_apart_after():
    known = pair()
    sql = f"SELECT a.v FROM a {W}, b {W} WHERE a.k = b.k AND a.v = "
    queries = [query(sql + n, known, f"q{i}") for i, n in enumerate("343")]
    made = make_plan(queries, known, PlanOptions("optimal", Objective.BYTES, "n2", {}))
    assert made.queries[2].marginal_cost == 0


def test_equalities_of_strings_and_numbers_imply_nothing():
    """'05' = 5 and 5 = '5', but '05' is not '5'."""
    known = catalog(
        [stream(n, f"n{n}", {"k": t}, rate=10) for n, t in (("a", "string"), ("b", "long"), ("c", "string"))]
    )
    asked = query(f"SELECT a.k FROM a {W}, b {W}, c {W} WHERE a.k = b.k AND b.k = c.k", known)
    rates = Session(known, PlanOptions()).problem(asked).rates
    assert not rates.joinable(0b001, 0b100)
    assert len(rates.classes) == 2


def test_two_streams_under_two_aliases_each():
    known = catalog(
        [stream(n, f"n{n}", {"k": "long"}, rate=10, bytes=4, distinct={"k": 2.0}) for n in "ab"],
        sites=("nc", "nd"),
        links=links({("na", "nc"): (5, 1, 1), ("nb", "nc"): (7, 1, 1), ("nc", "nd"): (1, 1, 1)}),
    )
    sql = f"SELECT w.k FROM a {W} w, b {W} x, a {W} y, b {W} z WHERE w.k = x.k AND x.k = y.k AND y.k = z.k"
    for target in ("nd", None):
        costs = [planned(sql, known, p, "usage", target).cost for p in ("optimal", "exhaustive")]
        assert costs[0] == pytest.approx(costs[1])


def test_parts_fewer_values_than_parts():
    known = catalog(
        [stream(n, f"n{n}", {"k": "long"}, rate=100, bytes=1, distinct={"k": 2.0}) for n in "abc"]
    )
    sql = f"SELECT a.k FROM a {W}, b {W}, c {W} WHERE a.k = b.k AND b.k = c.k"
    whole = planned(sql, known, "streamjoinopt")
    assert planned(sql, known, "pmjoin", partitioner="hash").cost == pytest.approx(whole.cost)


def one_way():
    """Both streams reach n2 only."""
    return catalog(
        [stream("a", "n0", {"k": "long"}, rate=1), stream("b", "n1", {"k": "long"}, rate=2)],
        sites=("n0", "n1", "n2"),
        links=Links(default=None, pairs={("n0", "n2"): Link(), ("n1", "n2"): Link()}),
    )


def test_streams_that_meet_only_elsewhere():
    sql = f"SELECT a.k FROM a {W}, b {W} WHERE a.k = b.k"
    assert planned(sql, one_way(), "optimal").cost == planned(sql, one_way(), "auto").cost == 3 * 16
    for name in ("simple", "streamjoinopt", "pmjoin", "linear-greedy"):
        with pytest.raises(UserError, match=r"no path|reach"):
            planned(sql, one_way(), name)
    with pytest.raises(UserError, match="no path from the site n1 to n0"):
        planned(sql, one_way(), "auto", deliver_to="n0")


@cache
def chain(count, sites=True):
    columns = {"k": "long", "m": "long"}
    known = catalog(
        [stream(f"s{i}", f"n{i if sites else 0}", columns, rate=10, bytes=8) for i in range(count)]
    )
    inputs = tuple(Input(f"a{i}", f"s{i}", Window(WindowKind.RANGE, 1_000_000)) for i in range(count))
    equal = tuple(
        Equality(Expr.column(f"a{i}", "m"), Expr.column(f"a{i + 1}", "k")) for i in range(count - 1)
    )
    return known, Query("q", "", inputs, equal, (), (Output("k", Expr.column("a0", "k")),))


@pytest.mark.parametrize(
    "name",
    ["streamjoinopt", *(pytest.param(n, marks=pytest.mark.long) for n in ("simple", "pmjoin", "auto"))],
)
def test_a_thousand_streams(name):
    known, asked = chain(1010)
    made = Session(known, PlanOptions(name)).deploy(asked, planner(name))
    assert len(made.deployment.explain().splitlines()) > 2000


@pytest.mark.parametrize("name", ["optimal", "plan-then-deploy", "in-network", "relaxation"])
def test_many_streams_are_refused_where_they_have_too_many_splits(name):
    known, asked = made_up.catalog(20, 3, made_up.sparse(3)), made_up.one_attribute(20)
    with pytest.raises(UserError, match="20 streams have more"):
        Session(known, PlanOptions(name)).deploy(asked, planner(name))


@pytest.mark.parametrize("name", ["optimal", "plan-then-deploy", "in-network", "relaxation"])
def test_a_long_chain_has_few_splits(name):
    known, asked = chain(40)
    best = Session(known, PlanOptions("optimal")).deploy(asked, planner("optimal")).cost
    greedy = Session(known, PlanOptions("streamjoinopt")).deploy(asked, planner("streamjoinopt")).cost
    assert best <= Session(known, PlanOptions(name)).deploy(asked, planner(name)).cost * (1 + 1e-9)
    assert best <= greedy * (1 + 1e-9)


@pytest.mark.parametrize("name", ["linear-greedy", "linear-optimal", "semijoin-exhaustive", "top-down"])
def test_too_many_streams_are_refused(name):
    known, asked = chain(100)
    with pytest.raises(UserError, match=r"streams|plans|sequences"):
        Session(known, PlanOptions(name)).deploy(asked, planner(name))


def test_work_at_one_site_is_planned_too():
    known, asked = chain(4, sites=False)
    session = Session(known, PlanOptions("auto", Objective.TIME))
    best = session.deploy(asked, planner("auto")).cost
    others = ("local", "optimal", "streamjoinopt")
    assert best <= min(
        Session(known, PlanOptions(n, Objective.TIME)).deploy(asked, planner(n)).cost for n in others
    )
