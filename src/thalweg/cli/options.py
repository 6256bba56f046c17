"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Queries = Annotated[
    list[Path], typer.Argument(metavar="QUERY.sql...", help="SQL files, deployed in this order.")
]
CatalogFile = Annotated[
    Path, typer.Option("--catalog", metavar="FILE", help="The catalog file: sites, links and streams.")
]
PlannerName = Annotated[
    str, typer.Option("--planner", metavar="NAME", help="The planner; `thalweg planners` lists them.")
]
ObjectiveName = Annotated[
    str,
    typer.Option("--objective", metavar="NAME", help="The cost to minimize: bytes, usage, dollars or time."),
]
DeliverTo = Annotated[
    str | None, typer.Option("--deliver-to", metavar="SITE", help="The site to deliver results to.")
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="A planner setting. Repeatable."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
Out = Annotated[Path, typer.Option("--out", metavar="DIR", help="The run's output folder.")]
