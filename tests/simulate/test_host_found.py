"""Plans over several sites that once gave wrong results."""

from __future__ import annotations

import dataclasses

import pytest

from tests.planners.examples import catalog, links, query, stream
from tests.simulate.sites_cases import Case, by_sequences, check_several, evaluate
from tests.simulate.sql_cases import LONGS, N, W, check, ids, infos_of, known_of, made_of, planned_by, table
from thalweg.plan.one_way import METHODS
from thalweg.plan.operators import Filter
from thalweg.simulate.host import SimulatedHost


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
    assert any(o.spec.type == "relay" for o in made.program.operators)
    for seed in range(3):
        check(known, planned, seed, nulls=0.4)


def test_two_silent_streams_do_not_wait_for_each_other():
    known = known_of((0, 1, 2))
    asked = query(ids("abc", f"a {W}, b {W}, c {W}", "a.x = b.x AND b.x = c.x"), known)
    infos = infos_of(known)
    infos |= {n: dataclasses.replace(infos[n], idle=1_000_000) for n in "ab"}
    made = made_of(known, [(asked, by_sequences(1, ["SP-D"])(asked, known))], infos)
    host = SimulatedHost(made, evaluate)

    def one(name, ts, id_=0):
        return table(known.streams[name], [{"x": 1, "y": 1, "ts": ts, "id": id_}])

    host.batch({"a": one("a", 0), "b": one("b", 3_000), "c": one("c", 5_000)}, {}, wall=1)
    n = 0
    while not host.results and n < 100:
        n += 1
        host.batch({"c": one("c", 5_000 + 1_000 * n, n)}, host.waiting, wall=100_000 * n)
    assert 10 <= n < 40


@pytest.mark.parametrize("name", ["simple", "linear-optimal", "semijoin-greedy"])
@pytest.mark.parametrize("key", ["#start", "#key", "=#start", "#f:x", "#seq"])
def test_a_column_may_be_called_like_a_field_of_our_own(key, name):
    known = known_of((0, 1), {**LONGS, key: "long", "#end": "long"})
    shown = f"a.id AS a_id, b.id AS b_id, a.`{key}` AS k, b.`#end` AS e, b.ts AS t"
    sql = f"SELECT {shown} FROM a {W}, b [ROWS 3] WHERE a.`{key}` = b.`{key}` AND a.`#end` <= b.`#end`"
    check(known, planned_by(known, [sql], name), 3)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", ["optimal", "bottom-up"])
@pytest.mark.parametrize("kind", ["long", "string"])
def test_an_equality_that_a_reused_join_does_not_have(name: str, seed: int, kind: str) -> None:
    """It is decided before one of its columns stands for the other; what comes out is by the query alone."""
    case = Case(seed=seed, kind=kind, tuples=20)
    windows = "a [RANGE 20 MILLISECONDS], b [RANGE 20 MILLISECONDS]"
    _, planned = check_several(
        case,
        {
            "p": f"SELECT a.id AS a_id, b.id AS b_id FROM {windows} WHERE a.x = b.x",
            "q": f"SELECT a.id AS a_id, b.id AS b_id, c.id AS c_id, a.y AS y FROM {windows}, "
            "c [RANGE 20 MILLISECONDS] WHERE a.x = b.x AND a.y = b.y AND b.x = c.x",
        },
        name,
    )
    assert any(isinstance(o, Filter) for o in planned[1][1].operators)


@pytest.mark.parametrize(
    "where",
    [
        "a.x = b.x AND a.x = b.y",
        "a.x = b.x AND a.y = c.y AND a.v = c.y AND b.x = c.x",
        "a.x = b.x AND a.y = b.y AND a.v = b.y",
    ],
)
@pytest.mark.parametrize("name", ["optimal", "bottom-up"])
def test_equalities_within_a_stream_that_a_reused_join_does_not_have(name: str, where: str) -> None:
    froms = f"a {W}, b {W}"
    more = f"{froms}, c {W}" if "c." in where else froms
    known = known_of((0, 1, 2), {**LONGS, "v": "long"})
    first, second = ids("ab", froms, "a.x = b.x"), ids("abc" if "c." in where else "ab", more, where)
    for seed in range(3):
        check(known, planned_by(known, [first, second], name), seed)


def test_queries_that_ask_the_same_of_a_stream_and_keep_it():
    """What one of them has had shipped goes on to another site, for readers of several queries."""
    names = [f"s{n}" for n in range(10)]
    stats = {"rate": 2.0, "distinct": {"x": 12.0}}
    streams = [stream(name, f"n{n}", LONGS, **stats) for n, name in enumerate(names)]
    late = {"lateness": 10_000, "order": ("id",)}
    known = catalog([one.model_copy(update=late) for one in streams], sites=[s.site for s in streams])
    sqls = []
    for n in range(10):
        x, y, z = (names[(n + i) % 10] for i in range(3))
        sqls.append(ids((x, y, z), f"{x} {W}, {y} {W}, {z} {W}", f"{x}.x = {y}.x AND {y}.x = {z}.x"))
    check(known, planned_by(known, sqls, "optimal"), 1, keep=True)


@pytest.mark.parametrize("seed", [9, 10, 13])
def test_windows_of_rows_counted_by_one_key_and_joined_by_another(seed: int) -> None:
    known = known_of([0, 0, 0])
    windows = f"a {W}, b [PARTITION BY x ROWS 1], c {W}"
    sql = ids("abc", windows, "a.x = b.x AND c.y = a.y")
    check(known, planned_by(known, [sql], "optimal"), seed)
