"""Reads query files, the catalog and settings. Invalid input raises `UserError`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from thalweg.errors import UserError
from thalweg.names import suggestion

if TYPE_CHECKING:
    import pyarrow as pa

    from thalweg.catalog.model import Catalog, Stream
    from thalweg.plan.document import Plan
    from thalweg.plan.options import PlanOptions
    from thalweg.query.model import Query

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def read_catalog(path: Path) -> Catalog:
    """Reads a catalog file."""
    from thalweg.catalog import load

    return load(path)


def read_queries(paths: Sequence[Path], catalog: Catalog) -> tuple[Query, ...]:
    """Parses query files; a query's name is its file's stem."""
    named: dict[str, Path] = {}
    for path in paths:
        if not _NAME.fullmatch(path.stem):
            raise UserError(
                f"{path.stem!r} is not a valid query name",
                where=str(path),
                remedy="name the file with letters, digits and _, not starting with a digit",
            )
        if path.stem in named:
            raise UserError(f"two queries are named {path.stem!r}: {named[path.stem]} and {path}")
        named[path.stem] = path
    return tuple(_read_query(path, catalog) for path in paths)


def check_sinks(catalog: Catalog, paths: Sequence[Path]) -> None:
    """Refuses sinks of a query that is neither among these nor in a file beside them or the catalog."""
    names = {path.stem for path in paths}
    folders = {Path(catalog.path).parent, *(path.absolute().parent for path in paths)}
    for query, to in catalog.sinks.items():
        if query not in names and not any((folder / f"{query}.sql").is_file() for folder in folders):
            raise UserError(
                f"sinks of an unknown query {query!r}",
                where=to[0].where,
                remedy=f"{suggestion(query, sorted(names))}; a query's name is its file's name without .sql",
            )


def _read_query(path: Path, catalog: Catalog) -> Query:
    from thalweg.query import parse

    text = _read_text(path)
    return parse(
        text,
        name=path.stem,
        schemas=catalog.schemas,
        times=catalog.times,
        tables=catalog.tables,
        where=str(path),
    )


def _read_text(path: Path) -> str:
    if path.is_dir():
        raise UserError("this is a folder, not a query", where=str(path), remedy="give a file with SQL")
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UserError(f"can't read the query: {error.strerror}", where=str(path)) from error
    except UnicodeDecodeError as error:
        raise UserError(
            f"not UTF-8 text at byte {error.start}", where=str(path), remedy="give a file with SQL"
        ) from error


def read_settings(pairs: Sequence[str]) -> Mapping[str, str]:
    """The `--set KEY=VALUE` options.

    >>> read_settings(["width=equal"])
    {'width': 'equal'}
    """
    settings: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not (key and equals and value):
            raise UserError(f"--set {pair!r} is not KEY=VALUE", remedy="for example --set width=equal")
        if key in settings:
            raise UserError(f"--set {key} is given twice")
        settings[key] = value
    return settings


def take_plan(queries: Sequence[Query], catalog: Catalog, path: Path | None, options: PlanOptions) -> Plan:
    """The saved plan at a path, checked; without one, a new plan."""
    from thalweg.plan.document import Plan
    from thalweg.planners.table import make_plan

    if path is None:
        return make_plan(queries, catalog, options)
    plan = Plan.load(path)
    plan.check_is_of(queries, str(path))
    plan.check_fits(catalog, str(path))
    return plan


def reading_with_spark(queries: Sequence[Query], catalog: Catalog) -> Callable[[Stream], pa.Table]:
    """Reads sources of queries with Spark, for formats that DuckDB may read differently."""
    every = [catalog.streams[name] for name in sorted({i.stream for q in queries for i in q.inputs})]

    def read(stream: Stream) -> pa.Table:
        from thalweg.spark.streams import read_table

        return read_table(stream, every)

    return read


def print_json(value: Mapping[str, Any]) -> None:
    """Prints a command's JSON object."""
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False))
