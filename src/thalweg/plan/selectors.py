"""Parts of a key space: by hash bucket, by range, or by a set of values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from zlib import crc32

from thalweg.plan.codec import decode


@dataclass(frozen=True)
class Selector:
    """One part of a key space; exactly one of `buckets`, `ranges` and `values` is given.

    A key falls into bucket crc32(its text) mod `of`, which Spark SQL can compute as well. Ranges are half
    open, None for an open end. With `others`, values that no part names belong to this one.

    >>> Selector(part=0, ranges=((None, "b"),)).matches("a"), Selector(part=1, values=("x",)).matches("a")
    (True, False)
    """

    part: int
    of: int = 0
    buckets: tuple[int, ...] = ()
    ranges: tuple[tuple[Any, Any], ...] = ()
    values: tuple[Any, ...] = ()
    others: bool = False

    def __post_init__(self) -> None:
        if sum((bool(self.buckets), bool(self.ranges), bool(self.values or self.others))) != 1:
            raise ValueError("a part of the key space is given by buckets, by ranges or by values")
        if self.buckets and not all(0 <= b < self.of for b in self.buckets):
            raise ValueError(f"there are {self.of} buckets, not {max(self.buckets) + 1}")

    def matches(self, value: Any, named: frozenset[Any] = frozenset()) -> bool:
        """Whether a key belongs here; `named` are the values that any part names."""
        if self.buckets:
            return bucket(value, self.of) in self.buckets
        if self.ranges:  # NaN is beyond all numbers
            return any(
                (low is None or not value < low) and (high is None or value < high)
                for low, high in self.ranges
            )
        return value in self.values or (self.others and value not in named)

    def to_json(self) -> dict[str, Any]:
        if self.buckets:
            return {"part": self.part, "buckets": list(self.buckets), "of": self.of}
        if self.ranges:
            return {"part": self.part, "ranges": [list(r) for r in self.ranges]}
        return {"part": self.part, "values": list(self.values), **({"others": True} if self.others else {})}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Selector:
        """Reads the output of `to_json`.

        >>> one = Selector(part=2, of=8, buckets=(1, 5))
        >>> Selector.from_json(one.to_json()) == one
        True
        """
        return decode(cls, data, "a part of the key space")


def bucket(value: Any, of: int) -> int:
    """The hash bucket of a key.

    >>> bucket("a", 4), bucket(7.0, 4) == bucket(7, 4)
    (3, True)
    """
    whole = isinstance(value, float) and value.is_integer()
    return crc32(str(int(value) if whole else value).encode()) % of
