"""Queries that share operators, where each asks for other keys: what is NULL to one is a tuple to another."""

import pytest

from tests.simulate import sites_cases
from tests.simulate.sites_cases import Case, check_several, several_of
from thalweg.catalog.model import JoinSelectivity
from thalweg.operators.spec import RelaySpec

HALF = """SELECT a.id AS w, b.id AS x, c.id AS y
FROM a [RANGE 20 MILLISECONDS], b [RANGE 20 MILLISECONDS], c [RANGE 20 MILLISECONDS]
WHERE a.y = b.x AND b.y = c.x AND a.v > 5
"""
LESS = """SELECT a.id AS w, b.id AS x
FROM a [RANGE 20 MILLISECONDS], b [RANGE 20 MILLISECONDS] WHERE a.y = b.x AND a.v > 5
"""


@pytest.mark.parametrize("queries", [{"half": HALF, "less": LESS}, {"less": LESS, "half": HALF}])
def test_a_key_of_one_query_may_be_null_in_another(queries):
    case = Case(1, shape="chain", tuples=80, nulls=0.2)
    _, planned = check_several(case, queries, "optimal")
    reused = [list(o.streams) for _, d in planned for o in d.operators if o.kind == "reuse"]
    assert ["a", "b"] in reused


W = "[RANGE 20 MILLISECONDS]"
FIRST = f"""SELECT a.id AS w, b.id AS x, d.id AS z FROM a {W}, b {W}, d {W}
WHERE a.y = b.x AND b.v = d.v AND a.v > 5
"""
SECOND = f"""SELECT a.id AS w, b.id AS x, c.id AS y, d.id AS z FROM a {W}, b {W}, c {W}, d {W}
WHERE a.y = b.x AND b.y = c.x AND b.v = d.v AND a.v > 5 AND c.v > 4
"""
THIRD = f"""SELECT a.id AS w, b.id AS x, c.id AS y FROM a {W}, b {W}, c {W}
WHERE a.y = b.x AND b.y = c.x AND a.v > 5 AND c.v > 4
"""


def test_what_one_query_has_of_another_is_used_by_a_third(monkeypatch):
    """The first two ask for a key of `b` that the third does not."""
    plain, rows = sites_cases.catalog_of, sites_cases.rows_of
    joins = (("b.v", "d.v", 0.5), ("a.y", "b.x", 0.001), ("b.y", "c.x", 0.02))
    declared = tuple(
        JoinSelectivity(left=tuple(x.split(".")), right=tuple(y.split(".")), selectivity=f)
        for x, y, f in joins
    )

    def some_null(case):
        made = rows(case)
        return {**made, "b": [{**r, "v": None if r["id"] % 3 == 0 else r["v"]} for r in made["b"]]}

    monkeypatch.setattr(sites_cases, "catalog_of", lambda c: plain(c).model_copy(update={"joins": declared}))
    monkeypatch.setattr(sites_cases, "rows_of", some_null)
    case = Case(2, shape="chain", tuples=80, nulls=0.1)
    _, planned = check_several(case, {"first": FIRST, "second": SECOND, "third": THIRD}, "optimal")
    assert [o.query for o in planned[2][1].operators if o.kind == "reuse"] == ["second"]


def test_what_was_widened_for_one_query_is_widened_for_the_next():
    """The second has a join of the first widened, but not by tuples without a key that only it joins on."""
    case = Case(7, shape="chain", tuples=60, nulls=0.15)
    _, planned = check_several(case, several_of(case, 5), "optimal")
    assert any(o.kind == "reuse" and o.filters_widened for o in planned[2][1].operators)
    assert any(o.kind == "reuse" for o in planned[3][1].operators)


def test_two_selections_of_a_stream_that_are_sent_on_from_one_site():
    case = Case(31, shape="chain", tuples=60, nulls=0.15)
    host, _ = check_several(case, several_of(case, 5), "optimal")
    relays = [p.name for p in host.program.operators if isinstance(p.spec, RelaySpec)]
    assert sorted(relays) == ["c at n1", "c at n1, 2"]


@pytest.mark.parametrize(
    "seed", [*range(3), *(pytest.param(n, marks=pytest.mark.long) for n in range(3, 40))]
)
@pytest.mark.parametrize("shape", ["chain", "star"])
def test_random_queries_with_null_keys(seed, shape):
    case = Case(seed, shape=shape, tuples=60, nulls=0.15)
    check_several(case, several_of(case, 5), "optimal")
