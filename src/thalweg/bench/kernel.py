"""The kernel alone, on one core, without Spark: windows kept up, results materialised."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from thalweg.bench.data import ALIASES, Workload, stream
from thalweg.kernel.nway import Delta, InputSpec, NWayJoin

_TUPLE_BYTES = 24  # time, key and value


def kernel_run(spec: Workload) -> dict[str, Any]:
    """The workload's tuples through the kernel, all batches after the first timed."""
    if spec.two_attributes:
        raise ValueError("the kernel joins on one key")
    tuples = spec.batch_tuples * spec.batches
    streams = [_stream(spec, number, tuples) for number in range(spec.streams)]
    join = _join(spec.streams, spec.window_us)
    batches = [
        [s.slice(n * spec.batch_tuples, (n + 1) * spec.batch_tuples) for s in streams]
        for n in range(spec.batches)
    ]
    _run(join, batches[:1], spec.lateness_us)
    begun = time.perf_counter()
    _run(join, batches[1:], spec.lateness_us)
    seconds = time.perf_counter() - begun
    rows = spec.streams * spec.batch_tuples * (spec.batches - 1)
    return {"name": "kernel", "rows": rows, "seconds": seconds, "rows_per_s": rows / seconds}


@dataclass(frozen=True)
class Windowed:
    """The cost of a tuple with so many tuples in the windows."""

    held: int
    ns: float
    results: float
    memory: float  # bytes of the windows over bytes of the alive tuples


def measure_windows(largest: int = 10_000_000, batch: int = 100_000, streams: int = 3) -> list[Windowed]:
    """The cost of a tuple with ever larger windows, with the same batches and results a tuple."""
    out = []
    for held in (100_000, 1_000_000, 10_000_000):
        if held > largest:
            break
        # As many keys as tuples in one window: one match in each window, whatever their size.
        each, share = held // streams, batch // streams
        rng = np.random.default_rng(3)
        join = _join(streams, each)  # one tuple a microsecond: the window is as long as it is large
        # The window is filled twice over: its arrays have their size then, and rows move as they always will.
        fill, measured = -(-2 * each // share), max(20, 2 * held // batch)
        for n in range(fill):
            _run(join, [_even(rng, n, share, each, streams)], 0)
        work = [_even(rng, n, share, each, streams) for n in range(fill, fill + min(measured, 60))]
        begun = time.perf_counter()
        results = _run(join, work, 0)
        seconds = time.perf_counter() - begun
        alive = sum(len(w) for w in join.windows)
        size = sum(w.nbytes for w in join.windows)
        tuples = len(work) * share * streams
        out.append(Windowed(held, seconds / tuples * 1e9, results / tuples, size / (alive * _TUPLE_BYTES)))
    return out


def _even(rng: np.random.Generator, batch: int, share: int, keys: int, streams: int) -> list[Delta]:
    """One tuple of each stream a microsecond, with keys at random."""
    start = np.arange(batch * share, (batch + 1) * share)
    return [Delta(rng.integers(0, keys, share), start, None, (pa.array(start),)) for _ in range(streams)]


def _join(streams: int, window_us: int) -> NWayJoin:
    return NWayJoin([InputSpec(a, (("v", pa.int64()),), window_us) for a in ALIASES[:streams]])


def _stream(spec: Workload, number: int, tuples: int) -> Delta:
    table = stream(spec, number).slice(0, tuples)
    key, start = (np.asarray(table["k"]), np.asarray(table["ts"].cast(pa.int64())))
    return Delta(key, start, None, (table["v"].combine_chunks(),))


def _run(join: NWayJoin, batches: Iterable[Sequence[Delta]], lateness_us: int) -> int:
    """Push batches, make every result whole, expire; returns the number of results."""
    count = 0
    for deltas in batches:
        for found in join.push(deltas):
            count += len(found)
            for window, rows in zip(join.windows, found.rows, strict=True):
                window.columns[0].take(rows)
                window.starts(rows)
        join.expire([int(d.start[-1]) - lateness_us for d in deltas])
    return count
