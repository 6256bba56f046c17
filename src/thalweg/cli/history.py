"""`thalweg history`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from thalweg.cli import options as given
from thalweg.errors import UserError

if TYPE_CHECKING:
    from thalweg.adapt.history import Record


_SHOWN = 5
"""Statistics that are shown of a decision."""


def history(
    out: Annotated[Path, typer.Argument(metavar="DIR", help="The output folder of a run.")],
    picture: Annotated[
        Path | None, typer.Option("--picture", metavar="FILE", help="Draw costs and changes, SVG or PNG.")
    ] = None,
    as_json: given.AsJson = False,
) -> None:
    """Show when a run has changed its plan, and why."""
    from thalweg.adapt.history import History
    from thalweg.cli.inputs import print_json

    if not (out / "_thalweg").is_dir():
        raise UserError("this is not the folder of a run", where=str(out), remedy="give the --out of a run")
    records = History.load(out / "_thalweg" / "changes.json").records
    unit = _unit(out)
    if picture is not None:
        from thalweg.report.changes import draw

        draw(records, unit, picture)
    if as_json:
        print_json(document(records))
    else:
        _show(records, unit)


def document(records: Sequence[Record]) -> dict[str, Any]:
    """The JSON of a history: moves that have come to an end, and how many decisions there were."""
    changes = [
        {
            "at": _moment(r.at),
            "event_time": None if r.event_time is None else _moment(r.event_time / 1e6),
            "reason": r.reason,
            "moved": list(r.moved),
            "cost_before": r.cost_before,
            "cost_after": r.cost_after,
            "bytes_moved": r.bytes_moved,
            "seconds": r.seconds,
            "outcome": r.outcome,
        }
        for r in records
        if r.outcome in ("done", "undone")
    ]
    return {"changes": changes, "considered": len(records)}


def _moment(seconds: float) -> str:
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _unit(out: Path) -> str:
    from thalweg.cost.objectives import MODELS
    from thalweg.plan.document import Plan

    return MODELS[Plan.load(out / "plan.json").objective].unit


def _show(records: Sequence[Record], unit: str) -> None:
    from thalweg.report.texts import volume

    if not records:
        typer.echo("nothing was considered: the run does not adapt, or has not read enough yet")
    for r in records:
        text = (
            f"{_moment(r.at)}  {r.outcome}: {r.cost_before:,.4g} {unit}, then {r.cost_after:,.4g}; {r.reason}"
        )
        if r.outcome in ("done", "undone"):
            text += f"; {volume(r.bytes_moved)} moved in {r.seconds:.1f} s"
        typer.echo(text)
        for moved in r.moved[:_SHOWN]:
            typer.echo(f"    {moved}")
        if len(r.moved) > _SHOWN:
            typer.echo(f"    and {len(r.moved) - _SHOWN} more")
