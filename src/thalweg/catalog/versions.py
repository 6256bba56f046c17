"""The versions of a table that a run has read: their rows, and what is noted of them.

A table that is read once has one version, in `rows` and `version.json`. One that is refreshed has files by
the number of the version: N.parquet are its rows, N.json says when they were read, N.time from when on the
version is in force. The last is written when a batch is planned that reads the version.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from thalweg.catalog.model import Stream
from thalweg.files import write_text
from thalweg.storage import Location, folder, scheme_of
from thalweg.units import BEFORE_ALL


@dataclass(frozen=True)
class Version:
    """When a table was read, how many rows it had, and a digest of its files, if they are local."""

    read: str
    rows: int
    files: str | None = None


@dataclass(frozen=True)
class Kept:
    """Where a run keeps the version of a table that it has read. It is whole when it is noted."""

    folder: Location

    @classmethod
    def of(cls, out: Location, table: str) -> Kept:
        """That of a run under `out`."""
        return cls(out / "_thalweg" / "tables" / table)

    @property
    def rows(self) -> Location:
        """The folder of parquet files with the rows."""
        return self.folder / "rows"

    @property
    def version(self) -> Version | None:
        """What is noted of it, or of the last; None where there is none: an earlier Thalweg began the run."""
        if numbers := self.numbers():
            return self.read_of(numbers[-1])
        try:
            return Version(**json.loads((self.folder / "version.json").read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return None

    def note(self, version: Version) -> None:
        write_text(self.folder / "version.json", json.dumps(asdict(version)))

    def numbers(self) -> list[int]:
        """The versions of a table that is refreshed, as far as they are noted."""
        return sorted(int(file.stem) for file in self.folder.glob("[0-9]*.json"))

    def rows_of(self, number: int) -> Location:
        """The file with the rows of a version."""
        return self.folder / f"{number:09d}.parquet"

    def read_of(self, number: int) -> Version:
        """What is noted of a version."""
        return Version(**json.loads((self.folder / f"{number:09d}.json").read_text(encoding="utf-8")))

    def note_of(self, number: int, version: Version) -> None:
        """Note a version, whose rows are there; the next batch reads it."""
        write_text(self.folder / f"{number:09d}.json", json.dumps(asdict(version)))

    def begin(self, number: int) -> int | None:
        """From when on a version is in force, in microseconds; None where no batch has read it."""
        try:
            return int((self.folder / f"{number:09d}.time").read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None

    def begins(self, number: int, moment: int) -> None:
        """Note from when on a version is in force."""
        write_text(self.folder / f"{number:09d}.time", str(moment))

    @property
    def newest(self) -> int:
        """The greatest time that the run has read of any stream, in microseconds."""
        try:
            return int((self.folder / "newest").read_text(encoding="utf-8"))
        except FileNotFoundError:
            return BEFORE_ALL

    def note_newest(self, moment: int) -> None:
        """Note the greatest time: a version that comes later begins after it."""
        write_text(self.folder / "newest", str(moment))


def digest_of(table: Stream) -> str | None:
    """A digest of the names, sizes and times of a table's files; None where they are not local files.

    Files that are written anew have another time, so their content need not be read.
    """
    path = table.source.option("path") or ""
    if not path or scheme_of(path) not in ("", "file"):
        return None
    root = folder(path)
    if not root.exists():
        return None
    found = json.dumps(sorted(_files(root)))
    return hashlib.sha256(found.encode()).hexdigest()


def _files(root: Path) -> Iterator[tuple[str, int, int]]:
    if root.is_file():
        stat = root.stat()
        yield "", stat.st_size, stat.st_mtime_ns
        return
    for parent, _, names in os.walk(root):
        for name in names:
            file = Path(parent) / name
            try:
                stat = file.stat()
            except FileNotFoundError:  # removed meanwhile
                continue
            yield str(file.relative_to(root)), stat.st_size, stat.st_mtime_ns
