"""What a Python worker of Spark keeps between tasks: caches of windows, in memory that all workers share.

The shared memory belongs to the JVM that started the workers. It is removed when the driver ends; what a
killed one has left behind is removed by the next worker that starts on the machine.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import os
import shutil
import time
import zlib
from pathlib import Path

from pyspark import TaskContext
from pyspark.sql import SparkSession

from thalweg.errors import UserError
from thalweg.kernel.shared import SharedWindows
from thalweg.operators.cache import OwnCache, SharedCache
from thalweg.operators.spec import JoinSpec
from thalweg.operators.state import Cache
from thalweg.spark.rows import murmur3

_MEMORY = Path("/dev/shm")
_LONG_S = 600.0
_caches: dict[tuple[str, str], Cache] = {}


@functools.cache
def settle() -> None:
    """To be called by a worker when it has loaded what it needs.

    PySpark collects garbage after every task, and would walk through all that is loaded each time, which
    takes longer than many a task.
    """
    gc.freeze()


def cache_of(job: str, group: int, operator: str, spec: JoinSpec) -> Cache:
    """The cache of an operator's bucket in this process; windows whose tuples wait are not shared."""
    context = TaskContext.get()
    run = context and context.getLocalProperty(
        "spark.jobGroup.id"
    )  # of two queries over one join, each its own
    bucket = f"{group}-{zlib.crc32(operator.encode()):08x}"
    slot = (f"{job}-{run}", bucket)
    if slot not in _caches:
        root = None if spec.held else _root()
        if root is None:
            _caches[slot] = OwnCache()
        else:
            _forget_ended(root, slot[0])
            _caches[slot] = SharedCache(SharedWindows(root / slot[0]), bucket)
    return _caches[slot]


def _forget_ended(root: Path, job: str) -> None:
    """Free the memory of jobs that have long done nothing. Should one go on, it rebuilds from its state."""
    for folder in root.glob("*"):
        with contextlib.suppress(OSError):
            if folder.name != job and time.time() - folder.stat().st_mtime > _LONG_S:
                shutil.rmtree(folder, ignore_errors=True)
    for slot in [s for s in _caches if s[0] != job and not (root / s[0]).exists()]:
        if isinstance(_caches[slot], SharedCache):
            del _caches[slot]


def check_place(group: int, partitions: int) -> None:
    """Refuse to go on when Spark has spread the groups over another number of partitions.

    It does so when a checkpoint was begun with another number. The groups, and so the state, would be others.
    """
    context = TaskContext.get()
    if context is not None and context.partitionId() != murmur3(group) % partitions:
        raise UserError(
            f"the checkpoint was not begun with {partitions} shuffle partitions",
            remedy="set spark.sql.shuffle.partitions to what it was then, or begin a new checkpoint",
        )


def forget_at_exit(spark: SparkSession) -> None:
    """Remove the shared memory of this driver's JVM when it ends."""
    process = getattr(spark.sparkContext._gateway, "proc", None)
    if process is not None:
        atexit.register(shutil.rmtree, _folder(process.pid), ignore_errors=True)


def _folder(jvm: int) -> Path:
    return _MEMORY / f"thalweg-{os.getuid()}-{jvm}"


def _root() -> Path | None:
    """The folder of the JVM above this process; None where there is no memory to share."""
    jvm = _parent(os.getpid())
    while jvm > 1 and _name(jvm) != "java":
        jvm = _parent(jvm)
    if jvm <= 1 or not os.access(_MEMORY, os.W_OK):
        return None
    if not _caches:
        for left in _MEMORY.glob(f"thalweg-{os.getuid()}-*"):
            if _name(int(left.name.rsplit("-", 1)[1])) != "java":
                shutil.rmtree(left, ignore_errors=True)
    return _folder(jvm)


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def _parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
    except OSError:
        return 0
