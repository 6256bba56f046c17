"""The results of a window leave in one batch, so its groups are whole: in one process, against DuckDB."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from tests.simulate.sites_cases import drive_rows, evaluate
from tests.simulate.sql_cases import known_of, made_of, planned_by, rows_of, table
from thalweg.oracle import duck, reference
from thalweg.plan.check import check_deployments
from thalweg.planners.table import PLANNERS
from thalweg.query.model import Query
from thalweg.simulate.host import SimulatedHost

WINDOWS = ("[RANGE 20 MILLISECONDS]", "[RANGE 0 SECONDS]", "[ROWS 3]", "[TUMBLE 15 MILLISECONDS]")
TREES = [p.name for p in PLANNERS if p.family != "linear" and p.name != "local"]
LINEAR = [p.name for p in PLANNERS if p.family == "linear"]


class Batches(SimulatedHost):
    """Keeps the results of each batch apart."""

    def batch(self, *given: Any, **more: Any) -> None:
        before = len(self.results.get(0, []))
        super().batch(*given, **more)
        if not hasattr(self, "apart"):
            self.apart: list[list[pa.RecordBatch]] = []
        self.apart.append(self.results.get(0, [])[before:])


def sql_of(rng: random.Random, names: str, outer: str, size: int) -> str:
    froms = f"a {rng.choice(WINDOWS)}"
    for name in names[1:]:
        froms += f" {outer if name == names[-1] else ''} JOIN {name} {rng.choice(WINDOWS)} ON a.x = {name}.x"
    tumble, last = f"TUMBLE(result_time, '{size} ms')", names[-1]
    return (
        f"SELECT {tumble} AS w, a.x, count(*) AS n, count({last}.y) AS m, sum({last}.y) AS s, "
        f"min(a.id) AS i, max({last}.id) AS j, avg(a.id) AS v, result_time "
        f"FROM {froms} GROUP BY {tumble}, a.x"
    )


def grouped(asked: Query, parts: list[pa.RecordBatch], same: Any, size: int) -> Counter:
    """The groups of some results, as the query of `sql_of` has them."""
    last = asked.aliases[-1]
    groups: dict[Any, list[dict]] = defaultdict(list)
    for row in (row for part in parts for row in part.to_pylist()):
        carrier = ".".join(same.get(("a", "x"), ("a", "x")))
        groups[row["#start"] // 1000 // size * size, row[carrier]].append(row)
    found: Counter = Counter()
    for (start, x), rows in groups.items():
        ys = [r[f"{last}.y"] for r in rows if r[f"{last}.y"] is not None]
        js = [r[f"{last}.id"] for r in rows if r[f"{last}.id"] is not None]
        ids = [r["a.id"] for r in rows]
        times = [datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=t) for t in (start, start + size)]
        values = (len(rows), len(ys), sum(ys) if ys else None, min(ids), max(js, default=None))
        found[(times[0], x, *values, sum(ids) / len(ids), times[1])] += 1
    return found


def check(seed: int, name: str, names: str = "abc", outer: str = "") -> None:
    rng = random.Random(seed)
    size = rng.choice([1, 7, 30, 1000])
    known = known_of([rng.randrange(3) for _ in names], popular=(0, 1, 2, 3))
    planned = planned_by(known, [sql_of(rng, names, outer, size)], name)
    check_deployments(planned)
    made, asked = made_of(known, planned), planned[0][0]
    host = Batches(made, evaluate)
    rows = rows_of(known, seed, 0.2)
    batches = drive_rows(host, rows, lambda stream, part: table(known.streams[stream], part), seed)
    kept = {n: reference.late_split(b, known.streams[n].lateness)[0] for n, b in batches.items()}
    with duck.connect() as con:
        tables = {n: pa.Table.from_batches([table(known.streams[n], r)]) for n, r in kept.items()}
        duck.load(con, asked, known, read_static=lambda one: tables[one.name])
        wanted = Counter(con.execute(duck.expected_sql(asked, known)).fetchall())
    found: Counter = sum((grouped(asked, p, made.results[0].same, size) for p in host.apart), Counter())
    assert found == wanted


@pytest.mark.parametrize(
    "seed", [*range(20), *(pytest.param(n, marks=pytest.mark.long) for n in range(20, 300))]
)
def test_random_groups(seed: int) -> None:
    check(seed, "optimal", "abc" if seed % 3 else "ab")


@pytest.mark.parametrize("name", [*TREES, *LINEAR])
def test_groups_by_any_plan(name: str) -> None:
    check(7, name)
