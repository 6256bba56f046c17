"""Folders that belong to one process and are open to nobody else.

When the process ends without removing its folder, the next one that looks does it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import time
from pathlib import Path

from thalweg.processes import Process

_OWNER = "owner"
_LONG_S = 600.0


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


def remove_left(parent: Path) -> None:
    """Remove the folders in it of processes that are gone."""
    for folder in parent.glob(f"thalweg-{os.geteuid()}-*"):
        with contextlib.suppress(OSError):
            if is_private(folder) and _is_left(folder):
                shutil.rmtree(folder, ignore_errors=True)


def _is_left(folder: Path) -> bool:
    try:
        return not Process.parse((folder / _OWNER).read_text()).alive
    except (FileNotFoundError, ValueError):  # just made, or never finished
        return time.time() - folder.stat().st_mtime > _LONG_S
