"""Files and folders that outlast a power cut, and the errors that name them."""

from __future__ import annotations

import ctypes
import errno
import os
import stat
from pathlib import Path

from thalweg.errors import RunError, UserError
from thalweg.files import unusable

NEW_FOLDER = "start the run in a new folder"


def ensure(folder: Path) -> None:
    """Make the folder, durably. A symbolic link in its place is refused."""
    try:
        if not folder.is_dir():
            folder.mkdir(parents=True, exist_ok=True)
            sync(folder.parent)
        if not stat.S_ISDIR(folder.lstat().st_mode):
            raise UserError("is a symbolic link, which is not followed", where=str(folder))
    except OSError as error:
        raise failed(folder, error) from error


def write_new(path: Path, data: bytes, *, durable: bool) -> None:
    """Write a file that must not exist yet."""
    with path.open("xb") as file:
        file.write(data)
        if durable:
            file.flush()
            os.fsync(file.fileno())


def sync(folder: Path) -> None:
    """Make the links in a folder durable: they are there after a power cut."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def flush(folder: Path) -> None:
    """Wait until all that was written to the file system of a folder is on its disk."""
    sync_one = getattr(ctypes.CDLL(None), "syncfs", None)
    if sync_one is None:  # only Linux has it
        os.sync()
        return
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if sync_one(handle):
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(folder))
    finally:
        os.close(handle)


def damaged(path: Path, how: str, remedy: str = NEW_FOLDER) -> UserError:
    """The error for a file that is not as it was written."""
    return UserError(f"is damaged: {how}", where=str(path), remedy=remedy)


def failed(path: Path, error: OSError) -> UserError | RunError:
    """The error for a file or folder that can't be reached."""
    if error.errno == errno.ENOENT:
        return UserError("is missing", where=str(path), remedy=NEW_FOLDER)
    if error.errno == errno.ELOOP:
        return UserError("is a symbolic link, which is not followed", where=str(path))
    return unusable(path, error)
