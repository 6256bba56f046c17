"""`thalweg stats`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from thalweg.cli import options as given


def stats(
    queries: Annotated[
        list[Path], typer.Argument(metavar="QUERY.sql...", help="SQL files whose streams are measured.")
    ],
    catalog: given.CatalogFile,
    write: Annotated[
        bool, typer.Option("--write", help="Put the statistics into the catalog file; all else in it stays.")
    ] = False,
    as_json: given.AsJson = False,
) -> None:
    """Measure the streams of queries: rates, widths, distinct and frequent values, selectivities."""
    from thalweg.api.stats import stats as measure
    from thalweg.cli.inputs import print_json, print_tables
    from thalweg.report import tables

    found = measure(queries, catalog, write=write)
    if as_json:
        print_json(found.to_json())
        return
    print_tables(tables.measured(found.streams, found.joins))
    if write:
        typer.echo(f"written to {catalog}")
