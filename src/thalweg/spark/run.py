"""`thalweg run` on Spark: from sources to result files, exactly once."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, Observation, SparkSession

from thalweg.catalog.model import Stream
from thalweg.catalog.versions import Kept
from thalweg.errors import RunError, Stopped, UserError
from thalweg.exchange.disk import flush
from thalweg.files import remove_all, write_text
from thalweg.operators.output import Report
from thalweg.plan.options import Adapt, Progress, Reporter, RunOptions
from thalweg.query.model import Query
from thalweg.spark import packages, tables
from thalweg.spark.adapting import Adapting
from thalweg.spark.checkpoint import SourceLogs, mend
from thalweg.spark.delays import Delays
from thalweg.spark.error_messages import in_our_words
from thalweg.spark.folder import Folder
from thalweg.spark.late import LateFiles
from thalweg.spark.plans import Plans, as_begun
from thalweg.spark.recording import Recording
from thalweg.spark.result_files import DraftFiles, Found, ResultFiles
from thalweg.spark.results import ResultRows, reports, result_rows, results
from thalweg.spark.session import has_ended, session
from thalweg.spark.session import stop as stop_session
from thalweg.spark.sinks.delivery import Delivery
from thalweg.spark.sinks.sink import Setting
from thalweg.spark.streams import check_names, empty_files, kept_schema, live
from thalweg.spark.tally import Tally
from thalweg.units import BEFORE_ALL


def run(options: RunOptions, reporter: Reporter) -> dict[str, Any]:
    """Run the queries until their sources are exhausted (`once`) or the process is told to stop.

    A run with `once` that is told to stop before it is complete ends with `Stopped`.
    """
    folder = Folder(options.out.absolute())
    stop = _on_signals(options, reporter)
    try:
        metrics = _run(options, reporter, folder, stop)
    except UserError:
        raise
    except Exception as error:
        if not stop.is_set():
            if has_ended(error):
                raise RunError("Spark has ended unexpectedly; the same command continues") from error
            raise
        # The JVM was told to stop as well, and was faster.
        metrics = folder.metrics() or _nothing_yet(options)
    finally:
        folder.close()
    if not metrics["complete"]:
        stopped = Stopped(metrics, stop.signal)
        if options.once:
            raise stopped
        reporter.message(str(stopped))
    return metrics


_UNSHARED = (
    "/dev/shm is missing or full, so worker processes can't share windows; the results are the same, "
    "but batches take longer"
)


def _nothing_yet(options: RunOptions) -> dict[str, Any]:
    streams = sorted({i.stream for q in options.queries for i in q.inputs})
    rows = Tally().rows(streams, (q.name for q in options.queries))
    return {**rows, "shipped": [], "elapsed_s": 0.0, "batches": 0, "complete": False}


def _run(options: RunOptions, reporter: Reporter, folder: Folder, stop: _Stop) -> dict[str, Any]:
    begun = time.monotonic()
    settled = folder.open(options, partitions=0)
    mend(folder.checkpoint)
    done = folder.metrics()
    if done is not None and done["complete"]:
        reporter.message(f"{options.out} is complete; nothing to do")
        return done
    if settled.get("ended") and not options.once:
        raise UserError(
            f"an earlier run with --once has ended the streams of {options.out}",
            where="--out",
            remedy="add --once to complete it, or name a new folder",
        )
    begun_with = settled.get("budget", False)
    if begun_with != (options.memory is not None):  # how large it is may change
        raise UserError(
            f"{options.out} belongs to a run {'with' if begun_with else 'without'} a memory budget",
            where="--memory-budget",
            remedy="name a new folder, or give one as before" if begun_with else "leave it out",
        )
    recording = Recording.begin(options, reporter)
    try:
        metrics = _on_spark(options, recording, folder, stop, begun, settled)
    except BaseException as error:
        if stop.is_set():
            recording.end("stopped")
        else:
            recording.end("failed", str(error) or type(error).__name__)
        raise
    recording.end("complete" if metrics["complete"] else "stopped")
    return metrics


def _on_spark(
    options: RunOptions,
    reporter: Recording,
    folder: Folder,
    stop: _Stop,
    begun: float,
    settled: dict[str, Any],
) -> dict[str, Any]:
    reporter.starting()
    used = {i.stream for q in options.queries for i in q.inputs}
    streams = [options.catalog.streams[name] for name in sorted(used)]
    sinks = (to for query in options.queries for to in options.catalog.destinations(query.name))
    spark = session(options.master, folder.log, **packages.conf(streams, sinks, folder.path))
    try:
        process = getattr(spark.sparkContext._gateway, "proc", None)
        folder.started(None if process is None else process.pid)
        if not settled["partitions"]:
            settled["partitions"] = spark.sparkContext.defaultParallelism
            folder.settle(settled)
        spark.conf.set("spark.sql.shuffle.partitions", str(settled["partitions"]))
        options = as_begun(options, folder, reporter)
        return _Run(options, reporter, folder, spark, stop, begun, settled).run()
    except (PySparkException, Py4JJavaError) as error:
        raise in_our_words(error, _named(options.queries)) from error
    finally:
        stop_session(spark)


class _Changed(Exception):  # noqa: N818 (no error)
    """The queries of the run have changed."""


@dataclass
class _Run:
    options: RunOptions
    reporter: Recording
    folder: Folder
    spark: SparkSession
    stop: _Stop
    begun: float
    settled: dict[str, Any]
    earlier_s: float = 0.0
    failed: Exception | None = None
    writing: int = 0
    warned: bool = False
    adapting: Adapting | None = None
    unreadable: set[str] = field(default_factory=set)
    waiting: dict[str, float] = field(default_factory=dict)
    """The buckets in which tuples wait on disk, and when each was last heard of."""

    def run(self) -> dict[str, Any]:
        streams = self.options.catalog.streams
        names = sorted({i.stream for q in self.options.queries for i in q.inputs})
        self.schemas = {name: kept_schema(streams[name]) for name in names}
        self.plans = Plans(self.spark, self.options, self.folder, self.settled, self.schemas)
        self.host = self.plans.host
        self.source_logs = SourceLogs(self.folder.checkpoint)
        self.delays = Delays(self.folder.checkpoint)
        self.late = LateFiles(self.folder.path / "late", self.schemas)
        self.adapting = self._adapting()
        self._prepare_output()
        for line in (line for delivery in self.deliveries for line in delivery.describe()):
            self.reporter.message(line)
        (self.folder.path / "late").mkdir(exist_ok=True)
        self.earlier_s = (self.folder.metrics() or {}).get("elapsed_s", 0.0)
        self._save(self.folder.tally(), complete=False)
        if self.folder.tally().batch >= 0:
            self.waiting[""] = time.monotonic()  # something may wait since the run before
        for name in names:
            check_names(streams[name])
        frames = {name: self._frame(streams[name]) for name in names}
        self.refreshed = [streams[name] for name in names if streams[name].refresh is not None]
        self.next_look = dict.fromkeys((table.name for table in self.refreshed), time.monotonic())
        if self.settled.get("ended"):
            self.reporter.message("the streams have ended; rows that arrived since are not read")
        finished = bool(self.settled.get("ended")) or self._stream(frames)
        if finished and self.host.must_end:
            # Results may wait for event time to pass; say that it will, once all that came has been read.
            self._end_streams()
            finished = self._stream({name: frame.where("false") for name, frame in frames.items()})
        self._warn_of_empty()
        metrics = self._save(self.folder.tally(), complete=finished)
        if finished:
            remove_all(self.folder.spill, ignore_errors=True)
        self.reporter.close()
        return metrics

    def _frame(self, stream: Stream) -> DataFrame:
        if not stream.table:
            return live(self.spark, stream)
        kept = Kept.of(self.folder.path, stream.name)
        if not self.folder.begun:
            tables.keep(self.spark, stream, kept)
        return tables.live(self.spark, stream, kept)

    def _adapting(self) -> Adapting | None:
        """What changes the plan, and completes what an earlier run has begun to change."""
        if self.plans.keeps:
            return Adapting.of(self.plans, self.folder, self.options, self.reporter.message)
        if self.options.adapt not in (None, Adapt.OFF):
            self.reporter.warn("the run was begun with --adapt off, so its plan stays as it is")
        return None

    def _end_streams(self) -> None:
        """Nothing is read after this, in a later run either: whatever comes after the end would be late."""
        self.settled["ended"] = True
        self.folder.settle(self.settled)
        self.host.end()

    def _warn_of_empty(self) -> None:
        for name in self.schemas:
            if found := empty_files(self.options.catalog.streams[name]):
                self.reporter.warn(
                    f"stream {name}: {found[0]} was empty"
                    + (f", as were {len(found) - 1} more files" if len(found) > 1 else "")
                    + "; what is written into a file later is not read: write it elsewhere, then rename it"
                )

    def _prepare_output(self) -> None:
        plans = self.host.results
        drafts = [self.folder.drafts(plan.query.name) for plan in plans]
        as_rows = result_rows(plans, self.schemas)
        self.output: ResultFiles | ResultRows = ResultFiles.of(plans, drafts, self.schemas) or as_rows
        empty = self.spark.createDataFrame([], as_rows.schema)
        self.deliveries = [
            self._delivery(plan.query, drafts[number], results(empty, plan, number, as_rows))
            for number, plan in enumerate(plans)
        ]
        for delivery in self.deliveries:
            delivery.prepare()

    def _delivery(self, query: Query, drafts: DraftFiles, empty: DataFrame) -> Delivery:
        begun = self.folder.tally().batch >= 0
        setting = Setting(self.spark, self.settled["run"], query, begun, self.reporter.show)
        files = self.folder.result_files(query.name, merges=self.options.compact)
        return Delivery.of(self.options.catalog.destinations(query.name), setting, drafts, files, empty)

    def _stream(self, frames: dict[str, DataFrame]) -> bool:
        """Run until the sources are exhausted; False when told to stop before."""
        while (finished := self._stream_queries(frames)) is None:
            self._prepare_output()
        return finished

    def _stream_queries(self, frames: dict[str, DataFrame]) -> bool | None:
        """The same, as long as the queries stay the same; None when they are others."""
        flow = self.host.flow(frames, self.late, self.output)
        writer = flow.writeStream.foreachBatch(self._sink).option(
            "checkpointLocation", str(self.folder.checkpoint)
        )
        if self.options.once:
            writer = writer.trigger(availableNow=True)
        self._renew_tables()  # what has changed since an earlier run counts from the first batch on
        if self.stop.is_set():
            return False
        query = writer.start()
        try:
            while not query.awaitTermination(0.2):  # type: ignore[arg-type]
                if self.stop.is_set():
                    return False
                self._hurry()
                self._renew_tables()
        except StreamingQueryException:
            if self.failed is None:
                raise
        else:
            if self.stop.is_set():
                # A JVM that was told to stop as well has ended the query, whatever was left to read.
                return False
        finally:
            query.stop()
            self.host.forget()
        if self.failed is None:
            return True
        if isinstance(self.failed, _Changed):
            self.failed = None
            return None
        # What a batch failed for comes back from Spark as text, a page of it, or not at all, where its stack
        # is too small to read that; here it is itself.
        told = in_our_words(self.failed, self._failing())
        raise told from (None if told is self.failed else self.failed)

    def _hurry(self) -> None:
        """What waits on disk has waited long enough also when nothing comes to its bucket any more."""
        memory = self.options.memory
        if memory is None or self.options.once or not self.waiting:
            return
        if time.monotonic() - min(self.waiting.values()) > memory.delay / 1e6:
            self.waiting.clear()  # until buckets say that something waits still
            self.host.hurry()

    def _renew_tables(self) -> None:
        """Look for what has changed in tables, each as often as its `refresh` says.

        One that can't be read just now keeps the version that it has.
        """
        for table in () if self.options.once else self.refreshed:
            if table.refresh is None or time.monotonic() < self.next_look[table.name]:
                continue
            self.next_look[table.name] = time.monotonic() + table.refresh / 1e6
            try:
                if tables.renew(self.spark, table, Kept.of(self.folder.path, table.name)):
                    self.reporter.message(f"table {table.name}: a new version")
                self.unreadable.discard(table.name)
            except (PySparkException, Py4JJavaError, UserError, OSError) as error:
                if table.name not in self.unreadable:
                    self.unreadable.add(table.name)
                    told = in_our_words(error, f"tables.{table.name}.source")
                    self.reporter.warn(f"{told}; the last version of {table.name} stays")

    def _hear_of_waiting(self, report: Report) -> None:
        """Buckets to which a batch brings nothing say nothing; tuples that wait there still do."""
        for bucket, rows in report.waiting.items():
            self.waiting.pop(bucket, None)
            if rows:
                self.waiting[bucket] = time.monotonic()

    def _sink(self, flow: DataFrame, batch: int) -> None:
        try:
            if self.plans.renewed(batch):
                raise _Changed  # nothing has been done for this batch yet; the next Spark query does it
            self.folder.check_held()
            self.source_logs.check()
            self._publish(flow, batch)
        except Exception as error:
            self.failed = error
            raise

    def _publish(self, flow: DataFrame, batch: int) -> None:
        """Publish one batch. A repeat after a crash comes with the same number and replaces what is there."""
        begun, delays = time.monotonic(), self.delays.begun(batch)
        self.folder.clear_late(batch)
        for delivery in self.deliveries:
            delivery.clear(batch)
        report, written = self._written(flow, batch)
        self.folder.check_held()
        flush(self.folder.own)  # what the batch has read and written, before another site can know of it
        sent = self.host.publish(batch, report)
        self.delays.sent(sent)
        self._hear_of_waiting(report)
        if report.unshared and not self.warned:
            self.warned = True
            self.reporter.warn(_UNSHARED)
        tally = self.folder.tally()
        tally.count(batch, report, written, sent)
        self.host.concerning(batch, tally)
        self.folder.save_tally(tally)
        for table in self.refreshed:
            Kept.of(self.folder.path, table.name).note_newest(max(tally.newest.values(), default=BEFORE_ALL))
        if self.adapting is not None:
            self.adapting.after(batch, tally, report.sketches, delays)
        for delivery in self.deliveries:
            delivery.tidy(batch)
        seconds, program = time.monotonic() - begun, self.host.programs.at(batch)
        self.reporter.after(tally, report, program, seconds, delays, self._changes)
        self._report(tally, report, seconds)

    def _written(self, flow: DataFrame, batch: int) -> tuple[Report, dict[str, int]]:
        """Run a batch and write its results: the operators' report, and the number of results by query."""
        report, found = self._evaluated(flow, self.host.programs.at(batch).queries)
        written = {}
        for number, files in found.items():
            name = self.host.results[number].query.name
            self.folder.check_held()
            written[name] = self.deliveries[number].write(files, batch)
        return report, written

    def _evaluated(self, flow: DataFrame, active: Collection[int]) -> tuple[Report, dict[int, Found]]:
        """The operators' report, and the results of each query that the batch has, as files."""
        if isinstance(self.output, ResultFiles):
            report, drafts = self.output.collected(flow)
            return report, {number: drafts[number] for number in active}
        several = len(active) > 1
        if several:
            flow = flow.persist()
        watched = Observation("thalweg")
        observed = flow.observe(watched, reports())
        found: dict[int, Found] = {}
        for number in active:
            self.writing = number
            rows = results(flow if found else observed, self.host.results[number], number, self.output)
            found[number] = self.deliveries[number].drafts.write(rows)
        if several:
            flow.unpersist()
        return Report.sum(watched.get["reports"]), found

    def _failing(self) -> str:
        """The query whose results were being written. The first one's writing does the work of all."""
        queries = [plan.query for plan in self.host.results]
        return _named(queries[self.writing : self.writing + 1] if self.writing else queries)

    def _report(self, tally: Tally, report: Report, seconds: float) -> None:
        metrics = self._save(tally, complete=False)
        newest = max(report.newest.values(), default=None)
        self.reporter.batch(
            Progress(
                batch=tally.batch,
                input_rows=sum(metrics["input_rows"].values()),
                output_rows=sum(metrics["output_rows"].values()),
                late_rows=sum(metrics["late_rows"].values()),
                rows_per_s=tally.read / seconds if seconds else 0.0,
                event_lag_s=None if newest is None else time.time() - newest / 1e6,
                state_bytes=report.state_bytes,
                state_rows=report.state_rows,
                disk_bytes=report.disk_bytes,
                elapsed_s=metrics["elapsed_s"],
                shipped=tuple(tally.shipped),
                central_bytes=tally.central,
                plan=None if self.adapting is None else self.adapting.in_force,
            )
        )

    @property
    def _changes(self) -> int:
        return 0 if self.adapting is None else self.adapting.history.changes

    def _save(self, tally: Tally, *, complete: bool) -> dict[str, Any]:
        metrics = {
            **tally.rows(self.schemas, (plan.query.name for plan in self.host.results)),
            "shipped": [s.to_json() for s in tally.shipped],
            **({"central_payload_bytes": tally.central} if tally.totals.whole else {}),
            **({"windows": tally.windows} if self.options.memory is not None else {}),
            "plan_changes": self._changes,
            "elapsed_s": round(self.earlier_s + time.monotonic() - self.begun, 3),
            "batches": tally.batch + 1,
            "complete": complete,
        }
        write_text(self.folder.metrics_file, json.dumps(metrics, indent=1))
        return metrics


def _named(queries: Sequence[Query]) -> str:
    return ", ".join(q.where or f"query {q.name}" for q in queries)


class _Stop(threading.Event):
    """Set when the run is told to stop; `signal` says by which one."""

    signal: int = 0


def _on_signals(options: RunOptions, reporter: Reporter) -> _Stop:
    """Set by SIGTERM and Ctrl-C. A further Ctrl-C ends the process at once; what it read is repeated."""
    stop = _Stop()

    def told(number: int, _: Any) -> None:
        stop.signal = stop.signal or number
        stop.set()

    def interrupt(number: int, frame: Any) -> None:
        if stop.is_set():
            reporter.close()
            os.write(2, b"thalweg: interrupted\n")
            os._exit(128 + number if options.once else 1)
        told(number, frame)

    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, told)
        signal.signal(signal.SIGINT, interrupt)
    return stop
