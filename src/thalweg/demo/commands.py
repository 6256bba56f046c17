"""Runs the commands of a demo in processes of their own, with their messages in one log."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from thalweg.processes import stop

PATIENCE_S = 120.0
_GRACE_S = 20.0


class DemoError(Exception):
    """The demo failed."""


@dataclass(frozen=True)
class Series:
    """A process that runs one command after another, so that Spark starts once."""

    home: Path
    child: subprocess.Popen[bytes]

    def say(self, *arguments: str) -> None:
        """Gives it a further command."""
        assert self.child.stdin is not None
        _log(self.home, arguments)
        # If the process has already ended, its exit status is reported later.
        with contextlib.suppress(BrokenPipeError):
            self.child.stdin.write(f"{shlex.join(arguments)}\n".encode())
            self.child.stdin.flush()

    def stop_command(self) -> None:
        """Stops a run, not the process."""
        self.child.send_signal(signal.SIGTERM)

    def check(self) -> None:
        """Fails if the process has ended."""
        if self.child.poll() is not None:
            raise DemoError(why(self.home, "a command ended too early"))

    def end(self) -> None:
        """Waits until it has run all its commands."""
        _end(self.child, self.home)


@contextmanager
def series(home: Path) -> Iterator[Series]:
    """A series of commands. It is stopped on exit."""
    with _child(home, "thalweg.cli.series", stdin=subprocess.PIPE) as child:
        yield Series(home, child)


def answer(home: Path, *arguments: str) -> Mapping[str, Any]:
    """The JSON that a command prints; its exit status may be 1."""
    _log(home, arguments)
    file = home / "answer.json"
    try:
        with _child(home, "thalweg", *arguments, out=file) as child:
            _end(child, home, accepted=(0, 1))
        return dict(json.loads(file.read_text()))
    except ValueError:
        raise DemoError(why(home, f"thalweg {arguments[0]} gave no answer")) from None
    finally:
        file.unlink(missing_ok=True)


def why(home: Path, what: str) -> str:
    """The failure, with Thalweg's last message."""
    log = home / "run.log"
    said = [line for line in log.read_text(errors="replace").splitlines() if line.startswith("thalweg: ")]
    return f"{what}{': ' + said[-1].removeprefix('thalweg: ') if said else ''} (see {log})"


@contextmanager
def _child(
    home: Path, module: str, *arguments: str, out: Path | None = None, stdin: int = subprocess.DEVNULL
) -> Iterator[subprocess.Popen[bytes]]:
    """Runs a Thalweg module in its own process, which is stopped on exit."""
    command = [sys.executable, "-m", module, *arguments]
    with (home / "run.log").open("ab") as log, (out or Path(os.devnull)).open("wb") as told:
        # In its own session: Ctrl-C reaches only this process, which then stops the child cleanly.
        child = subprocess.Popen(
            command, cwd=home, stdin=stdin, stdout=told, stderr=log, start_new_session=True
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
    stop(child, _GRACE_S)


def _end(child: subprocess.Popen[bytes], home: Path, accepted: Sequence[int] = (0,)) -> None:
    """Waits until a process has run all its commands."""
    if child.stdin is not None:
        with contextlib.suppress(BrokenPipeError):
            child.stdin.close()
    try:
        status = child.wait(PATIENCE_S)
    except subprocess.TimeoutExpired:
        raise DemoError(why(home, f"a command did not end in {PATIENCE_S:.0f} s")) from None
    if status not in accepted:
        raise DemoError(why(home, f"a command ended with status {status}"))
