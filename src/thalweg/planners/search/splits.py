"""The ways to part sets of units in two, for recurrences over sets of units.

All of them, or only those into connected sets that an equality connects: DPccp (Moerkotte and Neumann 2006,
*Analysis of two existing and one new dynamic programming algorithm*). A chain or a star of n units has far
fewer of the latter, about n^3 / 6 and n 2^(n-2), than the 3^n / 2 of all splits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import combinations

import numpy as np

from thalweg.cost.masks import members
from thalweg.cost.network import Numbers


@dataclass(frozen=True, eq=False)
class Batch:
    """Sets (by row) of as many units, each with as many splits: a row of `left` and `right` for each set."""

    rows: Numbers
    left: Numbers
    right: Numbers


@dataclass(frozen=True, eq=False)
class Splits:
    """Sets of units as bit masks, smaller sets first, and their splits; single units have none."""

    masks: Sequence[int]
    batches: tuple[Batch, ...]

    @cached_property
    def row(self) -> dict[int, int]:
        """The row of each set."""
        return {mask: row for row, mask in enumerate(self.masks)}

    @property
    def count(self) -> int:
        """The number of splits of all sets together."""
        return sum(batch.left.size for batch in self.batches)


@lru_cache(maxsize=16)
def every(count: int) -> Splits:
    """All splits of all sets of so many units."""
    masks: list[int] = []
    row = np.zeros(1 << count, dtype=np.int64)
    batches = []
    for size in range(1, count + 1):
        inside = np.array(list(combinations(range(count), size)), dtype=np.int64)
        sets = (1 << inside).sum(axis=1)
        row[sets] = np.arange(len(masks), len(masks) + len(sets))
        masks += sets.tolist()
        if size > 1:
            # One side has the first unit of the set, and any of the others but all.
            chosen = np.arange((1 << (size - 1)) - 1)[:, None] >> np.arange(size - 1) & 1
            left = (1 << inside[:, :1]) + (1 << inside[:, 1:]) @ chosen.T
            batches.append(Batch(row[sets], row[left], row[sets[:, None] - left]))
    return Splits(masks, tuple(batches))


def connected(near: Sequence[int], most: int) -> Splits | None:
    """The splits of connected sets into connected sets; None if there are more than so many.

    `near` has the neighbours of each unit, as a mask.
    """
    found: dict[int, list[int]] = {1 << i: [] for i in range(len(near))}
    for pairs, (left, right) in enumerate(_pairs(near), start=1):
        if pairs > most:
            return None
        found.setdefault(left | right, []).append(left)
    masks = sorted(found, key=int.bit_count)
    row = {mask: n for n, mask in enumerate(masks)}
    alike: dict[tuple[int, int], list[int]] = {}
    for mask in masks:
        if found[mask]:
            alike.setdefault((mask.bit_count(), len(found[mask])), []).append(mask)
    batches = []
    for sets in alike.values():
        left_of = [sorted(found[mask]) for mask in sets]
        batches.append(
            Batch(
                np.array([row[mask] for mask in sets]),
                np.array([[row[left] for left in lefts] for lefts in left_of]),
                np.array(
                    [[row[m & ~left] for left in lefts] for m, lefts in zip(sets, left_of, strict=True)]
                ),
            )
        )
    return Splits(masks, tuple(batches))


def _pairs(near: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Each pair of connected sets that are neighbours, once."""
    for first in range(len(near) - 1, -1, -1):
        before = (1 << (first + 1)) - 1
        for one in _grown(near, 1 << first, before):
            yield from ((one, other) for other in _beside(near, one))


def _grown(near: Sequence[int], start: int, barred: int) -> Iterator[int]:
    """A set, and all connected sets that it grows to without the barred units."""
    waiting = [(start, barred)]
    while waiting:
        one, without = waiting.pop()
        yield one
        around = _around(near, one) & ~without & ~one
        part = around
        while part:
            waiting.append((one | part, without | around))
            part = (part - 1) & around


def _beside(near: Sequence[int], one: int) -> Iterator[int]:
    """The connected sets next to a set whose first unit comes after its first one."""
    barred = (one & -one) * 2 - 1 | one
    around = _around(near, one) & ~barred
    for unit in reversed(members(around)):
        yield from _grown(near, 1 << unit, barred | around & ((1 << (unit + 1)) - 1))


def _around(near: Sequence[int], one: int) -> int:
    found = 0
    for unit in members(one):
        found |= near[unit]
    return found
