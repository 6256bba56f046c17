"""Columns of strings or binaries as runs of integers: lengths and bytes, or a dictionary.

    size of the dictionary, or 0 | codes, if there is a dictionary | lengths | bytes

Strings are not checked to be UTF-8: Spark's need not be, and they come out as they went in.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from thalweg.kernel.columns import mask_to_bits
from thalweg.wire import integers, varints
from thalweg.wire.varints import Reader

_ROWS = 1 << 14  # rows; in a longer column, as many are tried first for a dictionary
_BYTES, _INDEX = np.dtype(np.uint8), np.dtype(np.int32)


def content_size(column: pa.Array) -> int:
    """The bytes of all strings of a column."""
    offsets = _offsets(column)
    return int(offsets[-1]) - int(offsets[0])


def _offsets(column: pa.Array) -> np.ndarray:
    if len(column) == 0:
        return np.zeros(1, _INDEX)
    return np.frombuffer(column.buffers()[1], _INDEX)[column.offset : column.offset + len(column) + 1]


def _parts(column: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """The lengths and the bytes of strings without NULLs."""
    offsets, data = _offsets(column), column.buffers()[2]
    first, last = int(offsets[0]), int(offsets[-1])
    content = np.frombuffer(data, _BYTES)[first:last] if last > first else np.empty(0, _BYTES)
    return np.diff(offsets), content


def _size(lengths: np.ndarray, content: np.ndarray) -> int:
    """About the bits that strings take."""
    there = [run for run in (lengths, content) if len(run)]
    return sum(len(run) * (int(run.max()) - int(run.min())).bit_length() for run in there)


def write(out: bytearray, column: pa.Array) -> None:
    """Append strings without NULLs."""
    parts = _parts(column)
    coded = _coded(column)
    if coded is not None:
        codes, distinct = np.asarray(coded.indices), _parts(coded.dictionary)
        if _size(*distinct) + len(codes) * (len(distinct[0]) - 1).bit_length() < _size(*parts):
            varints.put(out, len(distinct[0]))
            integers.write(out, codes, steps=False)
            integers.write(out, distinct[0], steps=False)
            integers.write(out, distinct[1])
            return
    varints.put(out, 0)
    integers.write(out, parts[0], steps=False)
    integers.write(out, parts[1])


def _coded(column: pa.Array) -> pa.DictionaryArray | None:
    """The strings as a dictionary, if enough of them come twice."""
    if len(column) > _ROWS and len(column.slice(0, _ROWS).unique()) > _ROWS * 3 // 4:
        return None
    coded = column.dictionary_encode()
    return coded if 0 < len(coded.dictionary) < len(column) else None


def read(reader: Reader, kind: pa.DataType, n: int, mask: np.ndarray | None, room: int) -> pa.Array:
    """The inverse of `write`, with NULLs where `mask` has 0; refused if it takes more than `room` bytes."""
    there = n if mask is None else int(mask.sum())
    distinct = reader.number()
    if distinct > there:
        raise ValueError(f"a dictionary of {distinct} strings for {there}")
    if not distinct:
        return _strings(reader, kind, there, mask, room)
    codes = integers.read(reader, there, _INDEX)
    if int(codes.min()) < 0 or int(codes.max()) >= distinct:
        raise ValueError("a code that is not in the dictionary")
    found = _strings(reader, kind, distinct, None, room)
    if int(np.diff(_offsets(found))[codes].sum(dtype=np.int64)) > room:
        raise ValueError("strings are longer than a parcel can be")
    if mask is None:
        return found.take(pa.array(codes))
    spread = np.zeros(n, _INDEX)
    spread[mask.view(bool)] = codes
    return found.take(pa.array(spread, mask=mask == 0))


def _strings(reader: Reader, kind: pa.DataType, there: int, mask: np.ndarray | None, room: int) -> pa.Array:
    lengths = integers.read(reader, there, _INDEX)
    total = int(lengths.sum(dtype=np.int64))
    if there and int(lengths.min()) < 0:
        raise ValueError("a string of negative length")
    if total > room:
        raise ValueError("strings are longer than a parcel can be")
    content = integers.read(reader, total, _BYTES)
    if mask is not None:
        spread = np.zeros(len(mask), _INDEX)
        spread[mask.view(bool)] = lengths
        lengths = spread
    offsets = np.zeros(len(lengths) + 1, _INDEX)
    np.cumsum(lengths, out=offsets[1:])
    buffers = [mask_to_bits(mask), pa.py_buffer(offsets), pa.py_buffer(content)]
    return pa.Array.from_buffers(kind, len(lengths), buffers)
