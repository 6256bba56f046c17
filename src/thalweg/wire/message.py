"""Messages within an application: few fat batches of tuples, with the progress of their stream."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from thalweg.errors import UserError
from thalweg.kernel.columns import fixed_array, fixed_dtype, fixed_values
from thalweg.wire.parcel import Kind


@dataclass(frozen=True, slots=True)
class Message:
    """What one bucket of a key group is told over a channel.

    `bound` is, from a stream, its greatest time in this part of it; from an operator, a lower bound on the
    times it can still put out. `sender` is the bucket that sent it. `wall` is the wall clock of the batch in
    microseconds. The tuples are in `batch` while they stay in a process, and in `data` when they travel.
    """

    group: int
    channel: str
    kind: Kind
    n: int = 0
    bound: int | None = None
    wall: int = 0
    sender: int = 0
    batch: pa.RecordBatch | None = None
    data: bytes = b""

    @property
    def bytes(self) -> bytes:
        """The tuples, ready to travel; empty where there are none."""
        return dump(self.batch) if self.batch is not None and not self.data else self.data

    @property
    def table(self) -> pa.RecordBatch:
        """The tuples, ready to be read."""
        return self.batch if self.batch is not None else load(self.data)

    def cut(self, limit: int) -> Iterator[Message]:
        """The same tuples in messages of about so many bytes at most."""
        if self.batch is None or self.batch.nbytes <= limit:
            yield self
        else:
            for part in pieces(self.batch, limit):
                yield replace(self, n=part.num_rows, batch=part)


_MANY = 100  # below so many values, saying how to restore them takes more than they do
_SCHEMA, _BASES, _SAME = b"schema", b"bases", b"same"
"""Of a narrowed batch: its schema before, what to add to columns, and which columns are as an earlier one."""


def dump(batch: pa.RecordBatch) -> bytes:
    """A record batch as bytes that carry their own schema."""
    bases: dict[int, int] = {}
    same: dict[int, int] = {}
    arrays = batch.columns
    for i, array in enumerate(arrays):
        if (narrowed := _narrow(array)) is None:
            continue
        base, small = narrowed
        arrays[i] = small
        # The word of a key is often a column's own value.
        twin = next((j for j, b in bases.items() if b == base and arrays[j].equals(small)), None)
        if twin is None:
            bases[i] = base
        else:
            same[i] = twin
    if bases:
        said = {
            _SCHEMA: batch.schema.serialize().to_pybytes(),
            _BASES: json.dumps(list(bases.items())),
            _SAME: json.dumps(list(same.items())),
        }
        kept = [i for i in range(len(arrays)) if i not in same]
        fields = [pa.field(batch.schema.names[i], arrays[i].type) for i in kept]
        batch = pa.RecordBatch.from_arrays([arrays[i] for i in kept], schema=pa.schema(fields, metadata=said))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def load(data: bytes) -> pa.RecordBatch:
    """The inverse of `dump`; arrays that were not narrowed point into `data`."""
    with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
        batch = reader.read_next_batch()
    said = batch.schema.metadata
    if not said or _BASES not in said:
        return batch
    schema, there = pa.ipc.read_schema(pa.py_buffer(said[_SCHEMA])), iter(batch.columns)
    same = dict(json.loads(said[_SAME]))
    arrays = [None if i in same else next(there) for i in range(len(schema))]
    wide = {}
    for i, base in json.loads(said[_BASES]):
        wide[i] = np.asarray(arrays[i]).astype(np.int64)
        wide[i] += base
        arrays[i] = fixed_array(schema.field(i).type, wide[i], None)
    for i, twin in same.items():
        arrays[i] = fixed_array(schema.field(i).type, wide[twin], None)
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _narrow(array: pa.Array) -> tuple[int, pa.Array] | None:
    """64-bit numbers whose range fits into 32 bits, and what to add to get them back.

    State and shuffles cost by the byte; most keys and all times of a batch are close to each other.
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
