"""What travels between operators: few fat packets of Arrow bytes, with their stream's progress."""

from __future__ import annotations

import builtins
from dataclasses import dataclass
from enum import IntEnum

import pyarrow as pa


class Kind(IntEnum):
    """What a packet carries.

    To an operator: DATA takes part in the join; REST does not (a NULL key, a filter) but may turn out late;
    ASIDE has no time or lies too far ahead; RESOLVE gives the ends of windows of rows; END ends all streams.
    From an operator: RESULT, LATE (tuples to be kept aside), and the counts INPUT and STATE.
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


@dataclass(frozen=True, slots=True)
class Packet:
    """`port` is an operator's input; for LATE and INPUT it is the number of the stream.

    `top` is, from a source, the greatest time in this part of the stream; from an operator, the bound of what
    it can still put out. `wall` is the wall clock when it was packed, in microseconds. What it carries is in
    `batch` as long as it stays in one process, and in `data` when it has to travel.
    """

    group: int
    port: int
    kind: int
    n: int
    top: int | None
    wall: int
    data: builtins.bytes | None = None
    batch: pa.RecordBatch | None = None

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


def dump(batch: pa.RecordBatch) -> builtins.bytes:
    """A record batch as bytes that carry their own schema."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def load(data: builtins.bytes) -> pa.RecordBatch:
    """The inverse of `dump`; the arrays point into `data`."""
    with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
        return reader.read_next_batch()


def merge(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """One record batch from several of one schema."""
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)
