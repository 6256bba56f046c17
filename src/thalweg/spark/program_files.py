"""What the sites of an application run, from which batch on.

The module is light: Spark loads it into processes that only plan.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark import TaskContext

from thalweg.files import write_text
from thalweg.storage import Location, location

if TYPE_CHECKING:
    from thalweg.operators.program import Program

_FILE = re.compile(r"(\d{9})\.json")


@dataclass(frozen=True)
class Programs:
    """What the sites run: a folder of files, each named by its first batch; or always the same program.

    Workers read the program of their batch, so a repeat of a batch sees the program of the first attempt.
    """

    folder: str | None = None
    fixed: bytes = b""

    def put(self, first: int, program: Program) -> None:
        """Let a program take over with a batch that has not been planned yet.

        It replaces one that was to take over then: the batch before may be repeated, and decide otherwise.
        """
        path = self.path(first)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, program.to_json().decode())
        self.read_anew()

    def read_anew(self) -> None:
        """Forget what was read: the files may be others."""
        _at.cache_clear()
        _read.cache_clear()

    def at(self, batch: int) -> Program:
        """The program of a batch."""
        return _parsed(self.fixed) if self.folder is None else _at(self.folder, batch)

    def firsts(self) -> list[int]:
        """The first batch of each program that is written down, in their order."""
        assert self.folder is not None
        return _firsts(self.folder)

    def path(self, first: int) -> Location:
        """The file of the program that takes over with a batch."""
        assert self.folder is not None
        return location(self.folder) / f"{first:09d}.json"


def _firsts(folder: str) -> list[int]:
    return sorted(int(m[1]) for p in location(folder).iterdir() if (m := _FILE.fullmatch(p.name)))


@functools.lru_cache(maxsize=64)
def _at(folder: str, batch: int) -> Program:
    first = max(f for f in _firsts(folder) if f <= batch)
    return _read(location(folder) / f"{first:09d}.json")


@functools.lru_cache(maxsize=8)
def _read(path: Location) -> Program:
    return _parsed(path.read_bytes())


@functools.lru_cache(maxsize=8)
def _parsed(data: bytes) -> Program:
    from thalweg.operators.program import Program

    return Program.from_json(data)


def batch_number() -> int:
    """The micro-batch that this task is part of."""
    context = TaskContext.get()
    return int((context and context.getLocalProperty("streaming.sql.batchId")) or 0)
