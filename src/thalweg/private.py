"""Folders that belong to one process and are open to nobody else.

When the process ends without removing its folder, the next one that looks does it.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from thalweg.processes import Process

_OWNER = "owner"
LONG_S = 600.0
"""So many seconds without any change mean that nobody uses a folder any more."""


def path(parent: Path, token: str) -> Path:
    """The folder with a token that nobody else knows."""
    return parent / f"thalweg-{os.geteuid()}-{token}"


def make(folder: Path, owner: Process) -> bool:
    """Make a folder of a process, if it is not there; whether it is there, and open to nobody else."""
    with contextlib.suppress(OSError):
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o700)
            (folder / _OWNER).write_text(str(owner))
        return is_private(folder)
    return False


def is_private(folder: Path) -> bool:
    """Whether it is a folder, not a link to one, that belongs to this user and is open to nobody else."""
    found = folder.lstat()
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o077


def remove_at_exit(folder: Path) -> None:
    """Remove a folder when this process ends, and not when one that it has forked does."""
    process = os.getpid()

    def remove() -> None:
        if os.getpid() == process:
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)


def remove_left(parent: Path) -> None:
    """Remove the folders in it of processes of this machine that are gone."""
    for folder in _ours(parent):
        with contextlib.suppress(OSError):
            if _is_left(folder):
                shutil.rmtree(folder, ignore_errors=True)


def of(owner: Process, parent: Path) -> Iterator[Path]:
    """The folders that belong to a process."""
    for folder in _ours(parent):
        with contextlib.suppress(OSError, ValueError):
            if _owner(folder) == owner:
                yield folder


def _ours(parent: Path) -> Iterator[Path]:
    for folder in parent.glob(f"thalweg-{os.geteuid()}-*"):
        with contextlib.suppress(OSError):
            if is_private(folder):
                yield folder


def _owner(folder: Path) -> Process:
    return Process.parse((folder / _OWNER).read_text())


def _is_left(folder: Path) -> bool:
    try:
        owner = _owner(folder)
        return owner.is_here and not owner.alive
    except (FileNotFoundError, ValueError):  # just made, or never finished
        return time.time() - folder.stat().st_mtime > LONG_S
