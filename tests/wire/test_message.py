"""The tuples of a message come out of it as they went in."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thalweg.operators.event_time import Ends
from thalweg.wire.message import Message, dump, load, merge
from thalweg.wire.parcel import Kind

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


def test_columns_with_the_same_numbers_travel_once() -> None:
    """The key word of a tuple is often one of its columns."""
    time = pa.array(range(7, 10_007)).view(pa.timestamp("us", "UTC"))
    number = pa.array(range(7, 10_007))
    batch = pa.record_batch([time, number, pa.array(range(10_000)), number], names="tnoz")
    assert load(dump(batch)).equals(batch, check_metadata=True)
    assert len(dump(batch)) < 0.3 * batch.nbytes


@pytest.mark.parametrize("limit", [1, 100, 1000, 10**9])
def test_cut_messages_carry_the_same_tuples(limit: int) -> None:
    batch = pa.record_batch([pa.array(range(333)), pa.array(["x" * (i % 7) for i in range(333)])], names="ns")
    parts = list(Message(3, "a", Kind.TUPLES, 333, 77, 5, 2, batch).cut(limit))
    assert merge([load(p.bytes) for p in parts]).equals(batch)
    assert sum(p.n for p in parts) == 333
    assert {(p.group, p.channel, p.kind, p.bound, p.wall, p.sender) for p in parts} == {
        (3, "a", Kind.TUPLES, 77, 5, 2)
    }
    assert all(p.n == 1 or (p.batch is not None and p.batch.nbytes <= 2 * limit) for p in parts)


def test_ends_of_a_window_of_rows_may_be_cut() -> None:
    """Each part says itself which tuples it is about."""
    moments = np.arange(1000, 1100)
    ends = Ends("a", 17 + np.arange(100), moments)
    message = Message(3, "a", Kind.ENDS, 100, None, 5, batch=ends.to_batch())
    parts = [Ends.from_batch(load(p.bytes)) for p in message.cut(200)]
    assert len(parts) > 1
    told = [(p.window, *one) for p in parts for one in zip(p.places, p.moments, strict=True)]
    assert told == [("a", 17 + i, 1000 + i) for i in range(100)]
