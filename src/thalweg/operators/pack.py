"""Rows of a stream become few fat messages, one for each source and bucket."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

from thalweg.kernel.columns import encode
from thalweg.kernel.keys import buckets, combine, comparable, split, words
from thalweg.operators.spec import KEY, START
from thalweg.units import FARTHEST
from thalweg.wire.message import Message
from thalweg.wire.parcel import Kind

TIME, WALL = "t", "wall"
"""Columns of the selected rows: the event time, and the clock of the batch in microseconds."""

VALUE = "#x:"
"""Before the SQL of a key that is not just a column."""


@dataclass(frozen=True)
class Flag:
    """A condition on single tuples: a boolean column of the selected rows, and fields that are not NULL."""

    name: str
    column: str | None
    present: tuple[str, ...] = ()


@dataclass(frozen=True)
class PackRoute:
    """The tuples of a stream for one source: its channel and groups, by bucket.

    `key` are the fields that make the key word; without them each bucket gets a stretch of time. A tuple goes
    if all flags of one of `any_of` hold; they test for NULLs in the key. One route of a stream `reports`: it
    also brings the tuples that take no part, with the fields `kept`. `bounds`: only the time.
    """

    channel: str
    groups: tuple[int, ...]
    key: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()
    any_of: tuple[tuple[str, ...], ...] = ()
    reports: bool = False
    kept: tuple[str, ...] = ()
    bounds: bool = False


@dataclass(frozen=True)
class Packing:
    """How the rows of a stream are packed: the column of the selected rows for each field, flags, routes."""

    stream: str
    columns: tuple[tuple[str, str], ...]  # (field, column)
    flags: tuple[Flag, ...]
    routes: tuple[PackRoute, ...]
    max_ahead: int | None = None

    def messages(self, rows: pa.RecordBatch) -> Iterator[Message]:
        """All messages for the rows of one batch; every bucket hears of the greatest time."""
        return _Packed(self, rows).messages()


class _Packed:
    """One batch of rows; what several routes need of it is computed once."""

    def __init__(self, packing: Packing, rows: pa.RecordBatch) -> None:
        self.packing, self.rows = packing, rows
        self.wall = rows.column(WALL)[0].as_py() if WALL in rows.schema.names and rows.num_rows else 0
        moment = rows.column(TIME)
        starts = pa.Array.from_buffers(
            pa.int64(), len(moment), moment.buffers()[:2], moment.null_count, moment.offset
        )
        self.start = np.asarray(starts.fill_null(0) if starts.null_count else starts)
        self.valid: np.ndarray | None = None  # None where all rows have a usable time
        if starts.null_count:
            self.valid = np.asarray(starts.is_valid()).astype(bool)
        latest = FARTHEST - 1
        if packing.max_ahead is not None:
            latest = min(latest, self.wall + packing.max_ahead)
        if len(self.start) and not (self.start.min() > -FARTHEST and self.start.max() <= latest):
            self.valid = _both(self.valid, (self.start > -FARTHEST) & (self.start <= latest))
        if self.valid is not None and self.valid.all():
            self.valid = None
        usable = self.start if self.valid is None else self.start[self.valid]
        self.top = int(usable.max()) if len(usable) else None
        self._columns = dict(packing.columns)
        self._flags = {flag.name: flag for flag in packing.flags}
        self._values: dict[str, pa.Array] = {}
        self._holds: dict[str, np.ndarray | None] = {}

    def field(self, name: str) -> pa.Array:
        if name in self._flags:
            mask = self.holds(name)
            return pa.array(np.ones(len(self.start), bool) if mask is None else mask)
        if name not in self._values:
            column = self.rows.column(self._columns[name])
            self._values[name] = comparable(column) if name.startswith(VALUE) else encode(column)
        return self._values[name]

    def holds(self, name: str) -> np.ndarray | None:
        """Where a flag holds; None where it does everywhere."""
        if name not in self._holds:
            flag, mask = self._flags[name], None
            if flag.column is not None:
                column = self.rows.column(flag.column)
                mask = np.asarray(column.fill_null(False) if column.null_count else column).astype(bool)
            self._holds[name] = _both(mask, self._present(flag.present))
        return self._holds[name]

    def _present(self, fields: tuple[str, ...]) -> np.ndarray | None:
        mask = None
        for name in fields:
            column = self.rows.column(self._columns[name])
            if column.null_count:
                mask = _both(mask, np.asarray(column.is_valid()).astype(bool))
        return mask

    def messages(self) -> Iterator[Message]:
        for route in self.packing.routes:
            if route.bounds:
                yield from (self._message(route, g) for g in route.groups)
            else:
                yield from self._route(route)

    def _message(
        self, route: PackRoute, group: int, batch: pa.RecordBatch | None = None, kind: Kind = Kind.TUPLES
    ) -> Message:
        n = 0 if batch is None else batch.num_rows
        top = self.top if kind == Kind.TUPLES else None
        return Message(group, route.channel, kind, n, top, self.wall, batch=batch if n else None)

    def _route(self, route: PackRoute) -> Iterator[Message]:
        part = self._chosen(route)
        count = len(route.groups)
        names, arrays = [START], [pa.array(self.start)]
        word = None
        if route.key:
            word = combine([self._words(name) for name in route.key])
            names.append(KEY)
            arrays.append(pa.array(word))
        names += route.fields
        arrays += [self.field(name) for name in route.fields]
        data = pa.record_batch(arrays, names=names)
        if count == 1 or word is None:
            data = data if part is None else data.filter(pa.array(part))
            for group, stretch in zip(route.groups, _stretches(data, count), strict=True):
                yield self._message(route, group, stretch)
        else:
            bucket = buckets(word, count)
            if part is not None:
                bucket[~part] = count
            order, begin = split(bucket, count + 1)
            for b, group in enumerate(route.groups):
                yield self._message(route, group, data.take(pa.array(order[begin[b] : begin[b + 1]])))
        if route.reports and part is not None:
            yield from self._rest(route, part)

    def _words(self, name: str) -> np.ndarray:
        values = comparable(self.field(name))
        found = words(values)
        if values.null_count:
            found[~np.asarray(values.is_valid()).astype(bool)] = 0
        return found

    def _chosen(self, route: PackRoute) -> np.ndarray | None:
        """The rows that go; None where all do."""
        if not route.any_of:
            return self.valid
        wanted: np.ndarray | None = np.zeros(len(self.start), bool)
        for all_of in route.any_of:
            one: np.ndarray | None = None
            for flag in all_of:
                one = _both(one, self.holds(flag))
            if one is None:
                wanted = None
                break
            assert wanted is not None
            wanted = wanted | one
        return _both(self.valid, wanted)

    def _rest(self, route: PackRoute, part: np.ndarray) -> Iterator[Message]:
        """What takes no part in the join: it may turn out late, or has no usable time at all."""
        valid = np.ones(len(part), bool) if self.valid is None else self.valid
        group = route.groups[len(part) % len(route.groups)]
        for kind, mask in ((Kind.REST, valid & ~part), (Kind.ASIDE, ~valid)):
            if mask.any():
                arrays = [pa.array(self.start), *(self.field(name) for name in route.kept)]
                rest = pa.record_batch(arrays, names=[START, *route.kept]).filter(pa.array(mask))
                yield self._message(route, group, rest, kind)


def _both(a: np.ndarray | None, b: np.ndarray | None) -> np.ndarray | None:
    return b if a is None else a if b is None else a & b


def _stretches(data: pa.RecordBatch, count: int) -> Iterator[pa.RecordBatch]:
    """Stretches of time, so that the keys of a slot are sent by few buckets."""
    if count > 1:
        start = np.asarray(data.column(START))
        if len(start) and not bool((start[1:] >= start[:-1]).all()):
            data = data.take(pa.array(np.argsort(start, kind="stable")))
    cuts = np.linspace(0, data.num_rows, count + 1).astype(int)
    return (data.slice(lo, hi - lo) for lo, hi in pairwise(cuts))
