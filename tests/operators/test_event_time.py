"""`idle` and `max_ahead` at one site, with wall clocks that the tests set."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest

from tests.operators.one_site import compiled, end, hosted, push
from thalweg.compile.inputs import StreamInfo, TypedQuery
from thalweg.query import parse

COLUMNS = {"ts": pa.timestamp("us", "UTC"), "k": pa.int64(), "id": pa.int64()}
SCHEMA = {"ts": "timestamp", "k": "bigint", "id": "bigint"}
NAMES = "abc"


def host(sql, *, buckets=2, **infos):
    """A host of the query; `infos` gives each stream's idle and max_ahead."""
    query = parse(sql, name="q", schemas=dict.fromkeys(infos, SCHEMA))
    kinds = {side.sql: pa.int64() for e in query.equalities for side in (e.left, e.right)}
    streams = {
        name: StreamInfo(name, COLUMNS, "ts", info.pop("lateness", 0), order=("id",), **info)
        for name, info in infos.items()
    }
    return hosted(compiled(TypedQuery(query, query.equalities, kinds), streams, buckets))


def batch(*rows):
    ts, k, ids = zip(*rows, strict=True)
    arrays = [pa.array(c, t) for c, t in zip((ts, k, ids), COLUMNS.values(), strict=True)]
    return pa.record_batch(arrays, names=list(COLUMNS))


def found(of):
    """The ids of the results so far."""
    return Counter(
        tuple(v for name, v in row.items() if name.endswith(".id"))
        for part in of.results.get(0, [])
        for row in part.to_pylist()
    )


def late(of, stream):
    return sorted(row["id"] for part in of.late.get(stream, []) for row in part.to_pylist())


def held(of):
    """How many entries the state has; here one for each tuple still needed, and one for each bucket."""
    return sum(len(store) for store in of.stores.values())


RANGE = "SELECT a.id, b.id AS other FROM a [RANGE 10 MICROSECONDS], b [RANGE 10 MICROSECONDS] WHERE a.k = b.k"
ROWS = "SELECT a.id, b.id AS other FROM a [ROWS 2], b [ROWS 2] WHERE a.k = b.k"
SLIDE = RANGE.replace("10 MICROSECONDS]", "10 MICROSECONDS SLIDE 5 MICROSECONDS]", 1)


def test_an_idle_stream_stops_holding_the_others_state():
    waiting, going = host(RANGE, a={}, b={}), host(RANGE, a={}, b={"idle": 50})
    for of in (waiting, going):
        push(of, {"a": batch((1, 1, 0)), "b": batch((1, 1, 0))}, wall=1000)
        for step in range(1, 20):
            push(of, {"a": batch((100 * step, step, step))}, wall=1000 + 10 * step)
    assert held(waiting) > 19
    assert held(going) < 10
    for of in (waiting, going):  # 250 is long past for a; an idle b is as far as a is
        push(of, {"b": batch((250, 2, 77), (1905, 19, 78))}, wall=1200)
        push(of, {"a": batch((1905, 19, 20))}, wall=1201)
    assert late(waiting, "b") == []
    assert late(going, "b") == [77]
    assert found(waiting) == found(going) == Counter({(0, 0): 1, (19, 78): 1, (20, 78): 1})


def test_a_stream_is_not_idle_before_its_time():
    of = host(RANGE, a={}, b={"idle": 50})
    push(of, {"a": batch((1, 1, 0)), "b": batch((1, 1, 0))}, wall=1000)
    push(of, {"a": batch((500, 1, 1))}, wall=1049)
    push(of, {"b": batch((9, 1, 1))}, wall=1100)
    assert late(of, "b") == []
    assert found(of) == Counter({(0, 0): 1, (0, 1): 1})


def test_a_stream_that_brings_nothing_to_one_bucket_is_not_idle_there():
    """All keys of b but one go to one bucket; the other still hears that b goes on."""
    quiet = {"idle": 50}
    of = host(RANGE, a={}, b=dict(quiet), buckets=2)
    push(of, {"a": batch((1, 1, 0), (1, 2, 1), (1, 3, 2), (1, 4, 3)), "b": batch((0, 1, 0))}, wall=1000)
    for step in range(1, 20):
        # b is 100 behind a: were it taken for idle anywhere, what it brings there would be late
        rows = [(100 * step, k, 10 * step + k) for k in range(1, 5)]
        push(of, {"a": batch(*rows), "b": batch((100 * (step - 1), 1, step))}, wall=1000 + 10 * step)
    push(of, {"b": batch(*((1800, k, 100 + k) for k in range(1, 5)))}, wall=1195)
    assert late(of, "b") == []
    assert {pair for pair in found(of) if pair[1] > 100} == {(180 + k, 100 + k) for k in range(1, 5)}


@pytest.mark.parametrize("sql", [ROWS, SLIDE], ids=["rows", "slide"])
def test_results_that_wait_for_an_idle_stream_get_out(sql):
    waiting, going = host(sql, a={}, b={}), host(sql, a={}, b={"idle": 50})
    for of in (waiting, going):
        push(of, {"a": batch((1, 1, 0)), "b": batch((2, 1, 0))}, wall=1000)
        push(of, {"a": batch((100, 1, 1))}, wall=1010)
        push(of, {"a": batch((200, 1, 2))}, wall=1100)
    assert found(waiting) == Counter()
    assert found(going)[0, 0] == 1
    for of in (waiting, going):
        push(of, {"b": batch((3, 1, 1))}, wall=1101)
        end(of)
    assert late(waiting, "b") == []
    assert late(going, "b") == [1]
    assert found(waiting)[0, 1] == 1
    assert found(going)[0, 1] == 0


def test_idle_streams_do_not_outrun_each_other():
    """Those idle are as far as the slowest of those that go on."""
    sql = (
        "SELECT a.id, b.id AS y, c.id AS z FROM a [RANGE 10 MICROSECONDS], b [RANGE 10 MICROSECONDS], "
        "c [RANGE 10 MICROSECONDS] WHERE a.k = b.k AND b.k = c.k"
    )
    of = host(sql, a={}, b={}, c={"idle": 50})
    push(of, {n: batch((1, 1, 0)) for n in NAMES}, wall=1000)
    push(of, {"a": batch((1000, 1, 1)), "b": batch((300, 1, 1))}, wall=1100)
    push(of, {"c": batch((299, 1, 1), (300, 1, 2))}, wall=1101)
    assert late(of, "c") == [1]
    push(of, {"a": batch((1001, 1, 2)), "b": batch((1000, 1, 2)), "c": batch((1000, 1, 3))}, wall=1102)
    push(of, {"c": batch((600, 1, 4))}, wall=1103)
    assert late(of, "c") == [1, 4]
    assert found(of) == Counter({(0, 0, 0): 1, (1, 2, 3): 1, (2, 2, 3): 1})


def test_while_all_are_silent_nothing_moves():
    of = host(RANGE, a={"idle": 50}, b={"idle": 50})
    push(of, {"a": batch((1, 1, 0)), "b": batch((1, 1, 0))}, wall=1000)
    push(of, {"a": batch((2, 1, 1))}, wall=5000)
    push(of, {"b": batch((1, 1, 1))}, wall=5001)
    assert late(of, "b") == [1]  # a spoke alone after a long time, and is at 2
    push(of, {"b": batch((2, 1, 2))}, wall=9000)
    assert late(of, "b") == [1]
    assert found(of) == Counter({(0, 0): 1, (1, 0): 1, (0, 2): 1, (1, 2): 1})


@pytest.mark.parametrize("buckets", [1, 3])
def test_tuples_too_far_ahead_are_kept_aside_and_do_not_move_time(buckets):
    of = host(RANGE, a={"max_ahead": 100}, b={}, buckets=buckets)
    rows = ((900, 1, 0), (1101, 1, 1), (1100, 1, 2), (2**50, 2, 3))
    push(of, {"a": batch(*rows), "b": batch((900, 1, 0))}, wall=1000)
    assert late(of, "a") == [1, 3]
    assert of.report.late["a"] == 2
    assert of.report.read["a"] == 4
    push(of, {"a": batch((1100, 1, 4), (1099, 1, 5))}, wall=1001)  # the bound is 1100, not 1101
    assert late(of, "a") == [1, 3, 5]
    push(of, {"a": batch((1101, 1, 6)), "b": batch((1110, 1, 1))}, wall=1001)
    assert late(of, "a") == [1, 3, 5]
    assert found(of) == Counter({(0, 0): 1, (2, 1): 1, (4, 1): 1, (6, 1): 1})


def test_too_far_ahead_in_a_window_of_rows_is_not_counted_by_it():
    of = host(ROWS, a={"max_ahead": 100}, b={})
    push(of, {"a": batch((900, 1, 0), (5000, 1, 1), (6000, 1, 2)), "b": batch((950, 1, 0))}, wall=1000)
    end(of)
    assert found(of) == Counter({(0, 0): 1})
    assert late(of, "a") == [1, 2]
