"""Outer joins: which tuples have met a partner, and which come out without one.

A tuple of an input that is kept has a place, a number of its own. Once it has met a partner, the complement
of the number stands there. It comes out alone when no partner can come any more: its interval ends before the
bound of the other input. A tuple without a key can have no partner, so it is not stored at all.

The places of tuples that have met a partner are written with each batch, beside the segments of tuples. What
ends before the bounds of the last call is done with, so nobody need remember that it has come out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from thalweg.kernel.columns import FixedColumn
from thalweg.kernel.nway import NWayJoin, Results, others
from thalweg.kernel.window import NEVER, Window
from thalweg.operators.spec import END, KEY, PLACE, SEQ, START, Field, JoinSpec, OutputField
from thalweg.operators.state import Marks, places_of
from thalweg.operators.tuples import ints, read, restored

NOWHERE = -1
"""The place, in a window of rows, of a tuple that is missing from a result."""


class Unpaired:
    """One call of an outer join. `place` is the next place."""

    def __init__(self, spec: JoinSpec, join: NWayJoin, place: int) -> None:
        self.spec, self.join, self.place = spec, join, place
        # Of each input, the places and ends of tuples that have met their first partner.
        self.met: list[list[tuple[np.ndarray, np.ndarray]]] = [[] for _ in spec.ports]
        self.low = NEVER

    def taken(self, fresh: Sequence[pa.RecordBatch | None]) -> Iterator[pa.RecordBatch | None]:
        """New tuples with their places, without those that have no key."""
        for i, batch in enumerate(fresh):
            if batch is None or i not in self.spec.kept:
                yield batch
                continue
            able = batch.filter(self._keyed(i, batch))
            places = pa.array(np.arange(self.place, self.place + able.num_rows))
            self.place += able.num_rows
            yield able.append_column(PLACE, places) if able.num_rows else None

    def keyless(self, fresh: Sequence[pa.RecordBatch | None]) -> Iterator[pa.RecordBatch]:
        """New tuples without a key, which come out at once."""
        for i in self._alone:
            batch, port = fresh[i], self.spec.ports[i]
            if batch is None or not port.nullable:
                continue
            batch = batch.filter(pa.compute.invert(self._keyed(i, batch)))
            start, key = ints(batch, START), ints(batch, KEY)
            end = start + port.span if port.span is not None else ints(batch, END)

            def column(f: Field, batch: pa.RecordBatch = batch) -> pa.Array:
                held = ints(batch, f.held) if f.held else None
                return batch.column(f.name) if held is None else restored(held, f.kind)

            if batch.num_rows:
                yield self._put(i, start, end, key, column)

    def _keyed(self, i: int, batch: pa.RecordBatch) -> pa.Array:
        valid = np.ones(batch.num_rows, bool)
        for name in self.spec.ports[i].nullable:
            column = batch.column(name)
            if column.null_count:
                valid &= np.asarray(column.is_valid()).astype(bool)
        return pa.array(valid)

    def partners(self, found: Results) -> Results:
        """The combinations that are partners; their tuples have met one."""
        found = self._decided(found)
        for i in self.spec.kept:
            places = self._places(i)
            self._meet(i, found.rows[i][places.data[found.rows[i]] >= 0])
        return found

    def _meet(self, i: int, rows: np.ndarray) -> None:
        data = self._places(i).data
        self.met[i].append((data[rows], _ends(self.join.windows[i], rows)))
        data[rows] = ~data[rows]

    def once(self, found: Results) -> Iterator[pa.RecordBatch]:
        """Of a semijoin: the tuples that have a partner now and had none before."""
        found, places = self._decided(found), self._places(0)
        rows = np.unique(found.rows[0][places.data[found.rows[0]] >= 0])
        self._meet(0, rows)
        if len(rows):
            yield self._of_rows(0, self.join.windows[0], rows)

    def over(self, bounds: Sequence[int]) -> Iterator[pa.RecordBatch]:
        """The tuples that can have no partner any more. `low` is then the least time of all others."""
        for i in self.spec.kept:
            window, places = self.join.windows[i], self._places(i)
            rows = window.rows
            rows = rows[places.data[rows] >= 0]
            start, end = window.starts(rows), _ends(window, rows)
            bound = others(bounds, i)
            done = (end < bound) | (bound >= NEVER)
            if (~done).any():
                self.low = min(self.low, int(start[~done].min()))
            places.data[rows[done]] = ~places.data[rows[done]]
            alone = rows[done & (start <= end)]
            if len(alone) and i in self._alone:
                yield self._of_rows(i, window, alone)

    def marks(self, i: int, bound: int) -> Marks | None:
        """The tuples of an input that have met their first partner in this call and end after the bound."""
        if not self.met[i]:
            return None
        places, ends = (np.concatenate(of) for of in zip(*self.met[i], strict=True))
        alive = ends >= bound
        return Marks(places[alive], int(ends[alive].max())) if alive.any() else None

    @property
    def _alone(self) -> tuple[int, ...]:
        """The inputs whose tuples come out without a partner."""
        return () if self.spec.outer == "semi" else self.spec.kept

    def _places(self, i: int) -> FixedColumn:
        return places_of(self.spec.ports[i], self.join.windows[i])

    def _decided(self, found: Results) -> Results:
        """The combinations for which all further comparisons of the join hold."""
        if not self.spec.on or not len(found):
            return found
        columns: dict[str, pa.Array] = {}
        for comparison in self.spec.on:
            for name in (comparison.left, comparison.right):
                i = next(i for i, p in enumerate(self.spec.ports) if any(f.name == name for f in p.fields))
                port = self.spec.ports[i]
                columns.setdefault(name, read(self.join.windows[i], port, port.field(name), found.rows[i]))
        batch = pa.record_batch(list(columns.values()), names=list(columns))
        keep = np.logical_and.reduce([c.holds(batch) for c in self.spec.on])
        if keep.all():
            return found
        rows = tuple(r[keep] for r in found.rows)
        return Results(rows, found.key[keep], found.start[keep], found.end[keep])

    def _of_rows(self, i: int, window: Window, rows: np.ndarray) -> pa.RecordBatch:
        port = self.spec.ports[i]
        start, end, key = window.starts(rows), _ends(window, rows), window.keys(rows)
        return self._put(i, start, end, key, lambda f: read(window, port, f, rows))

    def _put(
        self,
        i: int,
        start: np.ndarray,
        end: np.ndarray,
        key: np.ndarray,
        column: Callable[[Field], pa.Array],
    ) -> pa.RecordBatch:
        """Tuples of one input, with NULLs in place of the other."""
        columns = {START: pa.array(start)}
        if self.spec.ends:
            columns[END] = pa.array(end)
        if self.spec.keyed:
            columns[KEY] = pa.array(key)
        for out in self.spec.output:
            own = out.port == i
            columns[out.name] = (
                column(self.spec.ports[i].field(out.field)) if own else _missing(out, len(key))
            )
        return pa.record_batch(list(columns.values()), names=list(columns))


def _ends(window: Window, rows: np.ndarray) -> np.ndarray:
    return window.end[rows] if window.span is None else window.starts(rows) + window.span


def _missing(out: OutputField, n: int) -> pa.Array:
    if out.name.startswith(SEQ):
        return pa.array(np.full(n, NOWHERE))
    return pa.nulls(n, out.kind) if out.absent is None else pa.array([out.absent] * n, out.kind)
