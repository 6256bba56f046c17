"""Packets as rows of Spark, and labels that spread groups evenly over partitions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pandas as pd
import pyarrow as pa

from thalweg.programs.packet import Packet
from thalweg.spark.schema import PACKET

NONE = -(1 << 63)  # stands for NULL: pandas would turn a column of integers with a NULL into floats

ROWS_A_BATCH = 4096
LIMIT = (1 << 31) // ROWS_A_BATCH
"""The rows that Spark gives to Python at a time, and the bytes that a packet may have for as many of them to
fit into one Arrow column."""

ARROW = pa.schema(
    [
        ("group", pa.int32()),
        ("port", pa.int32()),
        ("kind", pa.int32()),
        ("n", pa.int64()),
        ("top", pa.int64()),
        ("wall", pa.int64()),
        ("feed", pa.int32()),
        ("data", pa.binary()),
    ]
)


def record_batch(packets: Iterable[Packet]) -> pa.RecordBatch:
    """Packets as a record batch of the packet schema."""
    return pa.RecordBatch.from_pydict(rows(packets), schema=ARROW)


def rows(packets: Iterable[Packet]) -> dict[str, list[Any]]:
    """Packets as columns of the packet schema; large ones are cut."""
    columns: dict[str, list[Any]] = {name: [] for name in PACKET.names}
    for p in (part for packet in packets for part in packet.cut(LIMIT)):
        columns["group"].append(p.group)
        columns["port"].append(p.port)
        columns["kind"].append(int(p.kind))
        columns["n"].append(p.n)
        columns["top"].append(NONE if p.top is None else p.top)
        columns["wall"].append(p.wall)
        columns["feed"].append(p.feed)
        columns["data"].append(p.bytes if p.n else b"")
    return columns


def frame(packets: Iterable[Packet]) -> pd.DataFrame:
    """Packets as a pandas frame of the packet schema."""
    return pd.DataFrame(rows(packets))


def parse(frames: Iterable[pd.DataFrame], group: int) -> Iterator[Packet]:
    """The inverse of `frame`, for the rows of one group."""
    for f in frames:
        for row in f.itertuples(index=False):
            top = None if row.top == NONE else int(row.top)
            data = bytes(row.data) if len(row.data) else None
            numbers = int(row.port), int(row.kind), int(row.n)
            yield Packet(group, *numbers, top, int(row.wall), data, feed=int(row.feed))


def labels(count: int, partitions: int) -> list[int]:
    """Group labels such that Spark's hash partitioner puts the i-th one into partition i mod `partitions`.

    >>> [murmur3(label) % 4 for label in labels(6, 4)]
    [0, 1, 2, 3, 0, 1]
    """
    found: list[int] = []
    label = 0
    spare: dict[int, list[int]] = {p: [] for p in range(partitions)}
    while len(found) < count:
        wanted = len(found) % partitions
        while not spare[wanted]:
            label += 1
            spare[murmur3(label) % partitions].append(label)
        found.append(spare[wanted].pop(0))
    return found


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
