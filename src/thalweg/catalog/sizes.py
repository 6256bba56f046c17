"""Sizes as people write them: `64 MB`, `1.5GiB`, `500 kB`."""

from __future__ import annotations

import re
from decimal import Decimal

from thalweg.errors import UserError

_UNITS = {"": 1, "b": 1} | {
    prefix + unit: base**power
    for power, prefix in enumerate("kmgt", 1)
    for unit, base in (("", 1000), ("b", 1000), ("ib", 1024))
}
_SHAPE = re.compile(r"\s*([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*([A-Za-z]*)\s*")


def parse_size(text: object, *, where: str | None = None) -> int:
    """Read a size as bytes; a plain number is one already.

    >>> parse_size("64 MB"), parse_size("1.5GiB"), parse_size(1000)
    (64000000, 1610612736, 1000)
    """
    if isinstance(text, int) and not isinstance(text, bool) and text > 0:
        return text
    shape = _SHAPE.fullmatch(text) if isinstance(text, str) and len(text) < 40 else None
    factor = None if shape is None else _UNITS.get(shape[2].lower())
    if shape is None or factor is None or (size := int(Decimal(shape[1]) * factor)) <= 0:
        raise UserError(
            f"{str(text)[:40]!r} is not a size",
            where=where,
            remedy="write a number and a unit (kB, MB, GB, TB; KiB, MiB, GiB, TiB), for example '64 MB'",
        )
    return size
