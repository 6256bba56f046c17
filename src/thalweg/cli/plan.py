"""`thalweg plan` and `thalweg planners`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from thalweg.cli import options as given


def plan(
    *,
    queries: given.Queries,
    catalog: given.CatalogFile,
    planner: given.PlannerName = "auto",
    objective: given.ObjectiveName = "bytes",
    deliver_to: given.DeliverTo = None,
    settings: given.Settings = None,
    save: Annotated[
        Path | None,
        typer.Option("--save", metavar="PLAN.json", help="Save the plan for `thalweg run --plan`."),
    ] = None,
    picture: Annotated[
        Path | None,
        typer.Option("--picture", metavar="FILE", help="Draw the plan as a map (.svg or .png)."),
    ] = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Show every operator, also where each head has a line.")
    ] = False,
    as_json: given.AsJson = False,
) -> None:
    """Plan queries: show the deployment and its cost."""
    from thalweg.api.plan import plan as make
    from thalweg.cli.inputs import print_json, read_settings
    from thalweg.report import check_path

    if picture is not None:
        check_path(picture)
    made = make(
        queries,
        catalog,
        planner=planner,
        objective=objective,
        deliver_to=deliver_to,
        settings=read_settings(settings),
    )
    if save is not None:
        made.save(save)
    if picture is not None:
        made.draw(picture)
    if as_json:
        print_json(made.to_json())
    else:
        typer.echo(made.text(verbose=verbose))


def planners(as_json: given.AsJson = False) -> None:
    """List the planners and their settings."""
    from thalweg.cli.inputs import print_json
    from thalweg.planners.table import PLANNERS

    if as_json:
        print_json(
            {
                "planners": [
                    {
                        "name": p.name,
                        "family": p.family,
                        "paper": p.paper,
                        "summary": p.summary,
                        "settings": {k: list(v) for k, v in p.settings.items()},
                    }
                    for p in PLANNERS
                ]
            }
        )
        return
    import sys

    from rich.console import Console
    from rich.table import Table

    table = Table("name", "family", "paper", "what it does", "--set")
    for p in PLANNERS:
        settings = ", ".join(f"{k}={'|'.join(v)}" for k, v in p.settings.items())
        table.add_row(p.name, p.family, p.paper, p.summary, settings)
    Console(width=None if sys.stdout.isatty() else 1000).print(table)
