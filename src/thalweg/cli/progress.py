"""Shows the progress of a run: live on a terminal, as plain lines elsewhere, or not at all."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TextIO

from thalweg.plan.options import PlanChange, PlanInForce, Progress, Reporter, Shipped
from thalweg.report.texts import number, saving, volume
from thalweg.units import size_text

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table

_WAYS = 4
"""The number of site pairs shown during a run, busiest first. The others are summed up."""
CENTRAL = "every stream whole to one site"


_DAY = 86_400
_YEAR = 365.25 * _DAY
_2_YEARS = 2 * _YEAR
_MISREAD = (
    (1e3, "milliseconds read as seconds"),
    (1e-3, "milliseconds read as microseconds"),
    (1e-6, "seconds read as microseconds"),
)
"""How many times the current time the event time is if its unit is mistaken."""


def reporter(*, silent: bool = False, as_json: bool = False, stream: TextIO | None = None) -> Reporter:
    """A reporter for a terminal or a file; by default for standard error."""
    to = sys.stderr if stream is None else stream
    if as_json:
        return JsonLines(to)
    if silent:
        return Silent()
    if to.isatty():
        from rich.console import Console

        return Live(Console(file=to))
    return Lines(to)


class Silent:
    """Shows nothing but warnings."""

    def starting(self) -> None:
        pass

    def batch(self, progress: Progress) -> None:
        pass

    def message(self, text: str) -> None:
        pass

    def warn(self, text: str) -> None:
        print(f"thalweg: {text}", file=sys.stderr, flush=True)

    def close(self) -> None:
        pass


class Lines:
    """One line per batch, at most one a second. The last batch is always shown."""

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream, self._clock = stream, clock
        self._shown_at = -1.0
        self._waiting: Progress | None = None

    def starting(self) -> None:
        pass

    def batch(self, progress: Progress) -> None:
        self._waiting = progress
        if self._shown_at < 0 or self._clock() - self._shown_at >= 1.0:
            self._flush()

    def message(self, text: str) -> None:
        self._flush()
        print(text, file=self._stream, flush=True)

    def warn(self, text: str) -> None:
        self.message(f"warning: {text}")

    def close(self) -> None:
        self._flush()

    def _flush(self) -> None:
        if self._waiting is not None:
            print(line(self._waiting), file=self._stream, flush=True)
            self._shown_at, self._waiting = self._clock(), None


class JsonLines:
    """A JSON object for each batch and message, for programs that collect logs."""

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.time) -> None:
        self._stream, self._clock = stream, clock

    def starting(self) -> None:
        self._log("info", "starting")

    def batch(self, progress: Progress) -> None:
        told = asdict(replace(progress, shipped=(), plan=None))
        kept = {name: value for name, value in told.items() if name not in ("shipped", "plan")}
        sent = [way.to_json() for way in progress.shipped]
        planned = (
            {} if progress.plan is None else {"planner": progress.plan.planner, "cost": progress.plan.cost}
        )
        self._log("info", "batch", **kept, shipped=sent, **planned)

    def message(self, text: str) -> None:
        self._log("info", "message", text=text)

    def warn(self, text: str) -> None:
        self._log("warning", "message", text=text)

    def close(self) -> None:
        pass

    def _log(self, level: str, event: str, **more: Any) -> None:
        at = datetime.fromtimestamp(self._clock(), UTC).isoformat(timespec="milliseconds")
        print(json.dumps({"at": at, "level": level, "event": event, **more}), file=self._stream, flush=True)


class Live:
    """A table that is redrawn in place."""

    def __init__(self, console: Console) -> None:
        from rich.live import Live as Display

        self._display = Display(console=console, auto_refresh=False, transient=True)
        self._started = False

    def starting(self) -> None:
        self.message("starting Spark")

    def batch(self, progress: Progress) -> None:
        if not self._started:
            self._display.start()
            self._started = True
        self._display.update(table(progress), refresh=True)

    def message(self, text: str) -> None:
        self._display.console.print(text, markup=False, highlight=False)

    def warn(self, text: str) -> None:
        self.message(f"warning: {text}")

    def close(self) -> None:
        if self._started:
            self._display.stop()
            self._started = False


def line(progress: Progress) -> str:
    """Progress in one line.

    >>> line(Progress(3, 1200, 34, 0, 400.0, None, 2048, 100, 3.0))
    'batch 3: 1,200 rows in, 34 out, 0 late, 400 rows/s, event time unknown, state 100 rows in 2.0 KiB, 3.0 s'
    """
    return (
        f"batch {progress.batch:,}: {progress.input_rows:,} rows in, {progress.output_rows:,} out, "
        f"{progress.late_rows:,} late, {progress.rows_per_s:,.0f} rows/s, event time {_lag(progress)}, "
        f"state {_state(progress)}, {progress.elapsed_s:,.1f} s"
        + (f"; {plan_line(progress.plan, time.time())}" if progress.plan else "")
        + (f"; {shipped_line(progress.shipped, progress.central_bytes)}" if progress.shipped else "")
    )


def _state(progress: Progress) -> str:
    disk = f" and {size_text(progress.disk_bytes)} on disk" if progress.disk_bytes else ""
    return f"{progress.state_rows:,} rows in {size_text(progress.state_bytes)}{disk}"


def plan_line(plan: PlanInForce, now: float) -> str:
    """The plan in force and its last change in one line; `now` is in seconds since 1970.

    >>> change = PlanChange(100.0, "saves 60%", ("a rate: 9, now 2", "b rate: 2, now 9"), "done")
    >>> plan_line(PlanInForce("optimal", 1200.0, "bytes/s", 1, change), 112.0)
    'plan by optimal, 1,200 bytes/s, 1 change; the last 12.0 s ago: saves 60% (a rate: 9, now 2; 1 more)'
    """
    return f"plan by {_plan(plan)}{f'; the last {_change(plan.last, now)}' if plan.last else ''}"


def _plan(plan: PlanInForce) -> str:
    """The planner of a plan, its cost, and how many changes led to it."""
    changes = f"{plan.changes:,} {'change' if plan.changes == 1 else 'changes'}"
    return f"{plan.planner}, {number(plan.cost)} {plan.unit}, {changes}"


def _change(change: PlanChange, now: float) -> str:
    """When a change was decided, why, and whether it is still on its way or was undone."""
    state = {"moving": ", on its way", "undone": ", undone"}.get(change.outcome, "")
    moved = change.moved[:1] + ((f"{len(change.moved) - 1} more",) if len(change.moved) > 1 else ())
    why = f"{change.reason} ({'; '.join(moved)})" if moved else change.reason
    return f"{span(max(0.0, now - change.at))} ago{state}: {why}"


def shipped_line(shipped: Sequence[Shipped], central: int) -> str:
    """The volume shipped between sites in one line: payload, with all bytes in brackets.

    >>> shipped_line([Shipped("a", "b", 2, 16, 400)], 160)
    'shipped 16 bytes (400 bytes), 10.0 times less than the 160 bytes centrally: a to b 16 bytes (400 bytes)'
    """
    payload, in_all = (sum(getattr(s, part) for s in shipped) for part in ("payload_bytes", "bytes"))
    ways = ", ".join(f"{way} {volume(own)} ({volume(every)})" for way, own, every in _busiest(shipped))
    return (
        f"shipped {volume(payload)} ({volume(in_all)}), {saving(payload, central)} than "
        f"the {volume(central)} centrally: {ways}"
    )


def table(progress: Progress) -> RenderableType:
    """Progress as a table, with the volume shipped between sites below."""
    from rich.console import Group
    from rich.table import Table

    rows = Table.grid(padding=(0, 2))
    rows.add_column(style="dim")
    rows.add_column(justify="right")
    for name, value in (
        ("batch", f"{progress.batch:,}"),
        ("rows in", f"{progress.input_rows:,}"),
        ("rows out", f"{progress.output_rows:,}"),
        ("late rows", f"{progress.late_rows:,}"),
        ("rows a second", f"{progress.rows_per_s:,.0f}"),
        ("event time", _lag(progress)),
        ("state", _state(progress)),
        ("elapsed", f"{progress.elapsed_s:,.1f} s"),
    ):
        rows.add_row(name, value)
    parts: list[RenderableType] = [rows]
    if progress.plan:
        parts += ["", _live_plan(progress.plan)]
    if progress.shipped:
        parts += ["", _live_ways(progress.shipped, progress.central_bytes)]
    return Group(*parts)


def _live_plan(plan: PlanInForce) -> Table:
    from rich.markup import escape
    from rich.table import Table

    rows = Table.grid(padding=(0, 2))
    rows.add_column(style="dim", no_wrap=True)
    rows.add_column()
    rows.add_row("plan", escape(_plan(plan)))
    rows.add_row("last change", escape(_change(plan.last, time.time())) if plan.last else "none")
    return rows


def _live_ways(shipped: Sequence[Shipped], central: int) -> Table:
    from rich.table import Table

    rows = Table.grid(padding=(0, 2))
    rows.add_column(style="dim")
    rows.add_column(justify="right")
    rows.add_column(justify="right")
    rows.add_row("between sites", "[dim]payload[/]", "[dim]all bytes[/]")
    for way, payload, in_all in _busiest(shipped):
        rows.add_row(way, volume(payload), volume(in_all))
    payload = sum(s.payload_bytes for s in shipped)
    rows.add_row("together", volume(payload), volume(sum(s.bytes for s in shipped)))
    rows.add_row(CENTRAL, volume(central))
    rows.add_row("so far", f"[bold]{saving(payload, central)}[/]")
    return rows


def _busiest(shipped: Sequence[Shipped]) -> list[tuple[str, int, int]]:
    """Payload and all bytes of the busiest site pairs, and the sum of the others."""
    ordered = sorted(shipped, key=lambda s: (-s.payload_bytes, -s.bytes, s.source, s.target))
    if len(ordered) <= _WAYS + 1:  # a single other pair is shown by name
        return [(f"{s.source} to {s.target}", s.payload_bytes, s.bytes) for s in ordered]
    rest = ordered[_WAYS:]
    others = f"{len(rest)} others", sum(s.payload_bytes for s in rest), sum(s.bytes for s in rest)
    return [*_busiest(ordered[:_WAYS]), others]


def ways(shipped: Sequence[Shipped], central: int) -> Table:
    """The volume shipped for each site pair, and the volume of the central plan."""
    from rich.table import Table

    rows = Table("from", "to", "tuples", "payload", "all bytes", title="shipped between sites")
    for column in rows.columns[2:]:
        column.justify = "right"
    for s in shipped:
        rows.add_row(s.source, s.target, f"{s.tuples:,}", volume(s.payload_bytes), volume(s.bytes))
    rows.add_section()
    tuples, payload, in_all = (
        sum(getattr(s, part) for s in shipped) for part in ("tuples", "payload_bytes", "bytes")
    )
    rows.add_row("together", "", f"{tuples:,}", volume(payload), volume(in_all))
    rows.add_row("centrally", "", "", volume(central), "")
    return rows


def compared(shipped: Sequence[Shipped], central: int) -> str:
    """Compares the shipped payload with shipping every stream whole to one site.

    >>> compared([Shipped("a", "b", 2, 16, 400)], 160)
    'payload: 10.0 times less than every stream whole to one site'
    """
    return f"payload: {saving(sum(s.payload_bytes for s in shipped), central)} than {CENTRAL}"


def _lag(progress: Progress) -> str:
    lag = progress.event_lag_s
    if lag is None:
        return "unknown"
    return (f"lags {span(lag)}" if lag >= 0 else f"is {span(-lag)} ahead") + unit_of(lag, time.time())


def unit_of(lag: float, now: float) -> str:
    """Which unit the times were probably in, if they are off by a power of a thousand; both in seconds.

    >>> unit_of(1.7e9 - 1.7e12, 1.7e9), unit_of(1.7e9 - 2**63 / 1e6, 1.7e9), unit_of(90.0, 1.7e9)
    (': milliseconds read as seconds?', ': microseconds or nanoseconds read as seconds?', '')
    """
    times = (now - lag) / now
    if now - lag > 9.2e12:  # the last time that there is
        return ": microseconds or nanoseconds read as seconds?"
    for factor, units in _MISREAD:
        if factor / 2 < times < factor * 2:
            return f": {units}?"
    return ""


def span(seconds: float) -> str:
    """A duration in a readable unit.

    >>> span(0.25), span(90), span(5400), span(3 * 3600), span(40 * 86400), span(90_678_789.5)
    ('0.2 s', '90.0 s', '90.0 min', '3.0 h', '40.0 days', '2.9 years')
    """
    for size, most, unit in (
        (1, 120, "s"),
        (60, 7200, "min"),
        (3600, 172_800, "h"),
        (_DAY, _2_YEARS, "days"),
    ):
        if seconds < most:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds / _YEAR:,.1f} years"
