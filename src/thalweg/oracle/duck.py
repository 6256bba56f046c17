"""Recomputes a query with DuckDB and compares it with the results of a run."""

from __future__ import annotations

import base64
import datetime
import math
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from thalweg.catalog.model import PARQUET, Catalog, Stream
from thalweg.catalog.versions import Kept, Version, digest_of
from thalweg.errors import UserError
from thalweg.extras import need
from thalweg.files import copied
from thalweg.oracle.inputs import (
    ReadStatic,
    create_relation,
    create_versions,
    first_line,
    parquet_files,
    quoted,
    scan,
)
from thalweg.oracle.statement import duplicates_sql, expected_sql, relation_names, types_of
from thalweg.oracle.translate import translate
from thalweg.oracle.types import duck_type
from thalweg.query.model import Expr, Query, WindowKind
from thalweg.storage import Location, RemotePath

if TYPE_CHECKING:
    import duckdb

__all__ = ["Verdict", "connect", "expected_sql", "load", "verify"]

_EXAMPLES = 5
_NEAR = 1e-9  # sums of floating-point numbers that differ by less, as a part of them, are the same


@dataclass(frozen=True)
class Verdict:
    """How the results found compare with those expected, as multisets."""

    same: bool
    expected: int
    found: int
    missing: int
    extra: int
    examples: list[dict[str, Any]]
    left_out: tuple[str, ...] = ()
    """Columns that were not compared, as DuckDB can't compute them."""
    tables: dict[str, TableRead] = field(default_factory=dict)
    """The tables of the query that were compared as the run has read them."""

    def __bool__(self) -> bool:
        return self.same

    def to_json(self) -> dict[str, Any]:
        found = asdict(self)
        return {k: v for k, v in found.items() if v or k not in ("left_out", "tables")}


@dataclass(frozen=True)
class TableRead:
    """When a run has read a table, how many rows it had, and whether its files have changed since.

    Only of files of this machine is that known.
    """

    read: str
    rows: int
    changed: bool | None

    @classmethod
    def of(cls, table: Stream, version: Version) -> TableRead:
        changed = None if version.files is None else digest_of(table) != version.files
        return cls(version.read, version.rows, changed)


def verify(
    query: Query, catalog: Catalog, out_dir: Location, *, read_static: ReadStatic | None = None
) -> Verdict:
    """Compares the results of a run under `out_dir` with the query recomputed over the same sources."""
    _refuse_without_files(query, catalog)
    folder = out_dir / "results" / query.name
    with copied(out_dir, *_parts(query)) as here:
        files = parquet_files(here / "results" / query.name)
        if not files:
            raise UserError(
                f"there are no results of query {query.name!r} under {out_dir}",
                remedy=f"expected {folder}/*.parquet, as `thalweg run --out {out_dir}` writes them",
            )
        with connect() as con:
            load(con, query, catalog, out_dir=here, read_static=read_static)
            return replace(_compare(con, query, catalog, files), tables=_tables(query, catalog, here))


def _parts(query: Query) -> Iterator[str]:
    """The parts of a run's folder that are read: results, late tuples, tables as the run has read them."""
    yield f"results/{query.name}"
    for name in dict.fromkeys(one.stream for one in query.inputs):
        kept = Kept.of(Path(), name)
        yield from (f"late/{name}", str(kept.folder), str(kept.rows))


def _tables(query: Query, catalog: Catalog, out_dir: Path) -> dict[str, TableRead]:
    """The tables that a run has kept as it has read them."""
    found = {one.stream: Kept.of(out_dir, one.stream).version for one in query.inputs if one.is_table}
    return {name: TableRead.of(catalog.streams[name], v) for name, v in found.items() if v is not None}


def _refuse_without_files(query: Query, catalog: Catalog) -> None:
    """Result files are all that can be compared; other sinks may hold more than the results of one run."""
    to = catalog.destinations(query.name)
    if all(one.format != PARQUET for one in to):
        raise UserError(
            f"the results of query {query.name!r} go to {', '.join(one.format for one in to)} alone, which "
            "can't be compared",
            where=to[0].where,
            remedy="before a run, add `- {format: parquet}` to the sinks of the query",
        )


@contextmanager
def connect(what: str = "verifying") -> Iterator[duckdb.DuckDBPyConnection]:
    """A separate DuckDB that spills to disk; `what` needs it."""
    need(what, "verify")
    import duckdb

    with tempfile.TemporaryDirectory(prefix="thalweg-verify-") as spill:
        con = duckdb.connect(
            config={
                "temp_directory": spill,
                # The most disk space that a computation may use; others use the disk too.
                "max_temp_directory_size": f"{shutil.disk_usage(spill).free // 2**21} MiB",
                "preserve_insertion_order": False,
                "autoinstall_known_extensions": False,
                "autoload_known_extensions": False,
            }
        )
        try:
            con.execute("SET TimeZone = 'UTC'")
            with suppress(duckdb.Error):  # Spark may be running at the same time
                con.execute("SET memory_limit = '60%'")
            yield con
        finally:
            con.close()


def load(
    con: duckdb.DuckDBPyConnection,
    query: Query,
    catalog: Catalog,
    *,
    out_dir: Path | None = None,
    read_static: ReadStatic | None = None,
) -> None:
    """Creates the relations that the query reads, without the tuples that a run kept aside.

    Tables are as the run has read them, if it has kept them.
    """
    for name, relation in relation_names(query).items():
        stream = catalog.streams[name]
        late = out_dir / "late" / name if out_dir is not None else None
        kept = Kept.of(out_dir, name) if stream.table and out_dir is not None else None
        if kept is not None and stream.refresh is not None:
            create_versions(con, stream, relation, _versions(kept))
            continue
        rows = None if kept is None or kept.version is None else kept.rows
        assert not isinstance(rows, RemotePath)
        create_relation(con, stream, relation, late=late, kept=rows, read_static=read_static)
        _refuse_duplicates(con, query, catalog, name, relation)


def _versions(kept: Kept) -> dict[Path, int]:
    """The files of the versions that a run has read, and from when on each is in force."""
    found = {}
    for number in kept.numbers():
        begin, file = kept.begin(number), kept.rows_of(number)
        assert isinstance(file, Path)
        if begin is not None:
            found[file] = begin
    return found


def _refuse_duplicates(
    con: duckdb.DuckDBPyConnection, query: Query, catalog: Catalog, name: str, relation: str
) -> None:
    stream = catalog.streams[name]
    windows = {i.window.by for i in query.inputs if i.stream == name and i.window.kind is WindowKind.ROWS}
    for by in sorted(windows):
        found = con.execute(duplicates_sql(stream, relation, by)).fetchall()
        if not found:
            continue
        columns = tuple(dict.fromkeys((stream.time, *stream.order, *by)))
        named = "; ".join(
            ", ".join(f"{c} = {_plain(v)}" for c, v in zip(columns, row[:-1], strict=True)) for row in found
        )
        raise UserError(
            f"stream {name!r} has a window of rows, and several tuples with the same time and order: {named}",
            remedy="declare an `order` in the catalog that tells them apart",
        )


def _name_the_expression(con: duckdb.DuckDBPyConnection, query: Query, catalog: Catalog) -> None:
    """Binds each expression alone, and raises an error that names the first that can't be."""
    import duckdb

    types = types_of(query, catalog)
    names = {alias: f"i{n}" for n, alias in enumerate(query.aliases)}
    nothing = ", ".join(
        "(SELECT " + ", ".join(f"NULL::{duck_type(t)} AS {quoted(c)}" for c, t in types[a].items()) + f") {n}"
        for a, n in names.items()
    )
    pairs = (
        e for q in query.equalities for e in (q.left, q.right, Expr(f"({q.left.sql}) = ({q.right.sql})"))
    )
    filters = (e for i in query.inputs for e in i.filters)
    for expr in (*pairs, *filters, *query.conditions, *(o.expr for o in query.outputs)):
        sql = translate(expr, types, names, "NULL::TIMESTAMPTZ")
        try:
            con.execute(f"EXPLAIN SELECT {sql} FROM {nothing}").fetchall()
        except duckdb.Error as error:
            raise UserError(
                f"DuckDB can't evaluate {expr.sql} ({first_line(error)})", remedy="verify a query without it"
            ) from error


def _compare(
    con: duckdb.DuckDBPyConnection, query: Query, catalog: Catalog, files: tuple[str, ...]
) -> Verdict:
    import duckdb

    source = scan(files)
    try:
        described = con.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()
        (found,) = con.execute(f"SELECT count(*) FROM {source}").fetchone() or (0,)
    except duckdb.Error as error:
        raise UserError(f"the results of query {query.name!r} can't be read: {first_line(error)}") from error
    every = [o.name for o in query.outputs]
    if [row[0] for row in described] != every:
        raise UserError(
            f"the results of query {query.name!r} have the columns {', '.join(row[0] for row in described)}",
            remedy=f"the query gives {', '.join(every)}: they come from another query",
        )
    query, left_out = _comparable(query, catalog)
    names = [o.name for o in query.outputs]
    described = [row for row in described if row[0] not in left_out]
    expected = expected_sql(query, catalog)
    try:
        given = con.execute(f"DESCRIBE {expected}").fetchall()
        _refuse_nested_intervals(query, given)
        near = [
            f"c{n}"
            for n, (o, row) in enumerate(zip(query.outputs, described, strict=True))
            if o.aggregate == "avg" or (o.aggregate == "sum" and row[1] in ("DOUBLE", "FLOAT"))
        ]
        ours = ", ".join(
            _alike(f"c{n}", mine[1], "DOUBLE" if f"c{n}" in near else theirs[1])
            for n, (mine, theirs) in enumerate(zip(given, described, strict=True))
        )
        columns = ", ".join(f"c{n}" for n in range(len(names)))
        theirs = ", ".join(f"{quoted(name)} AS c{n}" for n, name in enumerate(names))
        con.execute(
            f'CREATE TEMP TABLE "@difference" AS SELECT {columns}, sum(one) AS times FROM '
            f"(SELECT {ours}, 1 AS one FROM ({expected}) UNION ALL SELECT {theirs}, -1 AS one FROM {source}) "
            f"GROUP BY {columns} HAVING sum(one) <> 0"
        )
        if near:
            _settle(con, [f"c{n}" for n in range(len(names))], near)
    except (duckdb.DataError, duckdb.ProgrammingError, duckdb.NotSupportedError) as error:
        _name_the_expression(con, query, catalog)
        raise UserError(f"DuckDB can't compute query {query.name!r}: {first_line(error)}") from error
    (missing, extra) = con.execute(
        "SELECT coalesce(sum(times) FILTER (times > 0), 0), coalesce(-sum(times) FILTER (times < 0), 0) "
        'FROM "@difference"'
    ).fetchone() or (0, 0)
    examples = [
        *_examples(con, names, columns, "missing", "times > 0"),
        *_examples(con, names, columns, "extra", "times < 0"),
    ]
    missing, extra = int(missing), int(extra)
    return Verdict(missing == extra == 0, found + missing - extra, found, missing, extra, examples, left_out)


def _comparable(query: Query, catalog: Catalog) -> tuple[Query, tuple[str, ...]]:
    """The query without the results' id, where that is made of values whose text DuckDB has otherwise."""
    types = types_of(query, catalog)
    ids = [o for o in query.outputs if o.is_id]
    kept = [o for o in query.outputs if not o.is_id]
    if not ids or not kept:
        return query, ()
    try:
        translate(ids[0].expr, types, {alias: alias for alias in types})
    except UserError:
        return replace(query, outputs=tuple(kept)), tuple(o.name for o in ids)
    return query, ()


def _settle(con: duckdb.DuckDBPyConnection, columns: list[str], near: list[str]) -> None:
    """Take away the differences of sums and averages whose last digits depend on the order of adding."""
    exact = [c for c in columns if c not in near]
    con.execute(
        'CREATE TEMP TABLE "@single" AS SELECT *, row_number() OVER '
        f'(PARTITION BY {", ".join([*exact, "times"])} ORDER BY {", ".join(near)}) AS "@n" FROM '
        f"(SELECT {', '.join(columns)}, CAST(sign(times) AS INT) AS times, "
        'unnest(range(CAST(abs(times) AS BIGINT))) AS "@copy" FROM "@difference")'
    )
    same = [f"m.{c} IS NOT DISTINCT FROM x.{c}" for c in exact]
    close = [
        f"(m.{c} IS NOT DISTINCT FROM x.{c} OR (isfinite(m.{c} - x.{c}) AND "
        f"abs(m.{c} - x.{c}) <= {_NEAR} * greatest(abs(m.{c}), abs(x.{c}))))"
        for c in near
    ]
    con.execute(
        'CREATE TEMP TABLE "@met" AS SELECT m.rowid AS a, x.rowid AS b FROM "@single" m, "@single" x '
        f'WHERE m.times > 0 AND x.times < 0 AND m."@n" = x."@n" AND {" AND ".join([*same, *close])}'
    )
    con.execute(
        'CREATE OR REPLACE TEMP TABLE "@difference" AS '
        f'SELECT {", ".join(columns)}, sum(times) AS times FROM "@single" '
        'WHERE rowid NOT IN (SELECT a FROM "@met" UNION ALL SELECT b FROM "@met") GROUP BY ALL'
    )


def _refuse_nested_intervals(query: Query, given: list[tuple[Any, ...]]) -> None:
    for output, (_, kind, *_) in zip(query.outputs, given, strict=True):
        if "INTERVAL" in kind and kind != "INTERVAL":
            raise UserError(
                f"intervals inside the output column {output.name!r} can't be compared",
                remedy="verify a query without it",
            )


def _alike(column: str, mine: str, theirs: str) -> str:
    """A column of ours in the form of theirs, where that holds less than DuckDB computes."""
    if (mine, theirs) == ("INTERVAL", "BIGINT"):  # Spark writes intervals of days and less as microseconds
        return f"epoch_us({column}) AS {column}"
    if mine != theirs and theirs.startswith(("DECIMAL", "FLOAT")):
        return f"TRY_CAST({column} AS {theirs}) AS {column}"
    return column


def _examples(
    con: duckdb.DuckDBPyConnection, names: list[str], columns: str, kind: str, which: str
) -> list[dict[str, Any]]:
    rows = con.execute(
        f'SELECT {columns} FROM "@difference" WHERE {which} ORDER BY ALL LIMIT {_EXAMPLES}'
    ).fetchall()
    return [{"kind": kind, "row": {n: _plain(v) for n, v in zip(names, row, strict=True)}} for row in rows]


def _plain(value: Any) -> Any:
    """A value that JSON can hold.

    >>> _plain([datetime.date(2024, 1, 2), math.nan, {"a": b"x"}])
    ['2024-01-02', 'NaN', {'a': 'eA=='}]
    """
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, (bytes, bytearray, memoryview)):
        return base64.b64encode(bytes(value)).decode()
    if isinstance(value, dict):
        return {str(_plain(k)): _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple, set)):
        return [_plain(v) for v in value]
    return str(value)
