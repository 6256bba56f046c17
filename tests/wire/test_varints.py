"""Integers of varying length, and the reader's checks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thalweg.wire import varints
from thalweg.wire.varints import Reader


@given(st.integers(0, (1 << 64) - 1), st.integers(-(1 << 63), (1 << 63) - 1))
def test_integers_come_back(value: int, signed: int) -> None:
    out = bytearray()
    varints.put(out, value)
    assert len(out) == varints.size(value) <= 10
    varints.put_signed(out, signed)
    assert len(out) == varints.size(value) + varints.size_signed(signed)
    reader = Reader(out)
    assert (reader.number(), reader.signed()) == (value, signed)
    reader.end()


def test_small_ones_are_short() -> None:
    assert [varints.size(v) for v in (0, 127, 128, (1 << 64) - 1)] == [1, 1, 2, 10]
    assert [varints.size_signed(v) for v in (0, -64, 63, 64, -65, -(1 << 63))] == [1, 1, 1, 2, 2, 10]


def test_integers_that_do_not_fit_are_refused() -> None:
    for value in (-1, 1 << 64):
        with pytest.raises(ValueError, match="does not fit"):
            varints.put(bytearray(), value)
    for value in (-(1 << 63) - 1, 1 << 63):
        with pytest.raises(ValueError, match="does not fit"):
            varints.put_signed(bytearray(), value)


def test_wrong_bytes_are_refused() -> None:
    for data in (b"", b"\x80", b"\xff" * 9):
        with pytest.raises(ValueError, match="cut short"):
            Reader(data).number()
    for data in (b"\xff" * 11, b"\xff" * 9 + b"\x02"):
        with pytest.raises(ValueError, match="more than 64 bits"):
            Reader(data).number()
    for count in (4, -1):
        with pytest.raises(ValueError, match="cut short"):
            Reader(b"abc").take(count)
    with pytest.raises(ValueError, match="3 bytes are left over"):
        Reader(b"abc").end()
