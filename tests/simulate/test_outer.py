"""Outer joins at several sites, in one process, against DuckDB."""

import random

import pytest

from tests.planners.examples import query
from tests.simulate.sql_cases import LONGS, check, known_of, planned_by
from thalweg.errors import UserError
from thalweg.plan.check import check_deployments
from thalweg.planners.search.problem import NotApplicableError
from thalweg.planners.table import PLANNERS

WINDOWS = (
    "[RANGE 20 MILLISECONDS]",
    "[RANGE 0 SECONDS]",
    "[TUMBLE 15 MILLISECONDS]",
    "[ROWS 3]",
    "[PARTITION BY x ROWS 1]",
    "[UNBOUNDED]",
)
STRINGS = {"x": "string", "y": "long", "id": "long"}


def sql_of(rng: random.Random) -> str:
    """A query with an inner part of one to three streams and one to three outer joins."""
    inner = rng.randint(1, 3)
    outer = rng.randint(1, 4 - inner)
    windows = [rng.choice(WINDOWS) for _ in range(4)]
    slide = rng.random() < 0.2
    if slide:
        windows[0] = "[RANGE 20 MILLISECONDS SLIDE 7 MILLISECONDS]"
    names = "abcd"[: inner + outer]
    froms = f"a {windows[0]}"
    for i in range(1, inner):
        froms += f" JOIN {names[i]} {windows[i]} ON a.x = {names[i]}.x"
    seen = list(names[:inner])
    for i in range(inner, len(names)):
        new, old = names[i], rng.choice(seen)
        kind = rng.choice(["LEFT", "LEFT", "LEFT SEMI", "LEFT ANTI"])
        on = [f"{old}.x = {new}.x"]
        if rng.random() < 0.3:
            on.append(f"{rng.choice(seen)}.y = {new}.y")
        if rng.random() < 0.3:
            on.append(f"{old}.y > 0")
        if rng.random() < 0.3:
            on.append(f"{new}.y < 3")
        if rng.random() < 0.3:
            on.append(f"{rng.choice(seen)}.ts <= {new}.ts + INTERVAL 5 MILLISECONDS")
        froms += f" {kind} JOIN {new} {windows[i]} ON {' AND '.join(on)}"
        if kind == "LEFT":
            seen.append(new)
    where = [
        *(["a.y < 3"] if rng.random() < 0.3 else []),
        *([f"{seen[-1]}.y IS NULL"] if rng.random() < 0.2 else []),
        *([f"{seen[0]}.y <= {seen[-1]}.y"] if rng.random() < 0.2 else []),
    ]
    ids = ", ".join(f"{a}.id AS {a}_id" for a in seen)
    return f"SELECT {ids}, result_time AS t FROM {froms}" + (f" WHERE {' AND '.join(where)}" if where else "")


def check_one(seed: int, name: str) -> None:
    rng = random.Random(seed)
    known = known_of([rng.randrange(3) for _ in range(4)], rng.choice([LONGS, STRINGS]))
    planned = planned_by(known, [sql_of(rng)], name)
    check_deployments(planned)
    check(known, planned, seed, nulls=rng.choice([0.0, 0.3]))


@pytest.mark.parametrize(
    "seed", [*range(30), *(pytest.param(n, marks=pytest.mark.long) for n in range(30, 300))]
)
def test_outer_joins_after_an_inner_part(seed: int) -> None:
    check_one(seed, "optimal")


TREES = [p.name for p in PLANNERS if p.family != "linear" and p.name != "local"]


@pytest.mark.parametrize("name", TREES)
def test_outer_joins_after_any_plan_of_the_inner_part(name: str) -> None:
    known = known_of([0, 1, 2, 0], popular=(0, 1, 2, 3))
    sql = (
        "SELECT a.id AS a, b.id AS b, c.id AS c, d.id AS d FROM a [RANGE 20 MILLISECONDS] "
        "JOIN b [RANGE 20 MILLISECONDS] ON a.x = b.x JOIN c [RANGE 20 MILLISECONDS] ON b.x = c.x "
        "LEFT JOIN d [RANGE 10 MILLISECONDS] ON d.y = c.y"
    )
    planned = planned_by(known, [sql], name)
    check_deployments(planned)
    check(known, planned, 3)


@pytest.mark.parametrize("kind", ["RIGHT", "FULL"])
@pytest.mark.parametrize(
    "seed", [*range(10), *(pytest.param(n, marks=pytest.mark.long) for n in range(10, 100))]
)
def test_right_and_full_joins_of_two_streams(kind: str, seed: int) -> None:
    rng = random.Random(seed)
    known = known_of([rng.randrange(3) for _ in range(2)], rng.choice([LONGS, STRINGS]))
    left, right = rng.choice(WINDOWS), rng.choice(WINDOWS)
    more = rng.choice(["", " AND a.y > 0", " AND b.y > 0", " AND a.ts < b.ts", " AND a.y = b.y"])
    where = rng.choice(["", " WHERE a.y > 1", " WHERE b.y IS NULL"])
    sql = f"SELECT a.id AS a, b.id AS b, result_time AS t FROM a {left} {kind} JOIN b {right} ON a.x = b.x"
    planned = planned_by(known, [sql + more + where], "optimal")
    check_deployments(planned)
    check(known, planned, seed, nulls=0.3)


def test_null_matches_the_null_of_a_stream_that_an_outer_join_has_left_out() -> None:
    known = known_of([0, 1, 2])
    sql = (
        "SELECT a.id AS a, b.id AS b, c.id AS c FROM a [RANGE 20 MILLISECONDS] "
        "LEFT JOIN b [RANGE 5 MILLISECONDS] ON a.y = b.y AND b.id < 12 "
        "LEFT JOIN c [RANGE 20 MILLISECONDS] ON b.x <=> c.x"
    )
    host = check(known, planned_by(known, [sql], "optimal"), 3, nulls=0.3)
    rows = [row for part in host.results[0] for row in part.to_pylist()]
    assert any(row["b.id"] is None and row["c.id"] is not None for row in rows)


@pytest.mark.parametrize(
    "on",
    [
        "coalesce(b.x, 0) = c.x",
        "CAST(coalesce(b.x, 0) AS BIGINT) <=> c.x",
        "b.x = c.x AND b.y IS NULL",
        "b.x = c.x AND b.y IS DISTINCT FROM 3",
        "hash(b.x) = c.x",
    ],
)
def test_what_has_a_value_for_null_is_no_key_of_a_stream_that_may_be_missing(on: str) -> None:
    w = "[RANGE 5 SECONDS]"
    sql = f"SELECT a.id AS a FROM a {w} LEFT JOIN b {w} ON a.x = b.x LEFT JOIN c {w} ON {on}"
    with pytest.raises(UserError, match="has a value also where b is missing"):
        query(sql, known_of([0, 0, 0]))
    query(sql.replace(" LEFT JOIN b", " JOIN b"), known_of([0, 0, 0]))


def test_a_query_reuses_the_inner_part_of_an_outer_join() -> None:
    known = known_of([0, 1, 2, 0])
    inner = "a [RANGE 20 MILLISECONDS] JOIN b [RANGE 20 MILLISECONDS] ON a.x = b.x"
    sqls = [
        f"SELECT a.id AS a, c.id AS c FROM {inner} LEFT JOIN c [RANGE 5 MILLISECONDS] ON c.y = b.y",
        f"SELECT a.id AS a, b.id AS b, d.id AS d FROM {inner} JOIN d [RANGE 5 MILLISECONDS] ON d.x = b.x",
    ]
    check(known, planned_by(known, sqls, "optimal"), 5)


def test_what_has_no_partner_waits_until_none_can_come() -> None:
    known = known_of([0, 0])
    asked = query(
        "SELECT a.id AS a, b.id AS b FROM a [RANGE 10 MILLISECONDS] LEFT JOIN b [RANGE 10 MILLISECONDS] "
        "ON a.x = b.x",
        known,
    )
    assert asked.inner == ("a",)
    assert asked.as_inner.equalities == asked.outer[0].equalities


@pytest.mark.parametrize("name", [p.name for p in PLANNERS if p.family == "linear"])
def test_probe_sequences_are_refused_before_an_outer_join(name: str) -> None:
    known = known_of([0, 1, 2])
    sql = (
        "SELECT a.id AS a, c.id AS c FROM a [RANGE 20 MILLISECONDS] JOIN b [RANGE 20 MILLISECONDS] "
        "ON a.x = b.x LEFT JOIN c [RANGE 20 MILLISECONDS] ON b.x = c.x"
    )
    with pytest.raises(NotApplicableError, match="an outer join must know"):
        planned_by(known, [sql], name)
