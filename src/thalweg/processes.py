"""Processes of this machine, told apart from later ones with the same number."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, Self


class Process(NamedTuple):
    """A process: its number, and when it was started, in ticks since the machine was."""

    pid: int
    started: int

    @classmethod
    def of(cls, pid: int) -> Self | None:
        """The process that has this number now; None if there is none, or only its exit status is left."""
        stat = _stat(pid)
        return None if stat is None or stat[0] == "Z" else cls(pid, int(stat[19]))

    @classmethod
    def parse(cls, text: str) -> Self:
        """The inverse of `str`; a ValueError for any other text."""
        pid, started = map(int, text.split())
        return cls(pid, started)

    def __str__(self) -> str:
        return f"{self.pid} {self.started}"

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


def _stat(pid: int) -> list[str] | None:
    """What the kernel says of a process after its name, which may hold anything: state, parent, ..."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return None
