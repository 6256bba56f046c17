"""How often key words occur: all of them, a few, or a sample of them that is chosen by hash."""

from __future__ import annotations

import numpy as np
from numba import njit

from thalweg.kernel.keys import finish

BITS = 48
SPACE = 1 << BITS
"""Marks are below this number."""

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


@njit(cache=True, nogil=True)
def marks(word: np.ndarray) -> np.ndarray:
    """A hash of each word, the same at all sites and in all runs; not the one that picks a bucket."""
    out = np.empty(len(word), np.uint64)
    for i in range(len(word)):
        out[i] = finish(np.uint64(word[i]) + _GOLDEN) >> np.uint64(16)
    return out


def tally(mark: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """The k least marks in order, how often each occurs, a row of each; and the next mark, or SPACE."""
    held, counts, rows, below = _tally(mark, k)
    order = np.argsort(held)  # NumPy sorts faster than compiled code does
    if len(order) > k:
        below = int(held[order[k]])
    least = order[:k]
    return held[least], counts[least], rows[least], below


@njit(cache=True, nogil=True)
def _tally(mark: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """At most 2k marks, the least among them, in no order."""
    slots = 16
    while slots < 4 * k:
        slots <<= 1
    mask = np.uint64(slots - 1)
    held, counts, rows = np.empty(slots, np.uint64), np.zeros(slots, np.int64), np.empty(slots, np.int64)
    below, used = np.uint64(SPACE), 0
    for row in range(len(mark)):
        one = mark[row]
        if one >= below:
            continue
        at = one & mask
        while counts[at] and held[at] != one:
            at = (at + np.uint64(1)) & mask
        counts[at] += 1
        if counts[at] > 1:
            continue
        held[at], rows[at] = one, row
        used += 1
        if used > 2 * k:  # keep the lesser half
            full = np.flatnonzero(counts)
            below = np.partition(held[full], k)[k]
            full = full[held[full] < below]
            kept, their_counts, their_rows = held[full], counts[full], rows[full]
            counts[:] = 0
            used = k
            for n in range(k):
                at = kept[n] & mask
                while counts[at]:
                    at = (at + np.uint64(1)) & mask
                held[at], counts[at], rows[at] = kept[n], their_counts[n], their_rows[n]
    full = np.flatnonzero(counts)
    return held[full], counts[full], rows[full], int(below)


@njit(cache=True, nogil=True)
def count_of(mark: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """How often each of a few marks occurs."""
    slots = 16
    while slots < 8 * len(wanted):
        slots <<= 1
    mask = np.uint64(slots - 1)
    place, found = np.full(slots, -1, np.int64), np.zeros(len(wanted), np.int64)
    for n in range(len(wanted)):
        at = wanted[n] & mask
        while place[at] >= 0:
            at = (at + np.uint64(1)) & mask
        place[at] = n
    for one in mark:
        at = one & mask
        while place[at] >= 0 and wanted[place[at]] != one:
            at = (at + np.uint64(1)) & mask
        if place[at] >= 0:
            found[place[at]] += 1
    return found
