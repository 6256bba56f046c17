"""Durations and sizes with units."""

import pytest

from thalweg.errors import UserError
from thalweg.units import parse_duration


@pytest.mark.parametrize(
    ("written", "microseconds"),
    [
        ("10 seconds", 10_000_000),
        ("1 second", 1_000_000),
        ("5 MINUTES", 300_000_000),
        ("1 hour", 3_600_000_000),
        ("500 milliseconds", 500_000),
        ("7 microseconds", 7),
        ("2 days", 172_800_000_000),
        ("0 s", 0),
        ("5ms", 5_000),
        ("3us", 3),
        ("3 µs", 3),
        ("1.5 min", 90_000_000),
        (".5 h", 1_800_000_000),
        (" 1  d ", 86_400_000_000),
        ("+2 hrs", 7_200_000_000),
        ("0.000001 s", 1),
        ("1000000 days", 86_400_000_000_000_000),
    ],
)
def test_durations(written: str, microseconds: int) -> None:
    assert parse_duration(written) == microseconds


@pytest.mark.parametrize(
    ("written", "says"),
    [
        (10, "10 has no unit; write a number and a unit, for example '10 seconds'"),
        ("10", "has no unit"),
        (1.5, "has no unit"),
        (None, "not a duration"),
        (True, "not a duration"),
        ("", "not a duration"),
        ("seconds", "not a duration"),
        ("ten seconds", "not a duration"),
        ("1 h 30 min", "not a duration"),
        ("1e3 s", "not a duration"),
        ("-1 s", "negative"),
        ("1 fortnight", "'fortnight' is not a unit of time; use microseconds"),
        ("1 m", "not a unit of time"),
        ("0.5 us", "not a whole number of microseconds"),
        ("1000001 days", "longer than a million days"),
        ("9" * 5000 + " s", "longer than a million days"),
        ("١ s", "not a duration"),
        ("nan s", "not a duration"),
    ],
)
def test_durations_that_are_none(written: object, says: str) -> None:
    with pytest.raises(UserError) as raised:
        parse_duration(written)
    assert says in str(raised.value)
    assert len(str(raised.value)) < 200
