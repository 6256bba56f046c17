"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
import typer.core

from thalweg.storage import location

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
_place = {"metavar": "DIR", "parser": location}
Out = Annotated[Any, typer.Option("--out", **_place, help="The run's output folder, or s3a://BUCKET/NAME.")]
RunOut = Annotated[Any, typer.Argument(**_place, help="The output folder of a run.")]
Page = Annotated[
    int | None,
    typer.Option(
        "--page",
        min=0,
        max=65535,
        metavar="[PORT]",
        help="Show the run in the browser while it goes on. Default: the first free port from 8484.",
    ),
]

ANY_PORT = 0


class PageCommand(typer.core.TyperCommand):
    """A command whose `--page` may stand without a port."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Reads the arguments."""
        pairs = zip(args, [*args[1:], ""], strict=True)
        return super().parse_args(ctx, [part for pair in pairs for part in self._whole(*pair)])

    @staticmethod
    def _whole(argument: str, after: str) -> tuple[str, ...]:
        bare = argument == "--page" and not after.lstrip("-").isdecimal()
        return (argument, str(ANY_PORT)) if bare else (argument,)
