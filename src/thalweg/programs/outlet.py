"""What of an operator's output goes to which site, and in which form: as parcels.

Everything that keeps a shipment small happens here, before anything is sent: filters, the part of the key
space, the columns that are still needed, keys in place of tuples, filters in place of keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from thalweg.kernel.columns import decode
from thalweg.kernel.keys import combine, comparable, words
from thalweg.plan.selectors import Selector
from thalweg.programs.batches import ints
from thalweg.programs.bloom import make
from thalweg.programs.comparisons import Comparison
from thalweg.programs.packet import Kind, Packet, dump, load, merge
from thalweg.programs.parcel import Parcel
from thalweg.programs.presence import BITS, rows_of
from thalweg.programs.spec import END, KEY, START, ArrowType

Form = Literal["tuples", "rows", "keys", "bloom", "bounds", "count", "results"]
BLOOM_FRAME = 16
"""What a Bloom filter is counted for beside its bits: the time that it covers."""


@dataclass(frozen=True)
class Part:
    """A part of the key space: the field with the key, its type, and which values belong here.

    `named` are the values that any part names.
    """

    field: str
    kind: ArrowType
    selector: Mapping[str, Any]
    named: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Outlet:
    """One shipment: its name, the site it goes to, and what of each tuple is sent.

    `form`: whole `tuples` with these fields, `rows` as they come out (keys with intervals, filters), the
    distinct `keys` of each slot of time, a `bloom` filter of them, only how far the stream has come
    (`bounds`), or nothing: it only counts what whole tuples would take (`count`, to no site), or these are
    the `results` of a query, handed out where they are. A tuple goes if all flags of one of `any_of` are set
    and all comparisons of `where` hold. `width` is what the plan counts for a tuple or key, in bytes.
    """

    stream: str
    site: str
    form: Form
    width: float = 0.0
    fields: tuple[str, ...] = ()
    any_of: tuple[tuple[str, ...], ...] = ()
    part: Part | None = None
    key: tuple[str, ...] = ()
    slot: int = 0
    query: int = -1
    where: tuple[Comparison, ...] = ()


def results(outlets: Sequence[Outlet], packet: Packet) -> Iterator[Packet]:
    """What of an operator's output are results of queries."""
    for outlet in outlets:
        if outlet.form == "results" and packet.kind == Kind.DATA and packet.n:
            batch = _chosen(outlet, packet.table)
            if batch.num_rows:
                found = batch.select([START, *outlet.fields])
                yield Packet(0, outlet.query, Kind.RESULT, found.num_rows, None, packet.wall, batch=found)


def parcels(outlets: Sequence[Outlet], packets: Iterable[Packet]) -> Iterator[tuple[str, Parcel]]:
    """What an operator has put out in one call, as parcels to sites."""
    going = [outlet for outlet in outlets if outlet.form != "results"]
    for packet in packets:
        for outlet in going:
            for parcel in _parcels(outlet, packet):
                yield outlet.site, parcel


def _parcels(outlet: Outlet, packet: Packet) -> Iterator[Parcel]:
    if packet.n == 0:
        if outlet.form == "count":
            return
        yield Parcel(outlet.stream, packet.kind, 0, packet.top, packet.wall)
        return
    if packet.kind == Kind.RESOLVE:
        if outlet.form == "tuples":
            yield Parcel(outlet.stream, packet.kind, packet.n, packet.top, packet.wall, 0, packet.bytes)
        return
    if outlet.form == "bounds":
        return
    batch = _chosen(outlet, packet.table)
    if batch.num_rows == 0:
        return
    if outlet.form == "count":
        yield Parcel(
            outlet.stream, Kind.DATA, batch.num_rows, None, packet.wall, round(batch.num_rows * outlet.width)
        )
        return
    sent = {
        "tuples": lambda: batch.select([START, *outlet.fields]),
        "rows": lambda: batch,
        "keys": lambda: _keys(outlet, batch),
        "bloom": lambda: _keys(outlet, batch),  # filters are made of those of all buckets together
    }[outlet.form]()
    yield _parcel(outlet, sent, packet.top, packet.wall)


def _parcel(outlet: Outlet, sent: pa.RecordBatch, bound: int | None, wall: int) -> Parcel:
    payload = round(sent.num_rows * outlet.width)
    if BITS in sent.schema.names:
        payload = sum(len(b) + BLOOM_FRAME for b in sent.column(BITS).to_pylist())
    return Parcel(outlet.stream, Kind.DATA, sent.num_rows, bound, wall, payload, dump(sent))


def _chosen(outlet: Outlet, batch: pa.RecordBatch) -> pa.RecordBatch:
    """The tuples that pass the filters and belong to the part of the key space."""
    keep: np.ndarray | None = None
    if outlet.any_of:
        keep = np.zeros(batch.num_rows, bool)
        for all_of in outlet.any_of:
            one = np.ones(batch.num_rows, bool)
            for flag in all_of:
                one &= flags(batch, flag)
            keep |= one
    if outlet.part is not None:
        belongs = _belonging(outlet.part, batch)
        keep = belongs if keep is None else keep & belongs
    for comparison in outlet.where:
        holds = comparison.holds(batch)
        keep = holds if keep is None else keep & holds
    return batch if keep is None or keep.all() else batch.filter(pa.array(keep))


def flags(batch: pa.RecordBatch, name: str) -> np.ndarray:
    """A column of conditions; what is unknown does not hold."""
    column = batch.column(name)
    return np.asarray(column.fill_null(False) if column.null_count else column).astype(bool)


def _belonging(part: Part, batch: pa.RecordBatch) -> np.ndarray:
    selector = Selector.from_json(part.selector)
    named = frozenset(part.named)
    coded = decode(batch.column(part.field), part.kind).dictionary_encode()
    hits = [v is not None and selector.matches(v, named) for v in coded.dictionary.to_pylist()]
    if coded.indices.null_count:
        hits.append(False)
    index = np.asarray(coded.indices.fill_null(len(coded.dictionary))).astype(np.int64)
    return np.array(hits, bool)[index]


def key_words(batch: pa.RecordBatch, key: Sequence[str]) -> np.ndarray:
    """The key words of tuples, from the fields that make their key."""
    if tuple(key) == (KEY,):
        return ints(batch, KEY)
    return combine([words(comparable(batch.column(name))) for name in key])


def _keys(outlet: Outlet, batch: pa.RecordBatch) -> pa.RecordBatch:
    """The distinct keys of each slot, with the first and the last time of each."""
    time = ints(batch, START)
    return _distinct(outlet.slot, key_words(batch, outlet.key), time, time)


def _distinct(length: int, word: np.ndarray, start: np.ndarray, end: np.ndarray) -> pa.RecordBatch:
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
    columns = [pa.array([f[0] for f in found]), pa.array([f[1] for f in found])]
    return pa.record_batch([*columns, pa.array([f[2] for f in found], pa.binary())], names=[START, END, BITS])


def settled(sent: Iterable[Parcel], outlets: Mapping[str, Outlet]) -> list[Parcel]:
    """The parcels of one batch on one way, ready to be sent.

    The buckets of an operator announce their bounds one by one; a stream has come as far as the last of them.
    And each tells its own keys: what several tell is sent once.
    """
    found = list(_told_once(sent, outlets))
    bounds: dict[str, int] = {}
    for parcel in found:
        if parcel.bound is not None:
            bounds[parcel.stream] = min(parcel.bound, bounds.get(parcel.stream, parcel.bound))
    told: set[str] = set()
    out = []
    for parcel in found:
        bound = None if parcel.bound is None else bounds[parcel.stream]
        if parcel.n == 0 and parcel.stream in told:
            continue
        if bound is not None:
            told.add(parcel.stream)
        out.append(replace(parcel, bound=bound))
    return out


def _told_once(sent: Iterable[Parcel], outlets: Mapping[str, Outlet]) -> Iterator[Parcel]:
    keys: dict[str, list[Parcel]] = {}
    for parcel in sent:
        if parcel.n and outlets[parcel.stream].form in ("keys", "bloom"):
            keys.setdefault(parcel.stream, []).append(parcel)
        else:
            yield parcel
    for stream, several in keys.items():
        outlet, rows = outlets[stream], merge([load(p.data) for p in several])
        once = _distinct(outlet.slot, *(ints(rows, n) for n in (KEY, START, END)))
        once = once if outlet.form == "keys" else _filters(outlet.slot, once)
        yield _parcel(outlet, once, None, several[0].wall)
