"""One `thalweg run --once` over a workload of the benchmark, watched."""

from __future__ import annotations

import shutil
import sys
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

from thalweg.bench.data import Workload, generate
from thalweg.catalog import load
from thalweg.plan.options import Adapt, Memory, Objective, PlanOptions, Progress, RunOptions
from thalweg.planners.table import make_plan
from thalweg.query import parse


class Watch:
    """Notes the end of each batch, and the size of the windows."""

    def __init__(self) -> None:
        self.seen: list[tuple[float, int]] = []
        self.windows = self.on_disk = 0  # the most they have taken, in bytes
        self.checksum = 0  # of all results that are in files, in any order

    def starting(self) -> None:
        pass

    def batch(self, progress: Progress) -> None:
        self.seen.append((time.perf_counter(), progress.input_rows))
        self.windows = max(self.windows, progress.state_bytes)
        self.on_disk = max(self.on_disk, progress.disk_bytes)

    def message(self, text: str) -> None:
        pass

    def warn(self, text: str) -> None:
        print(text, file=sys.stderr)

    def close(self) -> None:
        pass


@dataclass(frozen=True)
class Ends:
    """Where streams come from and results go, as a catalog has it: lines of each stream, and its `sinks`."""

    streams: Mapping[str, Sequence[str]]
    sinks: str = ""


def files(spec: Workload, data: Path) -> Ends:
    """The streams as parquet files, one of each a batch; the results in the folder of the run."""
    return Ends(
        {
            a: (
                "schema: {ts: timestamp, k: long, v: long}",
                f"source: {{format: parquet, options: {{path: {data / a}, maxFilesPerTrigger: 1}}}}",
            )
            for a in spec.aliases
        }
    )


def watched(
    spec: Workload,
    where: str,
    planner: str,
    home: Path,
    memory: Memory | None = None,
    adapt: Adapt = Adapt.OFF,
    window: str | None = None,
    kind: str = "JOIN",
    ends: Ends | None = None,
    beside: Callable[[Path], AbstractContextManager[object]] = nullcontext,
) -> tuple[Watch, dict[str, Any]]:
    """Run a workload's join to its end; the streams are all at `one` site or at `three`.

    All have the workload's window, or another one. They are files, unless `ends` says otherwise. What is
    `beside` the run gets its folder.
    """
    from thalweg.spark.run import run

    ends = ends or files(spec, generate(spec, home / "data"))
    catalog_file = home / f"{spec.name}-{where}.yaml"
    sites = {a: f"n{i}" if where == "three" else "n0" for i, a in enumerate(spec.aliases)}
    streams = "".join(
        f"  {a}:\n    site: {site}\n    time: ts\n    order: v\n"
        f"    lateness: {spec.lateness_us // 1000} milliseconds\n"
        f"    stats: {{rate: {spec.rate}, distinct: {{k: {spec.keys}}}}}\n"
        + "".join(f"    {line}\n" for line in ends.streams[a])
        for a, site in sites.items()
    )
    catalog_file.write_text(f"sites: {{n0: {{}}, n1: {{}}, n2: {{}}}}\nstreams:\n{streams}{ends.sinks}")
    catalog = load(catalog_file)
    window = window or f"[RANGE {spec.window_us // 1000} MILLISECONDS]"
    columns = ", ".join(f"{a}.{c} AS {a}_{c}" for a in spec.aliases for c in ("ts", "k", "v"))
    first, *others = spec.aliases
    equal = zip(others, spec.equalities, strict=True)
    on = [f" {kind} {alias} {window} ON {left} = {right}" for alias, (left, right) in equal]
    sql = f"SELECT {columns} FROM {first} {window}{''.join(on)}"
    query = parse(sql, name="q", schemas=catalog.schemas)
    plan = make_plan([query], catalog, PlanOptions(planner, Objective("bytes"), None, {}))
    out = home / f"out-{uuid.uuid4().hex}"  # Spark may still tidy up an earlier one's state
    watch = Watch()
    with beside(out):
        metrics = run(RunOptions((query,), catalog, plan, out, once=True, memory=memory, adapt=adapt), watch)
    if not ends.sinks:
        watch.checksum = _checksum(out / "results" / "q")
    shutil.rmtree(out, ignore_errors=True)
    return watch, metrics


def _checksum(results: Path) -> int:
    with duckdb.connect() as connection:
        rows = f"read_parquet('{results}/*.parquet') AS found"
        (total,) = connection.execute(f"SELECT sum(hash(found)) FROM {rows}").fetchall()[0]
    return int(total or 0)
