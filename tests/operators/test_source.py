"""What operator programs do that random tests do not single out."""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pytest

from thalweg.errors import UserError
from thalweg.kernel.shared import SharedWindows
from thalweg.programs import join as join_program
from thalweg.programs import state
from thalweg.programs.cache import SharedCache
from thalweg.programs.compile import compile_job
from thalweg.programs.job import Job, StreamInfo, TypedQuery
from thalweg.programs.local import LocalHost
from thalweg.programs.packet import Kind
from thalweg.query.model import Equality, Expr, Input, Output, Query, Window, WindowKind

COLUMNS = {"ts": pa.timestamp("us", "UTC"), "k": pa.string(), "id": pa.int64()}


def job(
    inputs: tuple[Input, ...],
    lateness: int = 0,
    buckets: int = 2,
    *,
    equal: tuple[tuple[str, str], ...] = (),
    shown: tuple[str, ...] = ("id",),
    columns: Mapping[str, pa.DataType] = COLUMNS,
    order: tuple[str, ...] = ("id",),
    **more: int,
) -> Job:
    """A join on k of all inputs, or on the columns that are said to be equal, as alias.column."""
    names = [i.alias for i in inputs]
    pairs = [(a.split("."), b.split(".")) for a, b in equal] or [
        ((names[0], "k"), (o, "k")) for o in names[1:]
    ]
    equalities = tuple(Equality(Expr.column(*a), Expr.column(*b)) for a, b in pairs)
    outputs = tuple(Output(f"{a}_{c}", Expr.column(a, c)) for a in names for c in shown)
    query = Query("q", "", inputs, equalities, (), outputs)
    infos = {i.stream: StreamInfo(i.stream, columns, "ts", lateness, order=order, **more) for i in inputs}
    sides = [Expr.column(*side) for pair in pairs for side in pair]
    kinds = {side.sql: columns[name] for side, (_, name) in zip(sides, itertools.chain(*pairs), strict=True)}
    typed = TypedQuery(query, equalities, kinds)
    return compile_job([typed], infos, buckets=buckets, labels=lambda n: range(1, n + 1), keep_late=True)


def rows(*tuples: tuple, columns: Mapping[str, pa.DataType] = COLUMNS) -> pa.RecordBatch:
    values = list(zip(*tuples, strict=True))
    arrays = [pa.array(c, kind) for c, kind in zip(values, columns.values(), strict=True)]
    return pa.record_batch(arrays, names=list(columns))


def found(host: LocalHost, *names: str) -> list[tuple[int, ...]]:
    parts = [p.to_pylist() for p in host.results.get(0, [])]
    return sorted(tuple(row[f"{n}.id"] for n in names) for part in parts for row in part)


def ranged(alias: str, stream: str, size: int = 10, slide: int | None = None) -> Input:
    return Input(alias, stream, Window(WindowKind.RANGE, size, slide))


def test_a_stream_under_two_aliases_is_read_counted_and_kept_aside_once() -> None:
    host = LocalHost(job((ranged("x", "s"), ranged("y", "s"))))
    host.push({"s": rows((100, "a", 1), (105, "a", 2), (None, "a", 3))})
    host.push({"s": rows((99, "a", 4), (110, "b", 5))})
    assert found(host, "x", "y") == [(1, 1), (1, 2), (2, 1), (2, 2), (5, 5)]
    assert host.counted[Kind.INPUT, 0] == 5
    assert host.counted[Kind.LATE, 0] == 2
    assert sorted(r["id"] for b in host.late[0] for r in b.to_pylist()) == [3, 4]


def test_a_slide_hands_results_out_when_event_time_has_passed_it() -> None:
    host = LocalHost(job((ranged("x", "s", slide=100), ranged("y", "t")), buckets=1))
    both = {"s": rows((10, "a", 1)), "t": rows((12, "a", 1))}
    host.push(both)
    assert found(host, "x", "y") == []
    host.push({"s": rows((150, "b", 2)), "t": rows((99, "a", 2))})
    assert found(host, "x", "y") == []  # t may still bring what belongs to the first slide
    host.push({"t": rows((101, "c", 3))})
    assert found(host, "x", "y") == [(1, 1)]


def test_results_that_wait_for_a_slide_are_kept_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(join_program, "SEGMENT_BYTES", 100)
    host = LocalHost(job((ranged("x", "s", 1000, slide=100), ranged("y", "t", 1000)), buckets=1))
    host.push({"s": rows(*((10 * i, "a", i) for i in range(1, 21))), "t": rows((12, "a", 1))})
    assert found(host, "x", "y") == []
    host.push({"s": rows((250, "b", 90)), "t": rows((250, "c", 91))})
    assert found(host, "x", "y") == [(i, 1) for i in range(1, 20)]  # that at 200 is of the next slide
    assert len(host.results[0]) > 3
    host.forget()
    host.push({"s": rows((300, "b", 92)), "t": rows((300, "c", 93))})
    assert found(host, "x", "y") == [(i, 1) for i in range(1, 21)]


def test_windows_that_do_not_fit_the_shared_memory_stay_with_their_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: int) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    host = LocalHost(job((ranged("x", "s"), ranged("y", "t")), buckets=1))
    host.new_cache = lambda group: SharedCache(SharedWindows(tmp_path), str(group))
    for step in range(3):
        host.push({"s": rows((step, "a", step)), "t": rows((step, "a", step))})
    host.forget()
    host.push({"s": rows((3, "a", 3))})
    assert len(found(host, "x", "y")) == 9 + 3
    assert not list(tmp_path.glob("[0-9]*-*"))


def test_what_a_dead_process_was_changing_is_never_taken(tmp_path: Path) -> None:
    host = LocalHost(job((ranged("x", "s"), ranged("y", "t")), buckets=1))
    host.new_cache = lambda group: SharedCache(SharedWindows(tmp_path), str(group))
    host.push({"s": rows((1, "a", 1))})
    for shared in tmp_path.glob("1-*"):  # taken by a process that died
        shared.rename(tmp_path / "busy-0-dead")
    host.forget()
    host.push({"t": rows((2, "a", 2))})
    assert found(host, "x", "y") == [(1, 2)]


def test_strings_in_shared_windows_outgrow_their_first_arrays(tmp_path: Path) -> None:
    host = LocalHost(job((ranged("x", "s"), ranged("y", "t")), buckets=1, shown=("id", "k")))
    host.new_cache = lambda group: SharedCache(SharedWindows(tmp_path), str(group))
    for step in range(30):
        batch = rows(*((step * 2, f"key {i}", i) for i in range(100)))
        host.push({"s": batch, "t": batch})
        if step % 7 == 0:
            host.forget()
    alive = [1 + sum(abs(a - b) <= 5 for b in range(30) if b != a) for a in range(30)]
    assert len(found(host, "x", "y")) == 100 * sum(alive)


LONG_KEY = {"ts": pa.timestamp("us", "UTC"), "k": pa.int64(), "id": pa.int64()}
LAST = Window(WindowKind.ROWS, 1)


@pytest.mark.parametrize("order", [("k", "id"), ("ts", "id")])
def test_the_order_of_a_window_of_rows_may_be_its_key_or_its_time(order: tuple[str, ...]) -> None:
    inputs = (Input("x", "s", LAST), ranged("y", "t", size=5))
    host = LocalHost(job(inputs, columns=LONG_KEY, shown=("id", "k", "ts"), order=order, buckets=1))
    host.push({"s": rows((10, 2, 1), (10, 1, 2), columns=LONG_KEY)})
    host.push({"t": rows((10, 1, 3), (10, 2, 4), (20, 1, 5), columns=LONG_KEY)})
    host.end()
    last = 4 if order[0] == "k" else 3  # by key the tuple with 2 comes last and stays, by id the one with 1
    assert found(host, "x", "y") == [(1, 4)] if last == 4 else [(2, 3)]


ORDERED = {**COLUMNS, "o": pa.float64()}


def test_in_the_order_of_a_window_of_rows_null_is_first_and_nan_last() -> None:
    inputs = (Input("x", "s", LAST), ranged("y", "t", size=0))
    for values, last in (
        ((None, 1.0), 2),
        ((1.0, None), 1),
        ((float("nan"), 7.0), 1),
        ((None, float("nan")), 2),
    ):
        host = LocalHost(job(inputs, columns=ORDERED, order=("o",), buckets=1))
        tuples = [(10, "a", i + 1, o) for i, o in enumerate(values)]
        host.push({"s": rows(*tuples, columns=ORDERED), "t": rows((10, "a", 9, 0.0), columns=ORDERED)})
        host.end()
        assert found(host, "x", "y") == [(last, 9)], values


def test_a_window_of_rows_is_not_ordered_by_a_list() -> None:
    columns = {**COLUMNS, "o": pa.list_(pa.int64())}
    with pytest.raises(UserError, match=r"stream s: its `order` column 'o'"):
        job((Input("x", "s", LAST), ranged("y", "t")), columns=columns, order=("o",))


PAIR = {"ts": pa.timestamp("us", "UTC"), "k": pa.int64(), "j": pa.int64(), "id": pa.int64()}


def test_streams_that_fall_idle_below_in_a_tree_hold_nothing_back() -> None:
    inputs = (ranged("a", "a"), ranged("b", "b"), ranged("c", "c"))
    equal = (("a.k", "b.k"), ("b.j", "c.k"))
    host = LocalHost(job(inputs, columns=PAIR, equal=equal, buckets=1, idle=30, order=()))
    host.push({n: rows((0, 1, 1, 1), columns=PAIR) for n in "abc"}, wall=1000)
    for step in range(1, 100):  # only c goes on
        host.push({"c": rows((100 * step, 1, 1, step), columns=PAIR)}, wall=1000 + step)
    held = [sum(len(w) for w in c._held.join.windows) for c in host.caches.values()]
    assert sum(held) < 80  # without the others, all of the hundred would be
    host.push({"a": rows((50, 1, 1, 2), columns=PAIR)}, wall=1100)
    assert host.counted[Kind.LATE, 0] == 1  # c has gone on without it
    assert found(host, "a", "b", "c") == [(1, 1, 1)]


def test_results_with_long_strings_come_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(join_program, "RESULT_BYTES", 1000)
    host = LocalHost(job((ranged("x", "s"), ranged("y", "t")), buckets=1, shown=("id", "k")))
    host.push({"s": rows((1, "k" * 400, 1)), "t": rows(*((1, "k" * 400, i) for i in range(50)))})
    assert found(host, "x", "y") == [(1, i) for i in range(50)]
    assert all(part.num_rows <= 2 for part in host.results[0])


def test_what_a_failed_call_leaves_in_shared_memory_is_removed_by_the_next(tmp_path: Path) -> None:
    spec = next(iter(job((ranged("x", "s"), ranged("y", "t")), buckets=1).stages[0].values()))
    windows = SharedWindows(tmp_path)
    (tmp_path / "busy-999999999-0").mkdir(parents=True)  # of a process that is gone
    cache = SharedCache(windows, "1")
    for _ in range(3):
        assert cache.take(spec, "") is None
        state.make_join(spec, cache.allocators(2))  # and then it fails
    assert len(list(tmp_path.iterdir())) == 1


def test_long_windows_of_small_batches_have_few_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "FAN", 3)
    host = LocalHost(job((ranged("x", "s", size=1000), ranged("y", "t", size=1000)), buckets=1))
    for step in range(100):
        host.push({"s": rows((step, "a", step)), "t": rows((step, f"b{step}", step))})
        assert all(len(store) <= 1 + 2 * (4 * 3 + 10) for store in host.stores.values())
    host.forget()
    host.push({"t": rows((100, "a", 100))})
    assert found(host, "x", "y") == [(i, 100) for i in range(100)]


def test_a_key_is_computed_only_for_rows_that_pass_the_filters() -> None:
    number = Expr("CAST(`x`.`k` AS BIGINT)")
    inputs = (Input("x", "s", Window(WindowKind.RANGE, 10), (Expr("`x`.`id` > 0"),)), ranged("y", "t"))
    equality = Equality(number, Expr.column("y", "id"))
    query = Query("q", "", inputs, (equality,), (), (Output("x_id", Expr.column("x", "id")),))
    infos = {n: StreamInfo(n, COLUMNS, "ts", 0) for n in "st"}
    typed = TypedQuery(query, (equality,), {e.sql: pa.int64() for e in (equality.left, equality.right)})
    compiled = compile_job([typed], infos, buckets=1, labels=lambda n: range(1, n + 1), keep_late=False)
    selected = [sql for plan in compiled.streams if plan.stream == "s" for sql, _ in plan.select]
    assert "CASE WHEN (`id` > 0) THEN CAST(`k` AS BIGINT) END" in selected
