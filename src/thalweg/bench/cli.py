"""`thalweg bench`: the commands."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from thalweg.bench import adapt as adapting
from thalweg.bench import batch as batches
from thalweg.bench import budget, growth, kernel, report
from thalweg.bench import kafka as kafka_bench
from thalweg.bench import kinds as kinds_bench
from thalweg.bench import page as page_bench
from thalweg.bench import planners as planning
from thalweg.bench import simulate as simulating
from thalweg.bench import sites as sites_bench
from thalweg.bench import soak as soaking
from thalweg.bench import split as splitting
from thalweg.bench.broker import SCRIPT
from thalweg.bench.data import WORKLOADS, workload
from thalweg.bench.join import Comparison, ResultsDifferError, compare
from thalweg.bench.side import SIDES
from thalweg.cost.operations import prices
from thalweg.errors import UserError

HEADLINE = "1500k"
"""The workload whose ratio is `ratio_to_best_spark`."""

app = typer.Typer(help="Measure the join beside Spark's own cascade, and the planners.", no_args_is_help=True)

Out = Annotated[Path, typer.Option(help="Where tables and plots go.")]
Data = Annotated[Path, typer.Option(help="Where the generated streams are kept.")]
RunData = Annotated[Path, typer.Option(help="Where the streams are made and runs leave their files.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object, nothing else.")]
Turns = Annotated[int, typer.Option(min=1, help="How often each side runs; the median counts.")]
Limit = Annotated[float, typer.Option(help="Stop a side after this many seconds beside its warm-up.")]
Warm = Annotated[float, typer.Option(help="Seconds for which every side runs before it is measured.")]


@app.command()
def join(
    *,
    name: Annotated[
        str, typer.Option("--workload", help=f"One of {', '.join(WORKLOADS)}, or all.")
    ] = HEADLINE,
    scale: Annotated[float, typer.Option(help="Shrink the data and the keys, for a quick look.")] = 1.0,
    sides: Annotated[str, typer.Option(help="Only these sides, separated by commas.")] = ",".join(SIDES),
    out: Out = Path("benchmarks/results"),
    data: Data = Path("benchmarks/data"),
    limit: Limit = 1800,
    warm: Warm = 45,
    as_json: AsJson = False,
) -> None:
    """Run the same streams through Thalweg and through Spark's cascade, and compare."""
    console = Console()
    names = list(WORKLOADS) if name == "all" else [name]
    specs = [workload(each).scaled(scale) for each in names]
    wanted = _sides(sides)
    done: dict[str, Comparison] = {}
    for spec in specs:
        try:
            comparison = compare(spec, data, wanted, limit, warm, _progress)
        except ResultsDifferError as differ:
            Console(stderr=True).print(f"RESULTS DIFFER: {differ}", style="bold red")
            raise typer.Exit(1) from None
        done[spec.name] = comparison
        paths = report.write(comparison, out)
        if not as_json:
            console.print(report.terminal_table(comparison))
            console.print("Written: " + ", ".join(str(path) for path in paths), highlight=False)
    if as_json:
        headline = done.get(HEADLINE) or next(iter(done.values()))
        told = headline.to_json()
        if len(done) > 1:
            told["workloads"] = {each: comparison.to_json() for each, comparison in done.items()}
        print(json.dumps(told))


@app.command()
def batch(
    *,
    out: Out = Path("benchmarks/results"),
    data: Data = Path("benchmarks/data"),
    limit: Limit = 600,
    warm: Warm = 45,
    as_json: AsJson = False,
) -> None:
    """Measure the least time of a micro-batch, and where it goes."""
    cost = batches.measure(data, limit, warm)
    header = (f"of a micro-batch of {cost.rows_per_batch} rows, median of {cost.batches}", "ms", "share")
    out.mkdir(parents=True, exist_ok=True)
    (out / "batch.md").write_text(report.markdown(header, cost.rows()) + "\n")
    (out / "batch.json").write_text(json.dumps(cost.to_json(), indent=2) + "\n")
    if as_json:
        print(json.dumps(cost.to_json()))
        return
    _print(header, cost.rows())


@app.command()
def windows(
    *,
    out: Out = Path("benchmarks/results"),
    largest: Annotated[int, typer.Option(help="The most tuples in the windows together.")] = 10_000_000,
    as_json: AsJson = False,
) -> None:
    """Measure the time and memory of a tuple as windows grow."""
    measured = kernel.measure_windows(largest)
    header = (
        "tuples in the windows",
        "ns a tuple",
        "to the smallest",
        "results a tuple",
        "bytes to alive bytes",
    )
    rows = [
        (f"{m.held:,}", f"{m.ns:,.0f}", f"{m.ns / measured[0].ns:.2f}", f"{m.results:.2f}", f"{m.memory:.2f}")
        for m in measured
    ]
    out.mkdir(parents=True, exist_ok=True)
    (out / "windows.md").write_text(report.markdown(header, rows) + "\n")
    if as_json:
        print(json.dumps({"windows": [m.__dict__ for m in measured]}))
        return
    _print(header, rows)


@app.command()
def planners(
    *,
    quick: Annotated[
        bool, typer.Option("--quick", help="Much smaller problems, for a quick look; writes nothing.")
    ] = False,
    out: Out = Path("benchmarks/results"),
    as_json: AsJson = False,
) -> None:
    """Measure how long the planners plan, against their targets, and how that grows."""
    console = Console(width=None if sys.stdout.isatty() else 200)
    done = planning.run(_progress, quick=quick)
    paths = [] if quick else growth.write(done, out)
    if as_json:
        print(json.dumps(done.to_json()))
        return
    table = Table(*growth.COLUMNS)
    for row in growth.rows(done.measured):
        table.add_row(*row)
    console.print(table)
    for line in (*done.skipped, *(["Written: " + ", ".join(map(str, paths))] if paths else [])):
        console.print(line, highlight=False, markup=False, soft_wrap=True)


@app.command()
def split(
    *,
    count: Annotated[int, typer.Option("--random", help="How many settings at random.")] = 20,
    out: Out = Path("benchmarks/results"),
    as_json: AsJson = False,
) -> None:
    """Compare one operator, binary trees and the chosen tree, on the kernel alone."""
    done = splitting.run(prices(), count, _progress)
    paths = splitting.write(done, out)
    if as_json:
        print(json.dumps(splitting.to_json(done)))
        return
    _print(splitting.COLUMNS, splitting.rows(done))
    Console().print(splitting.verdict(done), highlight=False, soft_wrap=True)
    Console().print("Written: " + ", ".join(map(str, paths)), highlight=False, soft_wrap=True)


@app.command()
def simulate(
    *,
    rate: Annotated[float, typer.Option(help="Tuples a second of the slowest stream.")] = 10_000.0,
    seconds: Annotated[float, typer.Option(help="Seconds that are simulated.")] = 10.0,
    out: Out = Path("benchmarks/results"),
    as_json: AsJson = False,
) -> None:
    """Measure how fast the simulator follows tuples, in seconds of one core."""
    found = simulating.measure(_progress, rate, seconds)
    rows = simulating.rows(found)
    out.mkdir(parents=True, exist_ok=True)
    (out / "simulate.md").write_text(report.markdown(simulating.COLUMNS, rows) + "\n")
    if as_json:
        speeds = [{**s.__dict__, "hops_per_s": round(s.hops_per_s)} for s in found]
        print(json.dumps({"target": simulating.TARGET, "speeds": speeds}))
    else:
        _print(simulating.COLUMNS, rows)


@app.command()
def sites(
    *,
    out: Out = Path("benchmarks/results"),
    data: RunData = Path("benchmarks/data/sites"),
    as_json: AsJson = False,
) -> None:
    """Measure the throughput of three sites, and the costs of a hop and of a parcel."""
    data.mkdir(parents=True, exist_ok=True)
    speeds = sites_bench.speeds(data.absolute(), _progress)
    parcels = sites_bench.parcel_costs()
    if as_json:
        print(json.dumps({"speeds": [s.__dict__ for s in speeds], "parcels": [p.__dict__ for p in parcels]}))
        return
    tables = (
        (
            ("", "rows/s", "a small batch, ms", "payload, bytes", "all bytes"),
            [
                (
                    s.setting,
                    f"{s.rows_per_s:,.0f}",
                    f"{s.small_batch_ms:,.0f}",
                    f"{s.payload_bytes:,}",
                    f"{s.all_bytes:,}",
                )
                for s in speeds
            ],
        ),
        (
            ("tuples in a parcel", "bytes", "of them the tuples' own", "added"),
            [(f"{p.tuples:,}", f"{p.bytes:,}", f"{p.own:,}", f"{p.added:,}") for p in parcels],
        ),
    )
    out.mkdir(parents=True, exist_ok=True)
    text = "\n\n".join(report.markdown(header, rows) for header, rows in tables)
    (out / "sites.md").write_text(text + "\n")
    for header, rows in tables:
        _print(header, rows)


@app.command()
def kinds(
    *,
    scale: Annotated[float, typer.Option(help="Shrink the data, for a quick look.")] = 1.0,
    out: Out = Path("benchmarks/results"),
    data: RunData = Path("benchmarks/data/kinds"),
    turns: Turns = kinds_bench.TURNS,
    as_json: AsJson = False,
) -> None:
    """Measure the throughput of each kind of window, with as many tuples alive, and of an outer join."""
    data.mkdir(parents=True, exist_ok=True)
    found = kinds_bench.measure(data.absolute(), _progress, scale, turns)
    told = {"kinds": [k.__dict__ for kinds in found for k in kinds]}
    _tell("kinds", kinds_bench.COLUMNS, kinds_bench.rows(found), told, out, as_json)


@app.command()
def kafka(
    *,
    scale: Annotated[float, typer.Option(help="Shrink the data, for a quick look.")] = 1.0,
    out: Out = Path("benchmarks/results"),
    data: RunData = Path("benchmarks/data/kafka"),
    broker: Annotated[
        Path, typer.Option(help="The script that starts a broker and has Spark's packages for it.")
    ] = SCRIPT,
    as_json: AsJson = False,
) -> None:
    """Measure a join from Kafka to Kafka, beside the same from parquet to parquet."""
    data.mkdir(parents=True, exist_ok=True)
    spec = sites_bench.LARGE.scaled(scale)
    found = kafka_bench.measure(data.absolute(), _progress, spec, broker)
    _tell("kafka", kafka_bench.COLUMNS, kafka_bench.rows(found), found.to_json(), out, as_json)


@app.command()
def adapt(
    *,
    scale: Annotated[float, typer.Option(help="Shrink the data, for a quick look.")] = 1.0,
    out: Out = Path("benchmarks/results"),
    data: RunData = Path("benchmarks/data/adapt"),
    as_json: AsJson = False,
) -> None:
    """Measure what it costs to observe streams and to change a plan, and what that brings."""
    data.mkdir(parents=True, exist_ok=True)
    seconds = max(adapting.MINUTE + 10, round(6 * adapting.MINUTE * scale))
    followed = adapting.following(data.absolute() / "routers", _progress, seconds)
    spec = sites_bench.LARGE.scaled(scale)
    observed = adapting.observing(data.absolute(), _progress, spec)
    told = {"observing": [{**o.__dict__, "ratio": o.ratio} for o in observed], **followed.to_json()}
    _tell("adapt", adapting.COLUMNS, adapting.rows(observed, followed), told, out, as_json)


@app.command()
def page(
    *,
    scale: Annotated[float, typer.Option(help="Shrink the data, for a quick look.")] = 1.0,
    out: Out = Path("benchmarks/results"),
    data: RunData = Path("benchmarks/data/page"),
    turns: Turns = page_bench.TURNS,
    as_json: AsJson = False,
) -> None:
    """Measure what an open page and metrics that are read every second cost a run."""
    data.mkdir(parents=True, exist_ok=True)
    found = page_bench.measure(data.absolute(), _progress, sites_bench.LARGE.scaled(scale), turns)
    told = {**found.__dict__, "ratio": found.ratio}
    _tell("page", page_bench.COLUMNS, page_bench.rows(found), told, out, as_json)


@app.command()
def memory(
    *,
    scale: Annotated[float, typer.Option(help="Shrink the data and the windows, for a quick look.")] = 1.0,
    out: Out = Path("benchmarks/results"),
    data: RunData = Path("benchmarks/data/memory"),
    as_json: AsJson = False,
) -> None:
    """Measure a join with a fifth of the memory for its windows, beside one with enough."""
    data.mkdir(parents=True, exist_ok=True)
    found = budget.compare(data.absolute(), _progress, budget.WORKLOAD.scaled(scale))
    if as_json:
        print(json.dumps(found.to_json()))
        return
    sizes = ("windows, MB", "shared, MB", "on disk, MB", "workers, MB")
    header = ("memory", "rows/s", *sizes, "results")
    rows = [
        (
            run.name,
            f"{run.rows_per_s:,.0f}",
            *(f"{size / 1e6:,.1f}" for size in (run.windows, run.shared, run.on_disk, run.workers)),
            f"{run.results:,}",
        )
        for run in (found.enough, found.less)
    ]
    text = (
        f"With a budget of {found.budget / 1e6:,.1f} MB, windows took {found.less.windows / 1e6:,.1f} MB at "
        f"most, and the run made {found.throughput:.2f} of the rows a second. The workers' shared memory "
        f"was {found.less.shared / 1e6:,.1f} MB at most."
    )
    out.mkdir(parents=True, exist_ok=True)
    (out / "memory.md").write_text(f"{report.markdown(header, rows)}\n\n{text}\n")
    _print(header, rows)
    Console().print(text, highlight=False, soft_wrap=True)


@app.command()
def soak(
    *,
    minutes: Annotated[float, typer.Option(help="How long, all settings together.")] = 60,
    out: Out = Path("benchmarks/results"),
    data: RunData = Path("benchmarks/data/soak"),
    as_json: AsJson = False,
) -> None:
    """Measure what grows in a live run: memory, threads, open files, batches, logs and result files."""
    done = soaking.soak(minutes, data.absolute(), _progress)
    paths = soaking.write(done, out)
    if as_json:
        print(paths[1].read_text(), end="")
        return
    for one in done:
        Console().print(f"{one.setting}: {one.metrics['batches']:,} batches", highlight=False)
        _print(soaking.COLUMNS, soaking.rows(one))
    Console().print("Written: " + ", ".join(map(str, paths)), highlight=False, soft_wrap=True)


def _progress(line: str) -> None:
    Console(stderr=True).print(line, highlight=False)


def _tell(
    name: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    told: dict[str, Any],
    out: Path,
    as_json: bool,
) -> None:
    """Write a benchmark's table and its JSON to files, and print one of them."""
    out.mkdir(parents=True, exist_ok=True)
    (out / f"{name}.md").write_text(report.markdown(columns, rows) + "\n")
    (out / f"{name}.json").write_text(json.dumps(told, indent=1) + "\n")
    if as_json:
        print(json.dumps(told))
    else:
        _print(columns, rows)


def _print(header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """A table whose first column has names and the others numbers."""
    table = Table(header[0])
    for title in header[1:]:
        table.add_column(title, justify="right")
    for row in rows:
        table.add_row(*row)
    Console().print(table)


def _sides(text: str) -> list[str]:
    wanted = [side.strip() for side in text.split(",") if side.strip()]
    for side in wanted:
        if side not in SIDES:
            raise UserError(f"no side {side!r}", where="--sides", remedy=f"any of {', '.join(SIDES)}")
    return wanted
