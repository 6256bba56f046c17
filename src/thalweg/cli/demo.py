"""`thalweg demo`."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from thalweg.cli import options as given
from thalweg.errors import UserError
from thalweg.extras import need

if TYPE_CHECKING:
    from rich.table import Table

    from thalweg.demo.figures import Figures, Ran
    from thalweg.demo.play import Moment
    from thalweg.demo.shift import Shift

WARM_UP_S = 10.0
"""Results of these seconds are not timed: the JVM compiles its code meanwhile."""


def demo(
    *,
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="The output folder. Replaces an earlier demo.")
    ] = Path("demo-out"),
    rate: Annotated[
        int, typer.Option("--rate", metavar="N", help="Packets per second at the busiest router.")
    ] = 2_000,
    seconds: Annotated[
        float, typer.Option("--seconds", metavar="N", help="Length of the first replay in seconds.")
    ] = 10.0,
    page: given.Page = None,
    as_json: given.AsJson = False,
) -> None:
    """Join live packets of three routers across sites, and compare with shipping all to one site.

    Then let traffic shift from one router to another, and compare a plan that adapts with one that stays.
    """
    from thalweg.cli.inputs import print_json
    from thalweg.demo.commands import DemoError
    from thalweg.demo.packets import Traffic
    from thalweg.demo.play import PICTURE, play
    from thalweg.demo.shift import shifting

    if rate < 10 or not 1 <= seconds <= 3600:
        raise UserError(
            "--rate or --seconds is out of range",
            remedy="--rate is at least 10, --seconds is between 1 and 3600",
        )
    need("the demo", "draw", "verify")
    begun, port = time.monotonic(), _port(page)
    audience = _audience(silent=as_json)
    try:
        with _sigterm_as_interrupt():
            first = Traffic(rate=rate, seconds=seconds, warm_up_s=WARM_UP_S)
            shown = play(out, first, shifting(rate), audience, port)
    except DemoError as error:
        typer.echo(f"thalweg: {error}", err=True)
        raise typer.Exit(1) from None
    finally:
        audience.close()
    if as_json:
        print_json({**shown.to_json(), "picture": str(out / PICTURE)})
    else:
        from rich.console import Console

        console = Console()
        console.print(table(shown.first))
        console.print(shift_table(shown.second))
        console.print(
            f"picture: {out / PICTURE}\nall files: {out} ({time.monotonic() - begun:.0f} s in total)",
            highlight=False,
            soft_wrap=True,
        )
    if not shown.verified:
        raise typer.Exit(1)


def _port(page: int | None) -> int | None:
    """The port at which all live runs of the demo have their page, one after the other."""
    if page is None:
        return None
    from thalweg.page.serve import Access, check_installed, listening

    check_installed()
    with listening(Access(port=None if page == given.ANY_PORT else page)) as at:
        return int(at.getsockname()[1])


def table(figures: Figures) -> Table:
    """The table of the first act: the live run beside the central plan on the same packets."""
    from rich.table import Table

    from thalweg.report.texts import saving, volume

    plans = (figures.live, figures.central)
    flows = [ran.flow for ran in plans]
    live, central = (flow.planner for flow in flows)
    rows = Table(
        "", f"live, by {live}", f"central, by {central}", title="packets to the same host at three routers"
    )
    _add_counts(rows, plans)
    rows.add_row("tuples between sites", *(f"{sum(way.tuples for way in f.shipped):,}" for f in flows))
    rows.add_row("payload of these tuples", *(volume(flow.payload) for flow in flows))
    rows.add_row("all bytes between sites, as sent", *(volume(flow.bytes) for flow in flows))
    rows.add_row("", f"[bold]{saving(flows[0].bytes, flows[1].bytes)}[/]", "")
    rows.add_section()
    rows.add_row("packets a second, live", f"{figures.rows_per_s:,.0f}", "")
    rows.add_row("micro-batches", *(f"{ran.batches:,}" for ran in plans))
    latency = figures.latency
    if latency is not None:
        rows.add_row("latency from arrival to result, p50", f"{latency.p50:.2f} s", "")
        rows.add_row("p95, maximum", f"{latency.p95:.2f} s, {latency.greatest:.2f} s", "")
    return rows


def shift_table(shift: Shift) -> Table:
    """The table of the second act: the plan that adapts beside the one that stays on the same packets."""
    from rich.table import Table

    from thalweg.demo.packets import SHIFTS
    from thalweg.report.texts import saving, volume

    plans = (shift.adapting, shift.staying)
    rows = Table(
        "", "the plan adapts", "the plan stays", title=f"traffic shifts from {SHIFTS[0]} to {SHIFTS[1]}"
    )
    _add_counts(rows, plans)
    for phase in shift.phases:
        begin, end = (moment - shift.traffic.shift_s for moment in (phase.begin_s, phase.end_s))
        when = "between sites, before the shift" if end <= 0 else f"{begin:g} to {end:g} s after it"
        rows.add_row(when, volume(phase.adapting), volume(phase.staying))
    rows.add_row("", f"[bold]{saving(phase.adapting, phase.staying)}[/]", "")
    rows.add_row("all bytes between sites, as sent", *(volume(ran.flow.bytes) for ran in plans))
    rows.add_row("payload of the tuples", *(volume(ran.flow.payload) for ran in plans))
    rows.add_section()
    for change in shift.changes:
        after = change.decided_s - shift.traffic.shift_s
        when = f"{abs(after):.1f} s {'after' if after >= 0 else 'before'} it"
        rows.add_row(f"plan changed {when}", change.reason, "")
        rows.add_row("", f"{volume(change.bytes_moved)} moved in {change.seconds:.1f} s", "")
    if not shift.changes:
        rows.add_row("plan changed", "never", "")
    return rows


def _add_counts(rows: Table, plans: Sequence[Ran]) -> None:
    """Packets, results and DuckDB's verdict, in a column for each plan."""
    for column in rows.columns[1:]:
        column.justify = "right"
    for router in plans[0].flow.read:
        rows.add_row(f"packets in, {router}", *(f"{ran.flow.read[router]:,}" for ran in plans))
    rows.add_row("late packets, kept aside", *(f"{ran.late:,}" for ran in plans))
    rows.add_row("results", *(f"{ran.results:,}" for ran in plans))
    rows.add_row(
        "verified against DuckDB",
        *("yes" if ran.verified else f"NO: DuckDB expects {ran.expected:,} results" for ran in plans),
    )
    rows.add_section()


class _Silent:
    """Shows nothing."""

    def step(self, text: str) -> None:
        pass

    def moment(self, moment: Moment) -> None:
        pass

    def close(self) -> None:
        pass


class _Lines(_Silent):
    """Plain lines, with progress at most every three seconds."""

    def __init__(self, stream: TextIO) -> None:
        self._stream, self._shown_at = stream, 0.0

    def step(self, text: str) -> None:
        print(text, file=self._stream, flush=True)

    def moment(self, moment: Moment) -> None:
        if moment.read and time.monotonic() - self._shown_at >= 3.0:
            self._shown_at = time.monotonic()
            print(f"  {line(moment)}", file=self._stream, flush=True)


class _Live(_Silent):
    """The current step with a spinner, and its progress below."""

    def __init__(self) -> None:
        from rich.console import Console

        self._console = Console(stderr=True)
        self._status: Any = None
        self._doing, self._begun = "", time.monotonic()

    def step(self, text: str) -> None:
        self._finish()
        self._doing, self._begun = text, time.monotonic()
        self._status = self._console.status(text)
        self._status.start()

    def moment(self, moment: Moment) -> None:
        if moment.read and self._status is not None:
            self._status.update(f"{self._doing}\n  {line(moment)}")

    def close(self) -> None:
        self._finish()

    def _finish(self) -> None:
        if self._status is not None:
            self._status.stop()
            took = time.monotonic() - self._begun
            self._console.print(f"{self._doing} ({took:.0f} s)", highlight=False, style="dim")
            self._status = None


def line(moment: Moment) -> str:
    """Progress in one line."""
    from thalweg.report.texts import saving, volume

    return (
        f"{moment.sent:,} packets sent, {moment.read:,} joined, {moment.results:,} results, "
        f"{volume(moment.shipped)} between sites, {saving(moment.shipped, moment.central)} than "
        f"{volume(moment.central)} to one site, {moment.seconds:.0f} s"
    )


def _audience(*, silent: bool) -> _Silent:
    if silent:
        return _Silent()
    return _Live() if sys.stderr.isatty() else _Lines(sys.stderr)


@contextmanager
def _sigterm_as_interrupt() -> Iterator[None]:
    """SIGTERM stops the demo cleanly, as Ctrl-C does."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
