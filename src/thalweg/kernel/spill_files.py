"""Columnar files for tuples that memory has no room for.

A file holds record batches, one after another, each as an Arrow IPC stream. The list of files has the size
and checksum of each, so a missing, cut or changed file is found before it is used.
"""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa

from thalweg.errors import UserError
from thalweg.storage import Location, RemotePath


class Spilled(NamedTuple):
    """A file of tuples: its name in the folder, its size and its checksum."""

    name: str
    rows: int
    size: int
    checksum: int


class SpillFolder:
    """A folder of spilled files, made when the first one is written."""

    def __init__(self, root: Location) -> None:
        self.root = root

    def write(self, name: str, batch: pa.RecordBatch) -> Spilled:
        """Write a file of one batch, or none if that fails."""
        return self.write_all(name, [batch])

    def read(self, spilled: Spilled) -> pa.RecordBatch:
        """The batch of a file that has one."""
        return self.read_all(spilled)[0]

    def write_all(self, name: str, batches: Sequence[pa.RecordBatch]) -> Spilled:
        """Write a file of batches, which may differ in their columns, or none if that fails."""
        sink = pa.BufferOutputStream()
        for batch in batches:
            with pa.ipc.new_stream(sink, batch.schema) as writer:
                writer.write_batch(batch)
        data = memoryview(sink.getvalue())
        path = self.root / name
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            _write(path, data)
        except OSError as e:
            with contextlib.suppress(OSError):
                path.unlink()
            raise UserError(
                f"tuples that memory has no room for could not be written: {e.strerror}",
                where=str(path),
                remedy="make room there; the same command goes on where it stopped",
            ) from None
        return Spilled(name, sum(batch.num_rows for batch in batches), len(data), zlib.crc32(data))

    def read_all(self, spilled: Spilled) -> list[pa.RecordBatch]:
        """The batches of a file, after its size and checksum are checked."""
        path = self.root / spilled.name
        try:
            data = path.read_bytes()
        except OSError as e:
            raise _bad(path, f"can't be read: {e.strerror}") from None
        if len(data) != spilled.size:
            raise _bad(path, f"is damaged: it has {len(data)} bytes, and {spilled.size} were written")
        if zlib.crc32(data) != spilled.checksum:
            raise _bad(path, "is damaged: its checksum is another")
        found, source = [], pa.BufferReader(data)
        while source.tell() < len(data):
            with pa.ipc.open_stream(source) as reader:
                found.append(reader.read_next_batch())
                for _ in reader:  # to the end of its stream
                    pass
        return found

    def remove(self, name: str) -> None:
        """Remove a file, if it is still there."""
        (self.root / name).unlink(missing_ok=True)

    def names(self) -> set[str]:
        """The files that are there."""
        return {p.name for p in self.root.iterdir()} if self.root.is_dir() else set()


def _bad(path: Location, what: str) -> UserError:
    return UserError(
        f"a file with tuples of a window {what}",
        where=str(path),
        remedy="put the file back as it was and run the same command, or begin anew in another folder",
    )


def _write(path: Location, data: memoryview) -> None:
    if isinstance(path, RemotePath):
        path.write_bytes(bytes(data))
        return
    with path.open("wb") as out:
        out.write(data)
