"""Bloom filters over key words: a set that can say yes wrongly, and no never.

All sites must set the same bits for the same word, so the hashes are spelled out here: double hashing of two
halves of one mixed word (Kirsch and Mitzenmacher 2006).
"""

from __future__ import annotations

import numpy as np
from numba import njit

from thalweg.kernel.keys import finish
from thalweg.kernel.window import GOLDEN

BITS_A_KEY = 12
_HASHES = 8  # 12 ln 2, rounded


def make(words: np.ndarray) -> bytes:
    """The filter of some words.

    >>> made = make(np.arange(1000))
    >>> bool(contains(made, np.arange(1000)).all())
    True
    >>> float(contains(made, np.arange(1000, 100000)).mean()) < 0.01
    True
    """
    size = max(8, -(-len(words) * BITS_A_KEY // 64) * 8)
    bits = np.zeros(size, np.uint8)
    _set(bits, np.ascontiguousarray(words, np.int64))
    return bits.tobytes()


def contains(filter_: bytes, words: np.ndarray) -> np.ndarray:
    """Whether each word may be in the filter."""
    return _test(np.frombuffer(filter_, np.uint8), np.ascontiguousarray(words, np.int64))


@njit(cache=True, nogil=True)
def _mixed(word: np.int64) -> np.uint64:
    return finish(np.uint64(word) + GOLDEN)


@njit(cache=True, nogil=True)
def _set(bits: np.ndarray, words: np.ndarray) -> None:
    size = np.uint64(len(bits) * 8)
    for word in words:
        x = _mixed(word)
        a, b = x & np.uint64(0xFFFFFFFF), (x >> np.uint64(32)) | np.uint64(1)
        for i in range(_HASHES):
            at = (a + np.uint64(i) * b) % size
            bits[at >> np.uint64(3)] |= np.uint8(1 << (at & np.uint64(7)))


@njit(cache=True, nogil=True)
def _test(bits: np.ndarray, words: np.ndarray) -> np.ndarray:
    size = np.uint64(len(bits) * 8)
    out = np.ones(len(words), np.bool_)
    for n in range(len(words)):
        x = _mixed(words[n])
        a, b = x & np.uint64(0xFFFFFFFF), (x >> np.uint64(32)) | np.uint64(1)
        for i in range(_HASHES):
            at = (a + np.uint64(i) * b) % size
            if not bits[at >> np.uint64(3)] & np.uint8(1 << (at & np.uint64(7))):
                out[n] = False
                break
    return out
