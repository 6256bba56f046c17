"""What travels between operators: few fat packets of Arrow bytes, with their stream's progress."""

from __future__ import annotations

import builtins
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import IntEnum

import numpy as np
import pyarrow as pa

from thalweg.errors import UserError
from thalweg.kernel.columns import fixed_array, fixed_dtype, fixed_values


class Kind(IntEnum):
    """What a packet carries.

    To an operator: DATA takes part in the join; REST does not (a NULL key, a filter) but may turn out late;
    ASIDE has no time or lies too far ahead; RESOLVE gives the ends of windows of rows; END ends all streams;
    IDLE says that nothing has come for a while, so what waits may be done. From an operator: RESULT, LATE
    (tuples to be kept aside), and the counts INPUT, STATE and DISK (tuples that wait, bytes on disk). From
    its host: SENT, what it has sent to other sites, as text.
    """

    DATA = 0
    REST = 1
    ASIDE = 2
    RESOLVE = 3
    END = 4
    RESULT = 5
    LATE = 6
    INPUT = 7
    STATE = 8
    SENT = 9
    DISK = 10
    IDLE = 11


@dataclass(frozen=True, slots=True)
class Packet:
    """`port` is an operator's input; for LATE and INPUT it is the number of the stream.

    `top` is, from a source, the greatest time in this part of the stream; from an operator, the bound of what
    it can still put out. `feed` tells the streams of one port apart, and the buckets of an operator that
    feeds one or says what it has on DISK. `wall` is the wall clock when it was packed, in microseconds. What
    it carries is in `batch` as long as it stays in one process, and in `data` when it has to travel.
    """

    group: int
    port: int
    kind: int
    n: int
    top: int | None
    wall: int
    data: builtins.bytes | None = None
    batch: pa.RecordBatch | None = None
    feed: int = 0

    @property
    def bytes(self) -> builtins.bytes:
        """What it carries, ready to travel; empty where it carries nothing."""
        if self.data is None:
            return dump(self.batch) if self.batch is not None else b""
        return self.data

    @property
    def table(self) -> pa.RecordBatch:
        """What it carries, ready to be read."""
        return self.batch if self.batch is not None else load(self.bytes)

    def cut(self, limit: int) -> Iterator[Packet]:
        """The same tuples in packets of about so many bytes at most. What says whose they are stays whole."""
        if self.batch is None or self.kind == Kind.RESOLVE or self.batch.nbytes <= limit:
            yield self
        else:
            for part in pieces(self.batch, limit):
                yield replace(self, n=part.num_rows, batch=part)


_MANY = 100  # below so many values, saying how to restore them takes more than they do
_SCHEMA, _BASES = b"schema", b"bases"  # of a narrowed batch: as it was, and what to add to which column


def dump(batch: pa.RecordBatch) -> builtins.bytes:
    """A record batch as bytes that carry their own schema."""
    bases: dict[int, int] = {}
    arrays = batch.columns
    for i, array in enumerate(arrays):
        if (narrowed := _narrow(array)) is not None:
            bases[i], arrays[i] = narrowed
    if bases:
        said = {_SCHEMA: batch.schema.serialize().to_pybytes(), _BASES: json.dumps(list(bases.items()))}
        fields = [pa.field(name, a.type) for name, a in zip(batch.schema.names, arrays, strict=True)]
        batch = pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields, metadata=said))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def load(data: builtins.bytes) -> pa.RecordBatch:
    """The inverse of `dump`; arrays that were not narrowed point into `data`."""
    with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
        batch = reader.read_next_batch()
    said = batch.schema.metadata
    if not said or _BASES not in said:
        return batch
    schema, arrays = pa.ipc.read_schema(pa.py_buffer(said[_SCHEMA])), batch.columns
    for i, base in json.loads(said[_BASES]):
        wide = np.asarray(arrays[i]).astype(np.int64)
        wide += base
        arrays[i] = fixed_array(schema.field(i).type, wide, None)
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _narrow(array: pa.Array) -> tuple[int, pa.Array] | None:
    """64-bit numbers whose range fits into 32 bits, and what to add to get them back.

    State and shuffles are paid by the byte; most keys and all times of a batch are close to each other.
    """
    if fixed_dtype(array.type) != (np.dtype(np.int64), 1) or array.null_count or len(array) < _MANY:
        return None
    values = fixed_values(array)
    base, top = int(values.min()), int(values.max())
    if top - base >= 1 << 32:
        return None
    small = np.empty(len(values), np.uint32)
    np.subtract(values, base, out=small, casting="unsafe")
    return base, pa.array(small)


def pieces(batch: pa.RecordBatch, limit: int) -> Iterator[pa.RecordBatch]:
    """The rows of a batch in parts of about so many bytes at most; none where there are no rows."""
    parts = max(1, -(-batch.nbytes // limit))
    step = max(1, -(-batch.num_rows // parts))
    for at in range(0, batch.num_rows, step):
        yield batch.slice(at, step)


def merge(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """One record batch from several of one schema."""
    try:
        return batches[0] if len(batches) == 1 else pa.concat_batches(batches)
    except pa.ArrowInvalid as error:
        raise UserError(
            f"a micro-batch brings too much at once ({error})",
            remedy="let the sources bring less at a time, for example with maxFilesPerTrigger",
        ) from error
