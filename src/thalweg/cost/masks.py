"""Sets of streams as bit masks."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

_WORD = 64


def members(mask: int) -> list[int]:
    """The numbers in a set.

    >>> members(0b1011), members(1 << 100 | 1)
    ([0, 1, 3], [0, 100])
    """
    if mask < 1 << _WORD:
        found = []
        while mask:
            lowest = mask & -mask
            found.append(lowest.bit_length() - 1)
            mask ^= lowest
        return found
    packed = np.frombuffer(mask.to_bytes((mask.bit_length() + 7) // 8, "little"), dtype=np.uint8)
    numbers: list[int] = np.flatnonzero(np.unpackbits(packed, bitorder="little")).tolist()
    return numbers


def mask_of(numbers: Iterable[int]) -> int:
    """The set of some numbers.

    >>> mask_of([0, 1, 3])
    11
    """
    mask = 0
    for number in numbers:
        mask |= 1 << number
    return mask
