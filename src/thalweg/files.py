"""Files that are there whole or not at all, and the error for one that can't be used."""

from __future__ import annotations

import errno
import os
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
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


def unusable(path: Location | str, error: OSError, what: str = "can't be used") -> UserError | RunError:
    """The error for a file or folder that can't be read or written; a full disk is not the user's input."""
    what = f"{what}: {error.strerror or error}"
    if error.errno not in _MACHINE:
        return UserError(what, where=str(path))
    room = "; make room there, then run the same command again" if error.errno in _FULL else ""
    return RunError(f"{path}: {what}{room}")
