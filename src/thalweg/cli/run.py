"""`thalweg run`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from enum import StrEnum
from itertools import permutations
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from thalweg.cli import options as given
from thalweg.cli.plan import plan_options
from thalweg.errors import Stopped, UserError
from thalweg.plan.options import Adapt

if TYPE_CHECKING:
    from thalweg.catalog.model import Catalog
    from thalweg.plan.document import Plan
    from thalweg.plan.options import Emulated, Memory, PlanOptions, RunOptions

_PICTURE = "network.svg"


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
    from thalweg.adapt.decide import check_for_nodes
    from thalweg.cli.inputs import check_sinks, print_json, read_catalog, read_queries, take_plan
    from thalweg.cli.progress import reporter
    from thalweg.plan.operators import Join
    from thalweg.plan.options import RunOptions

    if adapt is Adapt.DISTRIBUTED and plan is None:
        planner = _for_nodes(planner)
    wanted = plan_options(planner, objective, deliver_to, settings)
    if plan is not None and wanted != plan_options("auto", "bytes", None, None):
        raise UserError("--plan can't be combined with planning options", remedy="leave them out")
    read = read_catalog(catalog)
    parsed = read_queries(queries, read)
    check_sinks(read, queries)
    fixed = next((q for q in parsed if q.outer or q.groups), None)
    if fixed is not None and adapt not in (None, Adapt.OFF):
        raise UserError(
            f"query {fixed.name} has {'an outer join' if fixed.outer else 'GROUP BY or DISTINCT'}, "
            "so its plan can't change",
            where=f"--adapt {adapt}",
            remedy="leave --adapt out",
        )
    if out.exists() and not out.is_dir():
        raise UserError("this is not a folder", where=str(out), remedy="give --out a folder or a new name")
    made = take_plan(parsed, read, plan, wanted)
    if plan is not None:
        adapt, wanted = adapt or Adapt.OFF, _as_planned(made)
    if adapt is Adapt.DISTRIBUTED:
        check_for_nodes(made, str(plan))
    memory = _memory(memory_budget, spill_delay)
    options = RunOptions(parsed, read, made, out, once, master, (), memory, compact, adapt, wanted)
    options = replace(options, emulated=_emulated(options, emulate, jitter))
    for operator in (o for q in made.queries for o in q.deployment.operators):
        if isinstance(operator, Join) and operator.warning:
            typer.echo(f"thalweg: {operator.id} {operator.warning}", err=True)

    for query in parsed:
        for warning in query.warnings:
            typer.echo(f"thalweg: query {query.name}: {warning}", err=True)

    from thalweg.spark.run import run as run_on_spark

    report = reporter(silent=as_json, as_json=log is Log.JSON)
    was_complete, stopped = _is_complete(out), None
    try:
        with _page(out, page):
            metrics: Mapping[str, Any] = run_on_spark(options, report)
    except Stopped as early:
        metrics, stopped = early.metrics, early
    finally:
        report.close()
    _check_budget(metrics, memory)
    # A complete run is left alone, unless it was killed before it drew its picture.
    left_alone = len(made.sites) == 1 or (was_complete and (out / _PICTURE).exists())
    picture = None if left_alone else _draw(out, read)
    if as_json:
        print_json(metrics)
    else:
        _show(metrics, picture)
    if stopped is not None:
        raise stopped


@contextmanager
def _page(out: Path, port: int | None) -> Iterator[None]:
    """The page of the run, if it is asked for, while the run goes on."""
    if port is None:
        yield
        return
    from thalweg.page.serve import Access, beside

    with beside(out, Access(port=None if port == given.ANY_PORT else port)) as url:
        typer.echo(f"page: {url}/", err=True)
        yield
    typer.echo(f"the page has ended with the run; `thalweg page {out}` shows it again", err=True)


def _for_nodes(planner: str) -> str:
    """The planner whose plans the nodes change by themselves."""
    if planner not in ("auto", "linear-greedy"):
        raise UserError(
            f"nodes can't change a plan of {planner} by themselves, only one of linear-greedy",
            where="--adapt distributed",
            remedy="leave --planner out, or use --adapt central",
        )
    return "linear-greedy"


def _memory(budget: str | None, delay: str | None) -> Memory | None:
    from thalweg.plan.options import Memory
    from thalweg.units import parse_duration, parse_size

    if budget is None:
        if delay is not None:
            raise UserError("--spill-delay needs --memory-budget", where="--spill-delay")
        return None
    size = parse_size(budget, where="--memory-budget")
    return Memory(size, parse_duration("10 seconds" if delay is None else delay, where="--spill-delay"))


def _check_budget(metrics: Mapping[str, Any], memory: Memory | None) -> None:
    """Warns when windows exceeded the budget: each join needs a minimum."""
    from thalweg.cli.progress import size

    took = metrics.get("windows", {}).get("memory_bytes", 0)
    if memory is not None and took > memory.budget:
        typer.echo(
            f"thalweg: windows took {size(took)} in memory, more than the budget of {size(memory.budget)}: "
            "each join keeps its smallest windows, the tuples of a batch and some keys in memory",
            err=True,
        )


def _as_planned(plan: Plan) -> PlanOptions:
    """How to look for other plans than the one that was given: for the same cost, for the same site."""
    from thalweg.plan.operators import Sink
    from thalweg.plan.options import Objective, PlanOptions

    sinks = {o.site for q in plan.queries for o in q.deployment.operators if isinstance(o, Sink)}
    return PlanOptions("auto", Objective(plan.objective), sinks.pop() if len(sinks) == 1 else None)


def _emulated(options: RunOptions, links: bool, jitter_s: float) -> tuple[Emulated, ...]:
    """The emulated delays for each pair of sites that a plan may use. A path is as slow as all its links."""
    from thalweg.cost.network import way
    from thalweg.plan.options import Emulated

    if not isfinite(jitter_s):
        raise UserError(f"{jitter_s} is not a duration", where="--jitter", remedy="give a number of seconds")
    if not links and not jitter_s:
        return ()
    edges = [e for q in options.plan.queries for e in q.deployment.edges]
    used = dict.fromkeys((e.source_site, e.target_site) for e in edges if e.source_site != e.target_site)
    if options.adapts is not Adapt.OFF:
        used = dict.fromkeys(permutations(options.catalog.sites, 2))
    found = []
    for source, target in used:
        try:
            latency_s, bytes_per_s = way(options.catalog, source, target) if links else (0.0, None)
        except UserError:  # no plan uses it, as no path leads there
            continue
        found.append(Emulated(source, target, latency_s, bytes_per_s, jitter_s))
    return tuple(found)


def _is_complete(out: Path) -> bool:
    try:
        return bool(json.loads((out / "metrics.json").read_text(encoding="utf-8"))["complete"])
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _draw(out: Path, catalog: Catalog) -> Path | None:
    """Draws the traffic between sites. A failure here does not fail the run."""
    from thalweg.report import flow

    try:
        flow.draw(flow.Flow.read_from(out), catalog, out / _PICTURE)
    except UserError as error:
        typer.echo(f"thalweg: no picture: {error}", err=True)
        return None
    return out / _PICTURE


def _show(metrics: Mapping[str, Any], picture: Path | None) -> None:
    from rich.console import Console
    from rich.table import Table

    from thalweg.cli.progress import compared, size, ways
    from thalweg.report.flow import shipped_of

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
            f"windows took at most {size(windows['memory_bytes'])} in memory and "
            f"{size(windows['disk_bytes'])} on disk",
            highlight=False,
        )
    batches = metrics["batches"]
    console.print(
        f"{batches:,} {'batch' if batches == 1 else 'batches'} in {metrics['elapsed_s']:,.1f} s",
        highlight=False,
    )
    if picture is not None:
        console.print(f"traffic between sites: {picture}", highlight=False, soft_wrap=True)
