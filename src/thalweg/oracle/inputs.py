"""The tuples of a stream as a DuckDB relation: the declared columns, with the declared types."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlparse

from thalweg.catalog.model import Stream
from thalweg.errors import UserError
from thalweg.names import TIMELESS
from thalweg.oracle.types import duck_type

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

ReadStatic = Callable[[Stream], "pa.Table"]
"""Reads all that a source holds; Spark does it for formats that DuckDB would read differently."""

_FILE_OPTIONS = frozenset({"path", "recursivefilelookup", "pathglobfilter"})
# Options that change how a run reads, not which tuples it reads.
_PACE_OPTIONS = frozenset(
    {
        *("maxfilespertrigger", "maxbytespertrigger", "maxfileage", "latestfirst"),
        *("filenameonly", "mergeschema", "maxcachedfiles"),
    }
)


@dataclass(frozen=True)
class Files:
    """The data files of a folder and the values that their folders' names (`day=1/`) give them."""

    paths: tuple[str, ...]
    partitions: tuple[Mapping[str, str | None], ...]

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(self.partitions[0]) if self.partitions else ()


def create_relation(
    con: duckdb.DuckDBPyConnection,
    stream: Stream,
    name: str,
    *,
    late: Path | None = None,
    kept: Path | None = None,
    read_static: ReadStatic | None = None,
) -> None:
    """Creates the relation `name`: the tuples of a stream's source, without those kept aside under `late`.

    `kept` are the rows of a table as a run has read them, in place of its source.
    """
    relation = quoted(name)
    options = {k.lower(): v for k, v in stream.source.options.items()}
    try:
        plain = stream.source.value is None and stream.raw_time is None
        if kept is not None:
            rows = _parquet(con, stream, _files([kept], recursive=False), name)
        elif plain and stream.source.format.lower() == "parquet" and _is_local(options):
            rows = _parquet(con, stream, _listed(options), name)
        elif read_static is not None:
            con.register(f"{name}@arrow", read_static(stream))
            rows = f"SELECT {_declared(con, stream, quoted(f'{name}@arrow'))} FROM {quoted(f'{name}@arrow')}"
        else:
            raise UserError(
                f"stream {stream.name!r}: only Spark can read a source of format {stream.source.format!r}"
            )
        aside = _files([late], recursive=False) if late is not None and late.is_dir() else Files((), ())
        if aside.paths:
            left_out = _parquet(con, stream, aside, f"{name}@late")
            con.execute(f"CREATE TEMP TABLE {relation} AS ({rows}) EXCEPT ALL ({left_out})")
        else:
            con.execute(f"CREATE TEMP VIEW {relation} AS {rows}")
    except _duck_error() as error:
        raise UserError(f"stream {stream.name!r} can't be read: {first_line(error)}") from error


def create_versions(
    con: duckdb.DuckDBPyConnection, table: Stream, name: str, versions: Mapping[Path, int]
) -> None:
    """Creates the relation `name`: the versions of a table, by file, and from when on each is in force."""
    parts = []
    for file, begin in versions.items():
        time = f"make_timestamp({begin}) AT TIME ZONE 'UTC' AS {quoted(TIMELESS)}"
        source = f"(SELECT *, {time} FROM {scan([str(file)])})"
        parts.append(f"SELECT {_declared(con, table, source)} FROM {source}")
    con.execute(f"CREATE TEMP VIEW {quoted(name)} AS {' UNION ALL '.join(parts)}")


def batches(
    con: duckdb.DuckDBPyConnection, stream: Stream, read_static: ReadStatic, rows: int
) -> Iterator[pa.RecordBatch]:
    """All tuples that a stream's source holds; the folder or files of a path must be there."""
    options = {k.lower(): v for k, v in stream.source.options.items()}
    if _is_local(options) and not any(Path(p).exists() for p in _expand(_plain_path(options))):
        raise UserError(
            f"stream {stream.name!r}: there is nothing at {options['path']!r}",
            remedy="is the path in the catalog right, and has the source written anything?",
        )
    create_relation(con, stream, stream.name, read_static=read_static)
    con.execute("SET preserve_insertion_order = true")  # the same batches whenever they are read
    try:
        found = con.sql(f"FROM {quoted(stream.name)}")
        yield from found.to_arrow_reader(rows) if found is not None else ()
    except _duck_error() as error:
        raise UserError(f"stream {stream.name!r} can't be read: {first_line(error)}") from error


def quoted(name: str) -> str:
    """A name as an SQL identifier.

    >>> quoted('a "b"')
    '"a ""b\"""'
    """
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """A text as an SQL literal."""
    return "'" + text.replace("'", "''") + "'"


def first_line(error: BaseException) -> str:
    """The first line of a DuckDB error, without the query that it quotes."""
    return str(error).strip().splitlines()[0]


def parquet_files(folder: Path) -> tuple[str, ...]:
    """The data files directly in a folder of parquet files."""
    return _files([folder], recursive=False).paths


def scan(paths: Iterable[str], extra: str = "") -> str:
    """The table function that reads parquet files, columns matched by name."""
    listed = ", ".join(literal(path) for path in paths)
    return f"read_parquet([{listed}], union_by_name = true, hive_partitioning = false{extra})"


def _duck_error() -> type[Exception]:
    import duckdb

    error: type[Exception] = duckdb.Error
    return error


def _is_local(options: Mapping[str, str]) -> bool:
    path = options.get("path", "")
    return (
        bool(path)
        and urlparse(path).scheme in ("", "file")
        and options.keys() <= _FILE_OPTIONS | _PACE_OPTIONS
    )


def _plain_path(options: Mapping[str, str]) -> str:
    path = options["path"]
    return unquote(urlparse(path).path) if path.startswith("file:") else path


def _listed(options: Mapping[str, str]) -> Files:
    path = _plain_path(options)
    recursive = options.get("recursivefilelookup", "false").lower() == "true"
    files = _files([Path(p) for p in _expand(path)], recursive=recursive)
    wanted = options.get("pathglobfilter", "*")
    kept = [
        (p, v) for p, v in zip(files.paths, files.partitions, strict=True) if fnmatch(Path(p).name, wanted)
    ]
    return Files(tuple(p for p, _ in kept), tuple(v for _, v in kept))


def _expand(path: str) -> list[str]:
    """The files of a path: itself, or all that match its pattern, `{a,b}` included."""
    if Path(path).exists() or not re.search(r"[*?\[{]", path):
        return [path]
    braces = re.search(r"\{([^{}]*)\}", path)
    if braces:
        alternatives = (path[: braces.start()] + one + path[braces.end() :] for one in braces[1].split(","))
        return sorted({found for one in alternatives for found in _expand(one)})
    return sorted(glob.glob(path))  # noqa: PTH207 - absolute patterns


def _files(roots: list[Path], *, recursive: bool) -> Files:
    """The files that Spark would read: no hidden ones; subfolders only if named `column=value`."""
    found: list[tuple[str, dict[str, str | None]]] = []
    for root in roots:
        if root.is_file():
            found.append((str(root), {}))
        elif root.is_dir():
            found.extend(_walk(root, {}, recursive))
    found.sort(key=lambda item: item[0])
    return Files(tuple(p for p, _ in found), tuple(v for _, v in found))


def _walk(
    folder: Path, values: dict[str, str | None], recursive: bool
) -> Iterator[tuple[str, dict[str, str | None]]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            key, equals, value = entry.name.partition("=")
            if entry.is_dir():
                if recursive and not _hidden(entry.name):
                    yield from _walk(Path(entry.path), values, recursive)
                elif equals and not entry.name.startswith("."):
                    given = None if value == "__HIVE_DEFAULT_PARTITION__" else unquote(value)
                    yield from _walk(Path(entry.path), {**values, unquote(key): given}, recursive)
            elif not _hidden(entry.name) and entry.stat().st_size > 0:
                yield entry.path, values


def _hidden(name: str) -> bool:
    return name.startswith(("_", ".")) or name.endswith("._COPYING_")


def _parquet(con: duckdb.DuckDBPyConnection, stream: Stream, files: Files, name: str) -> str:
    """A SELECT of the declared columns; a column that a file lacks is NULL."""
    if not files.paths:
        nothing = ", ".join(f"CAST(NULL AS {duck_type(t)}) AS {quoted(c)}" for c, t in stream.columns.items())
        return f"SELECT {nothing} WHERE FALSE"
    lowered = {column.lower(): column for column in stream.columns}
    keys = [key for key in files.keys if key.lower() in lowered]
    if not keys:
        source = scan(files.paths)
        return f"SELECT {_declared(con, stream, source)} FROM {source}"
    values = ", ".join(
        "("
        + ", ".join(literal(v) if v is not None else "NULL" for v in (path, *(of.get(k) for k in keys)))
        + ")"
        for path, of in zip(files.paths, files.partitions, strict=True)
    )
    columns = ", ".join(quoted(c) for c in ("@path", *(lowered[key.lower()] for key in keys)))
    con.execute(f"CREATE TEMP TABLE {quoted(f'{name}@folders')} AS FROM (VALUES {values}) t({columns})")
    source = scan(files.paths, ", filename = '@file'")
    given = frozenset(key.lower() for key in keys)
    chosen = _declared(con, stream, source, given)
    return f'SELECT {chosen} FROM {source} d JOIN {quoted(f"{name}@folders")} p ON d."@file" = p."@path"'


def _declared(
    con: duckdb.DuckDBPyConnection, stream: Stream, source: str, by_folder: frozenset[str] = frozenset()
) -> str:
    described = con.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()
    present = {row[0].lower(): (row[0], row[1]) for row in described}
    columns = []
    wanted = stream.columns if stream.refresh is None else stream.types
    for column, spark_type in wanted.items():
        if column.lower() in by_folder:
            value = f"p.{quoted(column)}"
        elif column.lower() in present:
            value = _read_as(*present[column.lower()], duck_type(spark_type))
        else:
            value = "NULL"
        columns.append(f"CAST({value} AS {duck_type(spark_type)}) AS {quoted(column)}")
    return ", ".join(columns)


def _read_as(column: str, found: str, wanted: str) -> str:
    """Spark takes the bytes of a string as they are, which DuckDB's casts would escape; and microseconds in
    files as intervals, which DuckDB does not cast.
    """
    if (found, wanted) == ("BIGINT", "INTERVAL"):
        return f"to_microseconds({quoted(column)})"
    if found == "BLOB" and wanted == "TEXT":
        return f"decode({quoted(column)})"
    return f"encode({quoted(column)})" if (found, wanted) == ("VARCHAR", "BLOB") else quoted(column)
