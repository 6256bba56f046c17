"""Joins without an equality, and an OR of equalities, at several sites, in one process, against DuckDB."""

import random

import pytest

from tests.simulate.sql_cases import LONGS, check, known_of, planned_by
from tests.simulate.test_outer import STRINGS, WINDOWS
from thalweg.plan.check import check_deployments
from thalweg.planners.table import PLANNERS


def between(a: str, b: str, rng: random.Random) -> str:
    """A condition on two streams that is no equality."""
    return rng.choice(
        [
            f"({a}.x = {b}.x OR {a}.y = {b}.y)",
            f"({a}.x = {b}.x OR ({a}.y = {b}.y AND {a}.id < {b}.id))",
            f"({a}.x = {b}.x AND {a}.y > 1 OR {b}.x = {a}.x AND {b}.y > 1)",
            f"{a}.id < {b}.id",
            f"{a}.y <> {b}.y",
            f"{a}.id + {b}.id > 30",
            f"{a}.ts <= {b}.ts",
        ]
    )


def sql_of(rng: random.Random) -> str:
    """Two to four streams, some of them connected by equalities."""
    names = "abcd"[: rng.choice([2, 2, 3, 3, 4])]
    windows = [rng.choice(WINDOWS[:5]) for _ in names]
    froms, where = f"a {windows[0]}", []
    for i in range(1, len(names)):
        new, old = names[i], rng.choice(names[:i])
        kind = rng.choice(["equal", "compared", "compared", "cross", "left"])
        if kind == "left" and i + 1 == len(names):
            on = rng.choice([f"{old}.id < {new}.id", f"{old}.id <= {new}.id AND {new}.y < 3"])
            froms += f" LEFT JOIN {new} {windows[i]} ON {on}"
        elif kind == "cross":
            froms += f" CROSS JOIN {new} {windows[i]}"
            where.append(between(names[0], new, rng))
        else:
            froms += f" JOIN {new} {windows[i]} ON "
            froms += f"{old}.x = {new}.x" if kind == "equal" else between(old, new, rng)
    ids = ", ".join(f"{a}.id AS {a}_id" for a in names)
    return f"SELECT {ids}, result_time AS t FROM {froms}" + (f" WHERE {' AND '.join(where)}" if where else "")


@pytest.mark.parametrize(
    "seed", [*range(25), *(pytest.param(n, marks=pytest.mark.long) for n in range(25, 250))]
)
def test_joins_without_an_equality(seed: int) -> None:
    rng = random.Random(seed)
    known = known_of([rng.randrange(3) for _ in range(4)], rng.choice([LONGS, STRINGS]))
    planned = planned_by(known, [sql_of(rng)], "optimal")
    check_deployments(planned)
    check(known, planned, seed, nulls=rng.choice([0.0, 0.2]))


W = "[RANGE 10 MILLISECONDS]"
CASES = {
    "or": f"SELECT a.id AS a, b.id AS b FROM a {W}, b {W} WHERE a.x = b.x OR a.y = b.y",
    "less": f"SELECT a.id, b.id AS b, c.id AS c FROM a {W}, b {W}, c {W} WHERE a.x = b.x AND b.id < c.id",
    "cross": f"SELECT a.id, b.id AS b, c.id AS c FROM a {W} CROSS JOIN b {W} JOIN c {W} ON a.x = c.x",
}


@pytest.mark.parametrize("name", [p.name for p in PLANNERS])
@pytest.mark.parametrize("case", CASES)
def test_joins_without_an_equality_by_any_planner(name: str, case: str) -> None:
    known = known_of([0, 0, 0, 0] if name == "local" else [0, 1, 2, 0])
    planned = planned_by(known, [CASES[case]], name)
    check_deployments(planned)
    check(known, planned, 7)
