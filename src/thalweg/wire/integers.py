"""Runs of integers, with as many bits a value as the range needs. Columns of all types are made of runs.

    tag | base | scale, if not 1 | least step, if steps | packed values

A value is `base + scale * packed`. With steps, `packed` is the difference to the value before, less the least
step: narrower for sorted times. The tag holds the number of bits (0 to 63), a bit for steps and a bit for
the scale. The tag `RAW` stands for values as they are in memory.

Packed values are kept as planes: the low 32, 16, 8, 4, 2, 1 bits of all values, as far as the number of bits
has them. So each plane is one NumPy operation for the whole run.
"""

from __future__ import annotations

import math

import numpy as np

from thalweg.wire import varints
from thalweg.wire.varints import Reader

_STEPS, _SCALED = 1 << 6, 1 << 7
_RAW = _SCALED  # a scale for no bits has no other meaning
_PLANES = (32, 16, 8, 4, 2, 1)
_SHORT = 256
"""In a longer run of bytes, five to seven bits are eight: text that is not packed compresses better."""
_SAMPLE = 64


def write(out: bytearray, values: np.ndarray, *, steps: bool = True) -> None:
    """Append a run; its reader must know the number and the type of the values. `steps`: try differences."""
    if len(values) == 0:
        return
    low, high = int(values.min()), int(values.max())
    if low == high:
        out.append(0)
        varints.put_signed(out, low)
        return
    small = values.dtype == np.uint8
    raw = 1 + values.nbytes
    wide = values if small else values.astype(np.int64, copy=False).view(np.uint64)
    offsets = wide - wide.dtype.type(low & (1 << 8 * wide.itemsize) - 1)
    scale = 1 if small else _scale(offsets, high - low)
    bits = ((high - low) // scale).bit_length()
    if small and bits > 4 and len(values) > _SHORT:
        bits = 8
    head = 1 + varints.size_signed(low) + (varints.size(scale) if scale > 1 else 0)
    plain = head + _packed_size(len(values), bits)
    if scale > 1:
        offsets //= np.uint64(scale)
    if steps and not small and bits > 1:
        differences = np.diff(offsets).view(np.int64)
        least, most = int(differences.min()), int(differences.max())
        fewer, first = (most - least).bit_length(), int(values[0])
        stepped = head - varints.size_signed(low) + varints.size_signed(first) + varints.size_signed(least)
        stepped += _packed_size(len(values) - 1, fewer)
        if stepped < min(plain, raw) and fewer < 64:
            out.append(fewer | _STEPS | (_SCALED if scale > 1 else 0))
            varints.put_signed(out, first)
            if scale > 1:
                varints.put(out, scale)
            varints.put_signed(out, least)
            _pack(out, (differences - np.int64(least)).view(np.uint64), fewer)
            return
    if raw <= plain or bits > 63:
        out.append(_RAW)
        out += values.astype(values.dtype.newbyteorder("<"), copy=False).tobytes()
        return
    out.append(bits | (_SCALED if scale > 1 else 0))
    varints.put_signed(out, low)
    if scale > 1:
        varints.put(out, scale)
    _pack(out, offsets, bits)


def read(data: Reader, n: int, dtype: np.dtype) -> np.ndarray:
    """The inverse of `write`. The caller has checked that there is room for so many values."""
    if n == 0:
        return np.empty(0, dtype)
    tag = data.byte()
    if tag == _RAW:
        raw = np.frombuffer(data.take(n * dtype.itemsize), dtype.newbyteorder("<"))
        return np.require(raw, dtype, "A")  # copied, if it lies at an address that no array of Arrow may have
    bits, base = tag & 63, data.signed()
    scale = data.number() if tag & _SCALED else 1
    if not tag & _STEPS:
        if bits == 0:
            return np.full(n, _fitting(base, base, dtype)[0], dtype)
        if dtype == np.uint8:
            return _small(data, n, bits, base)
        values = _unpack(data, n, bits).astype(np.uint64, copy=False)
    else:
        least = data.signed()
        values = np.zeros(n, np.uint64)
        if n > 1:
            np.cumsum(_unpack(data, n - 1, bits) + _word(least), out=values[1:])
    if scale != 1:
        values *= _word(scale)
    values += _word(base)
    whole = values.view(np.int64)
    if dtype != np.int64:
        _fitting(int(whole.min()), int(whole.max()), dtype)
    return whole.astype(dtype, copy=False)


def _small(data: Reader, n: int, bits: int, base: int) -> np.ndarray:
    """Bytes, of which there are many: not widened on the way."""
    if bits > 8:
        raise ValueError("a byte has more than 8 bits")
    values = _unpack(data, n, bits).astype(np.uint8, copy=False)
    _fitting(base, base + int(values.max()), values.dtype)
    values += np.uint8(base)
    return values


def _fitting(low: int, high: int, dtype: np.dtype) -> tuple[int, int]:
    info = np.iinfo(dtype)
    if low < info.min or high > info.max:
        raise ValueError(f"values up to {max(high, -low)} in a column of {8 * dtype.itemsize} bits")
    return low, high


def _word(value: int) -> np.uint64:
    return np.uint64(value & (1 << 64) - 1)


def _scale(offsets: np.ndarray, span: int) -> int:
    """The greatest number that divides all: times are often whole seconds."""
    scale = math.gcd(int(np.gcd.reduce(offsets[:_SAMPLE])), span)
    while scale > 1:
        left = offsets % np.uint64(scale)
        worst = int(left.max())
        if worst == 0:
            break
        scale = math.gcd(scale, worst)
    return scale


def _packed_size(n: int, bits: int) -> int:
    return sum(-(-n * plane // 8) for plane in _PLANES if bits & plane) + (8 * n if bits > 63 else 0)


def _pack(out: bytearray, values: np.ndarray, bits: int) -> None:
    for plane in _PLANES:
        if not bits & plane:
            continue
        bits -= plane
        if plane >= 8:
            out += values.astype(f"<u{plane // 8}").tobytes()
            values = values >> values.dtype.type(plane)
            if bits <= 8:
                values = values.astype(np.uint8)
            continue
        if values.dtype != np.uint8:
            values = values.astype(np.uint8)
        out += _together(values, plane).tobytes()
        values = values >> np.uint8(plane)


def _together(values: np.ndarray, plane: int) -> np.ndarray:
    """The low 4, 2 or 1 bits of bytes, side by side."""
    if plane == 1:
        return np.packbits(values & np.uint8(1), bitorder="little")
    each = 8 // plane
    values = values & np.uint8((1 << plane) - 1)
    if len(values) % each:
        values = np.concatenate((values, np.zeros(-len(values) % each, np.uint8)))
    packed = values[0::each].copy()
    for i in range(1, each):
        packed |= values[i::each] << np.uint8(plane * i)
    return packed


def _unpack(data: Reader, n: int, bits: int) -> np.ndarray:
    """The inverse of `_pack`: bytes for up to 8 bits, 64-bit words beyond."""
    kind = np.dtype(np.uint8 if bits <= 8 else np.uint64)
    values = np.zeros(n, kind)
    at = 0
    for plane in _PLANES:
        if not bits & plane:
            continue
        bytes_ = data.take(-(-n * plane // 8))
        if plane >= 8:
            part = np.frombuffer(bytes_, f"<u{plane // 8}").astype(kind)
        else:
            part = _apart(np.frombuffer(bytes_, np.uint8), plane, n).astype(kind, copy=False)
        values |= part << kind.type(at) if at else part
        at += plane
    return values


def _apart(packed: np.ndarray, plane: int, n: int) -> np.ndarray:
    """The inverse of `_together`."""
    if plane == 1:
        return np.unpackbits(packed, count=n, bitorder="little")
    each = 8 // plane
    values = np.empty(len(packed) * each, np.uint8)
    for i in range(each):
        values[i::each] = packed >> np.uint8(plane * i) & np.uint8((1 << plane) - 1)
    return values[:n]
