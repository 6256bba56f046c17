"""`thalweg history`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from thalweg.cli import options as given
from thalweg.errors import UserError
from thalweg.storage import Location

if TYPE_CHECKING:
    from thalweg.adapt.history import History
    from thalweg.adapt.observed import Traffic, Way


_SHOWN = 5
"""Statistics that are shown of a decision."""


def history(
    out: given.RunOut,
    picture: Annotated[
        Path | None, typer.Option("--picture", metavar="FILE", help="Draw costs and changes, SVG or PNG.")
    ] = None,
    change: Annotated[
        int | None,
        typer.Option(
            "--change", metavar="N", min=1, help="Draw the N-th change instead: its operators, by batch."
        ),
    ] = None,
    as_json: given.AsJson = False,
) -> None:
    """Show when a run has changed its plan, and why."""
    from thalweg.adapt.history import History
    from thalweg.adapt.observed import Observed
    from thalweg.cli.inputs import print_json

    if not (out / "_thalweg").is_dir():
        raise UserError("this is not the folder of a run", where=str(out), remedy="give the --out of a run")
    told = History.of_run(out)
    links = Observed.load(out / "_thalweg" / "statistics.json").links
    unit = _unit(out)
    if picture is not None:
        _draw(out, told, unit, picture, change)
    elif change is not None:
        raise UserError("--change needs --picture", where="--change")
    if as_json:
        print_json(document(told, links))
    else:
        _show(told, unit)
        _show_links(links)


def _draw(out: Location, told: History, unit: str, picture: Path, change: int | None) -> None:
    from thalweg.report import changes, move

    if change is None:
        changes.draw(told.records, unit, picture)
        return
    if change > len(told.ended):
        raise UserError(f"the run has begun {len(told.ended)} changes", where="--change")
    move.draw(move.Move.read(out / "_thalweg" / "programs", told.ended[change - 1].change), picture)


def document(history: History, links: Mapping[Way, Traffic]) -> dict[str, Any]:
    """The JSON of a history: moves that have come to an end, how many decisions there were, and the links."""
    from thalweg.adapt.history import plan_file

    changes, plan = [], 0
    for number, r in enumerate(history.ended, 1):
        changes.append(
            {
                "number": number,
                "at": _moment(r.at),
                "event_time": None if r.event_time is None else _moment(r.event_time / 1e6),
                "reason": r.reason,
                "moved": list(r.moved),
                "cost_before": r.cost_before,
                "cost_after": r.cost_after,
                "plan_before": plan_file(plan),
                "plan_after": plan_file(r.change),
                "bytes_moved": r.bytes_moved,
                "seconds": r.seconds,
                "outcome": r.outcome,
            }
        )
        plan = r.change if r.outcome == "done" else plan
    measured = [
        {
            "from": source,
            "to": target,
            "bytes_per_s": round(one.bytes_per_s, 1),
            "delay_s": None if one.delay_s is None else round(one.delay_s, 3),
        }
        for (source, target), one in sorted(links.items())
    ]
    return {"changes": changes, "considered": len(history.records), "links": measured}


def _show_links(links: Mapping[Way, Traffic]) -> None:
    from thalweg.report.texts import volume

    for (source, target), one in sorted(links.items()):
        late = "" if one.delay_s is None else f", read {one.delay_s:.2f} s after it was sent"
        typer.echo(f"{source} to {target}: {volume(round(one.bytes_per_s))}/s just now{late}")


def _moment(seconds: float) -> str:
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _unit(out: Location) -> str:
    from thalweg.cost.objectives import MODELS
    from thalweg.plan.document import Plan

    return MODELS[Plan.load(out / "plan.json").objective].unit


def _show(told: History, unit: str) -> None:
    from thalweg.adapt.history import plan_file
    from thalweg.report.texts import volume

    if not told.records:
        typer.echo("nothing was considered: the run does not adapt, or has not read enough yet")
    numbers = {id(r): n for n, r in enumerate(told.ended, 1)}
    for r in told.records:
        costs = f"{r.cost_before:,.4g} {unit}, then {r.cost_after:,.4g}"
        if id(r) in numbers:
            moved = f"{volume(r.bytes_moved)} moved in {r.seconds:.1f} s, to {plan_file(r.change)}"
            typer.echo(f"{_moment(r.at)}  change {numbers[id(r)]}, {r.outcome}: {costs}; {r.reason}; {moved}")
        else:
            typer.echo(f"{_moment(r.at)}  {r.outcome}: {costs}; {r.reason}")
        for moved in r.moved[:_SHOWN]:
            typer.echo(f"    {moved}")
        if len(r.moved) > _SHOWN:
            typer.echo(f"    and {len(r.moved) - _SHOWN} more")
