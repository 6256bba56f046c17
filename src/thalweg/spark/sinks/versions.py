"""A folder whose files change all at once: who lists it sees them before the change, or after it.

    results/q      a link to the version in force
    .results/q/    the versions: each a folder of hard links to files that it shares with the one before

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

from thalweg.exchange.disk import sync


@dataclass(frozen=True)
class Versions:
    """The versions of a folder."""

    path: Path

    @property
    def _store(self) -> Path:
        return self.path.parents[1] / f".{self.path.parent.name}" / self.path.name

    @property
    def current(self) -> int:
        """The number of the version in force."""
        return int(self.path.readlink().name)

    def open(self) -> bool:
        """Make the folder, or go on with it; False where it is a plain one, which can't change at once."""
        if not self.path.is_symlink():
            if self.path.exists():
                return False
            try:
                self._folder(0).mkdir(parents=True, exist_ok=True)
                self._link(0)
            except OSError:  # a file system without links
                return False
        self._remove_all_but({self.current})  # a change that was not finished
        return True

    def replace(self, files: Collection[str], draft: Path, name: str) -> None:
        """Let one new file take the place of several."""
        number = self.current
        before, after = self._folder(number), self._folder(number + 1)
        shutil.rmtree(after, ignore_errors=True)
        after.mkdir()
        for file in before.iterdir():
            if file.name not in files:
                os.link(file, after / file.name)
        if (after / name).exists():
            raise FileExistsError(after / name)
        draft.replace(after / name)
        with (after / name).open("rb") as merged:
            os.fsync(merged.fileno())
        sync(after)
        self._link(number + 1)
        self._remove_all_but({number, number + 1})

    def _folder(self, number: int) -> Path:
        return self._store / f"{number:09d}"

    def _link(self, number: int) -> None:
        new = self._store / "link"
        new.unlink(missing_ok=True)
        new.symlink_to(os.path.relpath(self._folder(number), self.path.parent))
        new.replace(self.path)
        sync(self.path.parent)

    def _remove_all_but(self, kept: Collection[int]) -> None:
        names = {self._folder(number).name for number in kept}
        for other in self._store.iterdir():
            if other.name not in names:
                with contextlib.suppress(OSError):
                    other.unlink() if other.is_symlink() else shutil.rmtree(other)
