"""Plays the demonstration: `thalweg run` joins the streams live while packets are replayed into them.

The run is stopped when it has read everything; `thalweg verify` then recomputes all results with DuckDB. The
run could go on from there: what it left is an ordinary folder of a run that was stopped.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from thalweg.demo.figures import Figures, read_figures
from thalweg.demo.packets import QUERY, Traffic
from thalweg.demo.picture import draw
from thalweg.demo.replay import Replay
from thalweg.errors import UserError

MARKER = ".thalweg-demo"
PICTURE = "demo.png"
_PATIENCE_S = 120.0
_GRACE_S = 20.0
_POLL_S = 0.1


class DemoError(Exception):
    """The demonstration could not be played to its end."""


@dataclass(frozen=True)
class Moment:
    """How far it has come: packets handed on, packets read, results."""

    sent: int
    read: int
    results: int
    seconds: float


class Audience(Protocol):
    """Whom the demonstration is shown to."""

    def step(self, text: str) -> None: ...
    def moment(self, moment: Moment) -> None: ...


def play(out: Path, traffic: Traffic, audience: Audience) -> Figures:
    """Play it in a folder, which is emptied first; the picture is then in it, under the name PICTURE."""
    home = out.absolute()
    with _claimed(home):
        (home / "catalog.yaml").write_text(traffic.catalog())
        (home / f"{QUERY}.sql").write_text(traffic.query())
        replay = Replay(traffic, home / "packets")
        try:
            return _play(home, traffic, replay, audience)
        finally:
            replay.stop()


def _play(home: Path, traffic: Traffic, replay: Replay, audience: Audience) -> Figures:
    run = _Run(home, replay, audience)
    audience.step("starting Spark and joining a first portion")
    replay.warm_up()
    with _child(home, "run", *_GIVEN) as child:
        run.wait_until(lambda: run.read > 0, child)
        audience.step("replaying the packets of three routers, live, and joining them")
        replay.start()
        run.wait_until(lambda: replay.done.is_set() and run.read >= run.sent, child)
        child.send_signal(signal.SIGTERM)
        _end(child, home)
    audience.step("stopped; recomputing the query with DuckDB")
    with _child(home, "verify", *_GIVEN, "--json", out=home / "verdict.json") as child:
        _end(child, home, accepted=(0, 1))
    assert replay.begun is not None
    figures = read_figures(home, run.metrics(), _verdict(home), replay.begun)
    draw(home, figures, traffic.window_s, home / PICTURE)
    return figures


@dataclass
class _Run:
    """A run as its folder shows it."""

    home: Path
    replay: Replay
    audience: Audience

    def metrics(self) -> Mapping[str, Any]:
        try:
            return dict(json.loads((self.home / "run" / "metrics.json").read_text()))
        except FileNotFoundError:
            return {"input_rows": {}, "output_rows": {}, "elapsed_s": 0.0}

    @property
    def sent(self) -> int:
        return sum(self.replay.sent.values())

    @property
    def read(self) -> int:
        return sum(self.metrics()["input_rows"].values())

    def wait_until(self, reached: Callable[[], bool], child: subprocess.Popen[bytes]) -> None:
        """Show how it goes until it has come so far; an error if it ends before, or makes no progress."""
        begun = moved = time.monotonic()
        last: tuple[int, int] | None = None
        while not reached():
            if self.replay.error is not None:
                raise DemoError(f"the replay failed: {self.replay.error}")
            if child.poll() is not None:
                raise DemoError(_why(self.home, "thalweg run ended too early"))
            metrics, now = self.metrics(), time.monotonic()
            read, results = (sum(metrics[part].values()) for part in ("input_rows", "output_rows"))
            if (self.sent, read) != last:
                last, moved = (self.sent, read), now
            if now - moved > _PATIENCE_S:
                raise DemoError(_why(self.home, f"no progress in {_PATIENCE_S:.0f} s"))
            self.audience.moment(Moment(self.sent, read, results, now - begun))
            time.sleep(_POLL_S)
        metrics = self.metrics()
        read, results = (sum(metrics[part].values()) for part in ("input_rows", "output_rows"))
        self.audience.moment(Moment(self.sent, read, results, time.monotonic() - begun))


_GIVEN = (f"{QUERY}.sql", "--catalog", "catalog.yaml", "--out", "run")


@contextmanager
def _child(home: Path, *arguments: str, out: Path | None = None) -> Iterator[subprocess.Popen[bytes]]:
    """A command of Thalweg in a process of its own, which is gone afterwards."""
    command = [sys.executable, "-m", "thalweg", *arguments]
    with (home / "run.log").open("ab") as log, (out or Path(os.devnull)).open("wb") as answer:
        log.write(f"$ thalweg {' '.join(arguments)}\n".encode())
        log.flush()
        # In a session of its own, so that Ctrl-C comes to us alone and we end the child in good order.
        child = subprocess.Popen(
            command, cwd=home, stdin=subprocess.DEVNULL, stdout=answer, stderr=log, start_new_session=True
        )
        try:
            yield child
        finally:
            _stop(child)


def _stop(child: subprocess.Popen[bytes]) -> None:
    if child.poll() is None:
        child.terminate()
        try:
            child.wait(_GRACE_S)
        except (subprocess.TimeoutExpired, KeyboardInterrupt):
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()


def _end(child: subprocess.Popen[bytes], home: Path, accepted: Sequence[int] = (0,)) -> None:
    try:
        status = child.wait(_PATIENCE_S)
    except subprocess.TimeoutExpired:
        raise DemoError(_why(home, f"a command did not end in {_PATIENCE_S:.0f} s")) from None
    if status not in accepted:
        raise DemoError(_why(home, f"a command ended with status {status}"))


def _verdict(home: Path) -> Mapping[str, Any]:
    try:
        return dict(json.loads((home / "verdict.json").read_text()))
    except ValueError:
        raise DemoError(_why(home, "thalweg verify gave no verdict")) from None


def _why(home: Path, what: str) -> str:
    """What happened, with what Thalweg last said of it."""
    log = home / "run.log"
    said = [line for line in log.read_text(errors="replace").splitlines() if line.startswith("thalweg: ")]
    return f"{what}{': ' + said[-1].removeprefix('thalweg: ') if said else ''} (all of it is in {log})"


@contextmanager
def _claimed(home: Path) -> Iterator[None]:
    """The folder, emptied of an earlier demonstration. A folder with anything else in it is left alone."""
    marker = home / MARKER
    if home.exists() and not home.is_dir():
        raise UserError("this is not a folder", where=str(home), remedy="give a new name to --out")
    if home.is_dir() and any(home.iterdir()) and not marker.exists():
        raise UserError(
            "this folder holds files that are not from a demonstration",
            where=str(home),
            remedy="give a new or empty folder to --out",
        )
    try:
        home.mkdir(parents=True, exist_ok=True)
        lock = marker.open("w")
    except OSError as error:
        raise UserError(f"the folder can't be used: {error.strerror}", where=str(home)) from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(
                "another demonstration is using this folder", where=str(home), remedy="give another to --out"
            ) from None
        for entry in home.iterdir():
            if entry.name == MARKER:
                continue
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
        yield
