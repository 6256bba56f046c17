"""The throughput from Kafka to Kafka, beside that of the same streams from parquet to parquet, in one run.

A broker runs on this machine, on the cores of the join. Topics hold JSON. Both ways read the same tuples in
each batch: every partition of a topic has an equal part of each file.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from thalweg.bench import broker
from thalweg.bench.data import Workload, generate
from thalweg.bench.sites import LARGE, rows_per_s
from thalweg.bench.watched import Ends, files, watched

TURNS = 2
PARTITIONS = 4
TARGET = 0.6
"""The least ratio to the rows a second from parquet to parquet."""


@dataclass(frozen=True)
class Way:
    """Rows a second of each turn, and the results of one."""

    name: str
    rows_per_s: list[float]
    results: int


@dataclass(frozen=True)
class Beside:
    """Both ways, of the same streams."""

    parquet: Way
    kafka: Way

    @property
    def ratio(self) -> float:
        return median(self.kafka.rows_per_s) / median(self.parquet.rows_per_s)

    def to_json(self) -> dict[str, Any]:
        ways = [way.__dict__ for way in (self.parquet, self.kafka)]
        return {"ways": ways, "ratio": round(self.ratio, 4), "target": TARGET}


def measure(
    home: Path, say: Callable[[str], None], spec: Workload = LARGE, script: Path = broker.SCRIPT
) -> Beside:
    """Run the join both ways, in turns."""
    os.environ["PYSPARK_SUBMIT_ARGS"] = broker.spark_arguments(script)
    data = generate(spec, home / "data")
    ways = Way("parquet to parquet", [], 0), Way("Kafka to Kafka", [], 0)
    with tempfile.TemporaryDirectory(dir=home) as folder, broker.running(Path(folder), script) as servers:
        say("the streams are written to topics")
        broker.create(servers, spec.aliases, PARTITIONS)
        _fill(spec, data, servers)
        for turn in range(TURNS):
            into = f"results-{turn}"
            broker.create(servers, [into], PARTITIONS)
            found = []
            for way, ends in zip(ways, (files(spec, data), _topics(spec, servers, into)), strict=True):
                say(f"{way.name}, turn {turn + 1}")
                watch, metrics = watched(spec, "one", "simple", home, ends=ends)
                way.rows_per_s.append(rows_per_s(watch, spec))
                found.append(metrics["output_rows"]["q"])
            if len({*found, broker.count(servers, into)}) != 1:
                raise RuntimeError(f"{found} results, and {broker.count(servers, into)} records")
    parquet, kafka = (Way(way.name, way.rows_per_s, found[0]) for way in ways)
    return Beside(parquet, kafka)


def _topics(spec: Workload, servers: str, results: str) -> Ends:
    """The streams as topics, read in the same batches as the files; the results in one more topic."""
    options = f'kafka.bootstrap.servers: "{servers}", maxOffsetsPerTrigger: {spec.batch_tuples}'
    streams = {
        a: (
            "time_unit: microseconds",
            "schema: {ts: long, k: long, v: long}",
            f"source: {{format: kafka, value: json, options: {{{options}, subscribe: {a}}}}}",
        )
        for a in spec.aliases
    }
    to = f'{{kafka.bootstrap.servers: "{servers}", topic: {results}}}'
    return Ends(streams, f"sinks: {{q: [{{format: kafka, options: {to}}}]}}\n")


def _fill(spec: Workload, data: Path, servers: str) -> None:
    """Write each stream to its topic, file by file, so that the topic has its order."""
    from thalweg.spark.session import session, stop

    spark = session(log=Path(os.devnull))
    try:
        for alias in spec.aliases:
            for file in sorted((data / alias).glob("*.parquet")):
                rows = spark.read.parquet(str(file)).selectExpr(
                    "to_json(struct(unix_micros(ts) AS ts, k, v)) AS value",
                    f"CAST(v % {PARTITIONS} AS INT) AS partition",
                )
                to = {"kafka.bootstrap.servers": servers, "topic": alias}
                rows.write.format("kafka").options(**to).save()
    finally:
        stop(spark)


COLUMNS = ("", "rows/s", "to parquet", "results")


def rows(found: Beside) -> Sequence[tuple[str, str, str, str]]:
    """The figures of each way, and what they must reach."""
    ratios = "1.00", f"{found.ratio:.2f} (target: at least {TARGET})"
    return [
        (way.name, f"{median(way.rows_per_s):,.0f}", ratio, f"{way.results:,}")
        for way, ratio in zip((found.parquet, found.kafka), ratios, strict=True)
    ]
