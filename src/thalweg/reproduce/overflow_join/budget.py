"""A budget of bytes for windows: the bytes of a tuple, batches that fit, and tuples beyond the budget.

A tuple takes its key and start (8 bytes each), its end where it brings its own (8), its place in a chain and
its slot in the hash table (4 each), and its stored columns: their width, or for strings where the value lies
(12) and the value itself. The tick of its arrival is such a column (8). Room to spare in the arrays, at most
two fifths, is not counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow.compute as pc

from thalweg.kernel.columns import BytesColumn, fixed_dtype
from thalweg.kernel.nway import Delta, InputSpec
from thalweg.kernel.window import Window

_PIECE = 4  # a batch is cut into pieces of at most this part of a budget


class Share(NamedTuple):
    """How many bytes some inputs may take together."""

    bytes: int
    inputs: list[int]


def fixed_bytes(spec: InputSpec) -> int:
    """The bytes of each tuple of an input, without its strings."""
    total = 24 if spec.span is not None else 32
    for _, kind in spec.columns:
        fixed = fixed_dtype(kind)
        total += 12 if fixed is None else fixed[0].itemsize * fixed[1]
    return total


def delta_bytes(spec: InputSpec, delta: Delta) -> np.ndarray:
    """The bytes of new tuples, one by one."""
    total = np.full(len(delta), fixed_bytes(spec), np.int64)
    for column in delta.columns:
        if fixed_dtype(column.type) is None:
            total += pc.fill_null(pc.binary_length(column), 0).to_numpy()
    return total


def batch_bytes(inputs: Sequence[InputSpec], deltas: Sequence[Delta | None]) -> np.ndarray:
    """The bytes of the new tuples of each input."""
    pairs = zip(inputs, deltas, strict=True)
    return np.array([0 if d is None else delta_bytes(spec, d).sum() for spec, d in pairs], np.int64)


def window_bytes(spec: InputSpec, window: Window, rows: np.ndarray) -> np.ndarray:
    """The bytes of some tuples of a window, one by one."""
    total = np.full(len(rows), fixed_bytes(spec), np.int64)
    for column in window.columns:
        if isinstance(column, BytesColumn):
            total += np.maximum(column.length[rows], 0)
    return total


def pieces(
    inputs: Sequence[InputSpec], deltas: Sequence[Delta | None], shares: Sequence[Share]
) -> Iterator[Sequence[Delta | None]]:
    """A batch cut so that each piece takes a small part of the budget, or is a single tuple."""
    lengths = [0 if d is None else len(d) for d in deltas]
    need = batch_bytes(inputs, deltas)
    if sum(lengths) <= 1 or all(need[s.inputs].sum() <= s.bytes // _PIECE for s in shares):
        yield deltas
        return
    # A half of each input's, or of the inputs where each has but one tuple.
    halves = [(n + 1) // 2 for n in lengths]
    if max(lengths) == 1:
        so_far = np.cumsum(lengths)
        halves = [int(n and so <= so_far[-1] // 2) for n, so in zip(lengths, so_far, strict=True)]
    cuts = list(zip(deltas, halves, strict=True))
    yield from pieces(inputs, [d and d.slice(0, h) for d, h in cuts], shares)
    yield from pieces(inputs, [d and d.slice(h, len(d)) for d, h in cuts], shares)


def tuples_at_random(
    sizes: Sequence[np.ndarray], wanted: Sequence[Share], rng: np.random.Generator
) -> list[np.ndarray]:
    """Which tuples of each input go so that each share holds no more than wanted: any, whatever their keys.

    `sizes` has the bytes of each tuple of each input.
    """
    chosen = [np.zeros(len(s), bool) for s in sizes]
    for share in wanted:
        size = np.concatenate([sizes[i] for i in share.inputs])
        order = rng.permutation(len(size))
        freed = np.cumsum(size[order])
        excess = int(size.sum()) - share.bytes
        going = np.zeros(len(size), bool)
        going[order[: int(np.searchsorted(freed, excess)) + 1]] = True
        cuts = np.cumsum([len(sizes[i]) for i in share.inputs])[:-1]
        for i, part in zip(share.inputs, np.split(going, cuts), strict=True):
            chosen[i] = part
    return chosen


def whole_partitions(
    sizes: Sequence[np.ndarray], partition: Sequence[np.ndarray], count: int, wanted: Sequence[Share]
) -> list[np.ndarray]:
    """The same, but whole partitions of every input, one after another."""
    pairs = zip(partition, sizes, strict=True)
    held = np.array([np.bincount(p, size, count) for p, size in pairs])
    going = np.zeros(count, bool)
    for p in np.flatnonzero(held.any(axis=0)).tolist():
        if all(held[share.inputs][:, ~going].sum() <= share.bytes for share in wanted):
            break
        going[p] = True
    return [going[p] for p in partition]
