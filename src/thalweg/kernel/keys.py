"""Keys as 64-bit words. A word finds candidates; where it can't stand for the value, equality decides.

Values that fit into 64 bits (integers, dates, timestamps, floats, small decimals) are their own word and
need no second look. Strings, wide decimals, several columns and nested values are hashed, and the join
compares the values of the candidates.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numba import njit

from thalweg.kernel.columns import fixed_dtype, fixed_values, is_bytes


def is_exact(kind: pa.DataType) -> bool:
    """Whether a value of this type is its own word."""
    if pa.types.is_decimal(kind):
        return bool(kind.precision <= 18)
    return fixed_dtype(kind) is not None


def comparable(array: pa.Array) -> pa.Array:
    """The array so that equal values have equal bytes: one NaN, one zero, nested values as text."""
    if pa.types.is_floating(array.type):
        values = np.array(fixed_values(array).view(f"f{array.type.bit_width // 8}"))
        values[np.isnan(values)] = np.nan
        values += 0.0  # -0.0 + 0.0 is 0.0
        valid = None if not array.null_count else np.asarray(array.is_valid())
        return pa.array(values, array.type, mask=None if valid is None else ~valid)
    if is_exact(array.type) or is_bytes(array.type) or pa.types.is_decimal128(array.type):
        return array
    return pa.array(
        [None if v is None else repr(_plain(v)).encode() for v in array.to_pylist()],
        pa.binary(),
    )


def words(array: pa.Array) -> np.ndarray:
    """One int64 a value of a `comparable` array; the word of a NULL is arbitrary."""
    kind = array.type
    if pa.types.is_decimal128(kind):
        lanes = fixed_values(array)
        return lanes[:, 0].copy() if kind.precision <= 18 else _mix(lanes[:, 0], lanes[:, 1])
    if is_exact(kind):
        return np.ascontiguousarray(fixed_values(array).astype(np.int64))
    n = len(array)
    if n == 0:
        return np.empty(0, np.int64)
    offsets = np.frombuffer(array.buffers()[1], np.int32)[array.offset : array.offset + n + 1]
    data = array.buffers()[2]
    return _hash(offsets, np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8))


def combine(parts: Sequence[np.ndarray]) -> np.ndarray:
    """One word for several; a single one stays as it is."""
    result = parts[0]
    for part in parts[1:]:
        result = _mix(result, part)
    return result


def buckets(word: np.ndarray, count: int) -> np.ndarray:
    """Which of `count` buckets each word belongs to; other bits than those that pick a slot in a window."""
    return _buckets(word, count)


PARTS = 64
"""Into how many parts the keys of a bucket are divided where memory may not hold all of them."""


def parts(word: np.ndarray) -> np.ndarray:
    """Which part each word belongs to; other bits than those that pick a bucket."""
    return _parts(word)


def split(bucket: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Row numbers ordered by bucket, stably, and where each bucket begins in them."""
    return _split(bucket, count)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return tuple(_plain(v) for v in value.values())
    if isinstance(value, list):
        return [_plain(v) for v in value]
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    return value


@njit(cache=True, nogil=True)
def finish(x: np.uint64) -> np.uint64:
    """Mixes the bits of a word so that each depends on all of them (splitmix64's last step)."""
    x ^= x >> np.uint64(30)
    x *= np.uint64(0xBF58476D1CE4E5B9)
    x ^= x >> np.uint64(27)
    x *= np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@njit(cache=True, nogil=True)
def _mix(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    out = np.empty(len(a), np.int64)
    for i in range(len(a)):
        out[i] = np.int64(finish(finish(np.uint64(a[i])) + np.uint64(b[i]) * np.uint64(0x9E3779B97F4A7C15)))
    return out


@njit(cache=True, nogil=True)
def _hash(offsets: np.ndarray, data: np.ndarray) -> np.ndarray:
    n = len(offsets) - 1
    out = np.empty(n, np.int64)
    for i in range(n):
        h = np.uint64(0xCBF29CE484222325) ^ np.uint64(offsets[i + 1] - offsets[i])
        for k in range(offsets[i], offsets[i + 1]):
            h = (h ^ np.uint64(data[k])) * np.uint64(0x100000001B3)
        out[i] = np.int64(finish(h))
    return out


@njit(cache=True, nogil=True)
def _buckets(word: np.ndarray, count: int) -> np.ndarray:
    out = np.empty(len(word), np.int32)
    for i in range(len(word)):
        out[i] = np.int32(finish(np.uint64(word[i])) % np.uint64(count))
    return out


@njit(cache=True, nogil=True)
def _parts(word: np.ndarray) -> np.ndarray:
    out = np.empty(len(word), np.int32)
    for i in range(len(word)):
        out[i] = np.int32(finish(np.uint64(word[i])) >> np.uint64(58))
    return out


@njit(cache=True, nogil=True)
def _split(bucket: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    begin = np.zeros(count + 1, np.int64)
    for b in bucket:
        begin[b + 1] += 1
    for b in range(count):
        begin[b + 1] += begin[b]
    at = begin[:-1].copy()
    order = np.empty(len(bucket), np.int64)
    for i in range(len(bucket)):
        order[at[bucket[i]]] = i
        at[bucket[i]] += 1
    return order, begin
