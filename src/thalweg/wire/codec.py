"""Record batches as few bytes: columns in order, without names and types. The reader knows the schema.

    flags | rows | which columns have NULLs, if any has | columns

A column is made of runs of integers (`wire/runs.py`). Numbers, times and Booleans are one run; of floating
point numbers it holds the bits. Strings are a run of lengths and a run of bytes, or a dictionary: its size,
a run of codes, and the strings in it. A column with NULLs has a run of 0 and 1 in front, and only the values
that are there. All after `flags` may be compressed; its size is then in front of it.

Strings are not checked to be UTF-8: Spark's need not be, and they come out as they went in.
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
    mask_to_bits,
)
from thalweg.wire import runs, varints
from thalweg.wire.varints import Reader

LIMIT = 1 << 30
"""The most bytes that a batch may take in memory. Constant columns take none on the wire, so that without a
limit a few wrong bytes could ask for any amount of memory."""

_COMPRESSED, _NULLS = 1, 2
_WORTH = 1 << 8  # bytes; a smaller body is not compressed
_SAMPLE = 1 << 16  # bytes; a larger body is tried in its middle first
_PART = 1 << 20  # bytes that are decompressed at a time
_ROWS = 1 << 14  # rows; in a longer column, as many are tried first for a dictionary
_BYTES, _WORDS = np.dtype(np.uint8), np.dtype(np.int64)


def encode(batch: pa.RecordBatch, *, compress: bool = True) -> bytes:
    """The rows of a batch as bytes; compressed where that saves an eighth."""
    _left(batch.schema, batch.num_rows, sum(map(_content_size, batch.columns)))
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
            columns.append(_read_strings(reader, kind, n, mask, room))
            room -= _content_size(columns[-1])
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


def _content_size(column: pa.Array) -> int:
    """The bytes of all strings of a column."""
    return int(_offsets(column)[-1]) - int(_offsets(column)[0]) if is_bytes(column.type) else 0


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
        runs.write(out, mask)
    if is_bytes(column.type):
        _write_strings(out, column.drop_null() if mask is not None else column)
        return
    values = fixed_values(column)
    if mask is not None:
        values = values[mask.view(bool)]
    if values.ndim == 1:
        runs.write(out, values)
        return
    low, high = np.ascontiguousarray(values[:, 0]), np.ascontiguousarray(values[:, 1])
    lanes = 1 if np.array_equal(low >> 63, high) else 2
    out.append(lanes)
    runs.write(out, low)
    if lanes == 2:
        runs.write(out, high)


def _mask(reader: Reader, n: int) -> np.ndarray:
    mask = runs.read(reader, n, _BYTES)
    if int(mask.max()) > 1:
        raise ValueError("a value is neither there nor NULL")
    return mask


def _read_fixed(reader: Reader, kind: pa.DataType, n: int, mask: np.ndarray | None) -> np.ndarray:
    dtype, lanes = fixed_dtype(kind) or (_WORDS, 1)
    there = n if mask is None else int(mask.sum())
    if lanes == 1:
        values = runs.read(reader, there, dtype)
        if pa.types.is_boolean(kind) and there and int(values.max()) > 1:
            raise ValueError("a Boolean is neither true nor false")
    else:
        told = reader.byte()
        if told not in (1, 2):
            raise ValueError(f"a decimal of {told} words")
        values = np.empty((there, 2), np.int64)
        values[:, 0] = runs.read(reader, there, _WORDS)
        values[:, 1] = runs.read(reader, there, _WORDS) if told == 2 else values[:, 0] >> 63
    if mask is None:
        return values
    spread = np.zeros((n, *values.shape[1:]), dtype)
    spread[mask.view(bool)] = values
    return spread


def _offsets(column: pa.Array) -> np.ndarray:
    if len(column) == 0:
        return np.zeros(1, np.int32)
    return np.frombuffer(column.buffers()[1], np.int32)[column.offset : column.offset + len(column) + 1]


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


def _write_strings(out: bytearray, column: pa.Array) -> None:
    parts = _parts(column)
    coded = _coded(column)
    if coded is not None:
        codes, distinct = np.asarray(coded.indices), _parts(coded.dictionary)
        if _size(*distinct) + len(codes) * (len(distinct[0]) - 1).bit_length() < _size(*parts):
            varints.put(out, len(distinct[0]))
            runs.write(out, codes, steps=False)
            runs.write(out, distinct[0], steps=False)
            runs.write(out, distinct[1])
            return
    varints.put(out, 0)
    runs.write(out, parts[0], steps=False)
    runs.write(out, parts[1])


def _coded(column: pa.Array) -> pa.DictionaryArray | None:
    """The strings as a dictionary, if enough of them come twice."""
    if len(column) > _ROWS and len(column.slice(0, _ROWS).unique()) > _ROWS * 3 // 4:
        return None
    coded = column.dictionary_encode()
    return coded if 0 < len(coded.dictionary) < len(column) else None


def _read_strings(reader: Reader, kind: pa.DataType, n: int, mask: np.ndarray | None, room: int) -> pa.Array:
    there = n if mask is None else int(mask.sum())
    distinct = reader.number()
    if distinct > there:
        raise ValueError(f"a dictionary of {distinct} strings for {there}")
    if not distinct:
        return _strings(reader, kind, there, mask, room)
    codes = runs.read(reader, there, _WORDS)
    if int(codes.min()) < 0 or int(codes.max()) >= distinct:
        raise ValueError("a code that is not in the dictionary")
    found = _strings(reader, kind, distinct, None, room)
    if int(np.diff(_offsets(found))[codes].sum(dtype=np.int64)) > room:
        raise ValueError("strings are longer than a parcel can be")
    if mask is None:
        return found.take(pa.array(codes))
    spread = np.zeros(n, np.int64)
    spread[mask.view(bool)] = codes
    return found.take(pa.array(spread, mask=mask == 0))


def _strings(reader: Reader, kind: pa.DataType, there: int, mask: np.ndarray | None, room: int) -> pa.Array:
    lengths = runs.read(reader, there, np.dtype(np.int32))
    total = int(lengths.sum(dtype=np.int64))
    if there and int(lengths.min()) < 0:
        raise ValueError("a string of negative length")
    if total > room:
        raise ValueError("strings are longer than a parcel can be")
    content = runs.read(reader, total, _BYTES)
    if mask is not None:
        spread = np.zeros(len(mask), np.int32)
        spread[mask.view(bool)] = lengths
        lengths = spread
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    buffers = [mask_to_bits(mask), pa.py_buffer(offsets), pa.py_buffer(content)]
    return pa.Array.from_buffers(kind, len(lengths), buffers)


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
