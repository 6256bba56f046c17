"""Record batches as few bytes: columns in order, without names and types. The reader knows the schema.

    flags | rows | which columns have NULLs, if any has | columns

A column is made of runs of integers (`wire/integers.py`). Integers, times and Booleans are one run. Doubles
are the number of their decimals and a run of integers, or a run of their bits; other floating point numbers
are a run of their bits. Decimals are the number of their words, 1 or 2, and a run for each. Strings are in
`wire/strings.py`. A column with NULLs has a run of 0 and 1 in front, and only the values that are there.

All after `flags` may be compressed; its size is then in front of it.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pyarrow as pa

from thalweg.kernel.columns import (
    bits_to_mask,
    fixed_array,
    fixed_dtype,
    fixed_values,
    is_bytes,
)
from thalweg.wire import integers, strings, varints
from thalweg.wire.varints import Reader

LIMIT = 1 << 30
"""The most bytes that a batch may take in memory. Constant columns take none on the wire, so that without a
limit a few wrong bytes could ask for any amount of memory."""

_COMPRESSED, _NULLS = 1, 2
_WORTH = 1 << 8  # bytes; a smaller body is not compressed
_SAMPLE = 1 << 16  # bytes; a larger body is tried in its middle first
_PART = 1 << 20  # bytes that are decompressed at a time
_POWERS = 10.0 ** np.arange(7)
_BITS = 255  # in place of the number of decimals
_EXACT = 2.0**53  # doubles have all integers up to here
_TRIED = 32  # doubles that are tried first
_BYTES, _WORDS = np.dtype(np.uint8), np.dtype(np.int64)


def encode(batch: pa.RecordBatch, *, compress: bool = True) -> bytes:
    """The rows of a batch as bytes; compressed where that saves an eighth."""
    texts = [column for column in batch.columns if is_bytes(column.type)]
    _left(batch.schema, batch.num_rows, sum(map(strings.content_size, texts)))
    out = bytearray()
    varints.put(out, batch.num_rows)
    flags = 0
    if batch.num_rows:
        nulls = np.array([column.null_count > 0 for column in batch.columns], np.uint8)
        if nulls.any():
            flags |= _NULLS
            out += np.packbits(nulls, bitorder="little").tobytes()
        for column in batch.columns:
            _write_column(out, column)
    packed = _compressed(out) if compress else None
    if packed is None:
        return bytes((flags,)) + out
    front = bytearray((flags | _COMPRESSED,))
    varints.put(front, len(out))
    return bytes(front) + packed


def decode(data: bytes | memoryview, schema: pa.Schema) -> pa.RecordBatch:
    """The inverse of `encode`. Bytes that no batch of this schema has raise ValueError."""
    reader = Reader(data)
    flags = reader.byte()
    if flags & ~(_COMPRESSED | _NULLS):
        raise ValueError(f"unknown flags: {flags}")
    if flags & _COMPRESSED:
        reader = Reader(_decompressed(reader))
    n = reader.number()
    room = _left(schema, n)
    if n == 0 or not len(schema):
        reader.end()
        return _bare(schema, n)
    nulls = np.zeros(len(schema), np.uint8)
    if flags & _NULLS:
        nulls = np.unpackbits(np.frombuffer(reader.take(-(-len(schema) // 8)), np.uint8), bitorder="little")
    columns = []
    for kind, null in zip(schema.types, nulls, strict=False):
        mask = _mask(reader, n) if null else None
        if is_bytes(kind):
            columns.append(strings.read(reader, kind, n, mask, room))
            room -= strings.content_size(columns[-1])
        else:
            columns.append(fixed_array(kind, _read_fixed(reader, kind, n, mask), mask))
    reader.end()
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _left(schema: pa.Schema, n: int, content: int = 0) -> int:
    """The bytes of `LIMIT` that a batch of so many rows leaves for strings, less those of `content`."""
    for field in schema:
        if fixed_dtype(field.type) is None and not is_bytes(field.type):
            raise ValueError(f"column {field.name!r}: {field.type} does not travel")
    row = sum(16 if pa.types.is_decimal(kind) else 8 for kind in schema.types)
    left = LIMIT - n * max(1, row) - content
    if left < 0:
        raise ValueError(f"a batch of {n} rows is larger than a parcel can be")
    return left


def _bare(schema: pa.Schema, n: int) -> pa.RecordBatch:
    """A batch without rows, or without columns."""
    if n == 0:
        return pa.RecordBatch.from_arrays([pa.array([], kind) for kind in schema.types], schema=schema)
    return pa.record_batch([pa.nulls(n)], names=[""]).select([]).replace_schema_metadata(schema.metadata)


def _write_column(out: bytearray, column: pa.Array) -> None:
    mask = None
    if column.null_count:
        mask = bits_to_mask(column.buffers()[0], column.offset, len(column))
        assert mask is not None
        integers.write(out, mask)
    if is_bytes(column.type):
        strings.write(out, column.drop_null() if mask is not None else column)
        return
    values = fixed_values(column)
    if mask is not None:
        values = values[mask.view(bool)]
    if pa.types.is_float64(column.type):
        decimals, values = _as_integers(values)
        out.append(decimals)
    if values.ndim == 1:
        integers.write(out, values)
        return
    low, high = np.ascontiguousarray(values[:, 0]), np.ascontiguousarray(values[:, 1])
    lanes = 1 if np.array_equal(low >> 63, high) else 2
    out.append(lanes)
    integers.write(out, low)
    if lanes == 2:
        integers.write(out, high)


def _as_integers(bits: np.ndarray) -> tuple[int, np.ndarray]:
    """The decimals that all doubles have, and the integers without the point; or `_BITS`, and their bits.

    Measurements and prices have few decimals: 20.3 is 203 / 10. Only what gives the same bits again counts.
    """
    values = bits.view(np.float64)
    with np.errstate(all="ignore"):
        some = values[:_TRIED, None]
        whole = np.rint(some * _POWERS)
        exact = ((whole / _POWERS == some) & (np.abs(whole) < _EXACT)).all(axis=0)
        if not exact.any():
            return _BITS, bits
        decimals = int(exact.argmax())
        whole = np.rint(values * _POWERS[decimals])
        if not (np.abs(whole) < _EXACT).all():
            return _BITS, bits
    integers = whole.astype(np.int64)
    same = np.array_equal((integers / _POWERS[decimals]).view(np.int64), bits)  # 0.0 is not -0.0
    return (decimals, integers) if same else (_BITS, bits)


def _read_doubles(reader: Reader, there: int) -> np.ndarray:
    decimals = reader.byte()
    values = integers.read(reader, there, _WORDS)
    if decimals == _BITS:
        return values
    if decimals >= len(_POWERS):
        raise ValueError(f"doubles with {decimals} decimals")
    doubles: np.ndarray = values / _POWERS[decimals]
    return doubles.view(np.int64)


def _mask(reader: Reader, n: int) -> np.ndarray:
    mask = integers.read(reader, n, _BYTES)
    if int(mask.max()) > 1:
        raise ValueError("a value is neither there nor NULL")
    return mask


def _read_fixed(reader: Reader, kind: pa.DataType, n: int, mask: np.ndarray | None) -> np.ndarray:
    dtype, lanes = fixed_dtype(kind) or (_WORDS, 1)
    there = n if mask is None else int(mask.sum())
    if pa.types.is_float64(kind):
        values = _read_doubles(reader, there)
    elif lanes == 1:
        values = integers.read(reader, there, dtype)
        if pa.types.is_boolean(kind) and there and int(values.max()) > 1:
            raise ValueError("a Boolean is neither true nor false")
    else:
        told = reader.byte()
        if told not in (1, 2):
            raise ValueError(f"a decimal of {told} words")
        values = np.empty((there, 2), np.int64)
        values[:, 0] = integers.read(reader, there, _WORDS)
        values[:, 1] = integers.read(reader, there, _WORDS) if told == 2 else values[:, 0] >> 63
    if mask is None:
        return values
    spread = np.zeros((n, *values.shape[1:]), dtype)
    spread[mask.view(bool)] = values
    return spread


@cache
def _zstd() -> pa.Codec:
    return pa.Codec("zstd", compression_level=1)


def _compressed(body: bytearray) -> bytes | None:
    """The body compressed, where that saves an eighth."""
    if len(body) < _WORTH:
        return None
    if len(body) > 4 * _SAMPLE:
        middle = (len(body) - _SAMPLE) // 2
        part = memoryview(body)[middle : middle + _SAMPLE]
        if len(_zstd().compress(part, asbytes=True)) > _SAMPLE * 7 // 8:
            return None
    packed: bytes = _zstd().compress(body, asbytes=True)
    return packed if len(packed) <= len(body) * 7 // 8 else None


def _decompressed(reader: Reader) -> bytearray:
    size = reader.number()
    if size > LIMIT + (1 << 20):
        raise ValueError(f"{size} bytes are more than a parcel can be")
    body = bytearray()
    try:
        with pa.CompressedInputStream(pa.BufferReader(reader.take(reader.left)), "zstd") as stream:
            # In parts: as much memory as there are bytes, not as they say there are.
            while part := stream.read(min(_PART, size + 1 - len(body))):
                body += part
    except OSError as error:
        raise ValueError(f"the bytes can't be decompressed: {error}") from error
    if len(body) != size:
        raise ValueError("the bytes are not as many as they say")
    return body
