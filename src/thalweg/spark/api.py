"""The Python interface: joins of DataFrames, streaming or static."""

from __future__ import annotations

import itertools
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as t

from thalweg.errors import UserError
from thalweg.files import unusable
from thalweg.names import TIMELESS
from thalweg.plan.gathered import gathered
from thalweg.query import parse
from thalweg.query.model import RESULT_TIME, Equality, Expr, Input, Output, Query, Window, WindowKind
from thalweg.spark.host import compiled, fixed, flow
from thalweg.spark.late import LateFiles
from thalweg.spark.results import reports, result_rows, results
from thalweg.spark.session import has_lasting_server, prepare, quiet_workers
from thalweg.spark.tables import at_once, with_time
from thalweg.spark.typing import stream_info, typed_query
from thalweg.spark.worker import forget_at_exit
from thalweg.storage import Location, location
from thalweg.units import AT_ITS_END, parse_duration, parse_size

_joins = itertools.count(1)


def join(
    streams: Mapping[str, DataFrame],
    *,
    on: str | Sequence[str] | Mapping[str, str | Sequence[str]],
    within: str | Mapping[str, str],
    time: str | Mapping[str, str],
    lateness: str | Mapping[str, str] = "10 seconds",
    late: str | Path | None = None,
    memory_budget: int | str | None = None,
    spill: str | Path | None = None,
) -> DataFrame:
    """All results of the windowed join of two or more streams on equal keys.

    `late` is a folder for the tuples that come too late. Over static DataFrames it has no effect: nothing is
    late there, and tuples without a time take no part.

    `memory_budget` is what the windows may take on a machine, in bytes or as text ("500 MB"); what there is
    no room for goes to files in the folder `spill`. These are part of the query's state, as its checkpoint
    is, and all machines must see them. Static DataFrames are joined without a limit.
    """
    _check_streams(streams, "thalweg.join")
    if len(streams) < 2:
        raise UserError("a join needs two streams or more", where="thalweg.join")
    aliases = list(streams)
    for alias in aliases:
        if not re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", alias):
            raise UserError(
                f"{alias!r} can't be the name of a stream",
                where="thalweg.join",
                remedy="use letters, digits and _, and no digit first",
            )
    keys = {a: _columns(streams[a], a, _for(a, on, "on"), "on") for a in aliases}
    if len({len(k) for k in keys.values()}) != 1:
        found = ", ".join(f"{a}: {len(k)}" for a, k in keys.items())
        raise UserError(f"`on` has different numbers of columns ({found})", where="thalweg.join")
    times = {a: _time(streams[a], a, _for(a, time, "time")) for a in aliases}
    inputs = tuple(Input(a, a, _window(_for(a, within, "within"))) for a in aliases)
    first = aliases[0]
    equalities = tuple(
        Equality(_column(first, keys[first][i]), _column(a, keys[a][i]))
        for a in aliases[1:]
        for i in range(len(keys[first]))
    )
    outputs = tuple(Output(f"{a}_{c}", _column(a, c)) for a in aliases for c in streams[a].columns)
    outputs += (Output(RESULT_TIME, Expr(f"`{RESULT_TIME}`")),)
    seen: set[str] = set()
    for o in outputs:
        if o.name.lower() in seen:
            raise UserError(
                f"two result columns would be called {o.name!r}",
                where="thalweg.join",
                remedy="rename an alias or a column",
            )
        seen.add(o.name.lower())
    query = Query("join", "", inputs, equalities, (), outputs, where="thalweg.join")
    memory = _memory(memory_budget, spill, "thalweg.join")
    return _run(streams, query, times, {a: _for(a, lateness, "lateness") for a in aliases}, late, memory)


def sql(
    spark: SparkSession,
    query: str,
    streams: Mapping[str, DataFrame],
    *,
    time: str | Mapping[str, str],
    lateness: str | Mapping[str, str] = "10 seconds",
    order: str | Sequence[str] | Mapping[str, str | Sequence[str]] = (),
    late: str | Path | None = None,
    memory_budget: int | str | None = None,
    spill: str | Path | None = None,
) -> DataFrame:
    """All results of a windowed join query over DataFrames, by the names used in its FROM clause.

    A static DataFrame beside streaming ones is a table, as is one for which `time` names no column: its rows
    are read once, and it has no window. `late`, `memory_budget` and `spill` are as in `join`.
    """
    _check_streams(streams, "thalweg.sql")
    if not isinstance(query, str):
        raise UserError(
            f"the query has the type {type(query).__name__}", where="thalweg.sql", remedy="give its text"
        )
    schemas = {name: {f.name: f.dataType.simpleString() for f in df.schema} for name, df in streams.items()}
    named = time if isinstance(time, Mapping) else dict.fromkeys(streams, time)
    columns = {s: c for s, c in named.items() if isinstance(c, str)}
    live = any(df.isStreaming for df in streams.values())
    tables = {s for s, df in streams.items() if not df.isStreaming and (live or s not in named)}
    parsed = parse(query, name="query", schemas=schemas, times=columns, tables=tables, where="thalweg.sql")
    for warning in parsed.warnings:
        warnings.warn(f"thalweg.sql: {warning}", stacklevel=2)
    used = {i.stream: streams[i.stream] for i in parsed.inputs}
    tables = {i.stream for i in parsed.inputs if i.is_table}
    used |= {s: at_once(spark, used[s]) if live else with_time(used[s]) for s in tables}
    times = {s: TIMELESS if s in tables else _time(df, s, _for(s, time, "time")) for s, df in used.items()}
    latenesses = {s: _for(s, lateness, "lateness") for s in used if s not in tables}
    orders = {}
    for s, df in used.items():
        given = order.get(s, ()) if isinstance(order, Mapping) else () if s in tables else order
        none = given is None or (isinstance(given, list | tuple) and not given)
        orders[s] = [] if none else _columns(df, s, given, "order")
    memory = _memory(memory_budget, spill, "thalweg.sql")
    return _run(used, parsed, times, latenesses, late, memory, orders)


def _memory(budget: object, spill: object, where: str) -> tuple[int, Location] | None:
    if budget is None and spill is None:
        return None
    if spill is not None and not isinstance(spill, str | Path):
        raise UserError(f"{spill!r} is no folder", where=f"{where}, spill", remedy="give the name of one")
    if spill is None or budget is None:
        raise UserError(
            "`memory_budget` and `spill` belong together",
            where=where,
            remedy="give a size, such as '500 MB', and a folder for what there is no room for",
        )
    return parse_size(budget, where=f"{where}, memory_budget"), _kept(spill)


def _run(
    streams: Mapping[str, DataFrame],
    query: Query,
    times: Mapping[str, str],
    lateness: Mapping[str, object],
    late: str | Path | None,
    memory: tuple[int, Location] | None,
    orders: Mapping[str, Sequence[str]] | None = None,
) -> DataFrame:
    if not isinstance(late, str | Path | None):
        raise UserError(
            f"`late` has the type {type(late).__name__}", where=query.where, remedy="name a folder"
        )
    kinds = {df.isStreaming for df in streams.values()}
    if len(kinds) != 1:
        streaming = [a for a, df in streams.items() if df.isStreaming]
        raise UserError(
            f"some streams are live ({', '.join(streaming)}) and others are static",
            where=query.where,
            remedy="give all as streaming or all as static DataFrames",
        )
    spark = next(iter(streams.values())).sparkSession
    if kinds == {True}:
        if query.groups is not None:
            raise UserError(
                "GROUP BY and SELECT DISTINCT over streaming DataFrames are not supported",
                where=query.where,
                remedy="group results with Spark, by result_time and a watermark (docs/spark.md), or use "
                "thalweg run",
            )
        prepare(spark)
    infos = [
        stream_info(
            name,
            df.schema,
            times[name],
            AT_ITS_END if times[name] == TIMELESS else parse_duration(lateness[name], where="`lateness`"),
            order=tuple((orders or {}).get(name, ())),
        )
        for name, df in streams.items()
    ]
    schemas = {name: df.schema for name, df in streams.items()}
    timed = [name for name in streams if times[name] != TIMELESS]
    _same_clock(spark, {name: schemas[name][times[name]].dataType for name in timed})
    at = dict.fromkeys(streams, "here")
    typed = typed_query(spark, query, schemas)
    made = compiled(spark, [(typed, gathered(query))], infos, at, keep_late=late is not None)
    live = kinds == {True}
    if memory is not None and live:
        # Nothing waits on disk: nobody would say that it may come out when the streams fall silent.
        made = replace(made, program=made.program.limited(memory[0], 0))
    output = result_rows(made.results, schemas, packed=not live)
    hosting = replace(
        fixed(made),
        late=None if late is None else LateFiles(_kept(late), schemas),
        spill=None if memory is None else str(memory[1]),
    )
    if not live:
        return results(flow(made, streams, hosting, output), made.results[0], 0, output)
    if not has_lasting_server():  # its queries may go on, and what they leave is removed when it ends
        forget_at_exit(hosting.memory)
    with quiet_workers(spark):
        found = flow(made, streams, hosting, output).observe(_metrics_name(), reports())
        return results(found, made.results[0], 0, output)


def _kept(path: str | Path) -> Location:
    """Where workers keep tuples. A store that can't be reached is told now, not by the first of them."""
    found = location(path).absolute()
    try:
        found.exists()
    except OSError as error:
        raise unusable(found, error) from error
    return found


def _metrics_name() -> str:
    """A name for the metrics of a join: one query may have several, and Spark wants their names to differ."""
    number = next(_joins)
    return "thalweg" if number == 1 else f"thalweg-{number}"


def _check_streams(streams: object, where: str) -> None:
    remedy = "give a dict of DataFrames by name, such as {'a': df1, 'b': df2}"
    if not isinstance(streams, Mapping):
        raise UserError(f"the streams have the type {type(streams).__name__}", where=where, remedy=remedy)
    for name, frame in streams.items():
        if not isinstance(name, str):
            raise UserError(f"the stream's name {name!r} is not a string", where=where, remedy=remedy)
        if not isinstance(frame, DataFrame):
            raise UserError(f"{name!r} has the type {type(frame).__name__}", where=where, remedy=remedy)


def _same_clock(spark: SparkSession, kinds: Mapping[str, t.DataType]) -> None:
    """Refuse to compare instants with times without a zone, unless both run alike."""
    bare = [name for name, kind in kinds.items() if isinstance(kind, t.TimestampNTZType)]
    zone = str(spark.conf.get("spark.sql.session.timeZone"))
    if bare and len(bare) < len(kinds) and zone not in ("UTC", "Z", "Etc/UTC", "GMT", "+00:00"):
        raise UserError(
            f"the times of {', '.join(bare)} have no time zone, those of the other streams have one",
            remedy="cast them to TIMESTAMP first, or set spark.sql.session.timeZone to UTC",
        )


def _for(alias: str, value: object, what: str) -> object:
    """One value for all, or the alias's own."""
    if not isinstance(value, Mapping):
        return value
    if alias not in value:
        raise UserError(
            f"`{what}` has nothing for {alias!r}",
            remedy=f"it has {', '.join(map(repr, value)) or 'nothing at all'}",
        )
    return value[alias]


def _time(df: DataFrame, alias: str, given: object) -> str:
    names = _columns(df, alias, given, "time")
    if len(names) != 1:
        raise UserError(f"`time` names {len(names)} columns for {alias!r}", remedy="give one")
    return names[0]


def _columns(df: DataFrame, alias: str, given: object, what: str) -> list[str]:
    names = [given] if isinstance(given, str) else given
    # Lists and tuples only: others, such as a Column, may look like sequences and have no end.
    if not isinstance(names, list | tuple) or not all(isinstance(n, str) for n in names):
        raise UserError(
            f"`{what}` is {str(given)[:60]!r} for {alias!r}",
            remedy="give a column's name, or a list of names",
        )
    if not names:
        raise UserError(f"`{what}` names no column")
    found = []
    for name in names:
        match = [c for c in df.columns if c == name] or [c for c in df.columns if c.lower() == name.lower()]
        if len(match) != 1:
            raise UserError(
                f"{alias!r} has no column {name!r} (for `{what}`)",
                remedy=f"it has {', '.join(df.columns)}",
            )
        found.append(match[0])
    return found


def _column(alias: str, column: str) -> Expr:
    return Expr.column(alias, column)


def _window(text: object) -> Window:
    if isinstance(text, str) and text.strip().lower() == "unbounded":
        return Window(WindowKind.UNBOUNDED)
    return Window(WindowKind.RANGE, parse_duration(text, where="`within`"))
