"""`thalweg compare`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from thalweg.cli import options as given
from thalweg.cli.plan import plan_options

if TYPE_CHECKING:
    from rich.table import Table

    from thalweg.planners.compare import Compared, Comparison


def compare(
    *,
    queries: given.Queries,
    catalog: given.CatalogFile,
    objective: given.ObjectiveName = "bytes",
    deliver_to: given.DeliverTo = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A setting, passed to every planner that has it."),
    ] = None,
    chart: Annotated[
        Path | None,
        typer.Option("--chart", metavar="FILE", help="Draw the costs as a bar chart (.png or .svg)."),
    ] = None,
    seconds: Annotated[
        float,
        typer.Option("--seconds", min=0.0, metavar="N", help="The most time that each planner may take."),
    ] = 10.0,
    as_json: given.AsJson = False,
) -> None:
    """Plan the same queries with every planner and compare the costs."""
    from thalweg.cli.inputs import print_json, read_catalog, read_queries
    from thalweg.planners.compare import compare as compare_planners
    from thalweg.report import check_path

    if chart is not None:
        check_path(chart)
    read = read_catalog(catalog)
    options = replace(plan_options("auto", objective, deliver_to, settings), limit_s=seconds)
    with _progress() as begins:
        done = compare_planners(read_queries(queries, read), read, options, begins)
    if chart is not None:
        from thalweg.report import bars

        bars.draw(done, chart)
    if as_json:
        print_json(done.to_json())
    else:
        _show(done)


@contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """Shows on a terminal which planner is at work."""
    from rich.console import Console

    from thalweg.planners.table import PLANNERS

    order = [p.name for p in PLANNERS]
    with Console(stderr=True).status("reading") if sys.stderr.isatty() else nullcontext() as status:

        def begins(name: str) -> None:
            if status is not None:
                status.update(f"{name}, planner {order.index(name) + 1} of {len(order)}")

        yield begins


def table(comparison: Comparison) -> Table:
    """Planners by family, the cheapest of each family first."""
    from rich.table import Table

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


def _show(comparison: Comparison) -> None:
    from rich.console import Console

    # A file or a pipe has no width to squeeze columns into.
    console = Console(width=None if sys.stdout.isatty() else 1000)
    if comparison.planners:
        console.print(table(comparison))
    if comparison.not_applicable:
        console.print("not applicable:")
    for planner in comparison.not_applicable:
        console.print(
            f"  {planner.name} ({planner.family}): {planner.reason}",
            markup=False,
            highlight=False,
            soft_wrap=True,
        )
