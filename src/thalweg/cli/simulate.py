"""`thalweg simulate`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from thalweg.cli import options as given
from thalweg.errors import UserError

if TYPE_CHECKING:
    from thalweg.simulate.outcome import Simulated

_MOST_S = 1e7


def simulate(
    *,
    queries: given.Queries,
    catalog: given.CatalogFile,
    planner: given.PlannerName = "auto",
    objective: given.ObjectiveName = "bytes",
    deliver_to: given.DeliverTo = None,
    settings: given.Settings = None,
    plan: Annotated[
        Path | None, typer.Option("--plan", metavar="PLAN.json", help="Use a saved plan.")
    ] = None,
    seconds: Annotated[
        float, typer.Option("--seconds", metavar="N", help="For how long the streams bring tuples.")
    ] = 60.0,
    seed: Annotated[
        int, typer.Option("--seed", metavar="N", min=0, help="The seed of the made-up streams.")
    ] = 0,
    changes: Annotated[
        Path | None,
        typer.Option("--changes", metavar="FILE", help="Streams that change meanwhile: a YAML list."),
    ] = None,
    flows: Annotated[
        bool | None,
        typer.Option(
            "--flows/--tuples",
            help="Simulate rates or tuples. Default: tuples, unless there are too many.",
        ),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(
            "--plot", metavar="FILE", help="Draw the cost over time and the traffic (.svg or .png)."
        ),
    ] = None,
    as_json: given.AsJson = False,
) -> None:
    """Run a plan on simulated sites and links, over made-up streams that follow the catalog's statistics."""
    from thalweg.api.inputs import plan_options, read_catalog, read_queries, take_plan
    from thalweg.cli.inputs import print_json, read_settings
    from thalweg.report import check_path
    from thalweg.simulate.changes import read_changes

    if not 0 < seconds <= _MOST_S:
        raise UserError(
            f"--seconds can't be {seconds:g}", remedy=f"it is more than 0, at most {_MOST_S:,.0f}"
        )
    if plot is not None:
        check_path(plot)
    wanted = plan_options(planner, objective, deliver_to, read_settings(settings))
    read = read_catalog(catalog)
    parsed = read_queries(queries, read)
    changing = () if changes is None else read_changes(changes, read)
    made = take_plan(parsed, read, plan, wanted)

    from thalweg.simulate import flows as by_flows
    from thalweg.simulate import tuples as by_tuples

    if flows is None:
        flows = by_flows.too_large(made, read, seconds)
        if flows:
            print(
                "thalweg: too many tuples to follow each: simulating rates (--tuples insists)",
                file=sys.stderr,
            )
    how = by_flows if flows else by_tuples
    found = how.simulate(parsed, read, made, seconds, seed, changing)
    if plot is not None:
        from thalweg.report import simulated

        marks = [change.at_us / 1e6 for change in changing]
        simulated.draw(found, marks, plot)
    if as_json:
        print_json(found.to_json())
    else:
        _show(found, plot)


def _show(found: Simulated, plot: Path | None) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(width=None if sys.stdout.isatty() else 160)

    def say(text: str) -> None:
        console.print(text, highlight=False, markup=False, soft_wrap=True)

    say(f"{found.seconds:g} s simulated by {found.how}, seed {found.seed}")
    for name, count in found.results.items():
        say(f"{name}: {count:,} results")
    table = Table("from", "to", "tuples", "payload", title="between sites")
    for one in found.shipped:
        table.add_row(one.source, one.target, f"{one.tuples:,}", f"{one.payload_bytes:,}")
    for column in table.columns[2:]:
        column.justify = "right"
    console.print(table)
    if found.links:
        links = Table("from", "to", "busy", "longest wait", title="links")
        for link in found.links:
            links.add_row(link.source, link.target, f"{link.busy:.1%}", f"{link.longest_wait_s:,.3f} s")
        console.print(links)
    if found.busy:
        say("sites busy: " + ", ".join(f"{site} {share:.2%}" for site, share in found.busy.items()))
    mean = sum(cost for _, cost in found.cost) / found.seconds
    peak = max((cost for _, cost in found.cost), default=0.0)
    say(f"cost: {mean:,.6g} {found.unit} on average, {peak:,.6g} in the dearest second")
    if found.delay_s:
        delays = ", ".join(f"{name} {s:.3f} s" for name, s in found.delay_s.items())
        say(f"results come out after: {delays}")
    if found.assumed:
        say("assumed, because the catalog does not declare them (`thalweg stats` measures them):")
        for what in found.assumed:
            say(f"  {what}")
    if plot is not None:
        say(f"written: {plot}")
