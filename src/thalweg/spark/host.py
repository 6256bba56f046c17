"""Hosts operator programs on Structured Streaming: pack, join in stages, unpack."""

from __future__ import annotations

import time
import uuid
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as t

from thalweg.kernel.spill import SpillFolder
from thalweg.plan.document import Plan
from thalweg.programs.cache import OwnCache
from thalweg.programs.compile import compile_job
from thalweg.programs.job import Job, QueryPlan, StreamInfo, StreamPlan
from thalweg.programs.join import JoinProgram
from thalweg.programs.local import MemoryStore
from thalweg.programs.pack import PackSpec, pack_batch
from thalweg.programs.packet import Kind, Packet, merge
from thalweg.programs.spec import JoinSpec
from thalweg.query.model import Query
from thalweg.spark.exchange import Sent
from thalweg.spark.folder import write
from thalweg.spark.late import LateFiles
from thalweg.spark.packets import ARROW, frame, labels, parse, record_batch
from thalweg.spark.parcels import Edge
from thalweg.spark.schema import PACKET
from thalweg.spark.stateful import Lazy
from thalweg.spark.typing import typed_query
from thalweg.spark.unpack import Direct
from thalweg.spark.worker import cache_of, check_place, forget_at_exit, settle

_FLUSH_ROWS, _FLUSH_BYTES = 1 << 20, 1 << 28  # of a partition, about so much is held before it is packed


class MapStore:
    """An operator's state in a MapState of Spark."""

    def __init__(self, state: Any) -> None:
        self._state = state

    def get(self, key: int) -> bytes | None:
        row = self._state.getValue((key,))
        return None if row is None else bytes(row[0])

    def put(self, key: int, value: bytes) -> None:
        self._state.updateValue((key,), (value,))

    def remove(self, key: int) -> None:
        self._state.removeKey((key,))


class Processor:
    """What is done with each group of packets; `Lazy` hands them over. Subclasses implement `packets`."""

    def __init__(self, partitions: int, late: LateFiles | None, direct: Direct | None) -> None:
        self.partitions, self._late = partitions, late
        self._frames = direct.frames if direct is not None else frames_of

    @abstractmethod
    def packets(self, group: int, packets: Iterator[Packet], store: MapStore) -> Iterator[Packet]:
        """What comes out for the packets of a group."""

    def rows(self, key: Any, rows: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
        """See `Hosted`."""
        settle()
        group = int(key[0])
        packets = self.packets(group, parse(rows, group), MapStore(state))
        yield from self._frames(self._keep_late(packets, group))

    def _keep_late(self, packets: Iterable[Packet], group: int) -> Iterator[Packet]:
        for part, out in enumerate(packets):
            if out.kind == Kind.LATE and out.batch is not None and self._late is not None:
                self._late.write(out.port, out.batch, group, part)
                yield replace(out, batch=None)
            else:
                yield out


class _Joins(Processor):
    """Gives each group of packets to the program of its join; others pass through to a later stage."""

    def __init__(self, job: str, specs: Mapping[int, JoinSpec], spill: Path | None, *hosting: Any) -> None:
        super().__init__(*hosting)
        self._job, self._specs, self._spill = job, specs, spill

    def packets(self, group: int, packets: Iterator[Packet], store: MapStore) -> Iterator[Packet]:
        spec = self._specs.get(group)
        if spec is None:
            return packets
        check_place(group, self.partitions)
        cache = cache_of(self._job, group, spec)
        return JoinProgram(spec).call(packets, store, cache, spill_of(self._spill, group))


def spill_of(spill: Path | None, group: int) -> SpillFolder | None:
    """Where a bucket's tuples go that memory has no room for. They are state: apart for each checkpoint."""
    if spill is None:
        return None
    context = TaskContext.get()
    query = context and context.getLocalProperty("sql.streaming.queryId")
    return SpillFolder(spill / (query or "query") / str(group))


def frames_of(packets: Iterable[Packet]) -> Iterator[pd.DataFrame]:
    """Packets as frames of the packet schema, each in its own."""
    return (frame([packet]) for packet in packets)


def compiled(
    spark: SparkSession,
    queries: Sequence[Query],
    infos: Sequence[StreamInfo],
    schemas: Mapping[str, t.StructType],
    *,
    keep_late: bool,
    plan: Plan | None = None,
) -> Job:
    """The queries as operators, one bucket a partition. A stream's number is its place in `infos`.

    With a plan they join as it says.
    """
    partitions = partitions_of(spark)
    return compile_job(
        [typed_query(spark, q, schemas) for q in queries],
        {i.name: i for i in infos},
        buckets=partitions,
        labels=lambda n: labels(n, partitions),
        keep_late=keep_late,
        deployments=[q.deployment for q in plan.queries] if plan is not None else (),
    )


def partitions_of(spark: SparkSession) -> int:
    """How many buckets the session shuffles into."""
    return int(str(spark.conf.get("spark.sql.shuffle.partitions")))


def packed(job: Job, frames: Mapping[str, DataFrame], stage: int) -> list[DataFrame]:
    """The packets of the streams that enter at a stage."""
    return [_pack(plan, frames[plan.stream]) for plan in job.streams if plan.stage == stage]


def _pack(plan: StreamPlan, stream: DataFrame) -> DataFrame:
    selected = stream.selectExpr(*(f"{sql} AS `{name}`" for sql, name in plan.select))
    return selected.mapInArrow(_packer(plan.pack), PACKET)


Arrow = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def _packer(spec: PackSpec) -> Arrow:
    return packer(lambda batch: pack_batch(spec, batch, time.time_ns() // 1000))


def packer(packets: Callable[[pa.RecordBatch], Iterable[Packet]]) -> Arrow:
    """Rows of one partition of a stream become few fat packets."""

    def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        settle()
        held: list[pa.RecordBatch] = []
        count = size = 0
        for batch in batches:
            if batch.num_rows:
                held.append(batch)
                count += batch.num_rows
                size += batch.nbytes
            if count >= _FLUSH_ROWS or size >= _FLUSH_BYTES:
                yield from emit(held)
                held, count, size = [], 0, 0
        if held:
            yield from emit(held)

    def emit(held: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for packet in packets(merge(held)):
            yield record_batch([packet])

    return pack


def joined(
    job: Job,
    frames: Mapping[str, DataFrame],
    *,
    late: LateFiles | None = None,
    direct: Direct | None = None,
    ends: DataFrame | None = None,
    spill: Path | None = None,
) -> DataFrame:
    """All that comes out of the last stage. `ends` brings packets that end the streams.

    `spill` is the folder for what memory has no room for, where there is a limit.
    """
    streaming = all(f.isStreaming for f in frames.values())
    if streaming:
        forget_at_exit(next(iter(frames.values())).sparkSession)
    spark = next(iter(frames.values())).sparkSession
    name, partitions = uuid.uuid4().hex, partitions_of(spark)
    flow: DataFrame | None = None
    for number, specs in enumerate(job.stages):
        parts = ([flow] if flow is not None else []) + packed(job, frames, number)
        parts += [ends] if ends is not None and number == 0 else []
        together = parts[0]
        for part in parts[1:]:
            together = together.union(part)
        groups = together.groupBy("group")
        if streaming:
            last = direct if number + 1 == len(job.stages) else None
            flow = groups.transformWithStateInPandas(
                Lazy(_Joins(f"{name}-{number}", specs, spill, partitions, late, last)),
                last.schema if last is not None else PACKET,
                outputMode="Append",
                timeMode="None",
            )
        else:
            flow = groups.applyInArrow(_static(specs), PACKET)
    assert flow is not None
    return flow


_END, _IDLE = "end", "idle"
"""What a control file says: all streams have ended, or nothing has come for a while."""


@dataclass
class OneSite:
    """A job whose streams and joins are all at one site: joins follow each other within a batch."""

    spark: SparkSession
    job: Job
    control: Path
    spill: Path

    @property
    def queries(self) -> Sequence[QueryPlan]:
        return self.job.queries

    @property
    def must_end(self) -> bool:
        """Whether results may wait for event time to pass, so that it must be said that it will."""
        return self.job.held

    def flow(self, frames: Mapping[str, DataFrame], late: LateFiles, direct: Direct | None) -> DataFrame:
        """All that comes out of the joins."""
        told = ends(self.spark, self.job, str(self.control)) if self.job.held else None
        return joined(self.job, frames, late=late, direct=direct, ends=told, spill=self.spill)

    def end(self) -> None:
        """Tell all streams that they have ended."""
        write(self.control / "end.txt", _END)

    def idle(self) -> None:
        """Tell all operators that nothing has come for a while."""
        write(self.control / f"{_IDLE}-{uuid.uuid4().hex}.txt", _IDLE)

    def publish(self, batch: int, said: Iterable[str]) -> dict[Edge, Sent]:
        """Nothing leaves the site."""
        return {}


def ends(spark: SparkSession, job: Job, folder: str) -> DataFrame:
    """Packets that tell every operator what files in the folder say."""
    groups = [g for stage in job.stages for g in stage]

    def tell(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for said in {text for batch in batches for text in batch.column(0).to_pylist()}:
            kind = Kind.END if said == _END else Kind.IDLE
            for g in groups:
                yield record_batch([Packet(g, 0, kind, 0, None, 0)])

    files = spark.readStream.option("cleanSource", "delete").text(folder)  # a long run says it often
    return files.coalesce(1).mapInArrow(tell, PACKET)


def _static(specs: Mapping[int, JoinSpec]) -> Any:
    def run(key: tuple[Any, ...], table: pa.Table) -> pa.Table:
        group = int(key[0].as_py())
        spec = specs.get(group)
        if spec is None:
            return table
        # One batch is the whole stream: nothing is late, and at its end everything is known.
        packets = [*parse([table.to_pandas()], group), Packet(group, 0, Kind.END, 0, None, 0)]
        out = list(JoinProgram(spec).call(packets, MemoryStore(), OwnCache()))
        return pa.Table.from_batches([record_batch([p]) for p in out], schema=ARROW)

    return run
