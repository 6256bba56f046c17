"""What the sites of an application run, from which batch on.

The module is light: Spark loads it into processes that only plan.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark import TaskContext

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
        """Let a program take over with a batch that has not been planned yet."""
        assert self.folder is not None
        path = Path(self.folder) / f"{first:09d}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f".{path.name}.draft")
        draft.write_bytes(program.to_json())
        draft.replace(path)

    def at(self, batch: int) -> Program:
        """The program of a batch."""
        return _parsed(self.fixed) if self.folder is None else _at(self.folder, batch)

    def first(self) -> bytes | None:
        """The program that the run began with, as it is written; None before it has begun."""
        assert self.folder is not None
        path = Path(self.folder) / f"{0:09d}.json"
        return path.read_bytes() if path.exists() else None


@functools.lru_cache(maxsize=64)
def _at(folder: str, batch: int) -> Program:
    firsts = [int(m[1]) for p in Path(folder).iterdir() if (m := _FILE.fullmatch(p.name))]
    return _read(Path(folder) / f"{max(f for f in firsts if f <= batch):09d}.json")


@functools.lru_cache(maxsize=8)
def _read(path: Path) -> Program:
    return _parsed(path.read_bytes())


@functools.lru_cache(maxsize=8)
def _parsed(data: bytes) -> Program:
    from thalweg.operators.program import Program

    return Program.from_json(data)


def batch_number() -> int:
    """The micro-batch that this task is part of."""
    context = TaskContext.get()
    return int((context and context.getLocalProperty("streaming.sql.batchId")) or 0)
