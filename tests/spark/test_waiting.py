"""When a run tells its joins that nothing has come for a while; without Spark."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from thalweg.plan.options import Memory
from thalweg.spark import run as module
from thalweg.spark.run import _Run
from thalweg.spark.unpack import counts


@pytest.fixture
def clock(monkeypatch):
    now = SimpleNamespace(s=100.0)
    monkeypatch.setattr(module.time, "monotonic", lambda: now.s)
    return now


def a_run(told: list[float], clock: Any, *, once: bool = False) -> Any:
    options: Any = SimpleNamespace(memory=Memory(1, 5_000_000), once=once)
    none: Any = None
    run = _Run(options, none, none, none, none, 0.0, {})
    run.host = SimpleNamespace(idle=lambda: told.append(clock.s))  # type: ignore[assignment]
    return run


def said(**waiting: int) -> dict[str, int]:
    reports = [f'{{"group": {g[1:]}, "waiting_rows": {n}, "disk_bytes": 9}}' for g, n in waiting.items()]
    return counts(reports, [])


def heard(run: Any, clock: Any, at: float, **waiting: int) -> None:
    clock.s = at
    run._hurry()
    run._hear_of_waiting(said(**waiting))


def test_what_waits_is_not_forgotten_while_other_joins_go_on(clock) -> None:
    """Two queries over different streams: those of the one fall silent, those of the other do not."""
    told: list[float] = []
    run = a_run(told, clock)
    heard(run, clock, 100, _1=7, _2=3)
    for at in range(101, 106):
        heard(run, clock, at, _2=at % 2)
    assert told == []
    heard(run, clock, 106, _2=1)
    assert told == [106]
    heard(run, clock, 107, _1=0, _2=0)
    heard(run, clock, 120)
    assert told == [106]


def test_nobody_is_told_where_nothing_waits_or_the_end_comes_anyway(clock) -> None:
    told: list[float] = []
    heard(run := a_run(told, clock), clock, 100, _1=0)
    heard(run, clock, 200)
    heard(run := a_run(told, clock, once=True), clock, 200, _1=5)
    heard(run, clock, 300)
    assert told == []
