"""Windows in memory that all processes of a machine can map.

The process that joins a bucket is often not the one that joined it in the batch before. So the arrays of its
windows are files on a memory file system, in a folder that is named by the state's nonce. Taking it is
renaming it: one process can, others and later ones with another nonce can't. A folder that was taken and not
given back is garbage: it was being changed.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from thalweg.kernel.window import Window


class SharedArrays:
    """Allocates arrays as mapped files in one folder.

    Where the file system is full it gives plain memory instead, and is not `shareable`.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.files: dict[str, tuple[str, tuple[int, ...], str]] = {}
        self.marks: list[dict[str, int]] = []  # of the windows, when they were given
        self.shareable = True

    def of(self, number: int) -> Any:
        """The allocator of the window of that number."""

        def allocate(name: str, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
            return self._allocate(f"{number}.{name}", shape, np.dtype(dtype))

        return allocate

    def _allocate(self, name: str, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        if name in self.files:  # mapped memory stays until its last user lets go
            (self.folder / self.files.pop(name)[0]).unlink(missing_ok=True)
        size = int(np.prod(shape)) * dtype.itemsize
        if size == 0:
            return np.empty(shape, dtype)
        file = f"{name}.{uuid.uuid4().hex[:8]}"
        try:
            out = os.open(self.folder / file, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
            try:
                os.posix_fallocate(out, 0, size)  # or a full file system would end the process
            finally:
                os.close(out)
            mapped = _mapped(self.folder / file, shape, dtype.str)
        except OSError:
            (self.folder / file).unlink(missing_ok=True)
            self.shareable = False
            return np.empty(shape, dtype)
        self.files[name] = (file, shape, dtype.str)
        return mapped


class SharedWindows:
    """The folder of one job on this machine: the windows of all its buckets."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def new(self) -> SharedArrays:
        """Room for windows that are not shared yet."""
        folder = self._busy()
        with contextlib.suppress(OSError):  # then there is no room, and arrays are plain memory
            folder.mkdir(mode=0o700)
        for left in self.root.glob("busy-*"):
            if not Path(f"/proc/{left.name.split('-')[1]}").exists():
                shutil.rmtree(left, ignore_errors=True)
        return SharedArrays(folder)

    def take(self, bucket: str, nonce: str) -> SharedArrays | None:
        """The arrays of the bucket in the state with this nonce; None if there are none."""
        folder = self._busy()
        try:
            (self.root / f"{bucket}-{nonce}").rename(folder)
            index = json.loads((folder / "index.json").read_text())
            out = SharedArrays(folder)
            out.marks = index["marks"]
            out.files = {
                name: (Path(file).name, tuple(shape), dtype)
                for name, (file, shape, dtype) in index["files"].items()
            }
        except (OSError, ValueError, LookupError):
            return None
        return out

    def drop(self, arrays: SharedArrays) -> None:
        """Drop arrays that were taken or made but not given back: their content is half done."""
        if arrays.folder.name.startswith("busy-"):
            shutil.rmtree(arrays.folder, ignore_errors=True)

    def attach(self, arrays: SharedArrays, windows: Sequence[Window]) -> None:
        """Let windows that have just been made take over the arrays."""
        for number, window in enumerate(windows):
            mapped = window.arrays  # those without a file are empty, as they are here
            for name, (file, shape, dtype) in arrays.files.items():
                own, short = name.split(".", 1)
                if int(own) == number:
                    mapped[short] = _mapped(arrays.folder / file, shape, dtype)
            window.attach(mapped, arrays.marks[number])

    def give(self, arrays: SharedArrays, windows: Sequence[Window], bucket: str, nonce: str) -> None:
        """Hand the arrays on to the next process that takes them; older arrays of the bucket are removed."""
        index = {"files": arrays.files, "marks": [w.marks for w in windows]}
        self.remove(bucket)
        target = self.root / f"{bucket}-{nonce}"
        try:
            (arrays.folder / "index.json").write_text(json.dumps(index))
            arrays.folder.rename(target)
        except OSError:  # full, or removed: this process still has them
            shutil.rmtree(arrays.folder, ignore_errors=True)
            arrays.shareable = False
        else:
            arrays.folder = target

    def remove(self, bucket: str) -> None:
        """Remove all that was given of a bucket."""
        for stale in self.root.glob(f"{bucket}-*"):
            away = self._busy()
            with contextlib.suppress(OSError):  # another process may take it at this moment
                stale.rename(away)
                shutil.rmtree(away, ignore_errors=True)

    def _busy(self) -> Path:
        """A folder that belongs to this process."""
        return self.root / f"busy-{os.getpid()}-{uuid.uuid4().hex}"


def _mapped(path: Path, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    return np.memmap(path, np.dtype(dtype), "r+", shape=shape).view(np.ndarray)
