"""Made-up streams that follow their statistics: arrivals at their rates, and values by their shares.

A column that has rates by value gets these values in their shares; any other one gets so many values, equally
likely. Of columns that a query compares, the smaller set of values is in the larger one, as the cost model
has it. Constants with which a query compares a column are among its values.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from thalweg.catalog.model import Catalog, Stream
from thalweg.compile.compiler import Selection
from thalweg.cost.network import Numbers
from thalweg.cost.stats import DISTINCT, Statistics
from thalweg.errors import UserError
from thalweg.query.implied import accepted
from thalweg.query.model import Query
from thalweg.simulate import expressions
from thalweg.simulate.changes import Change, phases
from thalweg.simulate.outcome import refuse_groups
from thalweg.workloads.arrivals import Times, apart, poisson
from thalweg.workloads.values import drawn

Column = tuple[str, str]
"""A stream and one of its columns."""
Arrivals = Callable[[np.random.Generator, float, int, int], Times]
"""Makes times of arrival: at a rate, from one moment to another."""


def columns_read(queries: Sequence[Query], catalog: Catalog) -> dict[str, tuple[str, ...]]:
    """The columns of each stream that queries read, and those of its time and order."""
    found: dict[str, set[str]] = {}
    for query in queries:
        refuse_groups(query)
        sides = [s for e in query.equalities for s in (e.left, e.right)]
        read = [*sides, *query.conditions, *(o.expr for o in query.outputs)]
        read += [e for one in query.outer for e in one.exprs]
        for one in query.inputs:
            stream = catalog.streams[one.stream]
            if stream.table:
                raise UserError(
                    f"query {query.name!r} joins the table {stream.name}, which is not simulated",
                    remedy="simulate a query of streams alone, or --flows",
                )
            columns = found.setdefault(one.stream, {stream.time, *stream.order})
            columns.update(one.window.by)
            columns.update(c for e in (*read, *one.filters) for a, c in e.columns if a == one.alias)
    return {name: tuple(c for c in catalog.streams[name].columns if c in own) for name, own in found.items()}


@dataclass
class Streams:
    """The streams of some queries, for so many seconds."""

    queries: Sequence[Query]
    catalog: Catalog
    selections: Sequence[Selection]
    seconds: float
    seed: int
    changes: Sequence[Change] = ()
    arrivals: Arrivals = poisson
    assumed: dict[str, None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.end_us = round(1e6 * self.seconds)
        self._phases = [
            (low, high, Statistics(known, assumed=self.assumed))
            for low, high, known in phases(self.catalog, self.changes, self.end_us)
        ]
        self._read = columns_read(self.queries, self.catalog)
        self._made = {selection.stream: self._stream(selection) for selection in self.selections}

    def between(self, low_us: int, high_us: int) -> Mapping[str, pa.RecordBatch]:
        """The tuples that arrive from one moment to another."""
        found = {}
        for name, (times, rows) in self._made.items():
            first, last = np.searchsorted(times, [low_us, high_us])
            found[name] = rows.slice(first, last - first)
        return found

    def rows(self, stream: str) -> pa.RecordBatch:
        """All tuples of a stream, with the columns that are read."""
        times, parts = [], []
        one = self.catalog.streams[stream]
        number = list(self.catalog.streams).index(stream)
        for nth, (low, high, known) in enumerate(self._phases):
            rng = np.random.default_rng([self.seed, number, nth])
            times.append(self.arrivals(rng, known.rate(stream).value, low, high))
            columns = [c for c in self._read[stream] if c not in (one.time, *one.order)]
            parts.append({c: self._numbers(rng, known, (stream, c), len(times[-1])) for c in columns})
        at = apart(np.concatenate(times))
        with expressions.connected() as con:
            arrays = []
            for column in self._read[stream]:
                kind = expressions.arrow_type(con, one.columns[column])
                if column == one.time:
                    arrays.append(pa.array(at).cast(kind))
                elif column in one.order:
                    arrays.append(self._values(one, column, np.arange(len(at)), kind))
                else:
                    numbers = np.concatenate([part[column] for part in parts])
                    arrays.append(self._values(one, column, numbers, kind))
        return pa.record_batch(arrays, names=list(self._read[stream]))

    def _stream(self, selection: Selection) -> tuple[Numbers, pa.RecordBatch]:
        stream = self.catalog.streams[selection.stream]
        rows = self.rows(selection.stream)
        times = np.asarray(rows.column(stream.time).cast(pa.int64()))
        with expressions.connected() as con:
            return times, expressions.select(con, stream, rows, selection.columns)

    def _numbers(self, rng: np.random.Generator, known: Statistics, column: Column, count: int) -> Numbers:
        """Numbers of values: first those that have a name, then the others."""
        names = self._named[self._class[column]]
        spread = known.spread(*column)
        if spread is None:
            return _uniform(rng, round(self._distinct(known, column)), count)
        place = {name: n for n, name in enumerate(names)}
        own = {place[v]: share for v, share in spread.shares.items()}
        others = max(1, round(spread.distinct)) if spread.rest else 0
        free = [n for n in range(len(names)) if n not in own][:others]
        free += range(len(names), len(names) + others - len(free))
        numbers = np.array([*own, *free], dtype=np.int64)
        shares = np.array([*own.values(), *[spread.rest / others if others else 0.0] * others])
        if not shares.sum():
            return _uniform(rng, len(names), count)
        found: Numbers = numbers[drawn(shares, count, rng) - 1]
        return found

    def _distinct(self, known: Statistics, column: Column) -> float:
        if not known.has_distinct(*column):
            for join in self.catalog.joins:
                if column in (join.left, join.right) and join.selectivity:
                    return 1 / join.selectivity
            if column not in self._class:
                return DISTINCT
        return known.distinct(*column).value

    @cached_property
    def _class(self) -> dict[Column, Column]:
        """For each column one that stands for all with which queries compare it."""
        found = {(s, c): (s, c) for s, columns in self._read.items() for c in columns}

        def first(column: Column) -> Column:
            while found[column] != column:
                column = found[column]
            return column

        for query in self.queries:
            every = (*query.equalities, *(e for one in query.outer for e in one.equalities))
            for e in every:
                ends = []
                for side in (e.left, e.right):
                    (alias,), plain = side.aliases, side.plain_column
                    if plain is not None:
                        ends.append((query.input(alias).stream, plain))
                if len(ends) == 2:
                    found[first(ends[0])] = first(ends[1])
        return {column: first(column) for column in found}

    @cached_property
    def _named(self) -> dict[Column, list[Hashable]]:
        """The values that have a name, for each class of columns."""
        named: dict[Column, dict[Hashable, None]] = {one: {} for one in self._class.values()}
        for column, one in self._class.items():
            for _, _, known in self._phases:
                spread = known.spread(*column)
                named[one].update(dict.fromkeys(spread.shares if spread else ()))
        for query in self.queries:
            for i in query.inputs:
                for condition in i.filters:
                    name, constants = accepted(condition.sql) or ("", [])
                    if (i.stream, name) in self._class:
                        plain = [float(c) if isinstance(c, Decimal) else c for c in constants]
                        named[self._class[i.stream, name]].update(dict.fromkeys(plain))
        return {one: sorted(values, key=lambda v: (str(type(v)), v)) for one, values in named.items()}

    def _values(self, stream: Stream, column: str, numbers: Numbers, kind: pa.DataType) -> pa.Array:
        """Values of a column by their numbers."""
        where = (stream.name, column)
        names = self._named[self._class[where]] if where in self._class else []
        used, inverse = np.unique(numbers, return_inverse=True)
        joined = sum(other == self._class.get(where) for other in self._class.values()) > 1
        width = 0 if joined else round(stream.stats.widths.get(column, 0))
        # Values without a name come after all numbers that are names.
        first = max((int(v) + 1 for v in names if isinstance(v, float)), default=0)
        text = pa.types.is_string(kind) or pa.types.is_binary(kind)
        prefix = "v"
        while any(isinstance(v, str) and v.startswith(prefix) for v in names):
            prefix += "v"

        def value(number: int) -> Hashable:
            if number < len(names):
                return names[number]
            number += max(first, 0) - len(names)
            return f"{prefix}{number}".ljust(width, "x") if text else number

        try:
            return _typed([value(n) for n in used.tolist()], kind).take(pa.array(inverse))
        except (pa.ArrowException, ValueError) as error:
            raise UserError(
                f"values of type {kind} can't be made up", where=f"stream {stream.name}: column {column}"
            ) from error


def _uniform(rng: np.random.Generator, values: int, count: int) -> Numbers:
    found: Numbers = rng.integers(0, max(1, values), count)
    return found


def _typed(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Numbers and texts as values of a type.

    >>> _typed([1.0, "2024-01-02", 3], pa.date32()).cast(pa.string()).to_pylist()
    ['1970-01-02', '2024-01-02', '1970-01-04']
    """
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return pa.array([str(v) for v in values], pa.string()).cast(kind)
    if pa.types.is_boolean(kind):
        return pa.array([v.lower() == "true" if isinstance(v, str) else v % 2 == 1 for v in values])
    if not (pa.types.is_primitive(kind) or pa.types.is_decimal(kind)):
        raise ValueError(kind)
    read = {v: pa.scalar(v).cast(kind) for v in values if isinstance(v, str)}
    between = pa.float64() if pa.types.is_floating(kind) or pa.types.is_decimal(kind) else pa.int64()
    if pa.types.is_date32(kind):
        between = pa.int32()
    numbers = pa.array([0 if isinstance(v, str) else float(v) for v in values], pa.float64()).cast(between)
    made = numbers.cast(kind)
    if not read:
        return made
    return pa.array([read.get(v, m) for v, m in zip(values, made, strict=True)], kind)
