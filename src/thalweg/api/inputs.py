"""Reads what the commands and the functions are given: queries, a catalog, a saved plan.

Each may be a file, a text or an object. Invalid input raises `UserError`.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from thalweg.errors import UserError
from thalweg.names import is_name, suggestion

if TYPE_CHECKING:
    import pyarrow as pa

    from thalweg.catalog.model import Catalog, Stream
    from thalweg.plan.document import Plan
    from thalweg.plan.options import PlanOptions
    from thalweg.query.model import Query

QueryInput: TypeAlias = "str | os.PathLike[str] | Query"
"""A query: its file, or its text, which begins with SELECT, or what `thalweg.query.parse` returns."""
QueriesInput: TypeAlias = "QueryInput | Iterable[QueryInput] | Mapping[str, QueryInput]"
"""A query, several in the order in which they are deployed, or several by name."""
CatalogInput: TypeAlias = "str | os.PathLike[str] | Mapping[str, Any] | Catalog"
"""A catalog: its file, the text of one, of more than one line, the same as a dict, or one that was read."""

_SQL = re.compile(r"\s*((--[^\n]*\n|/\*.*?\*/)\s*)*(select|with)[\s(*]", re.IGNORECASE | re.DOTALL)
_UNNAMED = "query"
"""The name of a query that is given as a text alone."""


def read_catalog(given: CatalogInput) -> Catalog:
    """The catalog that is meant."""
    from thalweg.catalog import load, load_text
    from thalweg.catalog.model import Catalog

    if isinstance(given, Catalog):
        return given
    if isinstance(given, Mapping):
        return load_text(_yaml(given))
    if isinstance(given, str) and "\n" in given.strip():
        return load_text(given)
    if not isinstance(given, str | os.PathLike):
        raise _unlike("a catalog", given, "give its file, its text, or a dict")
    return load(given)


def _yaml(given: Mapping[str, Any]) -> str:
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    text = io.StringIO()
    try:
        YAML(typ="safe", pure=True).dump(_plain(given), text)
    except YAMLError as error:
        told = str(error).splitlines()[0]
        raise UserError(f"the catalog holds what YAML can't: {told}", where="catalog") from error
    return text.getvalue()


def _plain(value: Any) -> Any:
    """The same of plain dicts, lists and texts, which YAML knows."""
    if isinstance(value, Mapping):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return str(value) if isinstance(value, os.PathLike) else value


@dataclass(frozen=True)
class _Given:
    """A query that has a name, and is not read yet."""

    name: str
    source: Path | str | Query
    shown: str
    """What messages call it."""

    @property
    def folder(self) -> Path:
        """Where queries beside this one would be."""
        return self.source.absolute().parent if isinstance(self.source, Path) else Path.cwd()

    def read(self, catalog: Catalog) -> Query:
        from thalweg.query import parse_over

        if not isinstance(self.source, str | Path):
            return replace(self.source, name=self.name)
        text = self.source if isinstance(self.source, str) else _read_text(self.source)
        return parse_over(catalog, text, name=self.name, where=self.shown)


def read_queries(given: QueriesInput, catalog: Catalog) -> tuple[Query, ...]:
    """The queries that are meant; the name of one in a file is the file's stem."""
    return tuple(one.read(catalog) for one in _named(given))


def read_query(given: QueriesInput, catalog: Catalog) -> Query:
    """The same, of which there is one."""
    found = read_queries(given, catalog)
    if len(found) != 1:
        raise UserError(f"one query is verified at a time, and these are {len(found)}")
    return found[0]


def check_sinks(catalog: Catalog, given: QueriesInput) -> None:
    """Refuses sinks of a query that is neither among these nor in a file beside them or the catalog."""
    queries = _named(given)
    names = {one.name for one in queries}
    folders = {Path(catalog.path).parent, *(one.folder for one in queries)}
    for query, to in catalog.sinks.items():
        if query not in names and not any((folder / f"{query}.sql").is_file() for folder in folders):
            raise UserError(
                f"sinks of an unknown query {query!r}",
                where=to[0].where,
                remedy=f"{suggestion(query, sorted(names))}; a query's name is its file's name without .sql",
            )


def _named(given: QueriesInput) -> list[_Given]:
    """The queries with their names, each of which is there once."""
    if isinstance(given, Mapping):
        found = [_one(query, name) for name, query in given.items()]
    elif isinstance(given, Iterable) and not isinstance(given, str):
        found = [_one(query) for query in given]
    else:
        found = [_one(given)]
    if not found:
        raise UserError("there is no query", remedy="give one or more")
    named: dict[str, _Given] = {}
    for one in found:
        if not is_name(one.name):
            raise UserError(
                f"{one.name!r} is not a valid query name",
                where=one.shown,
                remedy="name the file with letters, digits and _, not starting with a digit",
            )
        if one.name in named:
            raise UserError(
                f"two queries are named {one.name!r}: {named[one.name].shown} and {one.shown}",
                remedy="give a dict of names and texts" if isinstance(one.source, str) else None,
            )
        named[one.name] = one
    return found


def _one(given: Any, name: str | None = None) -> _Given:
    from thalweg.query.model import Query

    if isinstance(given, Query):
        return _Given(name or given.name, given, given.where or f"query {given.name}")
    if isinstance(given, str) and _SQL.match(given):
        return _Given(name or _UNNAMED, given, f"query {name}" if name else "the query")
    if not isinstance(given, str | os.PathLike):
        raise _unlike("a query", given, "give its file or its text")
    return _Given(name or Path(given).stem, Path(given), str(given))


def _unlike(what: str, given: object, remedy: str) -> UserError:
    return UserError(f"{what} can't be of the type {type(given).__name__}", remedy=remedy)


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


def plan_options(
    planner: str, objective: str, deliver_to: str | None, settings: Mapping[str, Any] | None
) -> PlanOptions:
    """The planning options. Checks everything that needs no catalog."""
    from thalweg.plan.options import Objective, PlanOptions

    if objective not in list(Objective):
        raise UserError(f"unknown objective {objective!r}", remedy=f"choose one of {', '.join(Objective)}")
    given = {key: str(value) for key, value in (settings or {}).items()}
    return PlanOptions(planner, Objective(objective), deliver_to, given)


def take_plan(
    queries: Sequence[Query],
    catalog: Catalog,
    saved: str | os.PathLike[str] | Plan | None,
    options: PlanOptions,
) -> Plan:
    """The saved plan, checked; without one, a new plan."""
    from thalweg.plan.document import Plan
    from thalweg.planners.table import make_plan

    if saved is None:
        return make_plan(queries, catalog, options)
    if options != plan_options("auto", "bytes", None, None):
        raise UserError("--plan can't be combined with planning options", remedy="leave them out")
    plan, where = (saved, "the plan") if isinstance(saved, Plan) else (Plan.load(Path(saved)), str(saved))
    plan.check_is_of(queries, where)
    plan.check_fits(catalog, where)
    return plan


def reading_with_spark(queries: Sequence[Query], catalog: Catalog) -> Callable[[Stream], pa.Table]:
    """Reads sources of queries with Spark, for formats that DuckDB may read differently."""
    every = [catalog.streams[name] for name in sorted({i.stream for q in queries for i in q.inputs})]

    def read(stream: Stream) -> pa.Table:
        from thalweg.spark.streams import read_table

        return read_table(stream, every)

    return read
