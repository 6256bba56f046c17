"""Queries at one site, in this process, a micro-batch at a time."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa

from tests.simulate.sites_cases import labels
from thalweg.compile.compiler import Compiled, compile_plan
from thalweg.compile.inputs import StreamInfo, TypedQuery
from thalweg.compile.stages import Shape
from thalweg.kernel.shared import SharedWindows
from thalweg.operators.cache import SharedCache
from thalweg.plan.deployment import Deployment
from thalweg.plan.gathered import gathered
from thalweg.query.model import Equality, Expr, Input, Output, Query, Window, WindowKind
from thalweg.simulate.host import SimulatedHost

TIME = pa.timestamp("us", "UTC")
COLUMNS = {"ts": TIME, "k": pa.string(), "id": pa.int64()}
PAIR = {"ts": TIME, "k": pa.int64(), "j": pa.int64(), "id": pa.int64()}


def compiled(
    typed: TypedQuery,
    infos: Mapping[str, StreamInfo],
    buckets: int,
    *,
    keep_late: bool = True,
    keep: bool = False,
    plan: Deployment | None = None,
    shape: Shape | None = None,
) -> Compiled:
    """A query with all streams at one site; without a plan, in one join."""
    plan = plan or gathered(typed.query)
    sites = dict.fromkeys(infos, plan.operators[0].site)
    return compile_plan(
        [(typed, plan)],
        infos,
        sites,
        buckets=buckets,
        labels=labels,
        keep_late=keep_late,
        shape=shape,
        keep=keep,
    )


def join_of(
    inputs: tuple[Input, ...],
    lateness: int = 0,
    buckets: int = 2,
    *,
    equal: tuple[tuple[str, str], ...] = (),
    shown: tuple[str, ...] = ("id",),
    columns: Mapping[str, pa.DataType] = COLUMNS,
    order: tuple[str, ...] = ("id",),
    keep: bool = False,
    **more: int,
) -> Compiled:
    """A join on k of all inputs, or on the columns that are said to be equal, as alias.column."""
    names = [i.alias for i in inputs]
    pairs = [(a.split("."), b.split(".")) for a, b in equal] or [
        ((names[0], "k"), (o, "k")) for o in names[1:]
    ]
    equalities = tuple(Equality(Expr.column(*a), Expr.column(*b)) for a, b in pairs)
    outputs = tuple(Output(f"{a}_{c}", Expr.column(a, c)) for a in names for c in shown)
    query = Query("q", "", inputs, equalities, (), outputs)
    infos = {i.stream: StreamInfo(i.stream, columns, "ts", lateness, order=order, **more) for i in inputs}
    sides = [Expr.column(*side) for pair in pairs for side in pair]
    kinds = {side.sql: columns[name] for side, (_, name) in zip(sides, itertools.chain(*pairs), strict=True)}
    return compiled(TypedQuery(query, equalities, kinds), infos, buckets, keep=keep)


def hosted(made: Compiled, folder: Path | None = None) -> SimulatedHost:
    """The host of what was compiled; tuples that memory has no room for go to the folder."""
    return SimulatedHost(made, folder=folder)


def push(host: SimulatedHost, rows: Mapping[str, pa.RecordBatch], wall: int = 0) -> None:
    """One micro-batch."""
    host.batch(rows, host.waiting, wall=wall)


def end(host: SimulatedHost) -> None:
    """End all streams."""
    host.end()
    host.batch({}, host.waiting)
    host.drain()


def share_windows(host: SimulatedHost, folder: Path) -> None:
    """Keep windows where any process could map them."""
    host.new_cache = lambda bucket: SharedCache(SharedWindows(folder), bucket)


def rows(*tuples: tuple, columns: Mapping[str, pa.DataType] = COLUMNS) -> pa.RecordBatch:
    values = list(zip(*tuples, strict=True))
    arrays = [pa.array(c, kind) for c, kind in zip(values, columns.values(), strict=True)]
    return pa.record_batch(arrays, names=list(columns))


def found(host: SimulatedHost, *names: str) -> list[tuple[int, ...]]:
    """The ids of the members of all results."""
    parts = [p.to_pylist() for p in host.results.get(0, [])]
    return sorted(tuple(row[f"{n}.id"] for n in names) for part in parts for row in part)


def ranged(alias: str, stream: str, size: int = 10, slide: int | None = None) -> Input:
    return Input(alias, stream, Window(WindowKind.RANGE, size, slide))


def in_windows(host: SimulatedHost) -> int:
    """How many tuples the windows at hand hold."""
    return sum(len(w) for cache in host.caches.values() for w in cache._held.join.windows)


def bytes_of_windows(host: SimulatedHost) -> int:
    """How much memory the windows at hand take."""
    return sum(w.nbytes for cache in host.caches.values() for w in cache._held.join.windows)
