"""Files and folders that outlast a power cut, and the errors that name them.

An object store has answered a request only when the data is safe, and its names need no folders.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import uuid

from thalweg.errors import RunError, UserError
from thalweg.files import unusable
from thalweg.storage import Location, RemotePath

NEW_FOLDER = "start the run in a new folder"

_UNLINKABLE = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS}


def ensure(folder: Location) -> None:
    """Make the folder, durably. A symbolic link in its place is refused."""
    if isinstance(folder, RemotePath):
        return
    try:
        if not folder.is_dir():
            folder.mkdir(parents=True, exist_ok=True)
            sync(folder.parent)
        if not stat.S_ISDIR(folder.lstat().st_mode):
            raise UserError("is a symbolic link, which is not followed", where=str(folder))
    except OSError as error:
        raise failed(folder, error) from error


def write_new(path: Location, data: bytes, *, durable: bool) -> None:
    """Write a file that nobody else writes, and that does not exist yet."""
    if isinstance(path, RemotePath):
        path.write_bytes(data)
        return
    with path.open("xb") as file:
        file.write(data)
        if durable:
            file.flush()
            os.fsync(file.fileno())


def create(path: Location, data: bytes) -> bool:
    """Write a file that appears whole and durably, or not at all; False if there is one of this name.

    Of two writers, the first wins. Renaming would replace a file that a reader may have read already.
    """
    if isinstance(path, RemotePath):
        return path.create(data)
    draft = path.with_name(f".{path.name}.{uuid.uuid4().hex}.draft")
    try:
        write_new(draft, data, durable=True)
        os.link(draft, path, follow_symlinks=False)
    except (FileExistsError, FileNotFoundError):  # the other writer may have swept our draft away
        return False
    except OSError as error:
        if error.errno in _UNLINKABLE:
            raise UserError(
                "its file system has no hard links, which exchanges need",
                where=str(path.parent),
                remedy="name a folder on a local disk",
            ) from error
        raise
    finally:
        draft.unlink(missing_ok=True)
    sync(path.parent)
    return True


def sync(folder: Location) -> None:
    """Make the links in a folder durable: they are there after a power cut."""
    if isinstance(folder, RemotePath):
        return
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def flush(folder: Location) -> None:
    """Wait until all that was written to the file system of a folder is on its disk."""
    if isinstance(folder, RemotePath):
        return
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


def damaged(path: Location, how: str, remedy: str = NEW_FOLDER) -> UserError:
    """The error for a file that is not as it was written."""
    return UserError(f"is damaged: {how}", where=str(path), remedy=remedy)


def failed(path: Location, error: OSError) -> UserError | RunError:
    """The error for a file or folder that can't be reached."""
    if error.errno == errno.ENOENT:
        return UserError("is missing", where=str(path), remedy=NEW_FOLDER)
    if error.errno == errno.ELOOP:
        return UserError("is a symbolic link, which is not followed", where=str(path))
    return unusable(path, error)
