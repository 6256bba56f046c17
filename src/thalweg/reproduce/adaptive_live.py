"""A run of `thalweg run` on Spark that reads files as they come, and what it ships between sites."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from thalweg.adapt.history import History
from thalweg.errors import UserError
from thalweg.processes import stop
from thalweg.reproduce.adaptive import TIME, Rows
from thalweg.reproduce.outcome import Tell

FILE_US = 1_000_000
"""Of each stream a file comes once a second."""
_PATIENCE_S = 180.0
_GRACE_S = 30.0
_QUIET_S = 10.0
_POLL_S = 0.5


@dataclass
class Live:
    """A run, watched through its folder: the payload that it had shipped, and when.

    `home` has its catalog.yaml, its join.sql and its files. At the end there are also a verdict on its
    results, and the times of the streams at which it decided to change its plan.
    """

    name: str
    options: tuple[str, ...]
    home: Path
    at_s: list[float] = field(default_factory=list)
    shipped: list[int] = field(default_factory=list)
    verdict: Mapping[str, Any] = field(default_factory=dict)
    metrics: dict[str, Any] = field(default_factory=dict)
    changes_s: list[float] = field(default_factory=list)

    def look(self) -> None:
        """Read its metrics; before its first batch there are none."""
        with contextlib.suppress(FileNotFoundError):
            self.metrics = json.loads((self.home / self.name / "metrics.json").read_text())

    @property
    def read(self) -> int:
        return sum(self.metrics.get("input_rows", {}).values())

    def total(self, what: str) -> int:
        return sum(way[what] for way in self.metrics.get("shipped", ()))

    def note(self, at_s: float) -> None:
        self.look()
        self.at_s.append(at_s)
        self.shipped.append(self.total("payload_bytes"))

    def by_interval(self, interval_s: float, count: int) -> np.ndarray:
        """The payload for the tuples of each interval, at the place of the next: shipping ends with that.

        >>> Live("", (), Path(), [0.0, 1.0, 3.0], [0, 10, 50]).by_interval(1.0, 5).tolist()
        [0.0, 10.0, 20.0, 20.0, 0.0]
        """
        return np.diff(np.interp(np.arange(-1, count) * interval_s, self.at_s, self.shipped))


def watched(one: Live, rows: Mapping[str, Rows], tell: Tell) -> None:
    """Let a run read the tuples of all streams, each at its time; then complete it, and check its results."""
    origin = time.time_ns() // 1000
    _write(one.home, rows, 0, origin)
    tell(f"starting the {one.name} run on Spark")
    with _started(one) as child:
        _wait(one, child, 1)
        _replay(one, child, rows, origin, tell)
    tell(f"completing the {one.name} run, and checking its results with DuckDB")
    _ended(one, "run", *one.options, "--once")
    one.look()
    one.verdict = json.loads(_ended(one, "verify", "--json"))
    one.changes_s = [(change - origin) / 1e6 for change in _changes(one)]


def _replay(
    one: Live, child: subprocess.Popen[bytes], rows: Mapping[str, Rows], origin: int, tell: Tell
) -> None:
    """Write the other files, each at its time, and look at the run meanwhile."""
    begun = time.monotonic()
    files = 1 + int(max(own.times[-1] for own in rows.values())) // FILE_US
    number, last = 1, files * FILE_US / 1e6 + _QUIET_S
    while (at := time.monotonic() - begun) < last:
        while number < files and at >= number * FILE_US / 1e6:
            _write(one.home, rows, number, origin)
            number += 1
            if number % 30 == 0:
                tell(f"{one.name}: {number} of {files} s")
        _alive(one, child)
        one.note(at)
        time.sleep(_POLL_S)
    _wait(one, child, sum(len(own.times) for own in rows.values()))


def _wait(one: Live, child: subprocess.Popen[bytes], tuples: int) -> None:
    """Until the run has read so many tuples."""
    begun = time.monotonic()
    while one.read < tuples:
        _alive(one, child)
        if time.monotonic() - begun > _PATIENCE_S:
            raise UserError(f"the {one.name} run has not read {tuples:,} tuples in {_PATIENCE_S:g} s")
        time.sleep(_POLL_S)
        one.look()


def _alive(one: Live, child: subprocess.Popen[bytes]) -> None:
    if child.poll() is not None:
        raise UserError(f"the {one.name} run ended early: {_said(one)}")


def _changes(one: Live) -> list[int]:
    """The event times at which the plan was changed, in microseconds."""
    history = History.load(one.home / one.name / "_thalweg" / "changes.json")
    return [r.event_time for r in history.records if r.outcome == "done" and r.event_time is not None]


def _write(home: Path, rows: Mapping[str, Rows], number: int, origin: int) -> None:
    """One file of each stream, with times that count from the beginning."""
    for name, own in rows.items():
        part = own.between(number * FILE_US, (number + 1) * FILE_US)
        times = own.times[np.searchsorted(own.times, number * FILE_US) :][: part.num_rows] + origin
        table = pa.Table.from_batches([part]).set_column(0, "ts", pa.array(times).cast(TIME))
        folder = home / "data" / name
        folder.mkdir(parents=True, exist_ok=True)
        draft = folder / f".{number:05d}.parquet"  # Spark does not see names that begin with a dot
        pq.write_table(table, draft)
        draft.replace(folder / draft.name[1:])


def _command(one: Live, verb: str, *options: str) -> list[str]:
    query, known, out = (str(one.home / name) for name in ("join.sql", "catalog.yaml", one.name))
    return [sys.executable, "-m", "thalweg", verb, query, "--catalog", known, "--out", out, *options]


@contextmanager
def _started(one: Live) -> Iterator[subprocess.Popen[bytes]]:
    """The run in a process of its own, which is stopped on exit."""
    with (one.home / f"{one.name}.log").open("wb") as log:
        command = _command(one, "run", *one.options)
        child = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
        try:
            yield child
        finally:
            stop(child, _GRACE_S)


def _ended(one: Live, verb: str, *options: str) -> bytes:
    """The output of a command on the run's folder; a verdict that results differ is no failure."""
    with (one.home / f"{one.name}.log").open("ab") as log:
        done = subprocess.run(_command(one, verb, *options), stdout=subprocess.PIPE, stderr=log, check=False)
    if done.returncode not in ((0, 1) if verb == "verify" else (0,)):
        raise UserError(f"thalweg {verb} ended with status {done.returncode}: {_said(one)}")
    return done.stdout


def _said(one: Live) -> str:
    lines = (one.home / f"{one.name}.log").read_text(errors="replace").strip().splitlines()
    return lines[-1] if lines else "it said nothing"
