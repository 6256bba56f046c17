"""Streams where they arise: what is late, idle, read and counted; the order of windows of rows."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tests.operators.one_site import (
    COLUMNS,
    PAIR,
    TIME,
    end,
    found,
    hosted,
    in_windows,
    join_of,
    push,
    ranged,
    rows,
)
from thalweg.errors import UserError
from thalweg.operators.event_time import Arrived
from thalweg.operators.output import Bound, Report
from thalweg.operators.source import Source
from thalweg.operators.spec import START, SourceSpec, Watched
from thalweg.operators.state import Ledger, MemoryStore
from thalweg.query.model import Input, Window, WindowKind


def test_a_stream_under_two_aliases_is_read_counted_and_kept_aside_once() -> None:
    host = hosted(join_of((ranged("x", "s"), ranged("y", "s"))))
    push(host, {"s": rows((100, "a", 1), (105, "a", 2), (None, "a", 3))})
    push(host, {"s": rows((99, "a", 4), (110, "b", 5))})
    assert found(host, "x", "y") == [(1, 1), (1, 2), (2, 1), (2, 2), (5, 5)]
    assert host.report.read["s"] == 5
    assert host.report.late["s"] == 2
    assert sorted(r["id"] for b in host.late["s"] for r in b.to_pylist()) == [3, 4]


LONG_KEY = {"ts": TIME, "k": pa.int64(), "id": pa.int64()}
LAST = Window(WindowKind.ROWS, 1)


@pytest.mark.parametrize("order", [("k", "id"), ("ts", "id")])
def test_the_order_of_a_window_of_rows_may_be_its_key_or_its_time(order: tuple[str, ...]) -> None:
    inputs = (Input("x", "s", LAST), ranged("y", "t", size=5))
    host = hosted(join_of(inputs, columns=LONG_KEY, shown=("id", "k", "ts"), order=order, buckets=1))
    push(host, {"s": rows((10, 2, 1), (10, 1, 2), columns=LONG_KEY)})
    push(host, {"t": rows((10, 1, 3), (10, 2, 4), (20, 1, 5), columns=LONG_KEY)})
    end(host)
    # By key the tuple with 2 comes last and stays, by id the one with 1.
    assert found(host, "x", "y") == ([(1, 4)] if order[0] == "k" else [(2, 3), (2, 5)])


ORDERED = {**COLUMNS, "o": pa.float64()}


def test_in_the_order_of_a_window_of_rows_null_is_first_and_nan_last() -> None:
    inputs = (Input("x", "s", LAST), ranged("y", "t", size=0))
    for values, last in (
        ((None, 1.0), 2),
        ((1.0, None), 1),
        ((float("nan"), 7.0), 1),
        ((None, float("nan")), 2),
    ):
        host = hosted(join_of(inputs, columns=ORDERED, order=("o",), buckets=1))
        tuples = [(10, "a", i + 1, o) for i, o in enumerate(values)]
        push(host, {"s": rows(*tuples, columns=ORDERED), "t": rows((10, "a", 9, 0.0), columns=ORDERED)})
        end(host)
        assert found(host, "x", "y") == [(last, 9)], values


def test_a_window_of_rows_is_not_ordered_by_a_list() -> None:
    columns = {**COLUMNS, "o": pa.list_(pa.int64())}
    with pytest.raises(UserError, match=r"stream s: its `order` column 'o'"):
        join_of((Input("x", "s", LAST), ranged("y", "t")), columns=columns, order=("o",))


def test_streams_that_fall_idle_below_in_a_tree_hold_nothing_back() -> None:
    inputs = (ranged("a", "a"), ranged("b", "b"), ranged("c", "c"))
    equal = (("a.k", "b.k"), ("b.j", "c.k"))
    host = hosted(join_of(inputs, columns=PAIR, equal=equal, buckets=1, idle=30, order=()))
    push(host, {n: rows((0, 1, 1, 1), columns=PAIR) for n in "abc"}, wall=1000)
    for step in range(1, 100):  # only c goes on
        push(host, {"c": rows((100 * step, 1, 1, step), columns=PAIR)}, wall=1000 + step)
    assert in_windows(host) < 80  # without the others, all of the hundred would be
    push(host, {"a": rows((50, 1, 1, 2), columns=PAIR)}, wall=1100)
    assert host.report.late["a"] == 1  # c has gone on without it
    assert found(host, "a", "b", "c") == [(1, 1, 1)]


def test_a_stream_is_idle_by_what_its_source_hears_not_by_other_messages_of_the_call() -> None:
    """A stream that is read by two keys has two sources, in calls that bring other messages."""
    spec = SourceSpec("s", 0, idle=1_000, watched=(Watched(0, None),))
    bounds = []
    for wall in (100, 9_000):
        ledger = Ledger(MemoryStore())
        for now, own, other in ((1, 10, 10), (100, None, 50)):
            arrived = Arrived.of(2)
            for port, bound in enumerate((own, other)):
                if bound is not None:
                    arrived.ports[port].hear(0, 0, bound)
                    arrived.ports[port].wall = now
            arrived.wall = now if own else wall
            out = list(Source(spec).call(arrived, ledger.page("s")))
        bounds.append([one.time for one in out if isinstance(one, Bound)])
    assert bounds == [[10], [10]]


def test_late_tuples_do_not_change_the_rate_that_a_stream_is_seen_to_have() -> None:
    source, ledger, sketches = Source(SourceSpec("s", 0, observed=(("k", "k"),))), Ledger(MemoryStore()), []
    for times in ([100, 200], [1, 300, 400]):
        arrived = Arrived.of(1)
        columns = {START: pa.array(times), "k": pa.array([7] * len(times))}
        arrived.ports[0].tuples = [pa.record_batch(columns)]
        arrived.ports[0].count = len(times)
        arrived.ports[0].hear(0, 0, max(times))
        out = list(source.call(arrived, ledger.page("s")))
        sketches += [one.sketches["s"] for one in out if isinstance(one, Report) and one.sketches]
    assert [(s["count"], s["first"], s["last"]) for s in sketches] == [(2, 100, 200), (2, 300, 400)]


@pytest.mark.parametrize("jump", [-3_600_000_000, 3_600_000_000])
def test_a_clock_that_jumps_takes_no_bound_back(jump: int) -> None:
    """Set back, it holds an idle stream up for as long; set forward, streams are idle at once."""
    second = 1_000_000
    spec = SourceSpec("s", 0, idle=10 * second, watched=(Watched(0, None),))
    ledger, bounds = Ledger(MemoryStore()), []
    begin = 7_200 * second
    # The stream itself falls silent after its first tuple; the other goes on.
    for step, now in enumerate([begin, *(begin + jump + n * second for n in range(1, 4_000, 100))]):
        arrived = Arrived.of(2)
        for port in range(2) if step == 0 else (1,):
            arrived.ports[port].hear(0, 0, 100 * step)
            arrived.ports[port].wall = now
        out = list(Source(spec).call(arrived, ledger.page("s")))
        bounds += [one.time for one in out if isinstance(one, Bound)]
    assert bounds == sorted(bounds)
    assert bounds[1] == (0 if jump < 0 else 100)
    assert bounds[-1] == 100 * (len(bounds) - 1)
    waited = bounds.count(0) - 1
    assert waited == (37 if jump < 0 else 0)
