"""Columns of a window: flat NumPy arrays in, Arrow arrays out.

A stored column is one of two kinds. A *fixed* one keeps each value in one slot of an array; a *bytes* one
keeps where the value lies in an arena, and how long it is. Arrow types that are neither (arrays, structs,
maps) travel as bytes: `encode` and `decode` turn them into one-row Arrow messages and back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numba import njit

Allocator = Callable[[str, tuple[int, ...], Any], np.ndarray]


def heap(name: str, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """The plain allocator: memory of this process."""
    return np.empty(shape, dtype)


def fixed_dtype(kind: pa.DataType) -> tuple[np.dtype, int] | None:
    """The NumPy type and the number of lanes that hold one value, or None if the width varies."""
    if pa.types.is_boolean(kind):
        return np.dtype(np.uint8), 1
    if pa.types.is_decimal128(kind):
        return np.dtype(np.int64), 2
    if pa.types.is_primitive(kind) and not pa.types.is_interval(kind):
        return np.dtype(f"i{kind.bit_width // 8}"), 1
    return None


def is_bytes(kind: pa.DataType) -> bool:
    """Whether values of this type are runs of bytes."""
    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind))


def stored_type(kind: pa.DataType) -> pa.DataType:
    """The type under which a column of this type is stored and travels."""
    if fixed_dtype(kind) or is_bytes(kind):
        return kind
    return pa.binary()


def encode(array: pa.Array) -> pa.Array:
    """The array as it is stored; values of nested types become one-row Arrow messages."""
    if array.type == stored_type(array.type):
        return array
    rows = [
        None
        if not array[i].is_valid
        else pa.record_batch([pa.concat_arrays([array.slice(i, 1)])], names=["v"]).serialize().to_pybytes()
        for i in range(len(array))
    ]
    return pa.array(rows, pa.binary())


def decode(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """The inverse of `encode`."""
    if array.type == kind:
        return array
    schema = pa.schema([("v", kind)])
    null = pa.nulls(1, kind)
    parts = [
        null if v is None else pa.ipc.read_record_batch(pa.py_buffer(v), schema).column(0)
        for v in array.to_pylist()
    ]
    return pa.concat_arrays(parts) if parts else pa.array([], kind)


def bits_to_mask(buffer: pa.Buffer | None, offset: int, n: int) -> np.ndarray | None:
    """An Arrow bitmap as one byte a value."""
    if buffer is None:
        return None
    first = offset // 8
    bits = np.frombuffer(buffer, np.uint8)[first : (offset + n + 7) // 8]
    return np.unpackbits(bits, bitorder="little")[offset - 8 * first :][:n]


def mask_to_bits(mask: np.ndarray | None) -> pa.Buffer | None:
    """The inverse of `bits_to_mask`; None where every value is there."""
    if mask is None or mask.all():
        return None
    return pa.py_buffer(np.packbits(mask, bitorder="little"))


def fixed_values(array: pa.Array) -> np.ndarray:
    """The values of a fixed-width array, without a copy where possible; those under a NULL are arbitrary."""
    dtype, lanes = fixed_dtype(array.type) or (np.dtype(np.int64), 1)
    n, offset = len(array), array.offset
    if pa.types.is_boolean(array.type):
        mask = bits_to_mask(array.buffers()[1], offset, n)
        return mask if mask is not None else np.empty(0, np.uint8)
    if n == 0:
        return np.empty((0, 2) if lanes == 2 else 0, dtype)
    values = np.frombuffer(array.buffers()[1], dtype)[offset * lanes : (offset + n) * lanes]
    return values.reshape(n, 2) if lanes == 2 else values


def fixed_array(kind: pa.DataType, values: np.ndarray, mask: np.ndarray | None) -> pa.Array:
    """An Arrow array over NumPy values; `mask` is 1 where there is a value."""
    if pa.types.is_boolean(kind):
        data = pa.py_buffer(np.packbits(values, bitorder="little"))
    else:
        data = pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(kind, len(values), [mask_to_bits(mask), data])


class FixedColumn:
    """Values of fixed width, with a byte of validity each once a NULL has been seen."""

    def __init__(self, name: str, kind: pa.DataType) -> None:
        dtype = fixed_dtype(kind)
        assert dtype is not None
        self.name, self.kind = name, kind
        self.dtype, self.lanes = dtype
        self.data = np.empty((0, 2) if self.lanes == 2 else 0, self.dtype)
        self.valid: np.ndarray | None = None

    def resize(self, alloc: Allocator, capacity: int, lo: int, hi: int) -> None:
        """Move the rows lo..hi to the front of arrays of the given capacity."""
        self.data = moved(alloc, self.name, self.data, capacity, lo, hi)
        if self.valid is not None:
            self.valid = moved(alloc, self.name + ".valid", self.valid, capacity, lo, hi)

    def retain(self, alloc: Allocator, capacity: int, rows: np.ndarray) -> None:
        """Move some rows to the front of new arrays of the given capacity."""
        self.data = gathered(alloc, self.name, self.data, capacity, rows)
        if self.valid is not None:
            self.valid = gathered(alloc, self.name + ".valid", self.valid, capacity, rows)

    def write(self, alloc: Allocator, at: int, array: pa.Array) -> None:
        n = len(array)
        self.data[at : at + n] = fixed_values(array)
        if array.null_count and self.valid is None:
            self.valid = alloc(self.name + ".valid", (len(self.data),), np.uint8)
            self.valid[:at] = 1
        if self.valid is not None:
            mask = bits_to_mask(array.buffers()[0], array.offset, n) if array.null_count else None
            self.valid[at : at + n] = 1 if mask is None else mask

    def size(self, rows: np.ndarray) -> int:
        """The bytes that the values of some rows take."""
        return len(rows) * self.dtype.itemsize * self.lanes

    def take(self, rows: np.ndarray) -> pa.Array:
        mask = None if self.valid is None else self.valid.take(rows)
        return fixed_array(self.kind, self.data.take(rows, axis=0), mask)

    def same(self, rows: np.ndarray, other: FixedColumn, other_rows: np.ndarray) -> np.ndarray:
        """Where both have equal values. Keys have no NULL and floats come normalised, so bits decide."""
        equal: np.ndarray = self.data.take(rows, axis=0) == other.data.take(other_rows, axis=0)
        return np.asarray(equal.all(axis=1)) if self.lanes == 2 else equal

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """All that it holds, by name."""
        own = {self.name: self.data}
        return own if self.valid is None else own | {self.name + ".valid": self.valid}

    def attach(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Take over the content of another one."""
        self.data, self.valid = arrays[self.name], arrays.get(self.name + ".valid")


class BytesColumn:
    """Strings or binaries: where each value begins in the arena, and its length, or -1 for NULL."""

    def __init__(self, name: str, kind: pa.DataType) -> None:
        self.name, self.kind = name, kind
        self.begin = np.empty(0, np.int64)
        self.length = np.empty(0, np.int32)
        self.arena = np.empty(0, np.uint8)
        self.used = 0

    def resize(self, alloc: Allocator, capacity: int, lo: int, hi: int) -> None:
        dead = int(self.begin[lo]) if hi > lo else self.used
        self.begin = moved(alloc, self.name + ".begin", self.begin, capacity, lo, hi)
        self.length = moved(alloc, self.name + ".length", self.length, capacity, lo, hi)
        self.begin[: hi - lo] -= dead
        self.arena = moved(alloc, self.name + ".arena", self.arena, _room(self.used - dead), dead, self.used)
        self.used -= dead

    def retain(self, alloc: Allocator, capacity: int, rows: np.ndarray) -> None:
        length = np.maximum(self.length.take(rows), 0)
        begin = np.zeros(len(rows) + 1, np.int64)
        np.cumsum(length, out=begin[1:])
        used = int(begin[-1])
        arena = alloc(self.name + ".arena", (_room(used),), np.uint8)
        _copy(self.arena, self.begin, rows, begin, arena)
        self.length = gathered(alloc, self.name + ".length", self.length, capacity, rows)
        self.begin = alloc(self.name + ".begin", (capacity,), np.int64)
        self.begin[: len(rows)] = begin[:-1]
        self.arena, self.used = arena, used

    def write(self, alloc: Allocator, at: int, array: pa.Array) -> None:
        n = len(array)
        if n == 0:
            return
        offsets = np.frombuffer(array.buffers()[1], np.int32)[array.offset : array.offset + n + 1]
        size = int(offsets[-1] - offsets[0])
        if self.used + size > len(self.arena):
            self.arena = moved(alloc, self.name + ".arena", self.arena, _room(self.used + size), 0, self.used)
        if size:
            data = np.frombuffer(array.buffers()[2], np.uint8)
            self.arena[self.used : self.used + size] = data[offsets[0] : offsets[-1]]
        self.begin[at : at + n] = offsets[:-1].astype(np.int64) + (self.used - int(offsets[0]))
        self.length[at : at + n] = np.diff(offsets)
        if array.null_count:
            mask = bits_to_mask(array.buffers()[0], array.offset, n)
            self.length[at : at + n][mask == 0] = -1
        self.used += size

    def size(self, rows: np.ndarray) -> int:
        return int(np.maximum(self.length.take(rows), 0).sum(dtype=np.int64))

    def take(self, rows: np.ndarray) -> pa.Array:
        length = self.length.take(rows)
        mask = (length >= 0).astype(np.uint8)
        offsets = np.zeros(len(rows) + 1, np.int64)
        np.cumsum(np.maximum(length, 0), out=offsets[1:])
        out = np.empty(int(offsets[-1]), np.uint8)
        _copy(self.arena, self.begin, rows, offsets, out)
        buffers = [mask_to_bits(mask), pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(out)]
        return pa.Array.from_buffers(self.kind, len(rows), buffers)

    def same(self, rows: np.ndarray, other: BytesColumn, other_rows: np.ndarray) -> np.ndarray:
        return _same_bytes(
            self.arena, self.begin, self.length, rows, other.arena, other.begin, other.length, other_rows
        )

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """All that it holds, by name."""
        parts = ("begin", "length", "arena")
        return {f"{self.name}.{part}": getattr(self, part) for part in parts}

    def attach(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Take over the content of another one."""
        self.begin, self.length, self.arena = (
            arrays[f"{self.name}.{part}"] for part in ("begin", "length", "arena")
        )


Column = FixedColumn | BytesColumn


def make_column(name: str, kind: pa.DataType) -> Column:
    """The storage for a column of this (stored) type."""
    return FixedColumn(name, kind) if fixed_dtype(kind) else BytesColumn(name, kind)


def _room(n: int) -> int:
    return max(64, n + n // 4)


def moved(alloc: Allocator, name: str, old: np.ndarray, capacity: int, lo: int, hi: int) -> np.ndarray:
    """The rows lo..hi at the front of an array of this capacity: the old one where that has it."""
    if len(old) == capacity:
        flat, width = old.reshape(-1), old.size // max(1, len(old))
        flat[: (hi - lo) * width] = flat[lo * width : hi * width]  # NumPy moves one dimension in place
        return old
    new = alloc(name, (capacity, *old.shape[1:]), old.dtype)
    new[: hi - lo] = old[lo:hi]
    return new


def gathered(alloc: Allocator, name: str, old: np.ndarray, capacity: int, rows: np.ndarray) -> np.ndarray:
    """Some rows at the front of a new array of this capacity."""
    new = alloc(name, (capacity, *old.shape[1:]), old.dtype)
    new[: len(rows)] = old[rows]
    return new


@njit(cache=True, nogil=True)
def _copy(
    arena: np.ndarray, begin: np.ndarray, rows: np.ndarray, offsets: np.ndarray, out: np.ndarray
) -> None:
    for i in range(len(rows)):
        source, target = begin[rows[i]], offsets[i]
        for k in range(offsets[i + 1] - target):
            out[target + k] = arena[source + k]


@njit(cache=True, nogil=True)
def _same_bytes(
    arena_a: np.ndarray,
    begin_a: np.ndarray,
    length_a: np.ndarray,
    rows_a: np.ndarray,
    arena_b: np.ndarray,
    begin_b: np.ndarray,
    length_b: np.ndarray,
    rows_b: np.ndarray,
) -> np.ndarray:
    out = np.empty(len(rows_a), np.bool_)
    for i in range(len(rows_a)):
        a, b = rows_a[i], rows_b[i]
        n = length_a[a]
        same = n == length_b[b]
        if same:
            x, y = begin_a[a], begin_b[b]
            for k in range(n):
                if arena_a[x + k] != arena_b[y + k]:
                    same = False
                    break
        out[i] = same
    return out
