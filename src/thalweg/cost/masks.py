"""Sets of streams as bit masks."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

import numpy as np

_WORD = 64


def members(mask: int) -> tuple[int, ...]:
    """The numbers in a set.

    >>> members(0b1011), members(1 << 100 | 1)
    ((0, 1, 3), (0, 100))
    """
    if mask < 1 << _WORD:
        return _few(mask)
    packed = np.frombuffer(mask.to_bytes((mask.bit_length() + 7) // 8, "little"), dtype=np.uint8)
    return tuple(np.flatnonzero(np.unpackbits(packed, bitorder="little")).tolist())


@lru_cache(maxsize=1 << 16)
def _few(mask: int) -> tuple[int, ...]:
    return tuple(i for i in range(mask.bit_length()) if mask >> i & 1)


def mask_of(numbers: Iterable[int]) -> int:
    """The set of some numbers.

    >>> mask_of([0, 1, 3])
    11
    """
    mask = 0
    for number in numbers:
        mask |= 1 << number
    return mask
