"""Durations and sizes with units, as in `10 seconds`, `0.5 h`, `64 MB` and `1.5GiB`."""

from __future__ import annotations

import re
from decimal import Decimal

from thalweg.errors import UserError

MICROSECONDS = {
    unit: size
    for size, units in (
        (1, "microsecond microseconds us µs μs"),
        (1_000, "millisecond milliseconds ms"),
        (1_000_000, "second seconds sec secs s"),
        (60_000_000, "minute minutes min mins"),
        (3_600_000_000, "hour hours hr hrs h"),
        (86_400_000_000, "day days d"),
    )
    for unit in units.split()
}
"""Every spelling of a unit and how many microseconds it has."""

LONGEST = 1_000_000 * MICROSECONDS["day"]
"""A million days."""

FARTHEST = 1 << 61
"""Event times are less than this many microseconds from 1970: 73,000 years.

A time plus any duration, or plus the length of a window without end, then always fits in 64 bits.
"""

BEFORE_ALL = 1 - FARTHEST
"""The time of a table's rows, which is before that of all tuples."""

AT_ITS_END = BEFORE_ALL - (1 << 62)
"""The lateness of a table: once its rows have come, no more of them are waited for, ever."""

_DURATION = re.compile(r"\s*([+-]?)([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*([^\W\d_]*)\s*")
_BYTES = {"": 1, "b": 1} | {
    prefix + unit: base**power
    for power, prefix in enumerate("kmgt", 1)
    for unit, base in (("", 1000), ("b", 1000), ("ib", 1024))
}
_SIZE = re.compile(r"\s*([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*([A-Za-z]*)\s*")


def parse_duration(text: object, *, where: str | None = None) -> int:
    """Read a duration as whole microseconds.

    >>> parse_duration("10 seconds"), parse_duration("1.5 ms")
    (10000000, 1500)
    """
    if isinstance(text, int | float) and not isinstance(text, bool):
        raise UserError(
            f"the duration {str(text)[:40]} has no unit", where=where, remedy=_example(str(text)[:12])
        )
    if not isinstance(text, str):
        raise UserError(f"{str(text)[:40]!r} is not a duration", where=where, remedy=_example())
    shape = _DURATION.fullmatch(text)
    if shape is None:
        raise UserError(f"{text[:40]!r} is not a duration", where=where, remedy=_example())
    sign, number, unit = shape.groups()
    if not unit:
        raise UserError(f"the duration {text[:40]!r} has no unit", where=where, remedy=_example(number[:12]))
    if sign == "-":
        raise UserError(f"the duration {text[:40]!r} is negative", where=where, remedy=_example())
    size = MICROSECONDS.get(unit if unit in MICROSECONDS else unit.lower())
    if size is None:
        raise UserError(
            f"{unit[:40]!r} is not a unit of time",
            where=where,
            remedy="use microseconds, milliseconds, seconds, minutes, hours or days",
        )
    if len(number) > 40 or Decimal(number) * size > LONGEST:
        raise UserError(f"the duration {text[:40]!r} is longer than a million days", where=where)
    microseconds = Decimal(number) * size
    if microseconds != int(microseconds):
        raise UserError(f"the duration {text[:40]!r} is not a whole number of microseconds", where=where)
    return int(microseconds)


def _example(number: str = "10") -> str:
    return f"write a number and a unit, for example '{number} seconds'"


def parse_size(text: object, *, where: str | None = None) -> int:
    """Read a size as bytes; a plain number is one already.

    >>> parse_size("64 MB"), parse_size("1.5GiB"), parse_size(1000)
    (64000000, 1610612736, 1000)
    """
    if isinstance(text, int) and not isinstance(text, bool) and text > 0:
        return text
    shape = _SIZE.fullmatch(text) if isinstance(text, str) and len(text) < 40 else None
    factor = None if shape is None else _BYTES.get(shape[2].lower())
    if shape is None or factor is None or (size := int(Decimal(shape[1]) * factor)) <= 0:
        raise UserError(
            f"{str(text)[:40]!r} is not a size",
            where=where,
            remedy="write a number and a unit (kB, MB, GB, TB; KiB, MiB, GiB, TiB), for example '64 MB'",
        )
    return size


def size_text(count: float) -> str:
    """A number of bytes.

    >>> size_text(0), size_text(1536), size_text(3 * 2**30)
    ('0 B', '1.5 KiB', '3.0 GiB')
    """
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"
