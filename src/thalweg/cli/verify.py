"""`thalweg verify`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from thalweg.cli import options as given

if TYPE_CHECKING:
    from thalweg.oracle.duck import Verdict


def verify(
    query: Annotated[Path, typer.Argument(metavar="QUERY.sql", help="The query of the run.")],
    catalog: given.CatalogFile,
    out: given.Out,
    as_json: given.AsJson = False,
) -> None:
    """Recompute a query with DuckDB and compare with the results of a run."""
    from thalweg.api.verify import verify as recompute
    from thalweg.cli.inputs import print_json

    verdict = recompute(query, catalog, out)
    if as_json:
        print_json(verdict.to_json())
    else:
        _show(verdict)
    if not verdict.same:
        if _is_unfinished(out):
            typer.echo("the run is not complete; the same `thalweg run` command resumes it", err=True)
        raise typer.Exit(1)


def _is_unfinished(out: Path) -> bool:
    try:
        return json.loads((out / "metrics.json").read_text())["complete"] is False
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _show(verdict: Verdict) -> None:
    for name, table in verdict.tables.items():
        since = "; its files have changed since" if table.changed else ""
        typer.echo(f"table {name}: {table.rows:,} rows, as the run has read them at {table.read}{since}")
    if verdict.left_out:
        typer.echo(f"left out, as DuckDB can't compute it: {', '.join(verdict.left_out)}")
    if verdict.same:
        typer.echo(f"same: {verdict.found:,} results, as expected")
        return
    typer.echo(
        f"different: expected {verdict.expected:,} results, found {verdict.found:,}; "
        f"{verdict.missing:,} missing, {verdict.extra:,} extra"
    )
    for example in verdict.examples:
        row = ", ".join(f"{k}={v!r}" for k, v in example["row"].items())
        typer.echo(f"  {example['kind']}: {row}")
