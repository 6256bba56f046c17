"""`thalweg.sql` over random streams, streaming and static, compared with DuckDB."""

from __future__ import annotations

import random

import pytest

import thalweg
from thalweg import UserError

from .feed import SECOND, Feed, check_sql, written

T = {"ts": "timestamp", "x": "int", "y": "int", "z": "int", "s": "string", "id": "bigint"}


def random_feed(rng, count=3, size=14, keys=4, spread=8, columns=T, **more):
    """Rows out of order within and beyond the lateness, with NULLs, in batches of any size."""
    batches, number = [], 0
    for n in range(count):
        batch = []
        for _ in range(rng.choice([0, size // 2, size, size])):
            ts = (
                None
                if rng.random() < 0.04
                else n * spread + rng.randrange(spread) - rng.choice([0, 0, 0, 5, 20])
            )
            row = {"ts": ts if ts is None else ts * SECOND, "id": number}
            for c in "xyz":
                row[c] = None if rng.random() < 0.04 else min(rng.randrange(keys), rng.randrange(keys))
            row["s"] = rng.choice(["a", "B", "A", "b", None])
            batch.append({c: row[c] for c in columns})
            number += 1
        batches.append(batch)
    return Feed(columns, batches, order=("id",), **more)


QUERIES = {
    "chain": (
        "SELECT a.id AS i, b.id AS j, c.id AS k, d.id AS l, result_time FROM a [RANGE 5 SECONDS], "
        "b [RANGE 4 SECONDS], c [RANGE 6 SECONDS], d [RANGE 3 SECONDS] "
        "WHERE a.x = b.x AND b.y = c.y AND c.z = d.z"
    ),
    "star and pair": (
        "SELECT a.id AS i, b.id AS j, c.id AS k, d.id AS l FROM a [RANGE 5 SECONDS] JOIN b [RANGE 4 SECONDS] "
        "ON a.x = b.x AND a.y = b.y JOIN c [RANGE 6 SECONDS] ON c.x = a.x "
        "JOIN d [RANGE 3 SECONDS] ON d.z = c.z"
    ),
    "cycle": (
        "SELECT a.id AS i, b.id AS j, c.id AS k, result_time AS t FROM a [RANGE 5 SECONDS], "
        "b [RANGE 4 SECONDS], c [RANGE 9 SECONDS] WHERE a.x = b.x AND b.y = c.y AND c.z = a.z"
    ),
    "self join": (
        "SELECT p.id AS i, q.id AS j, r.id AS k FROM a [RANGE 5 SECONDS] p, a [RANGE 0 SECONDS] q, "
        "b [RANGE 6 SECONDS] r WHERE p.x = q.x AND q.x = r.x AND p.id <> q.id"
    ),
    "self join at different depths": (
        "SELECT p.id AS i, b.id AS j, q.id AS k, p.s, q.s AS t FROM a [RANGE 5 SECONDS] p, "
        "b [RANGE 5 SECONDS], a [RANGE 8 SECONDS] q WHERE p.x = b.x AND b.y = q.z AND q.id > 2"
    ),
    "expressions": (
        "SELECT a.id + b.id AS n, concat(a.s, '/', b.s) AS t, a.x * 2 AS x2, result_time AS at, "
        "CASE WHEN c.id > 5 THEN 'late' ELSE c.s END AS w FROM a [RANGE 5 SECONDS], b [RANGE 5 SECONDS], "
        "c [RANGE 5 SECONDS] WHERE lower(a.s) = lower(b.s) AND a.x + 1 = c.y AND b.z >= 1 "
        "AND a.s IS NOT NULL AND (a.y < b.y OR c.id % 2 = 0) AND coalesce(c.s, '') <> 'a'"
    ),
    "nulls that match": (
        "SELECT a.id AS i, b.id AS j, c.id AS k FROM a [RANGE 5 SECONDS], b [RANGE 4 SECONDS], "
        "c [RANGE 6 SECONDS] WHERE a.s <=> b.s AND b.x IS NOT DISTINCT FROM c.y AND a.z = c.z"
    ),
    "no equality": (
        "SELECT a.id AS i, b.id AS j, c.id AS k, result_time FROM a [RANGE 2 SECONDS], b [RANGE 1 SECOND], "
        "c [TUMBLE 2 SECONDS] WHERE (a.x = b.x OR a.y = b.z) AND b.x = c.x AND a.id <> b.id"
    ),
    "an equality in every branch": (
        "SELECT a.id AS i, b.id AS j FROM a [RANGE 5 SECONDS], b [RANGE 5 SECONDS] "
        "WHERE (a.x = b.x AND a.y > 1) OR (b.x = a.x AND b.s = 'a')"
    ),
    "latest and tumbling": (
        "SELECT a.id AS i, b.id AS j, c.id AS k, result_time FROM a [TUMBLE 4 SECONDS], "
        "b [PARTITION BY x ROWS 1], c [TUMBLE 7 SECONDS] WHERE a.x = b.x AND b.x = c.x"
    ),
    "as of": ("SELECT a.id AS i, b.id AS j, result_time FROM a ASOF JOIN b ON a.x = b.x AND a.ts >= b.ts"),
    "bounds on times": (
        "SELECT a.id AS i, b.id AS j, c.id AS k FROM a, b, c WHERE a.x = b.x AND b.y = c.y "
        "AND b.ts BETWEEN a.ts - INTERVAL 2 SECONDS AND a.ts + INTERVAL 1 SECOND "
        "AND c.ts >= b.ts AND c.ts < b.ts + INTERVAL 3 SECONDS"
    ),
    "rows": (
        "SELECT a.id AS i, b.id AS j, c.id AS k FROM a [ROWS 4], b [RANGE 5 SECONDS], c [ROWS 7] "
        "WHERE a.x = b.x AND b.x = c.x AND c.y > 0"
    ),
    "rows in a tree": (
        "SELECT a.id AS i, b.id AS j, c.id AS k FROM a [ROWS 4], b [ROWS 5], c [RANGE 9 SECONDS] "
        "WHERE a.x = b.x AND b.y = c.y"
    ),
    "slide": (
        "SELECT a.id AS i, b.id AS j, c.id AS k FROM a [RANGE 5 SECONDS SLIDE 4 SECONDS], "
        "b [RANGE 6 SECONDS SLIDE 3 SECONDS], c [UNBOUNDED] WHERE a.x = b.x AND b.y = c.y"
    ),
    "unbounded": (
        "SELECT a.id AS i, b.id AS j FROM a [UNBOUNDED], b [UNBOUNDED] "
        "WHERE a.x = b.x AND a.y = b.y AND a.z = b.z"
    ),
    "left joins": (
        "SELECT a.id AS i, b.id AS j, c.id AS k, d.id AS l, coalesce(c.s, 'none') AS s, result_time "
        "FROM a [RANGE 5 SECONDS] JOIN b [RANGE 4 SECONDS] ON a.x = b.x LEFT JOIN c [RANGE 2 SECONDS] "
        "ON c.y = b.y AND c.z > 0 LEFT JOIN d [TUMBLE 3 SECONDS] ON d.z = c.z AND d.ts <= c.ts"
    ),
    "full join": (
        "SELECT a.id AS i, b.id AS j, a.ts, b.s, result_time FROM a [RANGE 2 SECONDS] "
        "FULL JOIN b [ROWS 3] ON a.x = b.x AND a.y > 0 WHERE coalesce(a.id, b.id) < 1000000"
    ),
    "semi join and anti join": (
        "SELECT a.id AS i, a.s, result_time FROM a [RANGE 2 SECONDS] LEFT SEMI JOIN b [RANGE 4 SECONDS] "
        "ON a.x = b.x LEFT ANTI JOIN c [RANGE 0 SECONDS] ON a.y = c.y AND c.z = a.z"
    ),
    "as of, or none": (
        "SELECT a.id AS i, b.id AS j, result_time FROM a ASOF LEFT JOIN b ON a.x = b.x AND a.ts >= b.ts "
        "WHERE a.id < 1000000"
    ),
}
GROUPS = {
    "groups": (
        "SELECT TUMBLE_START(result_time, INTERVAL '5' SECONDS) AS w, a.x, upper(b.s) AS u, count(*) AS n, "
        "count(b.y) AS m, sum(b.y + c.id) AS total, min(b.s) AS least, max(a.ts) AS last, avg(b.z) AS mean, "
        "result_time FROM a [RANGE 5 SECONDS], b [RANGE 4 SECONDS], c [RANGE 6 SECONDS SLIDE 1 SECOND] "
        "WHERE a.x = b.x AND b.x = c.x AND a.id + b.id > c.y GROUP BY w, a.x, u, b.id % 2 = 0"
    ),
    "groups of an outer join": (
        "SELECT window.start, window.end, c.y, count(*) AS n, count(c.id) AS met, sum(c.z) AS z "
        "FROM a [RANGE 5 SECONDS] LEFT JOIN c [RANGE 2 SECONDS] ON c.x = a.x AND c.z > 0 "
        "GROUP BY window(result_time, '3 seconds'), c.y"
    ),
    "distinct": (
        "SELECT DISTINCT TUMBLE_END(result_time, INTERVAL 4 SECONDS) AS e, b.s, a.x = 1 AS one, result_time "
        "FROM a [ROWS 4], b [RANGE 9 SECONDS] WHERE a.y = b.y"
    ),
    "a value for each window": (
        "SELECT count(*) AS n, max(result_time) AS last FROM a [RANGE 5 SECONDS], b [RANGE 0 SECONDS] "
        "WHERE a.x = b.x GROUP BY TUMBLE(result_time, INTERVAL 1 SECOND)"
    ),
}
HELD = ("rows", "rows in a tree", "slide", "latest and tumbling", "as of", *list(QUERIES)[-4:])


def ended(feeds):
    """The feeds with a last batch from far in the future, so that all that waited before comes out.

    Its tuples have no partner, and a million as number; that is known only after the end.
    """
    far = 10_000 * SECOND
    nothing = dict.fromkeys("xyzs")
    last = {n: {"ts": far, "id": 10**6 + i, **nothing} for i, n in enumerate(feeds)}
    longest = max(len(f.batches) for f in feeds.values())
    return {
        n: Feed(
            f.columns,
            [*f.batches, *[[]] * (longest - len(f.batches)), [{c: last[n][c] for c in f.columns}]],
            order=f.order,
            lateness=f.lateness,
        )
        for n, f in feeds.items()
    }


@pytest.mark.parametrize("name", GROUPS)
def test_groups_of_static_frames(spark, tmp_path, name):
    rng = random.Random(f"{name} 3")
    feeds = {n: random_feed(rng, count=5, size=40) for n in "abc" if f" {n} [" in GROUPS[name]}
    assert check_sql(spark, tmp_path, feeds, GROUPS[name], live=False)


def test_groups_of_live_frames_are_left_to_spark(spark, tmp_path):
    feeds = {n: random_feed(random.Random(1)) for n in "ab"}
    folder = written(feeds, tmp_path)
    frames = {n: f.live(spark, folder / n) for n, f in feeds.items()}
    with pytest.raises(UserError, match="over streaming DataFrames are not supported; group results with"):
        thalweg.sql(spark, GROUPS["a value for each window"], frames, time="ts")


def test_what_can_not_be_grouped_is_named(spark, tmp_path):
    schema = "ts TIMESTAMP, k INT, m MAP<INT, INT>"
    frames = {n: spark.createDataFrame([], schema) for n in "ab"}
    rest = "FROM a [ROWS 1], b [ROWS 1] WHERE a.k = b.k GROUP BY TUMBLE(result_time, INTERVAL 1 HOUR)"
    for query, says in (
        (
            f"SELECT count(*) AS n {rest}, a.m",
            "`a`.`m` is a map<int,int>, which can't be grouped by; take one of its",
        ),
        (f"SELECT sum(a.m) AS n {rest}", "GROUP BY or DISTINCT: .*sum"),
        (f"SELECT min(a.m) AS n {rest}", "GROUP BY or DISTINCT: .*min"),
    ):
        with pytest.raises(UserError, match=says):
            thalweg.sql(spark, query, frames, time="ts")


@pytest.mark.parametrize("name", QUERIES)
def test_queries(spark, tmp_path, name):
    rng = random.Random(f"{name}4")
    sql = QUERIES[name]
    used = [n for n in "abcd" if f" {n} [" in sql or f" {n}." in sql]
    feeds = {n: random_feed(rng, lateness=rng.choice([3, 10]) * SECOND) for n in used}
    if name in HELD:
        feeds = ended(feeds)
    assert check_sql(spark, tmp_path, feeds, sql)


def random_query(rng):
    """A query over streams a, b, ... whose equalities make a random tree, with now and then one more."""
    count = rng.randrange(2, 6)
    names = "abcde"[:count]
    windows = [f"RANGE {rng.choice([0, 1, 3, 6])} SECONDS"] * 3 + ["RANGE 100 SECONDS", "UNBOUNDED"]
    held = rng.random() < 0.3
    if held:
        windows += [f"ROWS {rng.choice([1, 2, 9])}"] * 3 + ["PARTITION BY x ROWS 1", "TUMBLE 4 SECONDS"]
    slide = " SLIDE 2 SECONDS" if held and rng.random() < 0.3 else ""
    froms = [f"{n} [{rng.choice(windows)}{slide if n == 'a' else ''}]" for n in names]
    one = rng.random() < 0.4
    conditions = []
    for i, n in enumerate(names[1:], 1):
        column = "x" if one else rng.choice("xyz")
        conditions.append(f"{names[rng.randrange(i)]}.{column} = {n}.{'x' if one else rng.choice('xyz')}")
    if rng.random() < 0.4:
        left, right = rng.sample(names, 2)
        conditions.append(
            rng.choice([f"{left}.s = {right}.s", f"{left}.y = {right}.y", f"{left}.id <= {right}.id"])
        )
    if rng.random() < 0.4:
        conditions.append(f"{rng.choice(names)}.z > 0")
    outputs = ", ".join(f"{n}.id AS {n}_id" for n in names)
    return (
        f"SELECT {outputs}, result_time FROM {', '.join(froms)} WHERE {' AND '.join(conditions)}",
        names,
        held,
    )


def sweep(spark, tmp_path, seed):
    rng = random.Random(seed)
    sql, names, held = random_query(rng)
    feeds = {
        n: random_feed(
            rng,
            count=rng.randrange(1, 5),
            size=12 if len(names) < 4 else 8,
            keys=rng.choice([3, 6]),
            lateness=rng.choice([0, 4, 30]) * SECOND,
        )
        for n in names
    }
    check_sql(spark, tmp_path, ended(feeds) if held else feeds, sql)


@pytest.mark.parametrize("seed", range(3))
def test_random_queries(spark, tmp_path, seed):
    sweep(spark, tmp_path, seed)


@pytest.mark.long
@pytest.mark.parametrize("seed", [*range(3, 6), *range(100, 160)])
def test_many_random_queries(spark, tmp_path, seed):
    sweep(spark, tmp_path, seed)
