"""What is encoded comes out as it went in, in few bytes; bytes that are wrong are refused."""

from __future__ import annotations

import random
import tracemalloc
from datetime import date
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thalweg.kernel.columns import fixed_values, stored_type
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
        assert all(fixed_values(c).flags.aligned for c in found.columns if c.type in FIXED)
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
                    column = of_words(
                        kind, [None if g else v for g, v in zip(gone, one.tolist(), strict=True)]
                    )
                else:
                    column = pa.array([None if rng.random() < nulls else str(v) for v in one]).cast(kind)
                check(pa.record_batch([column.slice(3), column.slice(1, n - 3)], names=["a", "b"]))


def test_without_rows_and_without_columns() -> None:
    some = pa.record_batch([pa.array([1, 2, 3]), pa.array(["a", None, "c"])], names=["n", "s"])
    for batch in (some.slice(0, 0), some.slice(3), some.select([]), some.select([]).slice(0, 0)):
        assert len(check(batch)) == 2
        assert decode(encode(batch), batch.schema).num_rows == batch.num_rows


def test_the_reader_names_the_columns() -> None:
    batch = pa.record_batch([pa.array([5, 6])], names=["sent"])
    schema = pa.schema([pa.field("read", pa.int64(), metadata={"a": "b"})], metadata={"c": "d"})
    found = decode(encode(batch), schema)
    assert found.schema.equals(schema, check_metadata=True)
    assert found.column(0).to_pylist() == [5, 6]


def test_strings_need_not_be_utf8() -> None:
    odd = pa.array([b"\xff\xfe", b"ok", None, b"\xc3"] * 3, pa.binary()).view(pa.string())
    found = decode(encode(pa.record_batch([odd], names=["s"])), pa.schema([("s", pa.string())])).column(0)
    assert found.view(pa.binary()).equals(odd.view(pa.binary()))


def test_strings_of_any_length() -> None:
    rng = random.Random(0)
    for longest in (0, 1, 300, 70_000):
        texts = ["x" * rng.randrange(longest + 1) + str(rng.random())[: longest % 7] for _ in range(50)]
        check(pa.record_batch([pa.array(texts), pa.array([t.encode() for t in texts])], names=["s", "b"]))


def test_types_that_are_stored_otherwise_are_refused() -> None:
    nested = pa.record_batch([pa.array([[1], [2, 3]])], names=["l"])
    assert stored_type(nested.schema.types[0]) == pa.binary()
    with pytest.raises(ValueError, match=r"column 'l': list.* does not travel"):
        encode(nested)
    with pytest.raises(ValueError, match=r"column 'l': list.* does not travel"):
        decode(b"\0\0", nested.schema)


@FEW
@given(
    st.lists(
        st.one_of(
            st.floats(),
            st.sampled_from([0.0, -0.0, float("nan"), float("inf"), 5e-324, 2.0**53, 1e300]),
            st.builds(lambda n, d: n / 10**d, st.integers(-(10**9), 10**9), st.integers(0, 7)),
        ),
        max_size=3,
    ),
    st.lists(st.builds(lambda n: n / 100, st.integers(-9999, 9999)), max_size=50),
    st.booleans(),
)
def test_doubles_come_back_to_the_last_bit(odd: list[float], even: list[float], first: bool) -> None:
    column = pa.array(odd + even if first else even + odd, pa.float64())
    check(pa.record_batch([column], names=["f"]))


# Bytes


def typical(n: int) -> pa.RecordBatch:
    """Tuples with a time, a key, two numbers and a condition."""
    rng = np.random.default_rng(n)
    times = 1_700_000_000_000_000 + np.cumsum(rng.exponential(20_000, n)).astype(np.int64)
    return pa.record_batch(
        [
            pa.array(times, pa.timestamp("us", "UTC")),
            pa.array([f"10.1.0.{k}" for k in rng.integers(0, 250, n)], pa.string()),
            pa.array(rng.integers(40, 1500, n)),
            pa.array(rng.random(n)),
            pa.array(rng.random(n) < 0.3),
        ],
        names=["at", "host", "size", "share", "lost"],
    )


@pytest.mark.parametrize(("n", "share"), [(1, 1.1), (2, 0.8), (10, 0.6), (100, 0.5), (1000, 0.4)])
def test_small_parcels_are_smaller_than_their_payload(n: int, share: float) -> None:
    batch = typical(n)
    payload = 25 * n + sum(map(len, batch.column("host").to_pylist()))
    assert len(check(batch)) <= share * payload


def size(column: pa.Array) -> int:
    return len(check(pa.record_batch([column], names=["c"])))


def test_what_is_constant_takes_no_bytes_a_row() -> None:
    day, cents = date(2026, 11, 16), Decimal("-12.34")
    for value, kind in [
        *((7, pa.int64()), (-1, pa.int8()), (1.5, pa.float64()), (True, pa.bool_()), (None, pa.int64())),
        *((day, pa.date32()), (cents, pa.decimal128(38, 2)), ("x" * 50, pa.string()), (None, pa.string())),
    ]:
        assert size(pa.array([value] * 1000, kind)) == size(pa.array([value] * 500, kind)) < 64


def test_narrow_ranges_take_few_bits() -> None:
    base, n = 1_700_000_000_000_000, 1000
    rng = np.random.default_rng(0)
    seconds = base + 10**6 * rng.permutation(n)
    assert size(pa.array(base + np.arange(n) * 17)) < 20
    assert size(pa.array(seconds)) < n * 10 / 8 + 20
    assert size(pa.array(base + np.sort(rng.integers(0, 1 << 20, n)))) < n * 14 / 8 + 20
    assert size(pa.array(rng.integers(0, 1000, n).astype(float))) < n * 10 / 8 + 20
    assert size(pa.array(np.round(rng.normal(20, 5, n), 1))) < n * 9 / 8 + 20
    assert size(pa.array(rng.random(n) < 0.5)) < n / 8 + 20
    assert size(pa.array(rng.choice(["north", "south", "east", "west"], n))) < n * 2 / 8 + 40
    assert size(pa.array(rng.integers(-(1 << 63), (1 << 63) - 1, n))) <= n * 8 + 5


def test_large_parcels_are_compressed_where_that_pays() -> None:
    rng = np.random.default_rng(0)
    words = rng.choice(["flight", "gate", "delay", "airport"], (20_000, 5))
    text = pa.record_batch([pa.array([f"{' '.join(w)} {i}" for i, w in enumerate(words)])], names=["s"])
    noise = pa.record_batch([pa.array(rng.integers(-(1 << 63), (1 << 63) - 1, 50_000))], names=["n"])
    assert len(check(text)) < len(encode(text, compress=False)) / 2
    assert len(check(noise)) == len(encode(noise, compress=False))


# Wrong bytes


def refused_or_valid(data: bytes, schema: pa.Schema) -> None:
    """Wrong bytes may make another batch, but a valid one."""
    try:
        found = decode(data, schema)
    except ValueError:
        return
    found.validate()
    assert found.schema == schema
    encode(found)


SCHEMAS = [pa.schema([("a", kind), ("b", pa.string()), ("c", pa.int64())]) for kind in KINDS]


@settings(deadline=None, max_examples=1000)
@given(st.binary(max_size=60), st.sampled_from(SCHEMAS))
def test_any_bytes_are_refused_or_make_a_valid_batch(data: bytes, schema: pa.Schema) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(codec, "LIMIT", 1 << 20)
        refused_or_valid(data, schema)


@settings(deadline=None, max_examples=300)
@given(batches(), st.data())
def test_changed_bytes_are_refused_or_make_a_valid_batch(batch: pa.RecordBatch, data: st.DataObject) -> None:
    whole = bytearray(encode(batch))
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    other = data.draw(st.sampled_from([batch.schema, *SCHEMAS]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(codec, "LIMIT", 1 << 20)
        refused_or_valid(bytes(whole), other)


def test_changed_bytes_of_a_compressed_batch() -> None:
    batch, rng = typical(3000), random.Random(0)
    whole = encode(pa.record_batch([batch.column("host")] * 3, names=["a", "b", "c"]))
    schema = pa.schema([(name, pa.string()) for name in "abc"])
    assert whole[0] & 1
    for _ in range(500):
        at = rng.randrange(len(whole))
        refused_or_valid(whole[:at] + bytes([rng.randrange(256)]) + whole[at + 1 :], schema)


@FEW
@given(batches())
def test_a_cut_and_a_tail_are_refused(batch: pa.RecordBatch) -> None:
    whole = encode(batch)
    for length in range(len(whole)):
        with pytest.raises(ValueError, match=r"."):
            decode(whole[:length], batch.schema)
    with pytest.raises(ValueError, match="left over"):
        decode(encode(batch, compress=False) + b"\0", batch.schema)


def test_another_schema_is_refused() -> None:
    batch = typical(100)
    for other in (
        *(batch.schema.remove(0), batch.schema.append(pa.field("x", pa.int64()))),
        *(batch.schema.set(2, pa.field("size", pa.int8())), batch.schema.set(1, pa.field("h", pa.bool_()))),
        pa.schema(list(batch.schema)[::-1]),
    ):
        with pytest.raises(ValueError, match=r"."):
            decode(encode(batch), other)


def varint(value: int) -> bytes:
    return bytes([*(value >> 7 * i & 127 | 128 for i in range(9)), value >> 63])


@pytest.mark.parametrize(
    "kinds", [[], [pa.int64()], [pa.bool_()], [pa.string()], [pa.decimal128(9)]], ids=str
)
def test_no_memory_is_taken_by_what_wrong_bytes_say(kinds: list[pa.DataType]) -> None:
    schema = pa.schema([(str(i), kind) for i, kind in enumerate(kinds)])
    long_string = b"\0\1\0\0" + b"\0" + varint(2 << 40) + b"\0\0"
    tracemalloc.start()
    for data in (
        b"\0" + varint((1 << 64) - 1) + bytes(20),
        b"\0" + varint(1 << 40) + bytes(20),
        b"\2" + varint(1 << 40) + b"\xff" + bytes(20),
        b"\1" + varint(1 << 29) + codec._zstd().compress(bytes(100), asbytes=True),
        b"\1" + varint(1 << 40) + codec._zstd().compress(bytes(100), asbytes=True),
        b"\1" + varint((1 << 64) - 1) + bytes(20),
        *([long_string] if pa.string() in kinds else []),
    ):
        with pytest.raises(ValueError, match=r"."):
            decode(data, schema)
    assert tracemalloc.get_traced_memory()[1] < 4 << 20
    tracemalloc.stop()


def test_batches_beyond_the_limit_are_refused_by_the_sender(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec, "LIMIT", 5000)
    for column in (pa.array(range(1000)), pa.array(["x" * 5000]), pa.array([Decimal(1)] * 400)):
        with pytest.raises(ValueError, match="larger than a parcel can be"):
            encode(pa.record_batch([column], names=["c"]))
    check(pa.record_batch([pa.array(["x" * 40] * 100)], names=["c"]))
