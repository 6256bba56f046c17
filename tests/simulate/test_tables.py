"""Streams joined with tables at several sites, in one process, against DuckDB."""

import random

import pytest

from tests.planners.examples import query
from tests.simulate.sql_cases import LONGS, check, known_of, planned_by, with_table
from tests.simulate.test_outer import STRINGS, WINDOWS
from thalweg.errors import UserError
from thalweg.plan.check import check_deployments
from thalweg.planners.table import PLANNERS


def known_with_tables(sites, columns=LONGS, refreshed=()):
    known = known_of(sites[:3], columns)
    for name, site in zip("pq", sites[3:], strict=True):
        refresh = 1_000_000 if name in refreshed else None
        known = with_table(known, name, site, columns, refresh, rows=6, distinct={"x": 4.0})
    return known


def sql_of(rng: random.Random) -> str:
    """One to three streams and one or two tables."""
    streams, tables = list("abc"[: rng.randint(1, 3)]), list("pq"[: rng.randint(1, 2)])
    slide = " SLIDE 7 MILLISECONDS" if rng.random() < 0.2 else ""
    windows = {a: rng.choice(WINDOWS) for a in streams} | {"a": f"[RANGE 20 MILLISECONDS{slide}]"}
    froms, seen, where, outer = f"a {windows['a']}", ["a"], [], False
    others = streams[1:] + tables
    rng.shuffle(others)
    for new in others:
        old, last = rng.choice(seen), new == others[-1]
        on = rng.choice([f"{old}.x = {new}.x", f"{old}.x = {new}.x AND {old}.y = {new}.y"])
        kind = rng.choice(["LEFT JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN"]) if last else "JOIN"
        if last and rng.random() < 0.5:
            kind = "JOIN"
        if kind == "JOIN" and rng.random() < 0.15:
            on = f"{old}.y < {new}.y"
        froms += f" {kind} {new} {windows.get(new, '')} ON {on}"
        if kind in ("JOIN", "LEFT JOIN"):
            seen.append(new)
        outer |= kind != "JOIN"
    if rng.random() < 0.3:
        where.append(rng.choice([f"{seen[-1]}.y > 0", f"{seen[0]}.y <= {seen[-1]}.y", "a.y + 1 < 4"]))
    ids = ", ".join(f"{a}.id AS {a}_id" for a in seen)
    return f"SELECT {ids}, result_time AS t FROM {froms}" + (f" WHERE {' AND '.join(where)}" if where else "")


@pytest.mark.parametrize(
    "seed", [*range(25), *(pytest.param(n, marks=pytest.mark.long) for n in range(25, 250))]
)
def test_streams_and_tables(seed: int) -> None:
    rng = random.Random(seed)
    known = known_with_tables([rng.randrange(3) for _ in range(5)], rng.choice([LONGS, STRINGS]))
    planned = planned_by(known, [sql_of(rng)], "optimal")
    check_deployments(planned)
    check(known, planned, seed, nulls=rng.choice([0.0, 0.2]), keep=rng.random() < 0.3)


@pytest.mark.parametrize(
    "seed", [*range(25), *(pytest.param(n, marks=pytest.mark.long) for n in range(25, 250))]
)
def test_tables_that_are_refreshed(seed: int) -> None:
    rng = random.Random(seed)
    sites, columns = [rng.randrange(3) for _ in range(5)], rng.choice([LONGS, STRINGS])
    known = known_with_tables(sites, columns, refreshed=rng.choice(["p", "q", "pq"]))
    while True:
        try:
            planned = planned_by(known, [sql_of(rng)], "optimal")
            break
        except UserError as error:
            assert "is a table that is refreshed, and several streams come before it" in str(error)
    check_deployments(planned)
    check(known, planned, seed, nulls=rng.choice([0.0, 0.2]))


W = "[RANGE 20 MILLISECONDS]"
CASES = {
    "equal through a table": f"a {W}, b {W}, p WHERE a.x = p.x AND p.y = b.y",
    "one stream": "a, p WHERE a.x = p.x AND p.y > 0",
    "two tables": f"a {W}, b {W}, p, q WHERE a.x = b.x AND b.x = p.x AND q.y = p.y",
}


@pytest.mark.parametrize("refreshed", ["", "pq"])
@pytest.mark.parametrize("name", [p.name for p in PLANNERS])
@pytest.mark.parametrize("case", CASES)
def test_tables_by_any_planner(name: str, case: str, refreshed: str) -> None:
    known = known_with_tables([0, 0, 0, 0, 0] if name == "local" else [0, 1, 2, 1, 0], LONGS, refreshed)
    aliases = [a for a in "abpq" if f"{a}." in CASES[case]]
    ids = ", ".join(f"{a}.id AS {a}_id" for a in aliases)
    planned = planned_by(known, [f"SELECT {ids} FROM {CASES[case]}"], name)
    check_deployments(planned)
    check(known, planned, 7)


@pytest.mark.parametrize(
    ("froms", "says"),
    [
        (f"a {W}, p {W} WHERE a.x = p.x", "'p' is a table: its rows are alive always; leave the window out"),
        (f"a {W} ASOF JOIN p ON a.x = p.x", "'p' is a table"),
        (f"a {W} FULL JOIN p ON a.x = p.x", "FULL JOIN is for two streams; write LEFT JOIN"),
        (f"p LEFT JOIN a {W} ON a.x = p.x", "a table joins a stream; put the stream first"),
        (f"a {W} RIGHT JOIN p ON a.x = p.x", "a table joins a stream"),
        ("p JOIN q ON p.x = q.x", "a table joins a stream"),
        ("a, b, p WHERE a.x = b.x AND b.x = p.x", "the stream 'a' has no window"),
    ],
)
def test_what_a_table_can_not_do(froms: str, says: str) -> None:
    with pytest.raises(UserError) as raised:
        query(f"SELECT 1 AS one FROM {froms}", known_with_tables([0] * 5))
    assert says in str(raised.value)


def test_a_version_is_that_of_the_time_of_a_result() -> None:
    known = known_with_tables([0] * 5, refreshed="p")
    inner = query(f"SELECT a.id AS i, p.id AS j FROM a {W}, b {W}, p WHERE a.x = b.x AND b.x = p.x", known)
    assert [e.sql for e in inner.conditions] == ["`p`.`#time` <= `a`.`ts` OR `p`.`#time` <= `b`.`ts`"]
    assert [e.sql for e in inner.input("p").filters] == ["`p`.`#live`"]
    left = query(f"SELECT a.id AS i, p.id AS j FROM a {W} LEFT JOIN p ON a.x = p.x", known)
    assert [e.sql for e in left.outer[0].conditions] == ["`p`.`#time` <= `a`.`ts`"]
    every = query(f"SELECT * FROM a {W}, p WHERE a.x = p.x", known)
    assert [o.name for o in every.outputs if o.name.startswith("p_")] == ["p_x", "p_y", "p_id"]
    for froms in (
        f"a {W} JOIN b {W} ON a.x = b.x LEFT JOIN p",
        f"a {W} LEFT JOIN b {W} ON a.x = b.x LEFT JOIN p",
    ):
        with pytest.raises(
            UserError, match="'p' is a table that is refreshed, and several streams come before it"
        ):
            query(f"SELECT a.id AS i FROM {froms} ON a.x = p.x", known)
