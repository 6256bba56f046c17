"""Messages as rows of Spark, and labels that spread buckets evenly over partitions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pandas as pd
import pyarrow as pa

from thalweg.compile.compiler import label_of
from thalweg.spark.schema import MESSAGE
from thalweg.wire.message import Message
from thalweg.wire.parcel import Kind

NONE = -(1 << 63)  # stands for NULL: pandas would turn a column of integers with a NULL into floats

ROWS_A_BATCH = 4096
LIMIT = (1 << 31) // ROWS_A_BATCH
"""The rows that Spark gives to Python at a time, and the bytes that a message may have for as many of them to
fit into one Arrow column."""

ARROW = pa.schema(
    [
        ("group", pa.int32()),
        ("channel", pa.string()),
        ("kind", pa.int32()),
        ("n", pa.int64()),
        ("bound", pa.int64()),
        ("wall", pa.int64()),
        ("sender", pa.int32()),
        ("data", pa.binary()),
    ]
)


def record_batch(messages: Iterable[Message]) -> pa.RecordBatch:
    """Messages as a record batch of the message schema."""
    return pa.RecordBatch.from_pydict(rows(messages), schema=ARROW)


def rows(messages: Iterable[Message]) -> dict[str, list[Any]]:
    """Messages as columns of the message schema; large ones are cut."""
    columns: dict[str, list[Any]] = {name: [] for name in MESSAGE.names}
    for m in (part for message in messages for part in message.cut(LIMIT)):
        columns["group"].append(m.group)
        columns["channel"].append(m.channel)
        columns["kind"].append(int(m.kind))
        columns["n"].append(m.n)
        columns["bound"].append(NONE if m.bound is None else m.bound)
        columns["wall"].append(m.wall)
        columns["sender"].append(m.sender)
        columns["data"].append(m.bytes)
    return columns


def frame(messages: Iterable[Message]) -> pd.DataFrame:
    """Messages as a pandas frame of the message schema."""
    return pd.DataFrame(rows(messages))


def parse(frames: Iterable[pd.DataFrame], group: int) -> Iterator[Message]:
    """The inverse of `frame`, for the rows of one group."""
    for f in frames:
        for row in f.itertuples(index=False):
            bound = None if row.bound == NONE else int(row.bound)
            numbers = Kind(row.kind), int(row.n), bound, int(row.wall), int(row.sender)
            yield Message(group, row.channel, *numbers, data=bytes(row.data))


def labels(place: str, count: int, partitions: int) -> Sequence[int]:
    """Labels for the buckets of a place; Spark's hash partitioner spreads them evenly over partitions.

    >>> [murmur3(label) % 4 for label in labels("here/keyed/1", 6, 4)]
    [2, 3, 0, 1, 2, 3]
    """
    return [label_of(place, b, partitions, lambda label: murmur3(label) % partitions) for b in range(count)]


def murmur3(value: int, seed: int = 42) -> int:
    """Murmur3 (x86, 32 bits) of one int, as Spark's hash partitioning computes it; signed."""
    mask = 0xFFFFFFFF

    def rotated(x: int, by: int) -> int:
        return ((x << by) | (x >> (32 - by))) & mask

    k = rotated((value & mask) * 0xCC9E2D51 & mask, 15) * 0x1B873593 & mask
    h = (rotated(seed ^ k, 13) * 5 + 0xE6546B64) & mask
    h ^= 4
    h = (h ^ (h >> 16)) * 0x85EBCA6B & mask
    h = (h ^ (h >> 13)) * 0xC2B2AE35 & mask
    h ^= h >> 16
    return h - (1 << 32) if h >> 31 else h
