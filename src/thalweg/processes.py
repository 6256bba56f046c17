"""Processes of this machine: told apart from later ones with the same number, and ended."""

from __future__ import annotations

import functools
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, Self


class Process(NamedTuple):
    """A process: its number, when it was started, in ticks since the machine was, and where.

    Numbers mean something only on one machine, between two starts of it, and within a container.
    """

    pid: int
    started: int
    where: str

    @classmethod
    def of(cls, pid: int) -> Self | None:
        """The process that has this number now; None if there is none, or only its exit status is left."""
        stat = _stat(pid)
        return None if stat is None or stat[0] == "Z" else cls(pid, int(stat[19]), _here())

    @classmethod
    def parse(cls, text: str) -> Self:
        """The inverse of `str`; a ValueError for any other text."""
        pid, started, where = text.split()
        return cls(int(pid), int(started), where)

    def __str__(self) -> str:
        return f"{self.pid} {self.started} {self.where}"

    @property
    def is_here(self) -> bool:
        """Whether its number means a process of this machine and container."""
        return self.where == _here()

    @property
    def alive(self) -> bool:
        return Process.of(self.pid) == self


def ancestors(pid: int) -> Iterator[tuple[int, str]]:
    """The numbers and names of the processes above one, the nearest first."""
    while (stat := _stat(pid)) is not None and (pid := int(stat[1])) > 0:
        try:
            yield pid, Path(f"/proc/{pid}/comm").read_text().strip()
        except OSError:
            return


@functools.cache
def _here() -> str:
    """This start of this machine, and the space of process numbers that this process is in."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}/{Path('/proc/self/ns/pid').stat().st_ino}"
    except OSError:
        return "unknown"


def _stat(pid: int) -> list[str] | None:
    """What the kernel says of a process after its name, which may hold anything: state, parent, ..."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return None


def stop(child: subprocess.Popen[bytes], grace_s: float) -> None:
    """Tell a process to end, which has a session of its own. After some seconds, kill all of the session."""
    if child.poll() is not None:
        return
    child.terminate()
    try:
        child.wait(grace_s)
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()


def stop_without(parent: int, every_s: float = 1.0) -> None:
    """Tells this process to stop when its parent is another than this one."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(every_s)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()
