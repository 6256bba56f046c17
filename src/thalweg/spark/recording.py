"""Writes down what a run does, for those who watch it: status, operators, what each batch has counted."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from thalweg import live
from thalweg.files import unusable
from thalweg.kernel.window import NEVER
from thalweg.live.asked import Asked
from thalweg.live.operators import Operators, Read, Running, State, Window
from thalweg.live.series import Point, Series
from thalweg.live.status import Diary, Outcome
from thalweg.operators.output import Report
from thalweg.operators.program import KeyGroup, Placed, Program
from thalweg.operators.spec import KeepSpec, ProbeSpec, SinkSpec, SourceSpec
from thalweg.operators.wiring import Wiring
from thalweg.plan.options import Progress, Reporter, RunOptions
from thalweg.spark.tally import Tally
from thalweg.storage import Location

if TYPE_CHECKING:
    from thalweg.operators.spec import Spec


@dataclass
class Recording:
    """A reporter that also writes down what it hears. Nobody's results depend on it: it never fails a run."""

    reporter: Reporter
    out: Location
    diary: Diary
    series: Series
    clock: Callable[[], float] = time.time
    _program: Program | None = None
    _broken: bool = False

    @classmethod
    def begin(cls, options: RunOptions, reporter: Reporter) -> Recording:
        out = options.out.absolute()
        try:
            (out / live.FOLDER).mkdir(exist_ok=True)
            Asked.of(options).save(live.asked_file(out))
            return cls(reporter, out, Diary.begin(live.status_file(out)), Series(out / live.FOLDER))
        except OSError as error:
            raise unusable(out / live.FOLDER, error) from error

    def starting(self) -> None:
        self.reporter.starting()

    def batch(self, progress: Progress) -> None:
        self.reporter.batch(progress)

    def message(self, text: str) -> None:
        self._try(lambda: self.diary.say("info", text))
        self.reporter.message(text)

    def show(self, text: str) -> None:
        """Results that a sink shows: they are not what the run does, and are not written down."""
        self.reporter.message(text)

    def warn(self, text: str) -> None:
        self._try(lambda: self.diary.say("warning", text))
        self.reporter.warn(text)

    def close(self) -> None:
        self.reporter.close()

    def end(self, outcome: Outcome, text: str = "") -> None:
        """The run is over."""
        self._try(self.series.close)
        self._try(lambda: self.diary.end(outcome, text))

    def after(
        self,
        tally: Tally,
        report: Report,
        program: Program,
        seconds: float,
        delays: Mapping[tuple[str, str], Sequence[float]],
        changes: int,
    ) -> None:
        """A batch has been published, by this program; it took so many seconds."""

        def write() -> None:
            if program is not self._program:
                operators_of(program, tally.batch).save(live.operators_file(self.out))
                self._program = program
            before = self.series.before(tally.batch) or Point(-1, 0.0, 0.0)
            names = {placed.name for placed in program.operators}
            self.series.add(_point(before, tally, report, names, self.clock(), seconds, delays, changes))
            self.diary.running()

        self._try(write)

    def _try(self, write: Callable[[], None]) -> None:
        if self._broken:
            return
        try:
            write()
        except OSError as error:
            self._broken = True
            self.reporter.warn(f"the page and the metrics of this run stop here: {error}")


def _point(
    before: Point,
    tally: Tally,
    report: Report,
    names: set[str],
    at: float,
    seconds: float,
    delays: Mapping[tuple[str, str], Sequence[float]],
    changes: int,
) -> Point:
    totals = tally.totals
    late = {stream: dict(reasons) for stream, reasons in before.late.items()}
    for stream, reasons in report.reasons.items():
        own = late.setdefault(stream, {})
        for reason, n in reasons.items():
            own[reason] = own.get(reason, 0) + n
    latencies, moments = before.latencies, _latencies(report, sum(tally.last.results.values()), at)
    for latency, weight in moments:
        latencies = latencies.plus(latency, weight)
    work = {name: one for name, one in before.work.items() if name in names}
    for name, done in report.work.items():
        if name in names:
            came, went = work[name][:2] if name in work else (0, 0)
            held = done.rows, done.memory, done.disk, _moment(done.bound)
            work[name] = (came + done.tuples_in, went + done.tuples_out, *held)
    return Point(
        tally.batch,
        round(at, 3),
        round(seconds, 4),
        totals.read,
        totals.results,
        late,
        totals.sent,
        tally.central,
        dict(tally.newest),
        {stream: _moment(bounds[0]) for stream, (bounds, _) in tally.progress.items()},
        before.durations.plus(seconds),
        latencies,
        _quantile(moments, 0.5),
        _quantile(moments, 0.95),
        (report.state_rows, report.state_bytes, report.disk_bytes),
        work,
        {**before.delays, **{f"{a}-{b}": round(sum(d) / len(d), 3) for (a, b), d in delays.items() if d}},
        changes,
    )


def _latencies(report: Report, results: int, at: float) -> list[tuple[float, float]]:
    """How long after their time some of the results were there, and how many results each stands for.

    Spark has left some of them out, by conditions between streams.
    """
    n = sum(n for _, n in report.moments)
    if not n or not results:
        return []
    return sorted((round(max(0.0, at - time / 1e6), 3), k * results / n) for time, k in report.moments)


def _quantile(weighted: Sequence[tuple[float, float]], part: float) -> float | None:
    """The value below which that part of the weights is.

    >>> _quantile([(1.0, 9), (5.0, 1)], 0.5), _quantile([(1.0, 9), (5.0, 1)], 0.95), _quantile([], 0.5)
    (1.0, 5.0, None)
    """
    left = part * sum(n for _, n in weighted)
    for value, n in weighted:
        left -= n
        if left <= 0:
            return value
    return weighted[-1][0] if weighted else None


def _moment(bound: int) -> int | None:
    """How far something has come; None where it has not begun, or has ended."""
    return bound if -NEVER < bound < NEVER else None


def operators_of(program: Program, first: int) -> Operators:
    """The operators of a program, for those who watch the run."""
    wiring = Wiring(program)
    running = [
        _running(wiring, program, group, placed) for group in program.groups for placed in group.operators
    ]
    return Operators(first, program.change, program.coming, tuple(running))


def _running(wiring: Wiring, program: Program, group: KeyGroup, placed: Placed) -> Running:
    spec, reads = placed.spec, []
    for inlet in placed.inlets:
        producer = wiring.producer(group, inlet)
        if producer is not None and producer.outlet.form != "bounds":
            reads.append(Read(producer.placed.name, producer.group.site, producer.outlet.form))
    name = placed.name.split(":", 1)[-1]  # without the number of its plan
    query, _, operator = name.partition(".")
    states: tuple[tuple[State, frozenset[str]], ...] = (
        ("ending", program.ending),
        ("starting", program.starting),
        ("leaving", program.leaving),
    )
    stream = spec.stream if isinstance(spec, SourceSpec | KeepSpec) else ""
    return Running(
        placed.name,
        spec.mode if isinstance(spec, ProbeSpec) else spec.type,
        group.site,
        query if operator else "",
        operator,
        stream,
        group.stage,
        len(group.groups),
        tuple(dict.fromkeys(reads)),
        _windows(spec),
        isinstance(spec, SinkSpec) or any(o.to == "results" for o in placed.outlets),
        next((state for state, names in states if placed.name in names), ""),
    )


def _windows(spec: Spec) -> tuple[Window, ...]:
    """What it keeps of its inputs; a probe keeps the tuples of the second one."""
    if isinstance(spec, KeepSpec):
        return (Window(spec.stream, spec.span, bool(spec.rows)),)
    if isinstance(spec, SourceSpec | SinkSpec):
        return ()
    ports = spec.ports if hasattr(spec, "ports") else (spec.port,)
    ports = ports[1:] if isinstance(spec, ProbeSpec) else ports
    return tuple(Window(port.name, port.span, port.rows) for port in ports)
