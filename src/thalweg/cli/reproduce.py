"""`thalweg reproduce`."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from thalweg.cli import options as given
from thalweg.errors import UserError

if TYPE_CHECKING:
    from thalweg.reproduce.outcome import Outcome
    from thalweg.reproduce.table import Experiment

_LEAST = 0.001  # with fewer tuples there is nothing to see


def reproduce(
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="An experiment, or `all`. Lists the experiments if omitted."),
    ] = None,
    *,
    out: Annotated[
        Path,
        typer.Option("--out", metavar="DIR", help="The output folder for tables (CSV) and pictures (PNG)."),
    ] = Path("reproduce-out"),
    scale: Annotated[
        float,
        typer.Option(
            "--scale", metavar="N", help="Shrink the experiment to this fraction, for a quick look."
        ),
    ] = 1.0,
    as_json: given.AsJson = False,
) -> None:
    """Rerun a paper's experiment and check its claims against the measurements."""
    from thalweg.cli.inputs import print_json
    from thalweg.reproduce.files import write
    from thalweg.reproduce.table import EXPERIMENTS, named

    if not _LEAST <= scale <= 1:
        raise UserError(f"the scale must be between {_LEAST:g} and 1", where="--scale")
    if name is None:
        _list(list(EXPERIMENTS.values()), as_json=as_json)
        return
    told = []
    for experiment in named(name):
        begun = time.monotonic()

        def tell(line: str, at: str = experiment.name) -> None:
            print(f"{at}: {line}", file=sys.stderr, flush=True)

        outcome = experiment.run(scale, tell)
        if scale < 1:
            outcome = outcome.at_scale(scale)
        paths = [str(path) for path in write(outcome, out)]
        seconds = round(time.monotonic() - begun, 1)
        told.append({**outcome.to_json(), "scale": scale, "seconds": seconds, "files": paths})
        if not as_json:
            _print(outcome)
            print(f"written: {', '.join(paths)} ({seconds:.0f} s)\n")
    if as_json:
        print_json({"experiments": told} if name == "all" else told[0])


def _list(experiments: list[Experiment], *, as_json: bool) -> None:
    from thalweg.cli.inputs import print_json

    if as_json:
        shown = [{"name": e.name, "where": e.where, "about": e.about} for e in experiments]
        print_json({"experiments": shown})
        return
    for e in experiments:
        print(f"{e.name:<20} {e.about} ({e.where})")


def _print(outcome: Outcome) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(width=None if sys.stdout.isatty() else 160)

    def say(text: str) -> None:
        console.print(text, highlight=False, markup=False, soft_wrap=True)

    say(f"{outcome.name}: {outcome.title}")
    for line in outcome.setting:
        say(f"  {line}")
    table = Table(outcome.header[0])
    for title in outcome.header[1:]:
        table.add_column(title, justify="right")
    for row in outcome.rows:
        table.add_row(*(_shown(cell) for cell in row))
    console.print(table, markup=False)
    for claim in outcome.claims:
        say(f"claim:    {claim.text}")
        say(f"measured: {claim.measured}")
        say(f"holds:    {'yes' if claim.holds else 'no'}" + (f". {claim.remark}" if claim.remark else ""))


def _shown(cell: str | float) -> str:
    """A table cell, formatted for readers.

    >>> _shown("tree"), _shown(185000), _shown(0.1234)
    ('tree', '185,000', '0.123')
    """
    if isinstance(cell, str):
        return cell
    return f"{cell:,}" if isinstance(cell, int) else f"{cell:,.3g}"
