"""Integers of one to ten bytes, small ones in few (LEB128, signed ones zigzag), and a reader that checks."""

from __future__ import annotations

_MOST = 10  # bytes of an integer of 64 bits, seven bits in each


def put(out: bytearray, value: int) -> None:
    """Append an integer from 0 to 2^64 - 1.

    >>> out = bytearray()
    >>> put(out, 300)
    >>> out.hex(), Reader(out).number()
    ('ac02', 300)
    """
    if not 0 <= value < 1 << 64:
        raise ValueError(f"{value} does not fit into 64 bits")
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)


def put_signed(out: bytearray, value: int) -> None:
    """Append an integer from -2^63 to 2^63 - 1; the sign is the lowest bit, so that -1 is as short as 1."""
    if not -(1 << 63) <= value < 1 << 63:
        raise ValueError(f"{value} does not fit into 64 bits")
    put(out, value << 1 if value >= 0 else ~value << 1 | 1)


def size(value: int) -> int:
    """The bytes that `put` takes."""
    return max(1, -(-value.bit_length() // 7))


def size_signed(value: int) -> int:
    """The bytes that `put_signed` takes."""
    return max(1, -(-((value if value >= 0 else ~value).bit_length() + 1) // 7))


class Reader:
    """Reads bytes from front to end; every length is checked before anything is taken."""

    def __init__(self, data: bytes | bytearray | memoryview) -> None:
        self.data, self.at = memoryview(data), 0

    @property
    def left(self) -> int:
        return len(self.data) - self.at

    def take(self, count: int) -> memoryview:
        """The next bytes, not copied."""
        if not 0 <= count <= self.left:
            raise ValueError("the bytes are cut short")
        self.at += count
        return self.data[self.at - count : self.at]

    def byte(self) -> int:
        return self.take(1)[0]

    def number(self) -> int:
        """What `put` has written."""
        value = 0
        for i in range(_MOST):
            byte = self.byte()
            value |= (byte & 127) << 7 * i
            if byte < 128:
                if value >> 64:
                    break
                return value
        raise ValueError("an integer has more than 64 bits")

    def signed(self) -> int:
        """What `put_signed` has written."""
        value = self.number()
        return ~(value >> 1) if value & 1 else value >> 1

    def end(self) -> None:
        """Nothing must be left."""
        if self.left:
            raise ValueError(f"{self.left} bytes are left over")
