"""`thalweg run`."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from thalweg.cli import options as given
from thalweg.plan.options import Adapt
from thalweg.storage import Location


class Log(StrEnum):
    """How the progress of a run is written."""

    TEXT = "text"
    JSON = "json"


def run(
    *,
    queries: given.Queries,
    catalog: given.CatalogFile,
    out: given.Out,
    planner: given.PlannerName = "auto",
    objective: given.ObjectiveName = "bytes",
    deliver_to: given.DeliverTo = None,
    settings: given.Settings = None,
    plan: Annotated[
        Path | None, typer.Option("--plan", metavar="PLAN.json", help="Use a saved plan.")
    ] = None,
    once: Annotated[
        bool, typer.Option("--once", help="Read the sources to their end, end every stream, and exit.")
    ] = False,
    master: Annotated[
        str | None,
        typer.Option("--master", metavar="URL", help="The Spark master. Default: this machine."),
    ] = None,
    emulate: Annotated[
        bool, typer.Option("--emulate", help="Slow links down to the catalog's latency and bandwidth.")
    ] = False,
    jitter: Annotated[
        float,
        typer.Option("--jitter", min=0.0, metavar="SECONDS", help="The maximum random delay between sites."),
    ] = 0.0,
    memory_budget: Annotated[
        str | None,
        typer.Option(
            "--memory-budget",
            metavar="SIZE",
            help="Memory for the windows of all joins on a machine, such as 500MB. The rest spills to disk.",
        ),
    ] = None,
    spill_delay: Annotated[
        str | None,
        typer.Option(
            "--spill-delay",
            metavar="DURATION",
            help="How much later spilled tuples may give their results. Default: 10 seconds.",
        ),
    ] = None,
    compact: Annotated[
        bool, typer.Option(help="Merge small result files. Turn it off where another stream reads them.")
    ] = True,
    adapt: Annotated[
        Adapt | None,
        typer.Option(
            "--adapt",
            help="Who changes the plan of the run. Default: central; off with one site or --plan.",
        ),
    ] = None,
    page: given.Page = None,
    log: Annotated[
        Log,
        typer.Option("--log", help="The progress on standard error: text, or a JSON object a line."),
    ] = Log.TEXT,
    as_json: given.AsJson = False,
) -> None:
    """Run queries on Spark. Running again with the same folder resumes the run."""
    from thalweg.api.execute import cautions, execute, page_of, prepared
    from thalweg.cli.inputs import print_json, read_settings
    from thalweg.cli.progress import reporter

    options = prepared(
        queries,
        catalog,
        out,
        planner=planner,
        objective=objective,
        deliver_to=deliver_to,
        settings=read_settings(settings),
        plan=plan,
        once=once,
        master=master,
        emulate=emulate,
        jitter=jitter,
        memory_budget=memory_budget,
        spill_delay=spill_delay,
        compact=compact,
        adapt=adapt,
    )
    for caution in cautions(options):
        typer.echo(f"thalweg: {caution}", err=True)
    report = reporter(silent=as_json, as_json=log is Log.JSON)
    with page_of(out, page) as url:
        if url is not None:
            typer.echo(f"page: {url}/", err=True)
        ended = execute(options, report)
    if url is not None:
        typer.echo(f"the page has ended with the run; `thalweg page {out}` shows it again", err=True)
    for note in ended.notes:
        typer.echo(f"thalweg: {note}", err=True)
    if as_json:
        print_json(ended.metrics)
    else:
        _show(ended.metrics, ended.picture)
    if ended.stopped is not None:
        raise ended.stopped


def _show(metrics: Mapping[str, Any], picture: Location | None) -> None:
    from rich.console import Console
    from rich.table import Table

    from thalweg.cli.progress import compared, ways
    from thalweg.report.flow import shipped_of
    from thalweg.units import size_text

    table = Table("", "", "rows", title="complete" if metrics["complete"] else "stopped; run again to resume")
    table.columns[2].justify = "right"
    for key, what in (("input_rows", "read"), ("late_rows", "late"), ("output_rows", "results")):
        for name, rows in metrics[key].items():
            table.add_row(what, name, f"{rows:,}")
    console = Console()
    console.print(table)
    if metrics["shipped"]:
        shipped, central = shipped_of(metrics), metrics.get("central_payload_bytes", 0)
        console.print(ways(shipped, central))
        console.print(compared(shipped, central), highlight=False, soft_wrap=True)
    if windows := metrics.get("windows"):
        console.print(
            f"windows took at most {size_text(windows['memory_bytes'])} in memory and "
            f"{size_text(windows['disk_bytes'])} on disk",
            highlight=False,
        )
    batches = metrics["batches"]
    console.print(
        f"{batches:,} {'batch' if batches == 1 else 'batches'} in {metrics['elapsed_s']:,.1f} s",
        highlight=False,
    )
    if picture is not None:
        console.print(f"traffic between sites: {picture}", highlight=False, soft_wrap=True)
