"""Plays the demo: `thalweg run` joins the streams while packets are replayed into them.

The live run uses the plan that `auto` chooses, and is stopped when all results are out. Its folder is that of
any stopped run, so it can be resumed. Then the central plan joins the same packets, and `thalweg verify`
recomputes the results of both with DuckDB.
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
    """The demo failed."""


@dataclass(frozen=True)
class Moment:
    """Progress: packets sent, packets read, results, and the payload shipped between sites.

    `central` is the payload so far if all packets were shipped to one site.
    """

    sent: int
    read: int
    results: int
    seconds: float
    shipped: int = 0
    central: int = 0


class Audience(Protocol):
    """Shows the progress of the demo."""

    def step(self, text: str) -> None: ...
    def moment(self, moment: Moment) -> None: ...


def play(out: Path, traffic: Traffic, audience: Audience) -> Figures:
    """Plays the demo in a folder, which is emptied first. The picture in it is named PICTURE."""
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
    audience.step("starting Spark with one site for each router, and joining the first packets")
    replay.warm_up()
    with _series(home) as child:
        # The time of a result file says when its results could be read: no merging.
        _say(child, home, "run", *_given(LIVE), "--no-compact")
        run.wait_until(lambda: run.read > 0, child)
        audience.step("replaying the packets of three routers and joining them live across sites")
        replay.start()
        run.wait_until(lambda: replay.done.is_set() and run.read >= run.sent and run.is_quiet(), child)
        audience.step("joining the same packets with the central plan, all at one site")
        child.send_signal(signal.SIGTERM)  # ends the run, not the process
        _say(child, home, "run", *_given(CENTRAL), "--once", "--planner", "simple")
        _end(child, home)
    audience.step("recomputing both results with DuckDB")
    live, central = (Ran.read_from(home / out, _verify(home, out)) for out in (LIVE, CENTRAL))
    figures = read_figures(home, live, central, replay.begun or 0.0)
    draw(home, figures, traffic.window_ms / 1000, home / PICTURE)
    return figures


@dataclass
class _Run:
    """The live run, observed through its folder."""

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
        """Whether no batch has run for a while, so that nothing is in transit between sites."""
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
        """Shows progress until the condition holds. Fails if the run ends or makes no progress."""
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
    """Verifies the results of a run with DuckDB."""
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
    """A process that runs the commands given to `_say`. It is stopped on exit."""
    with _child(home, "thalweg.cli.series", stdin=subprocess.PIPE) as child:
        yield child


def _say(child: subprocess.Popen[bytes], home: Path, *arguments: str) -> None:
    assert child.stdin is not None
    _log(home, arguments)
    # If the process has already ended, its exit status is reported later.
    with contextlib.suppress(BrokenPipeError):
        child.stdin.write(f"{shlex.join(arguments)}\n".encode())
        child.stdin.flush()


@contextmanager
def _child(
    home: Path, module: str, *arguments: str, out: Path | None = None, stdin: int = subprocess.DEVNULL
) -> Iterator[subprocess.Popen[bytes]]:
    """Runs a Thalweg module in its own process, which is stopped on exit."""
    command = [sys.executable, "-m", module, *arguments]
    with (home / "run.log").open("ab") as log, (out or Path(os.devnull)).open("wb") as answer:
        # In its own session: Ctrl-C reaches only this process, which then stops the child cleanly.
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
    """Waits until a process has run all its commands."""
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
    """The failure, with Thalweg's last message."""
    log = home / "run.log"
    said = [line for line in log.read_text(errors="replace").splitlines() if line.startswith("thalweg: ")]
    return f"{what}{': ' + said[-1].removeprefix('thalweg: ') if said else ''} (see {log})"


@contextmanager
def _claimed(home: Path) -> Iterator[None]:
    """Locks the folder and removes an earlier demo. A folder with other files is refused."""
    marker = home / MARKER
    if home.exists() and not home.is_dir():
        raise UserError("this is not a folder", where=str(home), remedy="give --out a new name")
    if home.is_dir() and any(home.iterdir()) and not marker.exists():
        raise UserError(
            "this folder holds files that are not from a demo",
            where=str(home),
            remedy="give --out a new or empty folder",
        )
    try:
        home.mkdir(parents=True, exist_ok=True)
        lock = marker.open("w")
    except OSError as error:
        raise UserError(f"can't use the folder: {error.strerror}", where=str(home)) from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(
                "another demo is using this folder", where=str(home), remedy="give --out another folder"
            ) from None
        for entry in home.iterdir():
            if entry.name == MARKER:
                continue
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
        yield
