"""What of an operator's output goes where, and in which form.

Everything that keeps a shipment small happens here, before anything is sent: filters, the part of the key
space, the columns that are still needed, keys in place of tuples, filters in place of keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from thalweg.kernel.columns import decode as restored
from thalweg.kernel.keys import combine, comparable, words
from thalweg.kernel.window import NEVER
from thalweg.operators.bloom import make
from thalweg.operators.comparisons import Comparison
from thalweg.operators.event_time import ENDS, Ends
from thalweg.operators.output import Bound, Past
from thalweg.operators.spec import END, KEY, START, ArrowType
from thalweg.operators.tuples import ints
from thalweg.operators.window_keys import BITS, rows_of
from thalweg.plan.selectors import Selector
from thalweg.wire.codec import decode, encode
from thalweg.wire.message import merge, pieces
from thalweg.wire.parcel import Kind, Parcel

Form = Literal["tuples", "rows", "keys", "bloom", "bounds"]
To = Literal["here", "stage", "site", "results", "count"]

BLOOM_FRAME = 16
"""What a Bloom filter is counted for beside its bits: the time that it covers."""

SMALL = 64 << 10
"""Parcels of one shipment that together have fewer bytes are made one: each has a frame of its own."""

LARGE = 64 << 20
"""A parcel has no more bytes than about this before it is encoded."""

ROWS = pa.schema([(KEY, pa.int64()), (START, pa.int64()), (END, pa.int64())])
FILTERS = pa.schema([(START, pa.int64()), (END, pa.int64()), (BITS, pa.binary())])


@dataclass(frozen=True)
class Part:
    """A part of the key space: the field with the key, its type, and which values belong here.

    `named` are the values that any part names.
    """

    field: str
    kind: ArrowType
    selector: Selector
    named: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Outlet:
    """One use of an operator's output: the channel it goes over, where to, and what of each tuple is sent.

    `to`: operators called in the same group (`here`), key groups of the same site in a later `stage`, another
    `site`; or these are the `results` of a query, or it only counts what whole tuples would take (`count`).
    `form`: whole `tuples` with these fields, `rows` as they come out (keys with intervals, or Bloom filters
    with `bits`), the distinct `keys` of each slot of time, a `bloom` filter of them, or only how far the
    stream has come (`bounds`). A tuple goes if all flags of one of `any_of` are set and all comparisons of
    `where` hold, and its time is from `since` on and before `upto`. `width` is what the plan counts for a
    tuple or key, in bytes. `shipment` is its number among the application's shipments.

    It began with the change of number `fresh`. `past`: in that change a copy of a keeper's tuples goes over
    it first (`too`), or nothing but that copy (`only`).
    """

    channel: str
    to: To
    form: Form = "tuples"
    site: str = ""
    shipment: int = -1
    width: float = 0.0
    fields: tuple[str, ...] = ()
    types: tuple[ArrowType, ...] = ()
    any_of: tuple[tuple[str, ...], ...] = ()
    part: Part | None = None
    key: tuple[str, ...] = ()
    slot: int = 0
    bits: bool = False
    query: int = -1
    where: tuple[Comparison, ...] = ()
    since: int | None = None
    upto: int | None = None
    fresh: int = 0
    past: Literal["", "too", "only"] = ""

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns of what is sent to another site."""
        if self.form == "tuples":
            return pa.schema([(START, pa.int64()), *zip(self.fields, self.types, strict=True)])
        return FILTERS if self.bits or self.form == "bloom" else ROWS

    @cached_property
    def _memo(self) -> dict[Any, bool]:
        """Which values of the key belong to the part, as far as they were asked for."""
        return {}

    def chosen(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The tuples that pass the filters and belong to the part of the key space."""
        keep: np.ndarray | None = None
        if self.any_of:
            keep = np.zeros(batch.num_rows, bool)
            for all_of in self.any_of:
                one = np.ones(batch.num_rows, bool)
                for flag in all_of:
                    one &= flags(batch, flag)
                keep |= one
        if self.part is not None:
            belongs = self._belonging(self.part, batch)
            keep = belongs if keep is None else keep & belongs
        for comparison in self.where:
            holds = comparison.holds(batch)
            keep = holds if keep is None else keep & holds
        if self.since is not None or self.upto is not None:
            within = self._within(ints(batch, START))
            keep = within if keep is None else keep & within
        return batch if keep is None or keep.all() else batch.filter(pa.array(keep))

    def _within(self, time: np.ndarray) -> np.ndarray:
        low, high = (-NEVER if self.since is None else self.since), self.upto
        return time >= low if high is None else (time >= low) & (time < high)

    def _belonging(self, part: Part, batch: pa.RecordBatch) -> np.ndarray:
        selector, named, known = part.selector, frozenset(part.named), self._memo
        coded = restored(batch.column(part.field), part.kind).dictionary_encode()
        values = coded.dictionary.to_pylist()
        for value in values:
            if value not in known:
                known[value] = selector.matches(value, named)
        hits = [known[value] for value in values] + [False]
        index = coded.indices.fill_null(len(values)) if coded.indices.null_count else coded.indices
        if len(known) > 1 << 16:
            known.clear()
        return np.array(hits, bool)[np.asarray(index).astype(np.int64)]

    def formed(self, batch: pa.RecordBatch) -> pa.RecordBatch | None:
        """What is sent for some tuples of the output; None where that is nothing."""
        if self.form == "bounds":
            return None
        batch = self.chosen(batch)
        if batch.num_rows == 0:
            return None
        if self.form in ("keys", "bloom"):  # filters are made of the keys of all buckets together
            time = ints(batch, START)
            return _distinct(self.slot, key_words(batch, self.key), time, time)
        return batch

    def parcels(self, out: pa.RecordBatch | Bound | Ends | Past) -> Iterator[Parcel]:
        """What is sent to another site for one piece of the output."""
        kind = Kind.TUPLES
        if isinstance(out, Past):
            assert out.batch is not None
            out, kind = out.batch, Kind.PAST
        if isinstance(out, Bound):
            yield Parcel(self.shipment, Kind.TUPLES, 0, out.time, out.wall)
        elif isinstance(out, Ends):
            if self.form == "tuples":
                batch = out.to_batch()
                yield Parcel(self.shipment, Kind.ENDS, batch.num_rows, None, 0, 0, encode(batch))
        elif (sent := self.formed(out)) is not None:
            schema = ROWS if self.form == "bloom" else self.schema
            yield from (self._parcel(part, 0, schema, kind) for part in pieces(sent, LARGE))

    def _parcel(self, sent: pa.RecordBatch, wall: int, schema: pa.Schema, kind: Kind = Kind.TUPLES) -> Parcel:
        payload = round(sent.num_rows * self.width)
        if BITS in schema.names:
            payload = sum(len(b) + BLOOM_FRAME for b in sent.column(BITS).to_pylist())
        arrays = [sent.column(name) for name in schema.names]
        data = encode(pa.RecordBatch.from_arrays(arrays, schema=schema))
        return Parcel(self.shipment, kind, sent.num_rows, None, wall, payload, data)

    def schema_of(self, parcel: Parcel) -> pa.Schema:
        """The columns of a parcel of this shipment."""
        return ENDS if parcel.kind == Kind.ENDS else self.schema

    def settled(self, drafts: Sequence[Parcel]) -> Iterator[Parcel]:
        """The parcels of all buckets in one batch, as they are sent.

        Each bucket announces its bound; the output has come as far as the last of them. Keys that several
        buckets tell are sent once. Small parcels are made one.
        """
        bounds = [p.bound for p in drafts if p.bound is not None]
        bound, wall = min(bounds, default=None), max((p.wall for p in drafts), default=0)
        with_tuples = [p for p in drafts if p.n and p.kind == Kind.TUPLES]
        others = [p for p in drafts if p.n and p.kind != Kind.TUPLES]
        sent: list[Parcel] = with_tuples
        if with_tuples and self.form in ("keys", "bloom"):
            rows = merge([decode(p.data, ROWS) for p in with_tuples])
            once = _distinct(self.slot, *(ints(rows, n) for n in ROWS.names))
            once = once if self.form == "keys" else _filters(self.slot, once)
            sent = [self._parcel(once, wall, self.schema)]
        elif len(with_tuples) > 1 and sum(len(p.data) for p in with_tuples) < SMALL:
            together = merge([decode(p.data, self.schema) for p in with_tuples])
            sent = [self._parcel(together, wall, self.schema)]
        if sent:
            sent = [replace(sent[0], bound=bound, wall=wall), *(replace(p, wall=wall) for p in sent[1:])]
        else:
            sent = [Parcel(self.shipment, Kind.TUPLES, 0, bound, wall)]
        yield from sent
        yield from others


def flags(batch: pa.RecordBatch, name: str) -> np.ndarray:
    """A column of conditions; what is unknown does not hold."""
    column = batch.column(name)
    return np.asarray(column.fill_null(False) if column.null_count else column).astype(bool)


def key_words(batch: pa.RecordBatch, key: Sequence[str]) -> np.ndarray:
    """The key words of tuples, from the fields that make their key."""
    if tuple(key) == (KEY,):
        return ints(batch, KEY)
    return combine([words(comparable(batch.column(name))) for name in key])


def _distinct(length: int, word: np.ndarray, start: np.ndarray, end: np.ndarray) -> pa.RecordBatch:
    """The distinct keys of each slot, with the first and the last time of each."""
    slot = start // length
    order = np.lexsort((word, slot))
    word, start, end, slot = word[order], start[order], end[order], slot[order]
    first = np.ones(len(word), bool)
    first[1:] = (word[1:] != word[:-1]) | (slot[1:] != slot[:-1])
    begin = np.flatnonzero(first)
    return rows_of(word[begin], np.minimum.reduceat(start, begin), np.maximum.reduceat(end, begin))


def _filters(slot_of: int, keys: pa.RecordBatch) -> pa.RecordBatch:
    word, start, end = (ints(keys, n) for n in (KEY, START, END))
    slot = start // slot_of
    found = []
    for one in np.unique(slot):
        inside = slot == one
        found.append((int(start[inside].min()), int(end[inside].max()), make(word[inside])))
    return pa.record_batch([pa.array(c) for c in zip(*found, strict=True)], schema=FILTERS)


def settled(drafts: Iterable[Parcel], outlets: Mapping[int, Outlet]) -> list[Parcel]:
    """The parcels of one batch from one site to another, ready to be sent."""
    by_shipment: dict[int, list[Parcel]] = {}
    for parcel in drafts:
        by_shipment.setdefault(parcel.shipment, []).append(parcel)
    return [p for shipment in sorted(by_shipment) for p in outlets[shipment].settled(by_shipment[shipment])]
