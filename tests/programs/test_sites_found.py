"""Cases across sites that were once wrong: any SQL over streams of any types, against DuckDB."""

from __future__ import annotations

import dataclasses
import math
import random
from collections import Counter

import pyarrow as pa
import pytest

from tests.planners.examples import catalog, links, query, stream
from tests.programs.sites_cases import TIME, by_sequences, drive_rows, evaluate, handed_out
from thalweg.errors import UserError
from thalweg.oracle import duck, reference
from thalweg.plan.operators import METHODS
from thalweg.plan.options import Objective, PlanOptions
from thalweg.planners.table import Session, planner
from thalweg.programs.deploy import Deployed, deploy
from thalweg.programs.job import StreamInfo, TypedQuery
from thalweg.programs.network import LocalSites
from thalweg.programs.sites import Sites
from thalweg.query.model import Equality, Expr

KINDS = {"long": pa.int64(), "string": pa.string(), "double": pa.float64(), "timestamp": TIME}
LONGS = {"x": "long", "y": "long", "id": "long"}
W, N = "[RANGE 20 MILLISECONDS]", "[RANGE 10 MILLISECONDS]"


def known_of(sites, columns=LONGS, popular=()):
    """Streams a, b, ... at these sites; their columns for all, or by stream.

    Each value of `popular` is so at one of the streams, so that parts of the key space pay.
    """
    found = []
    for i, (name, site) in enumerate(zip("abcd", sites, strict=False)):
        own = columns.get(name, columns) if isinstance(next(iter(columns.values())), dict) else columns
        stats = {"rate": 300.0}
        if popular:
            stats = {"rates": {"x": {v: 1000.0 if j % 3 == i else 1.0 for j, v in enumerate(popular)}}}
        one = stream(name, f"n{site}", own, distinct=dict.fromkeys(own, 4.0), **stats)
        found.append(one.model_copy(update={"lateness": 10_000, "order": ("id",)}))
    return catalog(found, sites=["n0", "n1", "n2", "n3"])


def value(kind, rng, nulls):
    if rng.random() < nulls:
        return None
    if kind == "double":
        return rng.choice([0.0, -0.0, math.nan, 1.5, 2.5])
    return str(rng.randrange(4)) if kind == "string" else rng.randrange(4)


def rows_of(known, seed, nulls=0.05):
    rng = random.Random(seed)
    out = {}
    for name, one in known.streams.items():
        clock, rows = 0, []
        for i in range(25):
            clock += rng.randrange(8)
            row = {c: value(k, rng, nulls) for c, k in one.columns.items()}
            rows.append({**row, "ts": max(0, clock - rng.choice([0, 0, 0, 7])) * 1000, "id": i})
        out[name] = rows
    return out


def table(one, rows):
    kinds = {c: KINDS[k] for c, k in one.columns.items()}
    return pa.record_batch([pa.array([r[c] for r in rows], k) for c, k in kinds.items()], names=list(kinds))


def infos_of(known):
    return {
        n: StreamInfo(n, {c: KINDS[k] for c, k in s.columns.items()}, "ts", s.lateness, order=s.order)
        for n, s in known.streams.items()
    }


def typed(known, asked):
    """The query with types, where Spark would compare numbers with text: as text."""

    def kind(expr):
        (alias,) = expr.aliases
        column = expr.plain_column
        return KINDS[known.streams[asked.input(alias).stream].columns[column]] if column else pa.int64()

    equalities = []
    for e in asked.equalities:
        sides = [e.left, e.right]
        if kind(sides[0]) != kind(sides[1]):
            sides = [s if kind(s) == pa.string() else Expr(f"CAST({s.sql} AS VARCHAR)") for s in sides]
        equalities.append(Equality(*sides))
    kinds = {
        s.sql: pa.string() if "CAST" in s.sql else kind(s) for e in equalities for s in (e.left, e.right)
    }
    return TypedQuery(asked, tuple(equalities), kinds)


def made_of(known, planned, infos=None):
    made = deploy(
        [(typed(known, q), d) for q, d in planned],
        infos or infos_of(known),
        {n: s.site for n, s in known.streams.items()},
        buckets=2,
        labels=lambda n: range(1, n + 1),
        keep_late=False,
    )
    return Deployed(Sites.from_json(made.sites.to_json()), made.queries)


def planned_by(known, sqls, name, objective="bytes", **settings):
    session = Session(known, PlanOptions(name, Objective(objective), None, settings))
    asked = [query(sql, known, f"q{i}") for i, sql in enumerate(sqls)]
    return [(q, session.deploy(q, planner(name)).deployment) for q in asked]


def check(known, planned, seed, nulls=0.05):
    made = made_of(known, planned)
    host = LocalSites(made.sites, evaluate)
    rows = rows_of(known, seed, nulls)
    batches = drive_rows(host, rows, lambda name, part: table(known.streams[name], part), seed)
    kept = {n: reference.late_split(b, known.streams[n].lateness)[0] for n, b in batches.items()}
    for number, (asked, _) in enumerate(planned):
        tables = {n: pa.Table.from_batches([table(known.streams[n], r)]) for n, r in kept.items()}
        with duck.connect() as con:
            duck.load(con, asked, known, read_static=lambda one, held=tables: held[one.name])
            wanted = Counter(con.execute(duck.expected_sql(asked, known)).fetchall())
        assert handed_out(made.queries[number].query, host.results.get(number, [])) == wanted, asked.name


def ids(aliases, froms, where):
    return f"SELECT {', '.join(f'{a}.id AS {a}_id' for a in aliases)} FROM {froms} WHERE {where}"


@pytest.mark.parametrize("method", METHODS)
def test_two_attributes_of_one_column_are_two_keys(method):
    known = known_of((0, 1, 2))
    asked = query(ids("abc", f"a {W}, b {W}, c {W}", "a.x = b.x AND a.x + 1 = c.x"), known)
    for seed in range(2):
        check(known, [(asked, by_sequences(seed, [method])(asked, known))], seed)


@pytest.mark.parametrize("method", METHODS)
def test_a_column_compared_as_two_types_is_two_keys(method):
    known = known_of((0, 1, 2), {"a": LONGS, "b": LONGS, "c": {**LONGS, "x": "string"}})
    asked = query(ids("abc", f"a {W}, b {W}, c {W}", "a.x = b.x AND a.x = c.x"), known)
    check(known, [(asked, by_sequences(0, [method])(asked, known))], 0)


@pytest.mark.parametrize("where", ["a.x = b.x AND a.x + 1 = c.x", "a.x + 1 = c.x AND a.x = b.x"])
def test_a_part_of_the_key_space_is_told_by_its_own_attribute(where):
    known = known_of((0, 1, 2), popular=(0, 1, 2, 3))
    sql = ids("abc", f"a {W}, b {W}, c {W}", where)
    planned = planned_by(known, [sql], "pmjoin", partitions="3", partitioner="rate")
    assert any(o.kind == "split" for o in planned[0][1].operators)
    for seed in range(2):
        check(known, planned, seed)


@pytest.mark.parametrize("where", ["a.ts = b.ts AND b.ts = c.ts", "a.x + 1 = b.x + 1 AND b.x + 1 = c.x + 1"])
@pytest.mark.parametrize("name", ["optimal", "pmjoin", "linear-optimal", "simple"])
def test_expressions_and_the_time_itself_are_keys(name, where):
    known = known_of((0, 1, 2))
    check(known, planned_by(known, [ids("abc", f"a {W}, b {W}, c {W}", where)], name), 1)


def test_nan_is_in_the_last_range():
    known = known_of((0, 1, 2), {**LONGS, "x": "double"}, popular=(0.0, 1.5, 2.5))
    sql = ids("abc", f"a {W}, b {W}, c {W}", "a.x = b.x AND b.x = c.x")
    planned = planned_by(known, [sql], "pmjoin", partitions="3", partitioner="range")
    assert any(o.kind == "split" for o in planned[0][1].operators)
    check(known, planned, 2)


def test_a_narrower_window_over_a_join_with_a_window_of_rows():
    known = known_of((0, 1, 2, 3))
    first = (
        "SELECT a.id AS i, a.ts AS a_ts, b.id AS j, b.ts AS b_ts, c.id AS k "
        f"FROM a [ROWS 3], b {W}, c {W} WHERE a.x = b.x AND b.x = c.x"
    )
    sqls = [first, ids("abd", f"a [ROWS 3], b {N}, d {W}", "a.x = b.x AND b.x = d.x")]
    for seed in range(2):
        check(known, planned_by(known, sqls, "optimal"), seed)


def pair(a, b, on, window=W):
    return ids((a, b), f"{a} {window}, {b} {W}", f"{a}.{on} = {b}.{on}")


@pytest.mark.parametrize(
    "sqls",
    [
        [pair("a", "b", "x"), pair("a", "c", "x"), pair("a", "d", "y")],
        [pair("a", "b", "x", "[ROWS 3]"), pair("a", "c", "x", "[ROWS 5]")],
    ],
    ids=["other keys", "other windows of rows"],
)
def test_what_is_relayed_is_all_that_its_readers_need(sqls):
    # n0 - n2, and from there to n1 and n3: what n2 has of stream a goes on from it.
    known = known_of((0, 2, 3, 1))
    slow = {
        n: s.stats.model_copy(update={"rate": 10.0 if n == "a" else 3000.0}) for n, s in known.streams.items()
    }
    known = known.model_copy(
        update={
            "streams": {n: s.model_copy(update={"stats": slow[n]}) for n, s in known.streams.items()},
            "links": links({("n0", "n2"): (100, 1, 0), ("n2", "n3"): (1, 1, 0), ("n2", "n1"): (1, 1, 0)}),
        }
    )
    planned = planned_by(known, sqls, "optimal", "usage")
    made = made_of(known, planned)
    assert any(o.spec.type == "relay" for o in made.sites.operators)
    for seed in range(3):
        check(known, planned, seed, nulls=0.4)


def test_two_silent_streams_do_not_wait_for_each_other():
    known = known_of((0, 1, 2))
    asked = query(ids("abc", f"a {W}, b {W}, c {W}", "a.x = b.x AND b.x = c.x"), known)
    infos = infos_of(known)
    infos |= {n: dataclasses.replace(infos[n], idle=1_000_000) for n in "ab"}
    made = made_of(known, [(asked, by_sequences(1, ["SP-D"])(asked, known))], infos)
    host = LocalSites(made.sites, evaluate)

    def one(name, ts, id_=0):
        return table(known.streams[name], [{"x": 1, "y": 1, "ts": ts, "id": id_}])

    host.batch({"a": one("a", 0), "b": one("b", 3_000), "c": one("c", 5_000)}, {}, wall=1)
    n = 0
    while not host.results and n < 100:
        n += 1
        host.batch({"c": one("c", 5_000 + 1_000 * n, n)}, host.waiting, wall=100_000 * n)
    assert 10 <= n < 40


def test_a_column_that_begins_with_what_is_kept_for_ourselves_is_refused():
    known = known_of((0, 1), {**LONGS, "#start": "long"})
    asked = query(ids("ab", f"a {W}, b {W}", "a.x = b.x"), known)
    with pytest.raises(UserError, match="'#start' begins with #"):
        made_of(known, [(asked, by_sequences(0, ["SP-D"])(asked, known))])
