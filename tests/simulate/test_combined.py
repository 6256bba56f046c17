"""All that a query may have, together: at several sites, in one process, against DuckDB.

Windows of all kinds, tables, joins without an equality, ORs, NULLs that match, outer joins, groups, ids of
results, and operators that several queries share.
"""

from __future__ import annotations

import random

import pytest

from tests.simulate.sql_cases import LONGS, check, known_of, planned_by, with_table
from tests.simulate.test_cross import between
from tests.simulate.test_outer import STRINGS
from thalweg.plan.check import check_deployments
from thalweg.planners.search.problem import NotApplicableError
from thalweg.planners.table import PLANNERS

WINDOWS = (
    "[RANGE 20 MILLISECONDS]",
    "[RANGE 20 MILLISECONDS]",
    "[RANGE 3 MILLISECONDS]",
    "[RANGE 0 SECONDS]",
    "[TUMBLE 15 MILLISECONDS]",
    "[ROWS 3]",
    "[PARTITION BY x ROWS 1]",
    "[PARTITION BY y, x ROWS 2]",
)
ALONE = ("LEFT SEMI", "LEFT ANTI")
"""Joins that bring no columns of what they join."""
PLANS = ["optimal", *(p.name for p in PLANNERS if p.name != "local")]


class Making:
    """A random query over the streams a, b and c and the tables p and q."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        others = [n for n in "bcpq" if rng.random() < 0.6][:3] or ["b"]
        rng.shuffle(others)
        inner = rng.randint(0, len(others))
        slide = " SLIDE 7 MILLISECONDS" if rng.random() < 0.2 else ""
        first = f"[RANGE 20 MILLISECONDS{slide}]" if slide else rng.choice(WINDOWS)
        self.froms, self.seen, self.missing = f"a {first}", ["a"], list[str]()
        self.crossed = False
        if others == ["b"] and rng.random() < 0.3:
            self._join(rng.choice(["RIGHT", "FULL"]), "b")
        else:
            for n, name in enumerate(others):
                self._join("" if n < inner else rng.choice(["LEFT", "LEFT", *ALONE]), name)

    def _join(self, kind: str, name: str) -> None:
        window = "" if name in "pq" else self.rng.choice(WINDOWS)
        on = self._on(self.rng.choice(self.seen), name, outer=bool(kind))
        self.froms += f" {kind} JOIN {name} {window} ON {on}"
        if kind not in ALONE:
            self.seen.append(name)
        if kind in ("LEFT", "FULL"):
            self.missing.append(name)

    def _on(self, old: str, new: str, *, outer: bool) -> str:
        rng = self.rng
        on = [f"{old}.x = {new}.x"]
        if rng.random() < 0.2:
            on = [rng.choice([f"{old}.x <=> {new}.x", f"{old}.x IS NOT DISTINCT FROM {new}.x"])]
        elif not self.crossed and rng.random() < 0.25:
            self.crossed = True
            on = [f"{old}.id < {new}.id" if outer else self._between(old, new)]
        if rng.random() < 0.25:
            on.append(f"{rng.choice(self.seen)}.y = {new}.y")
        if rng.random() < 0.2:
            # Without an equality, an outer join takes no condition on the stream before it.
            own = new if outer and "<" in on[0] and "<=>" not in on[0] else old
            on.append(rng.choice([f"{new}.y < 3", f"{own}.y > 0"]))
        return " AND ".join(on)

    def _between(self, old: str, new: str) -> str:
        while ".ts" in (found := between(old, new, self.rng)) and {old, new} & {*"pq"}:
            pass  # a table has no time
        return found

    def _where(self) -> str:
        rng, last = self.rng, self.seen[-1]
        every = [
            f"{last}.y > 0",
            f"a.y <= {last}.y",
            f"a.y < 3 OR {last}.y = 2",
            f"a.id + {last}.id > 8",
            f"coalesce({last}.y, 9) <> a.y",
            *(f"{name}.id IS NULL" for name in self.missing),
        ]
        chosen = [c for c in every if rng.random() < 0.1]
        return f" WHERE {' AND '.join(f'({c})' for c in chosen)}" if chosen else ""

    def plain(self) -> str:
        columns = [f"{n}.id AS {n}_id" for n in self.seen] + ["result_time AS t"]
        if self.rng.random() < 0.4:
            columns.append("result_id")
        return f"SELECT {', '.join(columns)} FROM {self.froms}{self._where()}"

    def grouped(self) -> str:
        rng, last = self.rng, self.seen[-1]
        tumble = f"TUMBLE(result_time, '{rng.choice([1, 7, 30, 1000])} ms')"
        keys = [f"{n}.{c}" for n in self.seen for c in "xy"] + [f"{last}.y % 2", f"coalesce({last}.y, -1)"]
        keys = rng.sample(keys, rng.randrange(3))
        shown = "".join(f", {key} AS k{n}" for n, key in enumerate(keys))
        if rng.random() < 0.25:
            return f"SELECT DISTINCT {tumble} AS w{shown} FROM {self.froms}{self._where()}"
        values = f"count(*) AS n, count({last}.y) AS m, sum({last}.y + a.y) AS s, min({last}.id) AS i"
        values += f", max(a.y) AS j, avg({last}.id) AS v, max(result_time) AS r"
        by = ", ".join([tumble, *keys])
        return f"SELECT {tumble} AS w{shown}, {values} FROM {self.froms}{self._where()} GROUP BY {by}"


def sql_of(rng: random.Random) -> str:
    made = Making(rng)
    return made.grouped() if rng.random() < 0.4 else made.plain()


def check_one(seed: int, several: int = 1) -> None:
    rng = random.Random(seed)
    columns, popular = rng.choice([(LONGS, (0, 1, 2, 3)), (STRINGS, ("0", "1", "2", "3"))])
    sites = [rng.randrange(rng.choice([1, 3])) for _ in "abc"]
    known = known_of(sites, columns, rng.choice([(), popular]))
    for name in "pq":
        known = with_table(known, name, rng.randrange(3), columns, rows=6, distinct={"x": 4.0})
    sqls = [sql_of(rng) for _ in range(several)]
    try:
        planned = planned_by(known, sqls, rng.choice(PLANS))
    except NotApplicableError:
        planned = planned_by(known, sqls, "optimal")
    check_deployments(planned)
    moves = all(q.groups is None and not q.outer for q, _ in planned)
    check(known, planned, seed, nulls=rng.choice([0.0, 0.2]), keep=moves and rng.random() < 0.3)


@pytest.mark.parametrize(
    "seed", [*range(6), *(pytest.param(n, marks=pytest.mark.long) for n in range(6, 400))]
)
def test_one_query(seed: int) -> None:
    check_one(seed)


@pytest.mark.parametrize(
    "seed", [*range(2), *(pytest.param(n, marks=pytest.mark.long) for n in range(2, 200))]
)
def test_several_queries(seed: int) -> None:
    check_one(5000 + seed, 2 + seed % 2)
