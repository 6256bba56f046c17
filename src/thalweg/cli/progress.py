"""How a run shows its progress: live on a terminal, as plain lines elsewhere, or not at all."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TextIO

from thalweg.plan.options import Progress, Reporter

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


_DAY = 86_400
_YEAR = 365.25 * _DAY
_2_YEARS = 2 * _YEAR


def reporter(*, silent: bool = False, stream: TextIO | None = None) -> Reporter:
    """The reporter that suits the place where progress goes, standard error unless told otherwise."""
    if silent:
        return Silent()
    to = sys.stderr if stream is None else stream
    if to.isatty():
        from rich.console import Console

        return Live(Console(file=to))
    return Lines(to)


class Silent:
    """Shows nothing."""

    def starting(self) -> None:
        pass

    def batch(self, progress: Progress) -> None:
        pass

    def message(self, text: str) -> None:
        pass

    def close(self) -> None:
        pass


class Lines:
    """A line for each batch, at most one a second; the last batch is always shown in the end."""

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

    def close(self) -> None:
        self._flush()

    def _flush(self) -> None:
        if self._waiting is not None:
            print(line(self._waiting), file=self._stream, flush=True)
            self._shown_at, self._waiting = self._clock(), None


class Live:
    """A table that is drawn over and over in the same place."""

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
        f"state {progress.state_rows:,} rows in {size(progress.state_bytes)}, {progress.elapsed_s:,.1f} s"
    )


def table(progress: Progress) -> Table:
    """Progress as a table of two columns."""
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
        ("state", f"{progress.state_rows:,} rows in {size(progress.state_bytes)}"),
        ("elapsed", f"{progress.elapsed_s:,.1f} s"),
    ):
        rows.add_row(name, value)
    return rows


def size(count: float) -> str:
    """A number of bytes.

    >>> size(0), size(1536), size(3 * 2**30)
    ('0 B', '1.5 KiB', '3.0 GiB')
    """
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


def _lag(progress: Progress) -> str:
    lag = progress.event_lag_s
    if lag is None:
        return "unknown"
    return f"lags {span(lag)}" if lag >= 0 else f"is {span(-lag)} ahead"


def span(seconds: float) -> str:
    """A length of time, in the unit that suits it.

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
