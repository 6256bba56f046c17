"""The version of a table that a run has read: its rows in the folder of the run, and what is noted of it."""

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
        """What is noted of it; None where there is none, as of a run that an earlier version began."""
        try:
            return Version(**json.loads((self.folder / "version.json").read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return None

    def note(self, version: Version) -> None:
        write_text(self.folder / "version.json", json.dumps(asdict(version)))


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
