"""Windows of rows: a tuple is alive until the k-th later one of its stream comes, and not at that moment.

Later ones may be counted by the values of some fields: then only those with the same values count.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from thalweg.errors import UserError
from thalweg.kernel.keys import comparable, split
from thalweg.kernel.window import NEVER
from thalweg.operators.event_time import Ends
from thalweg.operators.spec import SEQ, START, RowWindow
from thalweg.operators.tuples import ints
from thalweg.wire.message import merge


@dataclass(frozen=True)
class Counted:
    """The last moments of further tuples, those learnt of earlier ones, and what counts them.

    `known` are all tuples, `fresh` the further ones, and `tail` those with no last moment so far.
    """

    ends: np.ndarray
    learnt: Ends
    known: pa.RecordBatch
    fresh: pa.RecordBatch
    tail: pa.RecordBatch


def count(window: RowWindow, tail: pa.RecordBatch | None, ordered: pa.RecordBatch) -> Counted:
    """Count further tuples of a stream, which are in order and have their places.

    `tail` has all tuples with no last moment so far; it may have others, whose last moments were told before.

    >>> def tuples(places, times):
    ...     return pa.record_batch([pa.array(places), pa.array(times)], names=[SEQ, START])
    >>> first = count(RowWindow(2), None, tuples([0, 1, 2], [10, 20, 30]))
    >>> first.ends[0]  # it ends when the third comes: its last moment is 29
    np.int64(29)
    >>> count(RowWindow(2), first.tail, tuples([3], [40])).learnt  # and now the second's end is known
    Ends(window='2', places=array([1]), moments=array([39]))
    """
    fresh = ordered.select([START, SEQ, *window.by])
    earlier = 0 if tail is None else tail.num_rows
    known = fresh if tail is None else merge([tail, fresh])
    times, places = ints(known, START), ints(known, SEQ)
    ends = np.full(len(times), NEVER, np.int64)
    group = parts(known, window.by)
    order = split(group, int(group.max(initial=0)) + 1)[0]
    before, after = order[: -window.size], order[window.size :]
    within = group[before] == group[after]
    ends[before[within]] = times[after[within]] - 1
    found = before[within & (before < earlier) & (after >= earlier)]  # else it was told before
    by_place = found[np.argsort(places[found])]
    learnt = Ends(window.name, places[by_place], ends[by_place])
    return Counted(ends[earlier:], learnt, known, fresh, known.filter(pa.array(ends == NEVER)))


def parts(batch: pa.RecordBatch, by: Sequence[str]) -> np.ndarray:
    """A number from 0 on for each tuple, the same for those with the same values; NULL is a value here."""
    found: np.ndarray | None = None
    for name in by:
        codes = comparable(batch.column(name)).dictionary_encode(null_encoding="encode")
        own = np.asarray(codes.indices).astype(np.int64)
        if found is not None:
            both = pa.array(found * max(1, len(codes.dictionary)) + own).dictionary_encode()
            own = np.asarray(both.indices).astype(np.int64)
        found = own
    return np.zeros(batch.num_rows, np.int64) if found is None else found


def order_rows(
    stream: str, order: Sequence[str], windows: Collection[RowWindow], batch: pa.RecordBatch
) -> pa.RecordBatch:
    """The tuples in the order in which windows of rows count them: by time, then the declared columns."""
    sorted_by: dict[str, pa.Array] = {START: batch.column(START)}
    for name in order:  # NULLs first, and NaN last: the sort itself puts both on the same side
        sorted_by[f"?{name}"], sorted_by[name] = batch.column(name).is_valid(), batch.column(name)
    found = batch
    for by in sorted({w.by for w in windows}):
        columns = {**sorted_by, "": pa.array(parts(batch, by))}
        index = pc.sort_indices(pa.table(columns), sort_keys=[(name, "ascending") for name in columns])
        found = batch.take(index)
        _check(stream, order, by, found, columns[""].take(index))
    return found


def _check(
    stream: str, order: Sequence[str], by: Sequence[str], ordered: pa.RecordBatch, group: pa.Array
) -> None:
    """Refuse tuples that are counted together and that nothing tells apart."""
    if ordered.num_rows < 2:
        return
    same = np.ones(ordered.num_rows - 1, bool)
    for column in (ordered.column(START), group, *(ordered.column(name) for name in order)):
        a, b = column.slice(0, len(column) - 1), column.slice(1)
        equal = pc.or_(pc.equal(a, b).fill_null(False), pc.and_(a.is_null(), b.is_null()))
        same &= np.asarray(equal).astype(bool)
    if not same.any():
        return
    at = int(np.flatnonzero(same)[0])
    moment = np.datetime64(int(ordered.column(START)[at].as_py()), "us")
    row = ordered.slice(at, 1).to_pylist()[0]
    named = [
        f" and the {what} ({', '.join(names)}) = ({', '.join(repr(row[n]) for n in names)})"
        for what, names in (("order", order), ("partition", by))
        if names
    ]
    raise UserError(
        f"stream {stream}: two tuples have the time {moment}{''.join(named)}"
        ", so a window of rows can't tell which comes first",
        remedy="declare an `order` column in the catalog that tells them apart",
    )
