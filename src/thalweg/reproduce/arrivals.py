"""Streams as the papers' experiments have them: sizes, join values, Poisson arrivals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from thalweg.kernel.nway import Delta, InputSpec
from thalweg.kernel.window import NEVER


@dataclass(frozen=True)
class Stream:
    """The tuples of one stream: the value that is joined on, and when each arrives, in milliseconds."""

    key: np.ndarray
    at: np.ndarray
    columns: tuple[
        np.ndarray, ...
    ] = ()  # the stored columns of each tuple, other than its place in the stream

    def __len__(self) -> int:
        return len(self.key)


@dataclass(frozen=True)
class Batch:
    """Consecutive arrivals of all streams; `at` is the moment of the last, in seconds.

    `idle` are the seconds within it for which no stream brought anything though the operator had waited as
    long as it waits before it takes its inputs to be blocked.
    """

    at: float
    upto: int
    deltas: tuple[Delta | None, ...]
    idle: float = 0.0


def spread(rng: np.random.Generator, tuples: int, cardinality: int) -> np.ndarray:
    """Values of an attribute with this cardinality, each equally often, in random order.

    >>> sorted(spread(np.random.default_rng(1), 6, 3).tolist())
    [0, 0, 1, 1, 2, 2]
    """
    values: np.ndarray = np.arange(tuples, dtype=np.int64) % cardinality
    rng.shuffle(values)
    return values


def poisson(rng: np.random.Generator, tuples: int, delay_ms: float) -> np.ndarray:
    """Arrival times with exponential delays between them (section 3.1)."""
    return np.asarray(np.cumsum(rng.exponential(delay_ms, tuples)))


def specs(streams: Sequence[Stream], span: int = NEVER) -> list[InputSpec]:
    """The inputs of a join of these streams. A tuple's time is its number among all arrivals."""

    def stored(stream: Stream) -> tuple[tuple[str, pa.DataType], ...]:
        names = ("id", *(f"c{n}" for n in range(len(stream.columns))))
        return tuple((name, pa.int64()) for name in names)

    return [InputSpec(f"S{i + 1}", stored(s), span) for i, s in enumerate(streams)]


def size(streams: Sequence[Stream], count: int) -> int:
    """How many tuples to push at a time for so many batches; fewer of them where there are few tuples."""
    return max(200, sum(len(s) for s in streams) // count)


def batches(streams: Sequence[Stream], tuples: int, blocked_ms: float = np.inf) -> list[Batch]:
    """All arrivals in their order, so many tuples at a time; inputs are blocked after so long a silence."""
    who = np.concatenate([np.full(len(s), i) for i, s in enumerate(streams)])
    ids = np.concatenate([np.arange(len(s)) for s in streams])
    at = np.concatenate([s.at for s in streams])
    key = np.concatenate([s.key for s in streams])
    order = np.argsort(at, kind="stable")
    who, ids, at, key = who[order], ids[order], at[order], key[order]
    idle = np.maximum(np.diff(at, prepend=0.0) - blocked_ms, 0.0) / 1e3
    made = []
    for lo in range(0, len(key), tuples):
        hi = min(lo + tuples, len(key))
        numbers = np.arange(lo, hi)
        deltas: list[Delta | None] = []
        for i in range(len(streams)):
            mine = who[lo:hi] == i
            rows = ids[lo:hi][mine]
            stored = (rows, *(c[rows] for c in streams[i].columns))
            delta = Delta(key[lo:hi][mine], numbers[mine], None, tuple(pa.array(c) for c in stored))
            deltas.append(delta if len(delta) else None)
        made.append(Batch(float(at[hi - 1]) / 1e3, hi, tuple(deltas), float(idle[lo:hi].sum())))
    return made
