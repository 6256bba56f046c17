"""What a packet carries comes out of it as it went in."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thalweg.programs.packet import Kind, Packet, dump, load, merge

EDGE = (-(2**63), -(2**31), -1, 0, 1, 2**31, 2**32 - 1, 2**32, 2**63 - 1)


def numbers(kind: pa.DataType, first: int, steps: list[int | None]) -> pa.Array:
    values = [None if s is None else max(-(2**63), min(2**63 - 1, first + s)) for s in steps]
    return pa.array(values, pa.int64()).view(kind)


@settings(deadline=None)
@given(
    st.sampled_from(EDGE),
    st.lists(st.one_of(st.sampled_from(EDGE), st.integers(-1000, 1000), st.none()), min_size=1, max_size=4),
    st.integers(1, 100),
    st.sampled_from([pa.int64(), pa.timestamp("us", "UTC"), pa.timestamp("us"), pa.duration("us")]),
)
def test_numbers_come_back_whatever_their_range(
    first: int, steps: list[int | None], times: int, kind: pa.DataType
) -> None:
    column = numbers(kind, first, steps * times)
    batch = pa.record_batch([column, pa.array([str(i) for i in range(len(column))])], names=["n", "s"])
    for part in (batch, batch.slice(1), batch.slice(0, 0)):
        assert load(dump(part)).equals(part, check_metadata=True)


@pytest.mark.parametrize(("spread", "smaller"), [(2**32 - 1, True), (2**32, False)])
def test_close_numbers_take_half_the_bytes(spread: int, smaller: bool) -> None:
    batch = pa.record_batch([pa.array([5, 5 + spread] * 5000)], names=["n"])
    assert (len(dump(batch)) < 0.6 * batch.nbytes) == smaller
    assert load(dump(batch)).equals(batch)


@pytest.mark.parametrize("limit", [1, 100, 1000, 10**9])
def test_cut_packets_carry_the_same_tuples(limit: int) -> None:
    batch = pa.record_batch([pa.array(range(333)), pa.array(["x" * (i % 7) for i in range(333)])], names="ns")
    parts = list(Packet(3, 1, Kind.DATA, 333, 77, 5, batch=batch).cut(limit))
    assert merge([load(p.bytes) for p in parts]).equals(batch)
    assert sum(p.n for p in parts) == 333
    assert {(p.group, p.port, p.kind, p.top, p.wall) for p in parts} == {(3, 1, Kind.DATA, 77, 5)}
    assert all(p.n == 1 or (p.batch is not None and p.batch.nbytes <= 2 * limit) for p in parts)


def test_a_packet_of_ends_is_never_cut() -> None:
    ends = pa.record_batch([pa.array(range(100))], names=["a|17"])
    packet = Packet(3, 1, Kind.RESOLVE, 100, None, 5, batch=ends)
    assert list(packet.cut(8)) == [packet]
