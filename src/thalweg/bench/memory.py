"""The greatest memory that a process and all its descendants held at once."""

from __future__ import annotations

import threading
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

    def __init__(self, pid: int, interval_s: float = 0.5, *, workers: bool = False) -> None:
        """With `workers`, only of the Python processes below it."""
        self.peak_bytes = 0
        self._workers = workers
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
            self.peak_bytes = max(self.peak_bytes, self._sample())

    def _sample(self) -> int:
        psutil = processes()
        exact, private, shared = 0, 0, 0
        try:
            tree = [self._root, *self._root.children(recursive=True)]
        except psutil.Error:
            return 0
        for process in tree[1:] if self._workers else tree:
            try:
                if self._workers and "python" not in process.name():
                    continue
                full = process.memory_full_info()
            except (psutil.Error, OSError):
                continue  # it ended meanwhile
            if hasattr(full, "pss"):
                exact += full.pss
            else:
                private += full.uss
                shared = max(shared, full.rss - full.uss)
        return exact + private + shared
