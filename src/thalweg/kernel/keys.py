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


# SipHash-1-3 makes one word of text and of several words. With a hash that is easy to invert, whoever chooses
# keys could give all of them the same word. Its key is fixed: words are part of the state of a run.
_BEGIN = (
    np.uint64(0x736F6D6570736575),
    np.uint64(0x646F72616E646F6D),
    np.uint64(0x6C7967656E657261),
    np.uint64(0x7465646279746573),
)


@njit(cache=True, nogil=True, inline="always")
def _turn(x: np.uint64, bits: int) -> np.uint64:
    return (x << np.uint64(bits)) | (x >> np.uint64(64 - bits))


@njit(cache=True, nogil=True)
def _round(
    a: np.uint64, b: np.uint64, c: np.uint64, d: np.uint64
) -> tuple[np.uint64, np.uint64, np.uint64, np.uint64]:
    a += b
    b = _turn(b, 13) ^ a
    a = _turn(a, 32)
    c += d
    d = _turn(d, 16) ^ c
    a += d
    d = _turn(d, 21) ^ a
    c += b
    b = _turn(b, 17) ^ c
    return a, b, _turn(c, 32), d


@njit(cache=True, nogil=True)
def _last(a: np.uint64, b: np.uint64, c: np.uint64, d: np.uint64) -> np.int64:
    c ^= np.uint64(0xFF)
    for _ in range(3):
        a, b, c, d = _round(a, b, c, d)
    return np.int64(a ^ b ^ c ^ d)


@njit(cache=True, nogil=True)
def _mix(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    out = np.empty(len(x), np.int64)
    for i in range(len(x)):
        a, b, c, d = _BEGIN
        for word in (np.uint64(x[i]), np.uint64(y[i]), np.uint64(16 << 56)):
            a, b, c, d = _round(a, b, c, d ^ word)
            a ^= word
        out[i] = _last(a, b, c, d)
    return out


@njit(cache=True, nogil=True)
def _hash(offsets: np.ndarray, data: np.ndarray) -> np.ndarray:
    n = len(offsets) - 1
    out = np.empty(n, np.int64)
    for i in range(n):
        a, b, c, d = _BEGIN
        at, end = np.int64(offsets[i]), np.int64(offsets[i + 1])
        rest = np.uint64(end - at) << np.uint64(56)
        while end - at >= 8:
            word = np.uint64(0)
            for k in range(8):
                word |= np.uint64(data[at + k]) << np.uint64(8 * k)
            a, b, c, d = _round(a, b, c, d ^ word)
            a ^= word
            at += 8
        for k in range(end - at):
            rest |= np.uint64(data[at + k]) << np.uint64(8 * k)
        a, b, c, d = _round(a, b, c, d ^ rest)
        out[i] = _last(a ^ rest, b, c, d)
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
