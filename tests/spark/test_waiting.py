"""When a run tells its joins that nothing has come for a while, or is told to stop; without Spark."""

from __future__ import annotations

import json
import os
import signal
from types import SimpleNamespace
from typing import Any

import pytest

from thalweg.cli.main import invoke
from thalweg.operators.output import Report
from thalweg.plan.options import Memory
from thalweg.spark import run as module
from thalweg.spark.run import _Run


@pytest.fixture
def clock(monkeypatch):
    now = SimpleNamespace(s=100.0)
    monkeypatch.setattr(module.time, "monotonic", lambda: now.s)
    return now


def a_run(told: list[float], clock: Any, *, once: bool = False) -> Any:
    options: Any = SimpleNamespace(memory=Memory(1, 5_000_000), once=once)
    none: Any = None
    run = _Run(options, none, none, none, none, 0.0, {})
    run.host = SimpleNamespace(hurry=lambda: told.append(clock.s))  # type: ignore[assignment]
    return run


def said(**waiting: int) -> Report:
    """What the buckets of a batch report, each for itself."""
    reports = [Report(waiting={f"{b[1:]}/join": n}, disk_bytes=9).to_json() for b, n in waiting.items()]
    return Report.sum(reports)


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


@pytest.mark.parametrize(
    ("told", "mode", "wanted"),
    [
        (signal.SIGTERM, (), 0),
        (signal.SIGTERM, ("--once",), 143),
        (signal.SIGINT, ("--once",), 130),
        (None, (), 1),
    ],
)
def test_a_run_told_to_stop_while_spark_starts_ends_cleanly(
    tmp_path, monkeypatch, capsys, told, mode, wanted
) -> None:
    """The signal goes to all processes of a group: the JVM may go first, and then Spark fails to start."""

    def failing(*_: object) -> None:
        if told:
            os.kill(os.getpid(), told)
        raise ConnectionRefusedError(111, "Connection refused")

    stream = "{site: here, time: ts, schema: {ts: timestamp, k: long}, source: {format: rate}}"
    (tmp_path / "catalog.yaml").write_text(f"sites: {{here: {{}}}}\nstreams: {{a: {stream}, b: {stream}}}\n")
    (tmp_path / "q.sql").write_text("SELECT a.k FROM a [RANGE 1 DAY], b [RANGE 1 DAY] WHERE a.k = b.k\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(module, "session", failing)
    before = [signal.getsignal(told) for told in (signal.SIGINT, signal.SIGTERM)]
    try:
        status = invoke(["run", "q.sql", "--catalog", "catalog.yaml", "--out", "out", "--json", *mode])
    finally:
        for name, handler in zip((signal.SIGINT, signal.SIGTERM), before, strict=True):
            signal.signal(name, handler)
    out, err = capsys.readouterr()
    assert status == wanted, err
    if not told:
        assert "Spark has ended unexpectedly; the same command continues" in err
        assert "ConnectionRefused" not in err
    if told:
        assert json.loads(out)["input_rows"] == {"a": 0, "b": 0}
        assert json.loads(out)["complete"] is False
