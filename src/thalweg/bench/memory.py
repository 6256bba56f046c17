"""The greatest memory that a process and all its descendants held at once."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from stat import S_ISREG
from types import TracebackType
from typing import Any

from thalweg.errors import UserError


def processes() -> Any:
    """psutil, which only the benchmark needs."""
    try:
        import psutil
    except ImportError:
        raise UserError("the benchmark needs psutil", remedy="install thalweg[dev]") from None
    return psutil


class PeakMemory:
    """Samples the resident memory of a process tree while it is open.

    Each page counts once: what n processes share counts as one n-th in each of them (the proportional
    set size). Where the system does not tell it, the private resident memory is summed instead, and the
    greatest shared part added once.
    """

    def __init__(self, pid: int, interval_s: float = 0.5) -> None:
        self.peak_bytes = 0
        self._root = processes().Process(pid)
        self._interval_s = interval_s
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> PeakMemory:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        self._thread.join()

    @property
    def peak_mb(self) -> float:
        """In units of 10^6 bytes."""
        return round(self.peak_bytes / 1e6, 1)

    def _watch(self) -> None:
        while not self._done.wait(self._interval_s):
            self._take()

    def _take(self) -> None:
        self.peak_bytes = max(self.peak_bytes, self._sample())

    def _sample(self) -> int:
        return tree_bytes(self._root)


def tree_bytes(root: Any) -> int:
    """The memory of a process, one of psutil's, and of all below it; each page counts once."""
    psutil = processes()
    exact, private, shared = 0, 0, 0
    try:
        tree = [root, *root.children(recursive=True)]
    except psutil.Error:
        return 0
    for process in tree:
        try:
            full = process.memory_full_info()
        except (psutil.Error, OSError):
            continue  # it ended meanwhile
        if hasattr(full, "pss"):
            exact += full.pss
        else:
            private += full.uss
            shared = max(shared, full.rss - full.uss)
    return exact + private + shared


class WorkerMemory(PeakMemory):
    """Samples the private and the shared memory of the Python processes below a process.

    They share files on a memory file system, in folders of which `shared` is a pattern.
    """

    def __init__(self, pid: int, shared: Path) -> None:
        super().__init__(pid, 0.2)
        self.samples: list[tuple[float, int, int]] = []
        self._shared, self._begun = shared, time.time()

    def _take(self) -> None:
        psutil = processes()
        private = 0
        for process in self._root.children(recursive=True):
            try:
                if "python" in process.name():
                    private += process.memory_full_info().uss
            except (psutil.Error, OSError):
                continue  # it ended meanwhile
        found = (
            Path(folder, name)
            for root in self._shared.parent.glob(self._shared.name)
            for folder, _, names in os.walk(root)  # which minds no folder that goes meanwhile
            for name in names
        )
        held = sum(_blocks(file, self._begun) for file in found)
        self.samples.append((time.perf_counter(), private, held))


def _blocks(path: Path, since: float) -> int:
    """The bytes of a file; none if it is from another run, or no longer there."""
    try:
        known = path.stat()
    except OSError:
        return 0
    return known.st_blocks * 512 if S_ISREG(known.st_mode) and known.st_ctime >= since else 0
