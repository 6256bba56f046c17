"""Pack: rows of a stream become few fat packets, one for each port and bucket."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from thalweg.kernel.columns import encode
from thalweg.kernel.keys import buckets, combine, comparable, split, words
from thalweg.programs.packet import Kind, Packet
from thalweg.programs.spec import KEY, PART, START

TIME = "t"


@dataclass(frozen=True)
class KeyPart:
    """One class of equal attributes: the column with its value, and the names it travels under."""

    column: str
    word: str | None  # travels as a word of its own, for a later join
    value: str | None  # travels as a comparable value, where words are hashes


@dataclass(frozen=True)
class PackPort:
    """Where the tuples of a stream go under one alias, and with what."""

    port: int
    groups: tuple[int, ...]
    keys: tuple[KeyPart, ...]  # those that make the key word at this port come first
    key_parts: int
    columns: tuple[tuple[str, str], ...]  # (column of the frame, name in the packet)
    keep: str | None  # the boolean column of its conditions
    reports: bool
    late: tuple[tuple[str, str], ...]
    rows: bool  # a window of rows counts every tuple, so all of them go


@dataclass(frozen=True)
class PackSpec:
    """How one stream is packed."""

    ports: tuple[PackPort, ...]
    max_ahead: int | None
    watchers: tuple[tuple[int, int], ...] = ()  # group and port of operators that only hear of its time


def pack_batch(spec: PackSpec, batch: pa.RecordBatch, wall: int) -> Iterator[Packet]:
    """All packets that the rows of one batch give. Every bucket hears of the batch's greatest time."""
    moment = batch.column(TIME)
    starts = pa.Array.from_buffers(
        pa.int64(), len(moment), [moment.buffers()[0], moment.buffers()[1]], moment.null_count, moment.offset
    )
    valid = np.asarray(starts.is_valid()).astype(bool) if starts.null_count else np.ones(len(starts), bool)
    start = np.asarray(starts.fill_null(0) if starts.null_count else starts)
    if spec.max_ahead is not None:
        valid &= start <= wall + spec.max_ahead
    whole = bool(valid.all())
    top = int(start.max() if whole else start[valid].max()) if valid.any() else None
    for port in spec.ports:
        yield from _pack_port(port, batch, start, valid, whole, top, wall)
    for group, number in spec.watchers:
        yield Packet(group, number, Kind.DATA, 0, top, wall)


def _pack_port(
    port: PackPort,
    batch: pa.RecordBatch,
    start: np.ndarray,
    valid: np.ndarray,
    whole: bool,
    top: int | None,
    wall: int,
) -> Iterator[Packet]:
    values = [comparable(batch.column(k.column)) for k in port.keys]
    part, all_part = valid, whole
    for mask in [v.is_valid() for v in values if v.null_count] + (
        [batch.column(port.keep).fill_null(False)] if port.keep else []
    ):
        part, all_part = part & np.asarray(mask).astype(bool), False
    each = [words(v) for v in values]
    word = combine(each[: port.key_parts])
    names, arrays = [KEY, START], [pa.array(word), pa.array(start)]
    for key, value, w in zip(port.keys, values, each, strict=True):
        for name, array in ((key.word, w), (key.value, value)):
            if name is not None:
                names.append(name)
                arrays.append(pa.array(array) if isinstance(array, np.ndarray) else array)
    for column, name in port.columns:
        names.append(name)
        arrays.append(encode(batch.column(column)))
    if port.rows:
        names.append(PART)
        arrays.append(pa.array(part))
        part, all_part = valid, whole
    data = pa.record_batch(arrays, names=names)
    count = len(port.groups)
    if count == 1:
        chosen = data if all_part else data.filter(pa.array(part))
        yield Packet(port.groups[0], port.port, Kind.DATA, chosen.num_rows, top, wall, batch=chosen)
    else:
        bucket = buckets(word, count)
        if not all_part:
            bucket[~part] = count
        order, begin = split(bucket, count + 1)
        for b, group in enumerate(port.groups):
            chosen = data.take(pa.array(order[begin[b] : begin[b + 1]]))
            yield Packet(group, port.port, Kind.DATA, chosen.num_rows, top, wall, batch=chosen)
    if port.reports:
        yield from _pack_rest(port, batch, start, valid, part, whole, all_part, wall)


def _pack_rest(
    port: PackPort,
    batch: pa.RecordBatch,
    start: np.ndarray,
    valid: np.ndarray,
    part: np.ndarray,
    whole: bool,
    all_part: bool,
    wall: int,
) -> Iterator[Packet]:
    """What takes no part in the join: it may turn out late, or has no usable time at all."""
    if all_part:
        return
    group = port.groups[len(batch) % len(port.groups)]
    for kind, mask in ((Kind.REST, valid & ~part), (Kind.ASIDE, ~valid)):
        if mask.any():
            names = [START] + [name for _, name in port.late]
            arrays = [pa.array(start)] + [encode(batch.column(c)) for c, _ in port.late]
            rest = pa.record_batch(arrays, names=names).filter(pa.array(mask))
            yield Packet(group, port.port, kind, rest.num_rows, None, wall, batch=rest)
