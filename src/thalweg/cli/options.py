"""The options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Queries = Annotated[
    list[Path], typer.Argument(metavar="QUERY.sql...", help="Query files, deployed in this order.")
]
CatalogFile = Annotated[
    Path, typer.Option("--catalog", metavar="FILE", help="The catalog: sites and streams.")
]
PlannerName = Annotated[
    str, typer.Option("--planner", metavar="NAME", help="Who plans; see `thalweg planners`.")
]
ObjectiveName = Annotated[
    str,
    typer.Option("--objective", metavar="NAME", help="What to keep small: bytes, usage, dollars or time."),
]
DeliverTo = Annotated[
    str | None, typer.Option("--deliver-to", metavar="SITE", help="Where the results are wanted.")
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="A setting of the planner; may be repeated."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
Out = Annotated[Path, typer.Option("--out", metavar="DIR", help="The folder of the run.")]
