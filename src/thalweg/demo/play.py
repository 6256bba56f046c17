"""Plays the demonstration: `thalweg run` joins the streams live while packets are replayed into them.

It runs by the plan that `auto` chooses, and is stopped when all results are out. It could go on from there:
what it left is an ordinary folder of a run that was stopped. Then the same packets are joined by the central
plan, and `thalweg verify` recomputes the results of both with DuckDB.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shlex
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

from thalweg.demo.figures import CENTRAL, LIVE, Figures, Ran, read_figures
from thalweg.demo.packets import QUERY, Traffic
from thalweg.demo.picture import draw
from thalweg.demo.replay import Replay
from thalweg.errors import UserError

MARKER = ".thalweg-demo"
PICTURE = "demo.png"
_PATIENCE_S = 120.0
_GRACE_S = 20.0
_POLL_S = 0.1
_QUIET_S = 1.5


class DemoError(Exception):
    """The demonstration could not be played to its end."""


@dataclass(frozen=True)
class Moment:
    """How far it has come: packets handed on, packets read, results, and the payload between sites.

    `central` is what that would have been by now with all packets shipped to one site.
    """

    sent: int
    read: int
    results: int
    seconds: float
    shipped: int = 0
    central: int = 0


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
    audience.step("starting Spark, with a site for each router, and joining a first portion")
    replay.warm_up()
    with _series(home) as child:
        _say(child, home, "run", *_given(LIVE))
        run.wait_until(lambda: run.read > 0, child)
        audience.step("replaying the packets of three routers, live, and joining them across sites")
        replay.start()
        run.wait_until(lambda: replay.done.is_set() and run.read >= run.sent and run.is_quiet(), child)
        audience.step("joining the same packets by the central plan, all at one site")
        child.send_signal(signal.SIGTERM)  # ends the run, and not what runs it
        _say(child, home, "run", *_given(CENTRAL), "--once", "--planner", "simple")
        _end(child, home)
    audience.step("recomputing the results of both with DuckDB")
    live, central = (Ran.read_from(home / out, _verify(home, out)) for out in (LIVE, CENTRAL))
    figures = read_figures(home, live, central, replay.begun or 0.0)
    draw(home, figures, traffic.window_ms / 1000, home / PICTURE)
    return figures


@dataclass
class _Run:
    """A run as its folder shows it."""

    home: Path
    replay: Replay
    audience: Audience
    quiet_since: tuple[str, float] | None = None

    def metrics(self) -> Mapping[str, Any]:
        try:
            return dict(json.loads((self.home / LIVE / "metrics.json").read_text()))
        except FileNotFoundError:
            return {"input_rows": {}, "output_rows": {}, "shipped": [], "elapsed_s": 0.0}

    def is_quiet(self) -> bool:
        """Whether no batch is under way, and none has been for a while: nothing is between the sites."""
        checkpoint = self.home / LIVE / "_thalweg" / "checkpoint"
        begun, done = (
            max((p.name for p in (checkpoint / part).glob("[0-9]*")), key=int, default="")
            for part in ("offsets", "commits")
        )
        now = time.monotonic()
        if begun != done or self.quiet_since is None or self.quiet_since[0] != done:
            self.quiet_since = (done, now)
        return now - self.quiet_since[1] >= _QUIET_S

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
            now = time.monotonic()
            moment = self._moment(now - begun)
            if (moment.sent, moment.read) != last:
                last, moved = (moment.sent, moment.read), now
            if now - moved > _PATIENCE_S:
                raise DemoError(_why(self.home, f"no progress in {_PATIENCE_S:.0f} s"))
            self.audience.moment(moment)
            time.sleep(_POLL_S)
        self.audience.moment(self._moment(time.monotonic() - begun))

    def _moment(self, seconds: float) -> Moment:
        metrics = self.metrics()
        read, results = (sum(metrics[part].values()) for part in ("input_rows", "output_rows"))
        shipped = sum(way["payload_bytes"] for way in metrics["shipped"])
        return Moment(self.sent, read, results, seconds, shipped, metrics.get("central_payload_bytes", 0))


def _given(out: str) -> tuple[str, ...]:
    return f"{QUERY}.sql", "--catalog", "catalog.yaml", "--out", out


def _verify(home: Path, out: str) -> Mapping[str, Any]:
    """What DuckDB says of the results of a run."""
    answer = home / f"{out}-verdict.json"
    arguments = ("verify", *_given(out), "--json")
    _log(home, arguments)
    with _child(home, "thalweg", *arguments, out=answer) as child:
        _end(child, home, accepted=(0, 1))
    try:
        return dict(json.loads(answer.read_text()))
    except ValueError:
        raise DemoError(_why(home, "thalweg verify gave no verdict")) from None


@contextmanager
def _series(home: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that runs the commands which `_say` tells it, and is gone afterwards."""
    with _child(home, "thalweg.cli.series", stdin=subprocess.PIPE) as child:
        yield child


def _say(child: subprocess.Popen[bytes], home: Path, *arguments: str) -> None:
    assert child.stdin is not None
    _log(home, arguments)
    # That it has ended already, its status will tell.
    with contextlib.suppress(BrokenPipeError):
        child.stdin.write(f"{shlex.join(arguments)}\n".encode())
        child.stdin.flush()


@contextmanager
def _child(
    home: Path, module: str, *arguments: str, out: Path | None = None, stdin: int = subprocess.DEVNULL
) -> Iterator[subprocess.Popen[bytes]]:
    """A module of Thalweg in a process of its own, which is gone afterwards."""
    command = [sys.executable, "-m", module, *arguments]
    with (home / "run.log").open("ab") as log, (out or Path(os.devnull)).open("wb") as answer:
        # In a session of its own, so that Ctrl-C comes to us alone and we end the child in good order.
        child = subprocess.Popen(
            command, cwd=home, stdin=stdin, stdout=answer, stderr=log, start_new_session=True
        )
        try:
            yield child
        finally:
            _stop(child)


def _log(home: Path, arguments: Sequence[str]) -> None:
    with (home / "run.log").open("a") as log:
        log.write(f"$ thalweg {shlex.join(arguments)}\n")


def _stop(child: subprocess.Popen[bytes]) -> None:
    if child.stdin is not None:
        with contextlib.suppress(BrokenPipeError):
            child.stdin.close()
    if child.poll() is None:
        child.terminate()
        try:
            child.wait(_GRACE_S)
        except (subprocess.TimeoutExpired, KeyboardInterrupt):
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()


def _end(child: subprocess.Popen[bytes], home: Path, accepted: Sequence[int] = (0,)) -> None:
    """Wait until a process has done all that it was told."""
    if child.stdin is not None:
        with contextlib.suppress(BrokenPipeError):
            child.stdin.close()
    try:
        status = child.wait(_PATIENCE_S)
    except subprocess.TimeoutExpired:
        raise DemoError(_why(home, f"a command did not end in {_PATIENCE_S:.0f} s")) from None
    if status not in accepted:
        raise DemoError(_why(home, f"a command ended with status {status}"))


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
