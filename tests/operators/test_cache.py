"""Windows in memory that several processes share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.operators.one_site import found, hosted, join_of, push, ranged, rows, share_windows
from thalweg.kernel.shared import SharedWindows
from thalweg.operators import state
from thalweg.operators.cache import SharedCache
from thalweg.operators.spec import JoinSpec


def test_windows_that_do_not_fit_the_shared_memory_stay_with_their_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: int) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    host = hosted(join_of((ranged("x", "s"), ranged("y", "t")), buckets=1))
    share_windows(host, tmp_path)
    for step in range(3):
        push(host, {"s": rows((step, "a", step)), "t": rows((step, "a", step))})
    host.forget()
    push(host, {"s": rows((3, "a", 3))})
    assert len(found(host, "x", "y")) == 9 + 3
    assert not list(tmp_path.glob("[0-9]*-*"))


def test_what_a_dead_process_was_changing_is_never_taken(tmp_path: Path) -> None:
    host = hosted(join_of((ranged("x", "s"), ranged("y", "t")), buckets=1))
    share_windows(host, tmp_path)
    push(host, {"s": rows((1, "a", 1))})
    for shared in tmp_path.glob("[0-9]*-*"):  # taken by a process that died
        shared.rename(tmp_path / "busy-0-dead")
    host.forget()
    push(host, {"t": rows((2, "a", 2))})
    assert found(host, "x", "y") == [(1, 2)]


def test_strings_in_shared_windows_outgrow_their_first_arrays(tmp_path: Path) -> None:
    host = hosted(join_of((ranged("x", "s"), ranged("y", "t")), buckets=1, shown=("id", "k")))
    share_windows(host, tmp_path)
    for step in range(30):
        batch = rows(*((step * 2, f"key {i}", i) for i in range(100)))
        push(host, {"s": batch, "t": batch})
        if step % 7 == 0:
            host.forget()
    alive = [1 + sum(abs(a - b) <= 5 for b in range(30) if b != a) for a in range(30)]
    assert len(found(host, "x", "y")) == 100 * sum(alive)


def test_what_a_failed_call_leaves_in_shared_memory_is_removed_by_the_next(tmp_path: Path) -> None:
    made = join_of((ranged("x", "s"), ranged("y", "t")), buckets=1)
    (spec,) = (p.spec for p in made.program.operators if isinstance(p.spec, JoinSpec))
    windows = SharedWindows(tmp_path)
    (tmp_path / "busy-999999999-0").mkdir(parents=True)  # of a process that is gone
    cache = SharedCache(windows, "1")
    for _ in range(3):
        assert cache.take(spec, "") is None
        state.make_join(spec, cache.allocators(2))  # and then it fails
    assert len(list(tmp_path.iterdir())) == 1
