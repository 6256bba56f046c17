"""One side of the benchmark, in a process of its own: `python -m thalweg.bench.side TASK.json`.

The task names the side, the workload, where its data is and where the figures go. Each side starts with
a fresh JVM and fresh workers, so none profits from another's warm-up. Streams run for days, and a JVM
compiles hot code during its first minutes: so every side first runs the same query over less data for a
while, in the same JVM.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from thalweg.bench.data import CASCADES, Workload
from thalweg.bench.memory import processes

THALWEG = "thalweg"
KERNEL = "kernel"
SIDES = (THALWEG, *CASCADES, KERNEL)

CORES = 2
COMMON = {
    "spark.sql.shuffle.partitions": str(CORES),
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.numRecentProgressUpdates": "1000",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
"""Settings of every side that runs on Spark, beside the heap."""

HEAP_GB = 10
"""With 6 GB the cascade's in-memory store filled most of its heap at 1,500,000 rows a micro-batch."""


@dataclass(frozen=True)
class Task:
    """The task of a side."""

    side: str
    workload: Workload
    data: Path
    scratch: Path
    """A directory of its own, for the checkpoint and the figures."""
    warm: Path | None = None
    """Data of the same kind to run first, over and over."""
    warm_s: float = 0.0
    """For so many seconds."""

    @property
    def figures(self) -> Path:
        """Where the side leaves its figures."""
        return self.scratch / "figures.json"

    def save(self) -> Path:
        """Write the task into its scratch directory."""
        path = self.scratch / "task.json"
        path.write_text(json.dumps(asdict(self), default=str))
        return path

    @classmethod
    def load(cls, path: Path) -> Task:
        """Read the file of `save`."""
        raw = json.loads(path.read_text())
        paths = {name: Path(raw[name]) for name in ("data", "scratch", "warm") if raw[name] is not None}
        return cls(**{**raw, "workload": Workload(**raw["workload"]), **paths})


def heap() -> str:
    """The heap of every JVM: the same for all sides, at most half of the machine's memory."""
    total_gb = processes().virtual_memory().total // 2**30
    return f"{max(2, min(HEAP_GB, total_gb // 2))}g"


def run(task: Task) -> dict[str, Any]:
    """Run the side and return its figures: per micro-batch, or for the kernel as a whole."""
    if task.side == KERNEL:
        from thalweg.bench.kernel import kernel_run

        return dict(kernel_run(task.workload))

    from thalweg.bench import cascade
    from thalweg.bench.drain import drain, read_streams
    from thalweg.spark.session import session

    spec = task.workload
    own = cascade.CONFIGURATIONS.get(task.side, {})
    if own:
        own = {**own, "spark.sql.streaming.noDataMicroBatches.enabled": "false"}
    spark = session(f"local[{CORES}]", None, **{**COMMON, "spark.driver.memory": heap(), **own})
    spark.sparkContext.setLogLevel("ERROR")

    def drained(data: Path, checkpoint: str) -> list[Any]:
        streams = read_streams(spark, data, spec.aliases)
        if own:
            joined = cascade.cascade(
                streams,
                spec.equalities,
                within_us=spec.window_us,
                lateness_us=spec.lateness_us,
                output=spec.output,
            )
        else:
            joined = thalweg_join(spark, streams, spec)
        return drain(joined, spec.output, task.scratch / checkpoint)

    started, runs = time.monotonic(), 0
    while task.warm is not None and time.monotonic() - started < task.warm_s:
        drained(task.warm, f"warm-{runs}")
        runs += 1
    batches = drained(task.data, "checkpoint")
    spark.stop()
    return {"batches": [asdict(batch) for batch in batches]}


def thalweg_join(spark: Any, streams: dict[str, Any], spec: Workload) -> Any:
    """The workload's join in Thalweg's own words."""
    import thalweg

    lateness = duration(spec.lateness_us)
    if spec.two_attributes:
        return thalweg.sql(spark, sql(spec), streams, time="ts", lateness=lateness)
    within = duration(spec.window_us)
    return thalweg.join(streams, on="k", within=within, time="ts", lateness=lateness)


def sql(spec: Workload) -> str:
    """The workload's join in Thalweg's SQL.

    >>> from thalweg.bench.data import WORKLOADS
    >>> sql(WORKLOADS["two-attributes"]).partition("FROM ")[2]
    'a [RANGE 10 SECONDS], b [RANGE 10 SECONDS], c [RANGE 10 SECONDS] WHERE a.x = b.x AND b.y = c.y'
    """
    columns = ", ".join(f"{a}.{column} AS {a}_{column}" for a in spec.aliases for column in spec.columns(a))
    streams = ", ".join(f"{a} [RANGE {duration(spec.window_us).upper()}]" for a in spec.aliases)
    where = " AND ".join(f"{left} = {right}" for left, right in spec.equalities)
    return f"SELECT {columns} FROM {streams} WHERE {where}"


def duration(micros: int) -> str:
    """Microseconds in words.

    >>> duration(10_000_000), duration(1_000)
    ('10 seconds', '1 milliseconds')
    """
    if micros % 1_000_000 == 0:
        return f"{micros // 1_000_000} seconds"
    if micros % 1_000:
        raise ValueError(f"{micros} microseconds are not whole milliseconds")
    return f"{micros // 1_000} milliseconds"


if __name__ == "__main__":
    _task = Task.load(Path(sys.argv[1]))
    _task.figures.write_text(json.dumps(run(_task)))
