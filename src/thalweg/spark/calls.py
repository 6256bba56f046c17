"""The work of Spark's workers: rows to messages, messages to operators, output to rows again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark import TaskContext

from thalweg.exchange.drafts import Drafts
from thalweg.exchange.parcel_file import Edge
from thalweg.kernel.spill_files import SpillFolder
from thalweg.operators.cache import OwnCache
from thalweg.operators.chain import Bucket, Shipped, call
from thalweg.operators.output import Late, Report, Results
from thalweg.operators.program import Program
from thalweg.operators.spec import JoinSpec
from thalweg.operators.state import Cache, MemoryStore, Store
from thalweg.spark.processor import Hosting
from thalweg.spark.program_files import Programs, batch_number
from thalweg.spark.results import Outgoing
from thalweg.spark.rows import ARROW, frame, parse, record_batch
from thalweg.spark.worker import Caches, caches, settle
from thalweg.storage import location
from thalweg.wire.message import Message, merge
from thalweg.wire.parcel import Kind, Parcel

_FLUSH_ROWS, _FLUSH_BYTES = 1 << 20, 1 << 28  # of a partition, about so much is held before it is packed

Arrow = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def packer(programs: Programs, stream: str) -> Arrow:
    """Rows of one partition of a stream become few fat messages, by the program of the batch."""

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
        packing = programs.at(batch_number()).packing(stream)
        for message in packing.messages(merge(held)):
            yield record_batch([message])

    return pack


def frames(
    hosting: Hosting,
    stage: int,
    output: Outgoing | None,
    group: int,
    rows: Iterable[pd.DataFrame],
    store: Store,
) -> Iterator[pd.DataFrame]:
    """One call of Spark for one bucket: messages in, results or messages out."""
    settle()
    batch = batch_number()
    program = hosting.programs.at(batch)
    messages = parse(rows, group)
    if program.by_group[group].stage != stage:
        out: Iterator[Message | Results | Report] = _passed(messages)
    else:
        kept = caches(hosting.memory)
        kept.keep_only(program)
        out = _called(hosting, program, group, messages, _bucket(hosting, group, store, kept), batch)
    return _messages(out, group) if output is None else output.frames(out)


def _passed(messages: Iterable[Message]) -> Iterator[Message | Results | Report]:
    """What earlier stages have put out, and what is for later ones."""
    for message in messages:
        if message.kind == Kind.RESULTS:
            yield Results(int(message.channel), message.table)
        elif message.kind == Kind.REPORT:
            yield Report.sum([message.data.decode()])
        else:
            yield message


def _messages(out: Iterable[Message | Results | Report], group: int) -> Iterator[pd.DataFrame]:
    """Output as messages for a later stage; each has a frame of its own."""
    for one in out:
        if isinstance(one, Results):
            yield frame([Message(group, str(one.query), Kind.RESULTS, one.batch.num_rows, batch=one.batch)])
        elif isinstance(one, Report):
            yield frame([Message(group, "", Kind.REPORT, data=one.to_json().encode())])
        else:
            yield frame([one])


def _bucket(hosting: Hosting, group: int, store: Store, kept: Caches) -> Bucket:
    def folder(operator: str) -> SpillFolder:
        # Spilled tuples are state: apart for each checkpoint.
        context = TaskContext.get()
        query = context and context.getLocalProperty("sql.streaming.queryId")
        assert hosting.spill is not None
        return SpillFolder(location(hosting.spill) / (query or "query") / f"{group}" / operator)

    return Bucket(store, partial(kept.of, group), None if hosting.spill is None else folder)


def _called(
    hosting: Hosting, program: Program, group: int, messages: Iterable[Message], bucket: Bucket, batch: int
) -> Iterator[Message | Results | Report]:
    site = program.by_group[group].site
    sent: dict[str, list[Parcel]] = {}
    late, used = 0, []

    def noted(operator: str, spec: JoinSpec) -> Cache:
        used.append(bucket.cache(operator, spec))
        return used[-1]

    for out in call(program, group, messages, replace(bucket, cache=noted)):
        if isinstance(out, Shipped):
            sent.setdefault(out.site, []).append(out.parcel)
        elif isinstance(out, Late):
            if hosting.late is not None and out.batch is not None:
                hosting.late.write(out.stream, out.batch, group, late)
                late += 1
        elif isinstance(out, Report):
            drafts = []
            for target, parcels in sent.items():
                assert hosting.exchange is not None
                folder = Drafts(location(hosting.exchange), hosting.job)
                drafts.append(folder.write(Edge(site, target), batch, str(group), parcels))
            yield replace(out, drafts=drafts, unshared=int(any(one.unshared for one in used)))
        else:
            yield out


def static(programs: Programs, stage: int, output: Outgoing | None) -> Any:
    """The call of a bucket over static frames: one batch is the whole stream, so at its end all is known."""

    def run(key: tuple[Any, ...], table: pa.Table) -> pa.Table:
        group = int(key[0].as_py())
        program = programs.at(0)
        messages = list(parse([table.to_pandas()], group))
        if program.by_group[group].stage != stage:
            out: Iterator[Any] = _passed(messages)
        else:
            messages.append(Message(group, "", Kind.END))
            bucket = Bucket(MemoryStore(), lambda *_: OwnCache())
            out = (o for o in call(program, group, messages, bucket) if not isinstance(o, Late))
        found = _messages(out, group) if output is None else output.frames(out)
        schema = ARROW if output is None else output.arrow
        tables = [pa.Table.from_pandas(f, schema=schema, preserve_index=False) for f in found]
        return pa.concat_tables(tables) if tables else schema.empty_table()

    return run
