"""Hosts the sites of an application on Structured Streaming: one streaming query for all of them.

    streams ─ pack ─┐                  ┌ results, late tuples
                    ├─ stages of key ──┤
    inbox ──────────┘   groups         └ drafts ─> exchanges ─> inbox, of the next batch

Its inputs are the sites' own streams and one inbox for all parcels that are sent to them. What it runs is
data: workers read the program of their batch, so another program can take over between two batches. The Spark
query is tied to the queries (the columns and conditions that Spark evaluates) and to the number of stages,
not to a plan.
"""

from __future__ import annotations

import threading
import uuid
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from thalweg.compile.compiler import Compiled, Selection, compile_plan
from thalweg.compile.host import Host
from thalweg.compile.inputs import ResultPlan, StreamInfo, TypedQuery
from thalweg.compile.stages import Shape
from thalweg.errors import UserError
from thalweg.exchange.disk import NEW_FOLDER
from thalweg.exchange.drafts import Drafts
from thalweg.exchange.files import FileExchanges
from thalweg.exchange.links import Link
from thalweg.exchange.log import Sent
from thalweg.exchange.parcel_file import CONTROL, Edge
from thalweg.operators import migration
from thalweg.operators.output import Report
from thalweg.operators.pack import WALL
from thalweg.operators.program import Program, Unchanged
from thalweg.plan.deployment import Deployment
from thalweg.plan.options import Memory
from thalweg.query.model import Query
from thalweg.spark.calls import packer, static
from thalweg.spark.inbox import Inbox, InboxOptions
from thalweg.spark.late import LateFiles
from thalweg.spark.processor import Hosting, KeyGroups
from thalweg.spark.program_files import Programs
from thalweg.spark.results import Outgoing
from thalweg.spark.rows import labels
from thalweg.spark.schema import MESSAGE
from thalweg.spark.tally import Tally
from thalweg.spark.worker import forget, forget_at_exit
from thalweg.storage import Location
from thalweg.wire.parcel import Kind, Parcel

_UNREADABLE = (ValueError, OSError, pa.ArrowException)  # what a damaged program gives


def compiled(
    spark: SparkSession,
    queries: Sequence[tuple[TypedQuery, Deployment]],
    infos: Sequence[StreamInfo],
    at: Mapping[str, str],
    *,
    keep_late: bool,
    shape: Shape | None = None,
    begin: Mapping[str, Sequence[Sequence[int]]] | None = None,
    generation: int = 0,
    numbers: Sequence[int] | None = None,
    keep: bool = False,
) -> Compiled:
    """The plans of some queries, compiled for this session: a bucket for each of its partitions."""
    partitions = partitions_of(spark)
    return compile_plan(
        queries,
        {i.name: i for i in infos},
        at,
        buckets=partitions,
        labels=lambda place, count: labels(place, count, partitions),
        keep_late=keep_late,
        shape=shape,
        begin=begin,
        generation=generation,
        numbers=numbers,
        keep=keep,
    )


def partitions_of(spark: SparkSession) -> int:
    """How many partitions the session shuffles into."""
    return int(str(spark.conf.get("spark.sql.shuffle.partitions")))


def flow(
    compiled: Compiled,
    frames: Mapping[str, DataFrame],
    hosting: Hosting,
    output: Outgoing,
    inbox: DataFrame | None = None,
) -> DataFrame:
    """All that comes out of the last stage: results and reports."""
    streaming = all(f.isStreaming for f in frames.values())
    clock = any(p.max_ahead is not None for p in compiled.program.streams) or any(
        getattr(o.spec, "idle", None) is not None for o in compiled.program.operators
    )
    found = inbox
    for stage in range(1, compiled.shape.stages + 1):
        entering = [s for s in compiled.selections if compiled.shape.entries.get(s.stream, 1) == stage]
        # Spark tells sources by their order, which must not depend on the queries.
        entering.sort(key=lambda s: s.stream)
        parts = [_packed(s, frames[s.stream], hosting.programs, clock) for s in entering]
        for part in parts:
            found = part if found is None else found.union(part)
        assert found is not None
        last = output if stage == compiled.shape.stages else None
        schema = MESSAGE if last is None else last.schema
        groups = found.groupBy("group")
        if streaming:
            processor = KeyGroups(hosting, stage, last)
            found = groups.transformWithStateInPandas(processor, schema, outputMode="Append", timeMode="None")
        else:
            found = groups.applyInArrow(static(hosting.programs, stage, last), schema)
    assert found is not None
    return found


def _packed(selection: Selection, rows: DataFrame, programs: Programs, clock: bool) -> DataFrame:
    """The rows of a stream as messages."""
    columns = [f"{sql} AS `{name}`" for sql, name in selection.columns]
    if clock:  # Spark's clock of the batch: a repeat must judge alike
        columns.append(f"unix_micros(current_timestamp()) AS `{WALL}`")
    return rows.selectExpr(*columns).mapInArrow(packer(programs, selection.stream), MESSAGE)


def fixed(compiled: Compiled) -> Hosting:
    """The hosting of a program that stays as it is, without a folder; for the Python interface."""
    return Hosting(uuid.uuid4().hex, Programs(None, compiled.program.to_json()))


@dataclass
class SparkHost(Host):
    """The sites of a run. `root` is the folder of their exchanges and programs.

    `compiled` is what the Spark query is made for; `results` are those of all queries so far, by number.
    The first program settles whether there is an inbox, for all that the sites' own streams do not bring.
    """

    spark: SparkSession
    compiled: Compiled
    root: Location
    run: str
    sites: tuple[str, ...]
    spill: Location
    links: Mapping[str, Link] = field(default_factory=dict)
    memory: Memory | None = None

    def __post_init__(self) -> None:
        self.programs = Programs(str(self.root / "programs"))
        self.exchanges = FileExchanges(self.root / "exchange", self.run, self.links)
        self.drafts = Drafts(self.root / "exchange", self.run)
        self._unchanged = Unchanged()
        self._writers = ThreadPoolExecutor(8, "thalweg-publish")
        self._telling = threading.Lock()
        self.results: list[ResultPlan] = list(self.compiled.results)
        self.has_inbox = len(self.sites) > 1 or self._needs_inbox(self.compiled.program)
        self._inbox: DataFrame | None = None

    @property
    def must_end(self) -> bool:
        """Whether anything waits for event time to pass, so that it must be said that it will."""
        return self.programs.at(self.programs.firsts()[-1]).waits

    def settle(self) -> None:
        """Write down the first program. A run that goes on keeps to it, and to those that took over later."""
        self.programs.read_anew()
        if not self.programs.path(0).exists():
            self._put(0, self.compiled.program)
        for first in self.programs.firsts():
            try:
                program = self.programs.at(first)
            except _UNREADABLE:
                raise self._other(first) from None
            if first == 0 and program.unlimited() != self.compiled.program:
                raise self._other(first)
            if not {g.site for g in program.groups} <= {*self.sites}:
                raise self._other(first)
            if self.memory is not None:
                self._put(first, program)  # how large the budget is may change

    def _put(self, first: int, program: Program) -> None:
        self.programs.put(first, self._limited(program))

    def _limited(self, program: Program) -> Program:
        """The program as it runs: all its windows share the budget."""
        memory = self.memory
        return program if memory is None else program.limited(memory.budget, memory.delay)

    def _needs_inbox(self, program: Program) -> bool:
        """Whether anything is sent, or must be told; tuples on disk may wait for it."""
        return self._limited(program).waits or bool(program.shipments)

    def _other(self, first: int) -> UserError:
        return UserError(
            "is not what this thalweg makes of the run's plan",
            where=str(self.programs.path(first)),
            remedy=NEW_FOLDER,
        )

    def check(self, sent: Mapping[str, int]) -> None:
        """Whether all is there that was sent; were the last of it gone, nothing else would tell."""
        for name, seq in sent.items():
            exchange = self.exchanges.over(Edge.named(name))
            if exchange.last() < seq:
                raise UserError("is missing", where=str(exchange.path(seq)), remedy=NEW_FOLDER)

    def flow(self, frames: Mapping[str, DataFrame], late: LateFiles, output: Outgoing) -> DataFrame:
        """All that comes out of the operators, and their reports."""
        hosting = Hosting(
            self.run,
            self.programs,
            late=late,
            exchange=str(self.root / "exchange"),
            spill=str(self.spill),
        )
        self._memory = hosting.memory
        forget_at_exit(self._memory)
        if self.has_inbox and self._inbox is None:
            self.spark.dataSource.register(Inbox)
            options = InboxOptions(
                self.root / "exchange",
                self.run,
                self.sites,
                str(self.programs.folder),
                self.links,
                alone=True,
            )
            self._inbox = self.spark.readStream.format(Inbox.name()).options(**options.texts()).load()
        return flow(self.compiled, frames, hosting, output, self._inbox)

    def forget(self) -> None:
        """Free the memory that the workers of a flow share, when it has stopped."""
        forget(self._memory)

    def publish(self, batch: int, report: Report) -> dict[Edge, Sent]:
        """Send what the operators of a batch have drafted; a repeat sends nothing twice."""
        names: dict[Edge, list[str]] = defaultdict(list)
        for draft in report.drafts:
            names[Edge.named(draft.split(".")[1])].append(draft)
        program = self.programs.at(batch)
        parcels = {
            edge: self._unchanged.left_out(program, program.settled(self.drafts.gather(drafts)))
            for edge, drafts in sorted(names.items(), key=lambda item: item[0].name)
        }
        report.copied = sum(
            p.payload
            for edge, found in parcels.items()
            if edge.source != edge.target
            for p in found
            if p.kind == Kind.PAST
        )
        going = {self.exchanges.over(edge): found for edge, found in parcels.items() if found}
        # Making a file durable is waiting for the disk, some milliseconds each: all edges wait at once.
        sent = self._writers.map(lambda one: one[0].publish(batch, one[1]), going.items())
        published = {exchange.edge: one for exchange, one in zip(going, sent, strict=True)}
        if names:
            self.drafts.clear(batch)
        return published

    def switch(self, batch: int, compiled: Compiled, ended: Collection[str] = ()) -> None:
        """Let another program take over after a batch that is being published; a repeat does so again.

        Where it has other queries, the next batch must be another Spark query's, on the same checkpoint.
        """
        self._check_fits(compiled)
        if not self.has_inbox:  # nothing is ever on its way
            self._put(batch + 1, compiled.program)
            return
        # They hear of it in the next batch. In the other order, a crash in between would leave them running.
        self._tell(Kind.END, ending=True)
        self._put(batch + 1, compiled.program.after(self.programs.at(batch), ended))

    def _check_fits(self, compiled: Compiled) -> None:
        streams = {s.stream for s in compiled.selections}
        if compiled.shape != self.compiled.shape or streams != {s.stream for s in self.compiled.selections}:
            raise ValueError("another checkpoint is needed for this program")
        if not self.has_inbox and self._needs_inbox(compiled.program):
            raise ValueError("another checkpoint is needed for this program: one with an inbox")

    def move(self, batch: int, compiled: Compiled, change: int, since: int) -> None:
        """Begin to move to another plan of the same queries; one that has begun is given up for it.

        `change` is the number that it was compiled with, `since` a time after all that has been read.
        """
        self._check_fits(compiled)
        now = migration.undo(self.programs.at(batch + 1))
        program = migration.begin(now, compiled.program, change, since)
        self._unchanged = Unchanged()  # new readers of what is sent already hear how far it has come
        self.hurry()  # so that streams that are silent send copies as well
        self._put(batch + 1, program)

    def advance(self, batch: int, tally: Tally, *, late: bool = False) -> str:
        """Take the next step of a move after a batch, if it can be taken; with `late`, give it up instead.

        Returns what has been done: `commit`, `undo`, or nothing.
        """
        before = self.programs.at(batch)
        program, done = migration.step(before, tally.ready, tally.ended, tally.after_all, late=late)
        if program is not before:
            self._put(batch + 1, program)
        return done

    def renew(self, compiled: Compiled) -> None:
        """Go on with other queries; the Spark query must be made anew for them."""
        self.compiled = compiled
        known = {plan.query.name for plan in self.results}
        self.results += [plan for plan in compiled.results if plan.query.name not in known]

    def numbers(self, queries: Sequence[Query]) -> list[int]:
        """The numbers of queries: those that they have, or the next ones."""
        known = {plan.query.name: n for n, plan in enumerate(self.results)}
        for query in queries:
            number = known.setdefault(query.name, len(known))
            if number < len(self.results) and self.results[number].query.text != query.text:
                raise UserError(
                    f"there are results of another query {query.name!r}", remedy="give the new one a new name"
                )
        return [known[query.name] for query in queries]

    def concerning(self, batch: int, tally: Tally) -> None:
        """Leave of what operators have said only what is of those that the program of a batch still has."""
        program = self.programs.at(batch)
        tally.ended = [bucket for bucket in tally.ended if bucket.split("/", 1)[1] in program.ending]
        tally.ready = [bucket for bucket in tally.ready if bucket.split("/", 1)[1] in program.starting]

    def end(self) -> None:
        self._tell(Kind.END)

    def hurry(self) -> None:
        self._tell(Kind.HURRY)

    def _tell(self, kind: Kind, *, ending: bool = False) -> None:
        control = self.exchanges.over(CONTROL)
        with self._telling:  # the run and its batches tell from threads of their own
            control.publish(control.last(), [Parcel(int(ending), kind, 0, None, 0)])
