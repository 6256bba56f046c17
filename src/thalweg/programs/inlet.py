"""How what arrives at a site gets to the operators that read it: parcels become packets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from thalweg.kernel.keys import buckets, split
from thalweg.programs.batches import ints, restored
from thalweg.programs.outlet import flags, key_words
from thalweg.programs.packet import Kind, Packet, load
from thalweg.programs.parcel import Parcel
from thalweg.programs.source import end_of
from thalweg.programs.spec import END, KEY, SEQ, START, ArrowType


@dataclass(frozen=True)
class Narrow:
    """A window that is narrower than the one that a shared join was made with: its alias's time, its span."""

    time: str
    span: int


@dataclass(frozen=True)
class Inlet:
    """One reader of a shipment: the groups of an operator, by bucket, and the port.

    `key` are the fields that make the key word; without them every bucket gets everything. `columns` are
    (name in the shipment, name at the port); `time` is a column of the port that START stands for. Tuples
    without one of `flags` are not for this reader. `rows` is the alias and the size of a window of rows;
    `resolves` are the aliases with one among the members of joined tuples, and what they are called here.
    `ends`: tuples bring their own. `words` are columns of the port with the key words of fields. `raw`: all
    as it comes.
    """

    stream: str
    groups: tuple[int, ...]
    port: int
    feed: int = 0
    key: tuple[str, ...] = ()
    columns: tuple[tuple[str, str], ...] = ()
    time: str | None = None
    time_kind: ArrowType | None = None
    flags: tuple[str, ...] = ()
    rows: tuple[str, int] | None = None
    resolves: tuple[tuple[str, str], ...] = ()
    ends: bool = False
    narrow: tuple[Narrow, ...] = ()
    words: tuple[tuple[str, str], ...] = ()
    raw: bool = False


def packets(inlet: Inlet, parcel: Parcel) -> Iterator[Packet]:
    """A parcel as packets for one reader. Every bucket hears how far the stream has come."""
    if parcel.bound is not None:
        for group in inlet.groups:
            yield Packet(group, inlet.port, Kind.DATA, 0, parcel.bound, parcel.wall, feed=inlet.feed)
    if parcel.n == 0:
        return
    batch = load(parcel.data)
    if parcel.kind == Kind.RESOLVE:
        yield from _learnt(inlet, parcel, batch)
        return
    batch, word = _arranged(inlet, batch)
    if batch.num_rows == 0:
        return
    if len(inlet.groups) == 1 or word is None:
        for group in inlet.groups:
            yield _packet(inlet, group, parcel, batch)
        return
    order, begin = split(buckets(word, len(inlet.groups)), len(inlet.groups))
    for b, group in enumerate(inlet.groups):
        if begin[b + 1] > begin[b]:
            yield _packet(inlet, group, parcel, batch.take(pa.array(order[begin[b] : begin[b + 1]])))


def _packet(inlet: Inlet, group: int, parcel: Parcel, batch: pa.RecordBatch) -> Packet:
    return Packet(
        group, inlet.port, Kind.DATA, batch.num_rows, None, parcel.wall, batch=batch, feed=inlet.feed
    )


def _arranged(inlet: Inlet, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, np.ndarray | None]:
    """The tuples under the names and with the key of the port."""
    if inlet.raw:
        return batch, None
    for flag in inlet.flags:
        keep = flags(batch, flag)
        if not keep.all():
            batch = batch.filter(pa.array(keep))
    for name in inlet.key:
        if batch.column(name).null_count:  # NULL equals nothing
            batch = batch.filter(batch.column(name).is_valid())
    columns = {START: batch.column(START)}
    word = None
    if inlet.key:
        word = key_words(batch, inlet.key)
    columns[KEY] = pa.array(np.zeros(batch.num_rows, np.int64) if word is None else word)
    columns |= {new: batch.column(old) for old, new in inlet.columns}
    columns |= {new: pa.array(key_words(batch, (old,))) for old, new in inlet.words}
    if inlet.time is not None:
        columns[inlet.time] = restored(ints(batch, START), inlet.time_kind)
    if inlet.rows is not None:
        alias, size = inlet.rows
        columns |= {END: batch.column(end_of(size)), f"{SEQ}.{alias}": batch.column(SEQ)}
    elif inlet.ends:
        columns[END] = batch.column(END)
    if inlet.narrow:
        last = np.min([_micros(batch.column(n.time)) + n.span for n in inlet.narrow], axis=0)
        columns[END] = pa.array(np.minimum(last, ints(batch, END)) if inlet.ends else last)
    out = pa.record_batch(list(columns.values()), names=list(columns))
    if END in columns and (inlet.narrow or inlet.rows is not None):
        alive = ints(out, END) >= ints(out, START)
        if not alive.all():
            out, word = out.filter(pa.array(alive)), None if word is None else word[alive]
    return out, word


def _micros(times: pa.Array) -> np.ndarray:
    return np.asarray(times.view(pa.int64()))


def _learnt(inlet: Inlet, parcel: Parcel, batch: pa.RecordBatch) -> Iterator[Packet]:
    """Ends of a window of rows, for those who hold its tuples: from its source, or through another join."""
    name, first = batch.schema.names[0].rsplit("|", 1)
    if inlet.rows is not None:
        alias = inlet.rows[0] if name == str(inlet.rows[1]) else None
    elif inlet.raw:
        alias = name
    else:
        alias = dict(inlet.resolves).get(name)
    if alias is not None:
        table = pa.record_batch([batch.column(0)], names=[f"{alias}|{first}"])
        for group in inlet.groups:
            yield Packet(
                group, inlet.port, Kind.RESOLVE, parcel.n, None, parcel.wall, batch=table, feed=inlet.feed
            )
