"""`thalweg plan` and `thalweg planners`."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from thalweg.cli import options as given
from thalweg.errors import UserError

if TYPE_CHECKING:
    from thalweg.plan.document import Plan, PlannedQuery
    from thalweg.plan.options import PlanOptions


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
    from thalweg.cli.inputs import print_json, read_catalog, read_queries
    from thalweg.report import check_path

    if picture is not None:
        check_path(picture)
    read = read_catalog(catalog)
    parsed = read_queries(queries, read)
    options = plan_options(planner, objective, deliver_to, settings)

    from thalweg.planners.table import (
        make_plan,
    )  # imported late, so that errors in the input are reported fast

    made = make_plan(parsed, read, options)
    if save is not None:
        made.save(save)
    if picture is not None:
        from thalweg.report import map as map_

        map_.draw(made, read, picture)
    if as_json:
        print_json(made.to_json())
    else:
        _show(made, verbose=verbose)


def plan_options(
    planner: str, objective: str, deliver_to: str | None, settings: list[str] | None
) -> PlanOptions:
    """The planning options. Checks everything that needs no catalog."""
    from thalweg.cli.inputs import read_settings
    from thalweg.plan.options import Objective, PlanOptions

    if objective not in list(Objective):
        raise UserError(f"unknown objective {objective!r}", remedy=f"choose one of {', '.join(Objective)}")
    return PlanOptions(planner, Objective(objective), deliver_to, read_settings(settings or []))


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


def _show(made: Plan, *, verbose: bool) -> None:
    from thalweg.cost.objectives import MODELS
    from thalweg.plan.ways import ways

    unit = MODELS[made.objective].unit
    for query in made.queries:
        typer.echo(f"{query.query}: planner {query.planner}, cost {query.cost:,.6g} {unit}{_added(query)}")
        heads = [] if verbose else ways(query.deployment)
        for line in heads or query.deployment.explain().splitlines():
            typer.echo(f"  {line}")
        if heads:
            typer.echo("  --verbose shows every operator, and what flows between them")
        if query.assumed:
            typer.echo(
                "  assumed, because the catalog does not declare them (`thalweg stats` measures them):"
            )
            for what in query.assumed:
                typer.echo(f"    {what}")
        for warning in query.warnings:
            typer.echo(f"  warning: {warning}")
    typer.echo(f"total: {made.total:,.6g} {unit}")


def _added(query: PlannedQuery) -> str:
    """The marginal cost of a query that reuses parts of earlier ones."""
    if math.isclose(query.cost, query.marginal_cost, rel_tol=1e-9, abs_tol=1e-12):
        return ""
    return f", of which {query.marginal_cost:,.6g} is added to the queries before it"
