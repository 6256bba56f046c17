"""`thalweg reproduce`."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from thalweg.cli import options as given
from thalweg.errors import UserError
from thalweg.extras import need

if TYPE_CHECKING:
    from thalweg.reproduce.kept import Kept
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
    paper: Annotated[
        str | None,
        typer.Option("--paper", metavar="PAPER", help="Run the experiments of this paper only."),
    ] = None,
    again: Annotated[
        bool,
        typer.Option("--again", help="Also run experiments that have finished in DIR at this scale."),
    ] = False,
    results: Annotated[
        Path | None,
        typer.Option("--results", metavar="FILE.md", help="Write a page of all that has finished in DIR."),
    ] = None,
    as_json: given.AsJson = False,
) -> None:
    """Rerun a paper's experiments and check its claims against the measurements.

    Experiments that have finished in DIR at the same scale are not run again.
    """
    from thalweg.cli.inputs import print_json
    from thalweg.reproduce.table import named

    if not _LEAST <= scale <= 1:
        raise UserError(f"the scale must be between {_LEAST:g} and 1", where="--scale")
    if results is not None and results.suffix != ".md":
        raise UserError("the page is Markdown", where=str(results), remedy="name it results.md, for example")
    chosen = named(name, paper)
    if name is None and paper is None and results is None:
        _list(chosen, as_json=as_json)
        return
    need("an experiment", "draw", "verify")
    told = []
    if name is not None or paper is not None:
        for nth, experiment in enumerate(chosen, start=1):
            if experiment.missing and len(chosen) > 1:
                left_out = f"{experiment.name}: left out, it needs data that {experiment.needs} names"
                print(left_out, file=sys.stderr)
                continue
            found = _finished(experiment, f"{nth} of {len(chosen)}", out, scale, again=again)
            told.append(found.said)
            if not as_json:
                _print(found)
    if results is not None:
        _write_page(out, results)
    if as_json:
        print_json(told[0] if len(told) == 1 and name != "all" else {"experiments": told})


def _finished(experiment: Experiment, nth: str, out: Path, scale: float, *, again: bool) -> Kept:
    """An experiment's outcome: the one that is there, or that of running it now."""
    from thalweg.reproduce.kept import keep, kept

    known = None if again else kept(out, experiment.name)
    if known is not None and known.scale == scale:
        print(f"{experiment.name} ({nth}): finished before; --again runs it again", file=sys.stderr)
        return known

    def tell(line: str) -> None:
        print(f"{experiment.name} ({nth}): {line}", file=sys.stderr, flush=True)

    begun = time.monotonic()
    outcome = experiment.run(scale, tell)
    if scale < 1:
        outcome = outcome.at_scale(scale)
    return keep(outcome, scale, time.monotonic() - begun, out)


def _write_page(out: Path, results: Path) -> None:
    from thalweg.reproduce.kept import kept
    from thalweg.reproduce.page import write_page
    from thalweg.reproduce.table import EXPERIMENTS

    found = {name: one for name in EXPERIMENTS if (one := kept(out, name)) is not None}
    write_page(found, results)
    print(f"written: {results}, with {len(found)} of {len(EXPERIMENTS)} experiments", file=sys.stderr)


def _list(experiments: list[Experiment], *, as_json: bool) -> None:
    from thalweg.cli.inputs import print_json

    if as_json:
        shown = [
            {"name": e.name, "paper": e.paper, "title": e.title, "where": e.where, "about": e.title}
            for e in experiments
        ]
        print_json({"experiments": shown})
        return
    for e in experiments:
        print(f"{e.name:<22} {e.title} ({e.where})")


def _print(found: Kept) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(width=None if sys.stdout.isatty() else 160)

    def say(text: str) -> None:
        console.print(text, highlight=False, markup=False, soft_wrap=True)

    said = found.said
    say(f"{found.name}: {said['title']}")
    for line in said["setting"]:
        say(f"  {line}")
    if said["plans"]:
        first, *others = said["plans"][0]
        table = Table(first)
        for title in others:
            table.add_column(title, justify="right")
        for row in said["plans"]:
            table.add_row(*(_shown(cell) for cell in row.values()))
        console.print(table, markup=False)
    for claim in found.claims:
        say(f"claim:    {claim['claim']}")
        say(f"measured: {claim['measured']}")
        say(f"holds:    {'yes' if claim['holds'] else 'no'}" + (f". {claim['why']}" if claim["why"] else ""))
    say(f"written: {', '.join(said['files'])} ({said['seconds']:.0f} s)\n")


def _shown(cell: str | float) -> str:
    """A table cell, formatted for readers.

    >>> _shown("tree"), _shown(185000), _shown(0.1234)
    ('tree', '185,000', '0.123')
    """
    if isinstance(cell, str):
        return cell
    return f"{cell:,}" if isinstance(cell, int) else f"{cell:,.3g}"
