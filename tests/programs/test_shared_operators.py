"""Queries that share operators, where each asks for other keys: what is NULL to one is a tuple to another."""

import pytest

from .sites_cases import Case, check_several, several_of

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
    reused = [o.details["streams"] for _, d in planned for o in d.operators if o.kind == "reuse"]
    assert ["a", "b"] in reused


@pytest.mark.parametrize(
    "seed", [*range(3), *(pytest.param(n, marks=pytest.mark.long) for n in range(3, 40))]
)
@pytest.mark.parametrize("shape", ["chain", "star"])
def test_random_queries_with_null_keys(seed, shape):
    case = Case(seed, shape=shape, tuples=60, nulls=0.15)
    check_several(case, several_of(case, 5), "optimal")
