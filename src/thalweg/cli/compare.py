"""`thalweg compare`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Annotated

import typer

from thalweg.cli import options as given


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
    from thalweg.api.compare import compare as compare_planners
    from thalweg.cli.inputs import print_json, print_tables, read_settings
    from thalweg.report import check_path, tables

    if chart is not None:
        check_path(chart)
    with _progress() as begins:
        done = compare_planners(
            queries,
            catalog,
            objective=objective,
            deliver_to=deliver_to,
            settings=read_settings(settings),
            seconds=seconds,
            begins=begins,
        )
    if chart is not None:
        done.draw(chart)
    if as_json:
        print_json(done.to_json())
    else:
        print_tables(tables.compared(done))


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
