"""Files that are there whole or not at all, in a folder or an object store; errors for what can't be used.

Here, in `exchange.disk` and in `lock` is all that differs between the two.
"""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path

from thalweg.errors import RunError, UserError
from thalweg.storage import Location, RemotePath

_FULL = {errno.ENOSPC, errno.EDQUOT}
_MACHINE = _FULL | {errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EFBIG}
FULL = tuple(os.strerror(code) for code in sorted(_FULL))
"""What a full disk is called."""

FAILING = tuple(os.strerror(code) for code in (errno.EROFS, errno.EIO))
"""What a disk says that has become read-only, or can't be written or read."""


@contextmanager
def whole(path: Location) -> Iterator[Path]:
    """A draft beside the file, which becomes the file when the block ends without an error.

    Its name begins with a dot, so Spark does not read it, and has the file's suffix. The draft of a file in
    an object store is a temporary one of this machine.
    """
    if isinstance(path, RemotePath):
        with tempfile.TemporaryDirectory(prefix="thalweg-draft-") as folder:
            local = Path(folder) / path.name
            yield local
            path.put(local)
        return
    draft = path.with_name(f".{uuid.uuid4().hex}.{path.name}")
    try:
        yield draft
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def write_text(path: Location, text: str) -> None:
    """Write a file that a crash of the machine does not leave half written."""
    if isinstance(path, RemotePath):
        path.write_bytes(text.encode())
        return
    with whole(path) as draft, draft.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


class NewFile:
    """A file that others see when it is closed, or that has a name that nobody knows before.

    Write it by `local`. One in an object store is written on this machine first; it is gone if it is not
    closed.
    """

    def __init__(self, path: Location) -> None:
        self.path = path
        if isinstance(path, Path):
            self.local = path
        else:
            self._folder = tempfile.TemporaryDirectory(prefix="thalweg-draft-")
            self.local = Path(self._folder.name) / path.name

    def close(self) -> None:
        if isinstance(self.path, RemotePath):
            self.path.put(self.local)
            self._folder.cleanup()


def move(file: Location, target: Location) -> None:
    """Give a file another name in the same folder or store; a file of that name is replaced."""
    if isinstance(file, RemotePath):
        assert isinstance(target, RemotePath)
        file.move(target)
    else:
        assert isinstance(target, Path)
        file.replace(target)


def remove_all(folder: Location, *, ignore_errors: bool = False) -> None:
    """Remove a folder with all that is in it. With `ignore_errors`, what can't be removed stays."""
    if isinstance(folder, Path):
        shutil.rmtree(folder, ignore_errors)
        return
    with suppress(OSError) if ignore_errors else nullcontext():
        folder.remove_below()


def stamp(file: Location) -> tuple[object, ...]:
    """What changes whenever the file does; an OSError where there is none."""
    if isinstance(file, RemotePath):
        return (file.stamp(),)
    stat = file.stat()
    return (stat.st_ino, stat.st_mtime_ns, stat.st_size)


@contextmanager
def copied(folder: Location, *parts: str) -> Iterator[Path]:
    """A folder for a reader that reads only this machine's: itself, or a copy of a store's.

    The copy has the files that are directly in the folder, or in these parts of it.
    """
    if isinstance(folder, Path):
        yield folder
        return
    with tempfile.TemporaryDirectory(prefix="thalweg-copy-") as copy:
        for part in parts or ("",):
            target = Path(copy) / part
            target.mkdir(parents=True, exist_ok=True)
            for file in (folder / part if part else folder).iterdir():
                if file.is_file():
                    file.get(target / file.name)
        yield Path(copy)


@contextmanager
def copied_file(file: Location) -> Iterator[Path]:
    """A file for a reader that reads only this machine's: itself, or a copy of a store's."""
    if isinstance(file, Path):
        yield file
        return
    with tempfile.TemporaryDirectory(prefix="thalweg-copy-") as folder:
        copy = Path(folder) / file.name
        file.get(copy)
        yield copy


class Lines:
    """A file to which one writer appends lines. A line that a crash has cut off is ended when it is opened.

    Object stores can't append. There the file is written anew, at most every `EVERY_S` seconds, and when it
    is closed. A crash loses the lines since then.
    """

    EVERY_S = 5.0

    def __init__(self, path: Location) -> None:
        self.path = path
        self._text = ""
        self._written = -self.EVERY_S
        try:
            if isinstance(path, RemotePath):
                self._text = path.read_text(errors="replace")
                return
            with path.open("rb+") as file:
                if file.seek(0, 2) and (file.seek(-1, 2), file.read(1))[1] != b"\n":
                    file.write(b"\n")
        except FileNotFoundError:
            return

    def append(self, line: str) -> None:
        """Append a line, which ends with a line break."""
        if isinstance(self.path, Path):
            with self.path.open("a", encoding="utf-8") as file:
                file.write(line)
            return
        self._text += line
        if time.monotonic() - self._written >= self.EVERY_S:
            self.close()

    def rewrite(self, text: str) -> None:
        """Let other lines take the place of all."""
        self._text = text if isinstance(self.path, RemotePath) else ""
        write_text(self.path, text)

    def hand_over(self, target: Location) -> None:
        """Give the file another name, and begin a new one."""
        self.close()
        move(self.path, target)
        self._text, self._written = "", -self.EVERY_S

    def close(self) -> None:
        """Write down what has not been written yet."""
        if isinstance(self.path, RemotePath) and self._text:
            self._written = time.monotonic()
            self.path.write_bytes(self._text.encode())


def unusable(path: Location | str, error: OSError, what: str = "can't be used") -> UserError | RunError:
    """The error for a file or folder that can't be read or written; a full disk is not the user's input."""
    what = f"{what}: {error.strerror or error}"
    if error.errno not in _MACHINE:
        return UserError(what, where=str(path))
    room = "; make room there, then run the same command again" if error.errno in _FULL else ""
    return RunError(f"{path}: {what}{room}")
