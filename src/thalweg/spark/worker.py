"""What a Python worker of Spark keeps between tasks: caches of windows, in memory that all workers share.

The folder of a job in shared memory has a name that only its driver and its workers know, and belongs to the
JVM that started them. It is removed when the driver ends. What a killed one has left behind is removed by the
next worker that starts on the machine. Without shared memory, or where it is full, each process keeps its own
windows: they are rebuilt from the state when another process gets the bucket.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import os
import shutil
import time
import zlib
from pathlib import Path

from pyspark import TaskContext

from thalweg import private
from thalweg.kernel.shared import SharedWindows
from thalweg.operators.cache import OwnCache, SharedCache
from thalweg.operators.program import Program
from thalweg.operators.spec import JoinSpec
from thalweg.operators.state import Cache
from thalweg.processes import Process, ancestors

MEMORY = Path("/dev/shm")


@functools.cache
def settle() -> None:
    """To be called by a worker when it has loaded what it needs.

    PySpark collects garbage after every task, and would walk through all that is loaded each time, which
    takes longer than many a task.
    """
    gc.freeze()


class Caches:
    """The caches of one streaming query in this process. Of two queries over one join, each has its own."""

    def __init__(self, job: str, query: str) -> None:
        shared = _folder(job)
        self.folder = None if shared is None else shared / query
        with contextlib.suppress(OSError):
            if self.folder is not None:
                self.folder.mkdir(mode=0o700, exist_ok=True)
        self._held: dict[str, Cache] = {}
        self._program: Program | None = None

    def of(self, group: int, operator: str, spec: JoinSpec) -> Cache:
        """The cache of an operator's bucket; windows whose tuples wait are not shared."""
        bucket = _bucket(group, operator)
        if bucket not in self._held:
            if spec.held or self.folder is None:
                self._held[bucket] = OwnCache(unshared=not spec.held)
            else:
                self._held[bucket] = SharedCache(SharedWindows(self.folder), bucket)
        return self._held[bucket]

    def keep_only(self, program: Program) -> None:
        """Free the windows of operators that have ended with the programs before."""
        if program is self._program:
            return
        self._program = program
        kept = {_bucket(label, o.name) for g in program.groups for label in g.groups for o in g.operators}
        self._held = {bucket: cache for bucket, cache in self._held.items() if bucket in kept}
        if self.folder is not None:
            given = {"-".join(p.name.split("-")[:2]) for p in self.folder.glob("[0-9]*-*-*")}
            for bucket in given - kept:
                SharedWindows(self.folder).remove(bucket)


_queries: dict[tuple[str, str], Caches] = {}


def caches(job: str) -> Caches:
    """The caches of the streaming query that this task belongs to."""
    context = TaskContext.get()
    query = (context and context.getLocalProperty("spark.jobGroup.id")) or "query"
    if (job, query) not in _queries:
        _forget_ended()
        _queries[job, query] = Caches(job, query)
    return _queries[job, query]


def _forget_ended() -> None:
    """Free the memory of queries that have long done nothing. If one goes on, it rebuilds from its state."""
    jvm = _jvm()
    for folder in () if jvm is None else private.of(jvm, MEMORY):
        for query in folder.glob("*/"):
            with contextlib.suppress(OSError):
                if time.time() - query.stat().st_mtime > private.LONG_S:
                    shutil.rmtree(query, ignore_errors=True)
    for key in [k for k, one in _queries.items() if one.folder is not None and not one.folder.exists()]:
        del _queries[key]


def _bucket(group: int, operator: str) -> str:
    return f"{group}-{zlib.crc32(operator.encode()):08x}"


def forget(job: str) -> None:
    """Free the shared memory of a job."""
    shutil.rmtree(_path(job), ignore_errors=True)


def forget_at_exit(job: str) -> None:
    """Free the shared memory of a job when its driver ends."""
    private.remove_at_exit(_path(job))


def _path(job: str) -> Path:
    return private.path(MEMORY, job)


def _folder(job: str) -> Path | None:
    """The folder of a job, made if it is not there; None where there is no memory to share."""
    jvm = _jvm()
    if jvm is None:
        return None
    private.remove_left(MEMORY)
    return _path(job) if private.make(_path(job), jvm) else None


def _jvm() -> Process | None:
    """The JVM that has started this process."""
    return next((Process.of(pid) for pid, name in ancestors(os.getpid()) if name == "java"), None)
