"""One probe step: find, for each combination so far, the tuples of one more window that are alive with it."""

from __future__ import annotations

import numpy as np
from numba import njit

from thalweg.kernel.prefetch import prefetch
from thalweg.kernel.window import Window, slot

CHUNK = 1 << 16
"""How many combinations one step hands on at a time: they fit into the cache of one core."""

# How many probes ahead to ask memory for a slot, for the newest tuple in it, and for the one before that.
_SLOT, _NEWEST, _OLDER = 24, 16, 8


class Step:
    """The buffers of one step: for each combination found, the one it extends, the row, key and interval."""

    def __init__(self) -> None:
        self.left = np.empty(CHUNK, np.int64)
        self.row = np.empty(CHUNK, np.int64)
        self.key = np.empty(CHUNK, np.int64)
        self.start = np.empty(CHUNK, np.int64)
        self.end = np.empty(CHUNK, np.int64)


def probe(
    key: np.ndarray, start: np.ndarray, end: np.ndarray, window: Window, step: Step, at: tuple[int, int]
) -> tuple[int, int, int, int]:
    """Fill the step's buffers from position `at`: how many were found, where to go on, how many compared.

    A position is (combination, number of the tuple to look at next, or -1 for the newest of its slot).
    It is the end when the combination is len(key).
    """
    first = window.first
    n, i, number, compared = _probe(
        key,
        start,
        end,
        window.node,
        window.older,
        window.end,
        -1 if window.span is None else window.span,
        window.heads,
        window.shift,
        np.uint64(window.seed),
        np.uint32(first & 0xFFFFFFFF),
        window.row(first),
        window.linked - first,
        window.slack,
        at[0],
        at[1],
        step.left,
        step.row,
        step.key,
        step.start,
        step.end,
    )
    return int(n), int(i), int(number), int(compared)


@njit(cache=True, nogil=True, boundscheck=False)
def _probe(
    key: np.ndarray,
    start: np.ndarray,
    end: np.ndarray,
    node: np.ndarray,
    older: np.ndarray,
    ends: np.ndarray,
    span: int,
    heads: np.ndarray,
    shift: int,
    seed: np.uint64,
    first: np.uint32,
    row0: int,
    alive: int,
    slack: int,
    i: int,
    resume: int,
    out_left: np.ndarray,
    out_row: np.ndarray,
    out_key: np.ndarray,
    out_start: np.ndarray,
    out_end: np.ndarray,
) -> tuple[int, int, int, int]:
    n, room = 0, len(out_left)
    compared = 0
    total = len(key)
    s = np.uint64(shift)
    if alive <= 0:
        return 0, total, -1, 0
    while i < total:
        k, lo, hi = key[i], start[i], end[i]
        if i + _SLOT < total:
            prefetch(heads, slot(key[i + _SLOT], seed, s))
            near = np.int64(np.uint32(heads[slot(key[i + _NEWEST], seed, s)] - first))
            if near < alive:
                prefetch(node, row0 + near)
                prefetch(older, row0 + near)
            near = np.int64(np.uint32(heads[slot(key[i + _OLDER], seed, s)] - first))
            if near < alive:
                near = np.int64(np.uint32(older[row0 + near] - first))
                if near < alive:
                    prefetch(node, row0 + near)
                    prefetch(older, row0 + near)
        if resume >= 0:
            age = np.int64(np.uint32(np.uint32(resume) - first))
            resume = -1
        else:
            age = np.int64(np.uint32(heads[slot(k, seed, s)] - first))
        while age < alive:
            row = row0 + age
            t = node[row, 1]
            e = t + span if span >= 0 else ends[row]
            if e + slack < lo:
                break
            compared += 1
            if node[row, 0] == k and t <= hi and e >= lo:
                if n == room:  # this one is looked at again, and counted then
                    return n, i, int(np.uint32(np.uint32(age) + first)), compared - 1
                out_left[n] = i
                out_row[n] = row
                out_key[n] = k
                out_start[n] = max(t, lo)
                out_end[n] = min(e, hi)
                n += 1
            age = np.int64(np.uint32(older[row] - first))
        i += 1
    return n, i, -1, compared
