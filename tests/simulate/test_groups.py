"""The results of a window leave in one batch, so its groups are whole: in one process, against DuckDB."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tests.simulate.sites_cases import evaluate
from tests.simulate.sql_cases import Batches, check, known_of, made_of, planned_by, table
from thalweg.kernel.keys import buckets
from thalweg.plan.check import check_deployments
from thalweg.planners.table import PLANNERS

WINDOWS = ("[RANGE 20 MILLISECONDS]", "[RANGE 0 SECONDS]", "[ROWS 3]", "[TUMBLE 15 MILLISECONDS]")
TREES = [p.name for p in PLANNERS if p.family != "linear" and p.name != "local"]
LINEAR = [p.name for p in PLANNERS if p.family == "linear"]


def sql_of(rng: random.Random, names: str, outer: str = "") -> str:
    """Groups by keys of any stream, or by the window alone: then a group has results of all buckets."""
    froms = f"a {rng.choice(WINDOWS)}"
    for name in names[1:]:
        froms += f" {outer if name == names[-1] else ''} JOIN {name} {rng.choice(WINDOWS)} ON a.x = {name}.x"
    tumble, last = f"TUMBLE(result_time, '{rng.choice([1, 7, 30, 1000])} ms')", names[-1]
    keys = rng.sample([f"{n}.{c}" for n in names for c in "xy"], rng.randrange(3))
    shown = "".join(f"{key} AS k{n}, " for n, key in enumerate(keys))
    if rng.random() < 0.2:
        return f"SELECT DISTINCT {shown}{tumble} AS w FROM {froms}"
    return (
        f"SELECT {tumble} AS w, {shown}count(*) AS n, count({last}.y) AS m, sum({last}.y) AS s, "
        f"min(a.id) AS i, max({last}.id) AS j, avg(a.id) AS v, result_time "
        f"FROM {froms} GROUP BY {', '.join([tumble, *keys])}"
    )


def check_one(seed: int, name: str, names: str = "abc", outer: str = "", sites: int = 3) -> None:
    rng = random.Random(seed)
    known = known_of([rng.randrange(sites) for _ in names], popular=(0, 1, 2, 3))
    planned = planned_by(known, [sql_of(rng, names, outer)], name)
    check_deployments(planned)
    check(known, planned, seed, 0.2)


@pytest.mark.parametrize(
    "seed", [*range(20), *(pytest.param(n, marks=pytest.mark.long) for n in range(20, 300))]
)
def test_random_groups(seed: int) -> None:
    check_one(seed, "optimal", "abc" if seed % 3 else "ab")


@pytest.mark.parametrize(
    "seed", [*range(8), *(pytest.param(n, marks=pytest.mark.long) for n in range(8, 300))]
)
def test_random_groups_of_an_outer_join(seed: int) -> None:
    outer = random.Random(seed).choice(["LEFT", "LEFT", "FULL"] if seed % 3 == 0 else ["LEFT"])
    check_one(1000 + seed, "optimal", "abc" if seed % 3 else "ab", outer, sites=seed % 2 * 2 + 1)


@pytest.mark.parametrize("seed", [7, *(pytest.param(n, marks=pytest.mark.long) for n in range(7))])
@pytest.mark.parametrize("name", [*TREES, *LINEAR])
def test_groups_by_any_plan(name: str, seed: int) -> None:
    check_one(seed, name)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT TUMBLE(result_time, '10 ms') AS w, count(*) AS n FROM a [RANGE 20 MILLISECONDS] "
        "LEFT JOIN b [RANGE 20 MILLISECONDS] ON a.x = b.x GROUP BY w",
        "SELECT a.id FROM a [RANGE 20 MILLISECONDS SLIDE 10 MILLISECONDS] "
        "LEFT SEMI JOIN b [RANGE 20 MILLISECONDS] ON a.x = b.x",
    ],
    ids=["groups", "slide"],
)
def test_a_window_leaves_in_one_batch_though_tuples_of_one_bucket_wait_for_a_partner(sql: str) -> None:
    known = known_of([0, 0])
    alone, met = 0, next(x for x in range(9) if len(set(buckets(np.array([0, x]), 2))) == 2)

    def rows(stream: str, *tuples: tuple[int, int]):
        return table(known.streams[stream], [{"ts": t * 1000, "x": x, "y": 0, "id": t} for t, x in tuples])

    host = Batches(made_of(known, planned_by(known, [sql], "optimal")), evaluate)
    host.batch({"a": rows("a", (1, alone), (2, met)), "b": rows("b", (2, met))})
    host.batch({"a": rows("a", (31, met)), "b": rows("b", (25, met))})  # b may still bring what is at 15
    assert not host.results
    host.batch({"a": rows("a", (50, met)), "b": rows("b", (32, alone))})  # and here nothing for what is at 1
    starts = [t for part in host.results[0] for t in part.column("#start").to_pylist()]
    assert sorted(starts) == ([1000, 2000] if "TUMBLE" in sql else [2000])
