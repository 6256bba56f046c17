"""What the sites of an application run, from which batch on."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from pathlib import Path

from pyspark import TaskContext

from thalweg.programs.sites import Sites

_FILE = re.compile(r"(\d{9})\.json")


@dataclass(frozen=True)
class Lists:
    """What the sites run, from which batch on: a folder of files, named by the first batch."""

    folder: Path

    def put(self, first: int, sites: Sites) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        draft = self.folder / f".{first}.draft"
        draft.write_bytes(sites.to_json())
        draft.replace(self.folder / f"{first:09d}.json")

    def at(self, batch: int) -> Sites:
        firsts = [int(m[1]) for p in self.folder.iterdir() if (m := _FILE.fullmatch(p.name))]
        return _read(self.folder / f"{max(f for f in firsts if f <= batch):09d}.json")


@functools.lru_cache(maxsize=4)
def _read(path: Path) -> Sites:
    return Sites.from_json(path.read_bytes())


def batch_number() -> int:
    """The micro-batch that this task is part of."""
    context = TaskContext.get()
    return int((context and context.getLocalProperty("streaming.sql.batchId")) or 0)
