"""What is encoded comes out as it went in, in few bytes; bytes that are wrong are refused."""

from __future__ import annotations

import random
import tracemalloc
from datetime import date, timedelta
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thalweg.kernel.columns import stored_type
from thalweg.wire import codec
from thalweg.wire.codec import decode, encode

FIXED = [
    pa.bool_(),
    *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
    *(pa.float16(), pa.float32(), pa.float64()),
    *(pa.date32(), pa.date64(), pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")),
    *(pa.timestamp(unit, zone) for unit in ("s", "ms", "us", "ns") for zone in (None, "UTC")),
    *(pa.duration("us"), pa.decimal128(38, 4), pa.decimal128(9, 2)),
]
KINDS = [*FIXED, pa.string(), pa.binary()]
WORDS = st.integers(-(1 << 63), (1 << 63) - 1)
NEAR = st.builds(lambda base, scale, k: base + scale * k, st.just(0), st.just(1), st.integers(-9, 9))
TEXTS = st.one_of(st.sampled_from(["10.1.0.7", "10.1.0.8", ""]), st.text(max_size=5))
FEW = settings(deadline=None, max_examples=200)


def of_words(kind: pa.DataType, words: list[int | None]) -> pa.Array:
    """A column of any fixed type, from the bits of its values."""
    valid = pa.array([w is not None for w in words])
    bits = np.array([w or 0 for w in words], np.int64)
    bitmap = pa.py_buffer(np.packbits(np.asarray(valid, bool), bitorder="little"))
    if pa.types.is_boolean(kind):
        data = np.packbits(bits & 1, bitorder="little")
    elif pa.types.is_decimal(kind):
        data = np.stack((bits, bits >> 63 if len(bits) % 2 else bits[::-1] >> 40), axis=1)
    else:
        data = bits.astype(f"i{kind.bit_width // 8}")
    return pa.Array.from_buffers(kind, len(words), [bitmap, pa.py_buffer(np.ascontiguousarray(data))])


@st.composite
def words(draw: st.DrawFn, n: int) -> list[int | None]:
    base, scale = draw(WORDS), draw(st.sampled_from([1, 2, 1000, 10**6, 1 << 40]))
    span = draw(st.sampled_from([0, 1, 2, 3, 7, 200, 10**5, 1 << 33, 1 << 62]))
    found = [base + scale * draw(st.integers(0, span)) for _ in range(n)]
    if draw(st.booleans()):
        found.sort(reverse=draw(st.booleans()))
    wrapped = [(v + (1 << 63)) % (1 << 64) - (1 << 63) for v in found]
    nulls = draw(st.sampled_from([0.0, 0.0, 0.3, 1.0]))
    rng = draw(st.randoms(use_true_random=False))
    return [None if rng.random() < nulls else v for v in wrapped]


@st.composite
def columns(draw: st.DrawFn, n: int) -> pa.Array:
    kind = draw(st.sampled_from(KINDS))
    if pa.types.is_string(kind):
        return pa.array(draw(st.lists(st.none() | TEXTS, min_size=n, max_size=n)), kind)
    if pa.types.is_binary(kind):
        return pa.array(draw(st.lists(st.none() | st.binary(max_size=9), min_size=n, max_size=n)), kind)
    return of_words(kind, draw(words(n)))


@st.composite
def batches(draw: st.DrawFn) -> pa.RecordBatch:
    n = draw(st.integers(0, 20))
    found = [draw(columns(n)) for _ in range(draw(st.integers(1, 9)))]
    whole = pa.record_batch(found, names=[f"c{i}" for i in range(len(found))])
    at = draw(st.integers(0, n))
    return whole.slice(at, draw(st.integers(0, n - at)))


def same(one: pa.RecordBatch, other: pa.RecordBatch) -> bool:
    """Equal to the last bit, also of NaN."""
    if one.schema != other.schema or one.num_rows != other.num_rows:
        return False
    return all(bits_of(a).equals(bits_of(b)) for a, b in zip(one.columns, other.columns, strict=True))


def bits_of(column: pa.Array) -> pa.Array:
    return column.view(f"int{column.type.bit_width}") if pa.types.is_floating(column.type) else column


def check(batch: pa.RecordBatch) -> bytes:
    for compress in (True, False):
        data = encode(batch, compress=compress)
        found = decode(data, batch.schema)
        found.validate()
        assert same(found, batch)
    return encode(batch)


@FEW
@given(batches())
def test_any_batch_comes_back(batch: pa.RecordBatch) -> None:
    check(batch)


@pytest.mark.parametrize("n", [255, 5000, 20_000])
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_long_columns_come_back(kind: pa.DataType, n: int) -> None:
    rng = np.random.default_rng(n)
    for spread in (1, 3, 200, 10**4, 1 << 40, 1 << 63):
        for nulls in (0.0, 0.1):
            values = rng.integers(-spread, spread, n, endpoint=spread < 1 << 63)
            for one in (values, np.sort(values)):
                if kind in FIXED:
                    gone = rng.random(n) < nulls
                    column = of_words(kind, [None if g else v for g, v in zip(gone, one.tolist(), strict=True)])
                else:
                    column = pa.array([None if rng.random() < nulls else str(v) for v in one]).cast(kind)
                check(pa.record_batch([column.slice(3), column.slice(1, n - 3)], names=["a", "b"]))
