"""What operator programs do that random tests do not single out."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pytest

from thalweg.kernel.shared import SharedWindows
from thalweg.programs.cache import SharedCache
from thalweg.programs.compile import Job, StreamInfo, TypedQuery, compile_job
from thalweg.programs.local import LocalHost
from thalweg.programs.packet import Kind
from thalweg.query.model import Equality, Expr, Input, Output, Query, Window, WindowKind

COLUMNS = {"ts": pa.timestamp("us", "UTC"), "k": pa.string(), "id": pa.int64()}


def job(inputs: tuple[Input, ...], lateness: int = 0, buckets: int = 2, **more) -> Job:
    names = [i.alias for i in inputs]
    equalities = tuple(Equality(Expr.column(names[0], "k"), Expr.column(other, "k")) for other in names[1:])
    outputs = tuple(Output(f"{a}_id", Expr.column(a, "id")) for a in names)
    query = Query("q", "", inputs, equalities, (), outputs)
    infos = {i.stream: StreamInfo(i.stream, COLUMNS, "ts", lateness, order=("id",), **more) for i in inputs}
    kinds = {side.sql: pa.string() for e in equalities for side in (e.left, e.right)}
    typed = TypedQuery(query, equalities, kinds)
    return compile_job([typed], infos, buckets=buckets, labels=lambda n: range(1, n + 1), keep_late=True)


def rows(*tuples: tuple[int | None, str, int]) -> pa.RecordBatch:
    columns = list(zip(*tuples, strict=True))
    arrays = [pa.array(c, kind) for c, kind in zip(columns, COLUMNS.values(), strict=True)]
    return pa.record_batch(arrays, names=list(COLUMNS))


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
