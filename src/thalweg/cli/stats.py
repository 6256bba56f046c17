"""`thalweg stats`."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from thalweg.cli import options as given

if TYPE_CHECKING:
    from rich.table import Table

    from thalweg.catalog.model import Catalog, JoinSelectivity, Stream
    from thalweg.observe.sketch import Sketch
    from thalweg.oracle.inputs import ReadStatic
    from thalweg.query.model import Query

_ROWS = 100_000
_SHOWN = 5
"""Heavy values of a column in the table; JSON and the catalog have all."""


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
    from thalweg.catalog import edit
    from thalweg.cli.inputs import print_json, read_catalog, read_queries
    from thalweg.observe.joins import joins

    read = read_catalog(catalog)
    parsed = read_queries(queries, read)
    sketches = measure(parsed, read)
    found = joins(parsed, sketches)
    if write:
        edit.write(read, {name: sketch.stats() for name, sketch in sketches.items()}, found)
    if as_json:
        print_json(to_json(sketches, found))
        return
    _show(sketches, found)
    if write:
        typer.echo(f"written to {catalog}")


def measure(queries: Sequence[Query], catalog: Catalog) -> dict[str, Sketch]:
    """A sketch of each stream of the queries, of all tuples that its source holds."""
    from thalweg.cli.inputs import reading_with_spark
    from thalweg.observe.joins import keys

    read = reading_with_spark(queries, catalog)
    streams = {name: columns for name, columns in keys(queries).items() if name not in catalog.tables}
    return {name: _measured(catalog.streams[name], columns, read) for name, columns in streams.items()}


def _measured(stream: Stream, keys: Sequence[str], read: ReadStatic) -> Sketch:
    import pyarrow as pa

    from thalweg.observe.sketch import Sketch
    from thalweg.oracle import duck, inputs

    sketch = Sketch()
    with duck.connect() as con:
        for batch in inputs.batches(con, stream, read, _ROWS):
            timed = batch.filter(batch.column(stream.time).is_valid())  # a run sets the others aside
            times = timed.column(stream.time).cast(pa.timestamp("us")).cast(pa.int64()).to_numpy()
            sketch.update(dict(zip(timed.schema.names, timed.columns, strict=True)), times, keys)
    return sketch


def to_json(sketches: Mapping[str, Sketch], joins: Sequence[JoinSelectivity]) -> dict[str, Any]:
    """The JSON of the command; what is unknown is left out."""
    streams = {
        name: {
            **sketch.stats().model_dump(exclude_none=True),
            "tuples": round(sketch.count),
        }
        for name, sketch in sketches.items()
    }
    return {
        "streams": streams,
        "joins": [
            {"left": ".".join(j.left), "right": ".".join(j.right), "selectivity": j.selectivity}
            for j in joins
        ],
    }


def _show(sketches: Mapping[str, Sketch], joins: Sequence[JoinSelectivity]) -> None:
    from rich.console import Console

    # A file or a pipe has no width to squeeze columns into.
    console = Console(width=None if sys.stdout.isatty() else 1000)
    console.print(table(sketches))
    for join in joins:
        left, right = ".".join(join.left), ".".join(join.right)
        console.print(f"{left} = {right}: selectivity {join.selectivity:g}", markup=False, highlight=False)
    for name, sketch in sketches.items():
        if sketch.count == 0:
            typer.echo(f"{name}: no tuples, so nothing is known of it")
        elif sketch.rate is None:
            typer.echo(f"{name}: its tuples span no time, so its rate is unknown")


def table(sketches: Mapping[str, Sketch]) -> Table:
    """A row for each stream, and one for each of its columns."""
    from rich.markup import escape
    from rich.table import Table

    rows = Table(
        "stream", "column", "tuples", "per second", "bytes", "distinct", "frequent values, per second"
    )
    for n, column in enumerate(rows.columns):
        column.overflow = "fold"
        column.justify = "right" if 2 <= n <= 5 else "left"
    for stream, sketch in sketches.items():
        known = sketch.stats()
        rows.add_row(stream, "", f"{sketch.count:,.0f}", _number(known.rate), _number(known.bytes))
        for name, width in known.widths.items():
            distinct, rates = known.distinct.get(name), known.rates.get(name, {})
            rows.add_row(
                "", escape(name), "", "", _number(width), _number(distinct), escape(_frequent(rates))
            )
        rows.add_section()
    return rows


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:,.4g}" if value < 1000 else f"{value:,.0f}"


def _frequent(rates: Mapping[Any, float]) -> str:
    named = {str(v) if str(v).isprintable() else repr(v): rate for v, rate in rates.items()}
    shown = [f"{value}: {rate:g}" for value, rate in list(named.items())[:_SHOWN]]
    more = [f"and {len(rates) - _SHOWN} more"] if len(rates) > _SHOWN else []
    return ", ".join(shown + more)
