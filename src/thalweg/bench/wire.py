"""Bytes and speed of parcels, and what it costs to publish one: `python -m thalweg.bench.wire`."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa

from thalweg.exchange.files import FileExchange
from thalweg.exchange.parcel_file import Edge, Label
from thalweg.exchange.parcel_file import encode as file_of
from thalweg.wire.codec import decode, encode
from thalweg.wire.parcel import Kind, Parcel

START = 1_763_300_000_000_000
"""The first time of all streams here, in microseconds."""
RUN, EDGE = "0123456789abcdef" * 2, Edge("berlin", "tokyo")


def numbers(n: int) -> pa.RecordBatch:
    """A time, a key and a number: a plan counts 24 bytes for a tuple."""
    rng = np.random.default_rng(1)
    columns = (np.sort(START + rng.integers(0, 10**7, n)), rng.integers(0, 10**5, n), np.arange(n))
    return pa.record_batch([pa.array(c) for c in columns], names=["at", "key", "value"])


def hosts(n: int) -> pa.RecordBatch:
    """A time, a string as key, an integer, a double and a Boolean."""
    rng = np.random.default_rng(1)
    at = START + np.cumsum(rng.exponential(20_000, n)).astype(np.int64)
    columns = [
        pa.array(at, pa.timestamp("us", "UTC")),
        pa.array([f"10.1.0.{k}" for k in rng.integers(0, 250, n)], pa.string()),
        pa.array(rng.integers(40, 1500, n)),
        pa.array(rng.random(n)),
        pa.array(rng.random(n) < 0.3),
    ]
    return pa.record_batch(columns, names=["at", "host", "size", "share", "lost"])


def wide(n: int) -> pa.RecordBatch:
    """Three integers of 64 bits, one of them random in all of them, and a string."""
    rng = np.random.default_rng(1)
    columns = [
        pa.array(START + np.cumsum(rng.exponential(20, n)).astype(np.int64)),
        pa.array(rng.integers(0, 10**9, n)),
        pa.array(rng.integers(-(1 << 62), 1 << 62, n)),
        pa.array([f"10.{k >> 16}.{k >> 8 & 255}.{k & 255}" for k in rng.integers(0, 1 << 20, n)]),
    ]
    return pa.record_batch(columns, names=["at", "key", "value", "host"])


def payload(batch: pa.RecordBatch) -> int:
    """The bytes that a plan counts: 8 for a number or a time, 1 for a Boolean, the length of a string."""
    each = {"string": 0, "bool": 1}
    fixed: int = sum(each.get(str(kind), 8) for kind in batch.schema.types) * batch.num_rows
    texts = (c for c in batch.columns if pa.types.is_string(c.type))
    return fixed + sum(len(text) for column in texts for text in column.to_pylist())


@dataclass(frozen=True)
class Size:
    """The bytes of a file with one parcel."""

    tuples: int
    payload: int
    data: int
    file: int


def size(batch: pa.RecordBatch) -> Size:
    """The file that one parcel with these tuples makes, as a live run sends it."""
    data = encode(batch) if batch.num_rows else b""
    parcel = Parcel(3, Kind.TUPLES, batch.num_rows, START, START + 10**6, payload(batch), data)
    file = file_of(Label(RUN, EDGE, 90, 93), START / 1e6 + 1.5, [parcel])
    return Size(batch.num_rows, payload(batch), len(data), len(file))


@dataclass(frozen=True)
class Speed:
    """Megabytes of Arrow a second, and the bytes on the wire as a share of them."""

    tuples: int
    encode: float
    decode: float
    share: float


def speed(batch: pa.RecordBatch, *, compress: bool, times: int = 5) -> Speed:
    """The best of several rounds."""
    data = encode(batch, compress=compress)
    coding = min(_seconds(lambda: encode(batch, compress=compress)) for _ in range(times))
    reading = min(_seconds(lambda: decode(data, batch.schema)) for _ in range(times))
    megabytes = batch.nbytes / 1e6
    return Speed(batch.num_rows, megabytes / coding, megabytes / reading, len(data) / batch.nbytes)


def publishing(root: Path, times: int = 200) -> float:
    """The milliseconds that it takes to publish a file with one small parcel, in the median."""
    log = FileExchange(root, RUN, EDGE)
    parcels = [Parcel(3, Kind.TUPLES, 10, START, START, 240, encode(numbers(10)))]
    return 1e3 * median(_seconds(partial(log.publish, batch, parcels)) for batch in range(times))


def _seconds(call: Callable[[], object]) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def main() -> None:
    """Print all figures."""
    for make in (numbers, hosts):
        print(f"{make.__doc__}\n  tuples   payload      data      file")
        for n in (0, 1, 2, 5, 10, 100, 1_000, 100_000):
            found = size(make(n))
            print(f"{found.tuples:8,}{found.payload:10,}{found.data:10,}{found.file:10,}")
    print(f"{wide.__doc__}\n   tuples  encode, MB/s  decode, MB/s  share")
    for n in (100_000, 1_000_000):
        for compress in (False, True):
            fast = speed(wide(n), compress=compress)
            how = "compressed if it pays" if compress else ""
            print(f"{fast.tuples:9,}{fast.encode:14,.0f}{fast.decode:14,.0f}{fast.share:7.2f}  {how}")
    with tempfile.TemporaryDirectory(dir=".") as folder:
        print(f"Publishing a small file: {publishing(Path(folder)):.2f} ms")


if __name__ == "__main__":
    main()
