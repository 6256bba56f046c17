"""Comparisons and statistics as tables of text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from rich.console import Console, RenderableType
from rich.markup import escape
from rich.table import Table

from thalweg.planners.compare import Compared, Comparison

_SHOWN = 5
"""Heavy values of a column in the table; JSON and the catalog have all."""


class Known(Protocol):
    """What is known of a stream."""

    @property
    def tuples(self) -> int: ...
    @property
    def rate(self) -> float | None: ...
    @property
    def bytes(self) -> float | None: ...
    @property
    def widths(self) -> Mapping[str, float]: ...
    @property
    def distinct(self) -> Mapping[str, float]: ...
    @property
    def rates(self) -> Mapping[str, Mapping[Any, float]]: ...


class Selective(Protocol):
    """A join of two columns and its selectivity."""

    @property
    def left(self) -> tuple[str, str]: ...
    @property
    def right(self) -> tuple[str, str]: ...
    @property
    def selectivity(self) -> float: ...


def text(parts: Iterable[RenderableType], width: int = 120) -> str:
    """Tables and lines as text without colours, also in a notebook, where a console would display them."""
    console = Console(width=width, color_system=None, force_terminal=False, force_jupyter=False)
    with console.capture() as captured:
        for part in parts:
            show(console, part)
    return captured.get().rstrip()


def show(console: Console, part: RenderableType) -> None:
    """Prints a table, or a line as it is."""
    if isinstance(part, str):
        console.print(part, markup=False, highlight=False, soft_wrap=True)
    else:
        console.print(part)


def compared(comparison: Comparison) -> list[RenderableType]:
    """Planners by family, the cheapest of each family first, and those that can't plan the queries."""
    parts: list[RenderableType] = [_families(comparison)] if comparison.planners else []
    if comparison.not_applicable:
        parts.append("not applicable:")
    return [*parts, *(f"  {one.name} ({one.family}): {one.reason}" for one in comparison.not_applicable)]


def _families(comparison: Comparison) -> Table:
    title = f"{', '.join(comparison.queries)}: {comparison.unit}"
    rows = Table("family", "planner", "cost", "from the best", "plans searched", "ms", title=title)
    for column in rows.columns:
        column.overflow = "fold"
    for column in rows.columns[2:]:
        column.justify = "right"
    for family, members in comparison.families.items():
        for n, planner in enumerate(members):
            rows.add_row(
                "" if n else family,
                planner.name + (f" ({', '.join(planner.chose)})" if planner.chose else ""),
                f"{planner.cost:,.6g}",
                _distance(planner),
                f"{planner.searched:,}",
                f"{planner.elapsed_ms:,.1f}",
                end_section=n == len(members) - 1,
            )
    return rows


def _distance(planner: Compared) -> str:
    if planner.distance_percent is None:
        return "the best is 0"
    return f"+{planner.distance_percent:,.2f} %" if planner.distance_percent else "best"


def measured(streams: Mapping[str, Known], joins: Iterable[Selective]) -> list[RenderableType]:
    """The statistics of streams and joins, and which of them are unknown."""
    parts: list[RenderableType] = [_columns(streams)]
    for join in joins:
        left, right = ".".join(join.left), ".".join(join.right)
        parts.append(f"{left} = {right}: selectivity {join.selectivity:g}")
    for name, known in streams.items():
        if known.tuples == 0:
            parts.append(f"{name}: no tuples, so nothing is known of it")
        elif known.rate is None:
            parts.append(f"{name}: its tuples span no time, so its rate is unknown")
    return parts


def _columns(streams: Mapping[str, Known]) -> Table:
    """A row for each stream, and one for each of its columns."""
    rows = Table(
        "stream", "column", "tuples", "per second", "bytes", "distinct", "frequent values, per second"
    )
    for n, column in enumerate(rows.columns):
        column.overflow = "fold"
        column.justify = "right" if 2 <= n <= 5 else "left"
    for stream, known in streams.items():
        rows.add_row(stream, "", f"{known.tuples:,}", _number(known.rate), _number(known.bytes))
        for name, width in known.widths.items():
            distinct, rates = known.distinct.get(name), known.rates.get(name, {})
            rows.add_row(
                "", escape(name), "", "", _number(width), _number(distinct), escape(_frequent(rates))
            )
        rows.add_section()
    return rows


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:,.4g}" if value < 1000 else f"{value:,.0f}"


def _frequent(rates: Mapping[Any, float]) -> str:
    named = {str(v) if str(v).isprintable() else repr(v): rate for v, rate in rates.items()}
    shown = [f"{value}: {rate:g}" for value, rate in list(named.items())[:_SHOWN]]
    more = [f"and {len(rates) - _SHOWN} more"] if len(rates) > _SHOWN else []
    return ", ".join(shown + more)
