"""A folder whose files change all at once: who lists it sees them before the change, or after it.

    results/q     a link to the version in force
    results/.q/   the versions: each a folder of hard links to files that it shares with the one before

The version before stays until the next change, so that a reader who has resolved the link can finish. A
reader who has not may find that a file of its list is gone, but never reads a row twice or misses one.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Versions:
    """The versions of a folder."""

    path: Path

    @property
    def _store(self) -> Path:
        return self.path.parent / f".{self.path.name}"

    @property
    def current(self) -> Path:
        """The version in force."""
        return self._store / self.path.readlink().name

    def open(self) -> bool:
        """Make the folder, or go on with it; False where it is a plain one, which can't change at once."""
        if not self.path.is_symlink():
            if self.path.exists():
                return False
            self._number(0).mkdir(parents=True, exist_ok=True)
            self._link(0)
        self._remove_all_but({self.current.name})  # a change that was not finished
        return True

    def replace(self, files: Collection[str], draft: Path, name: str) -> None:
        """Let one new file take the place of several."""
        before = self.current
        number = int(before.name) + 1
        after = self._number(number)
        after.mkdir()
        for file in before.iterdir():
            if file.name not in files:
                os.link(file, after / file.name)
        draft.replace(after / name)
        self._link(number)
        self._remove_all_but({before.name, after.name})

    def _number(self, number: int) -> Path:
        return self._store / f"{number:09d}"

    def _link(self, number: int) -> None:
        new = self._store / "link"
        new.unlink(missing_ok=True)
        new.symlink_to(Path(self._store.name) / self._number(number).name)
        new.replace(self.path)

    def _remove_all_but(self, kept: Collection[str]) -> None:
        for other in self._store.iterdir():
            if other.name not in kept:
                with contextlib.suppress(OSError):
                    other.unlink() if other.is_symlink() else shutil.rmtree(other)
