"""Parts of a key space: by hash bucket, by range, or by a set of values."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any
from zlib import crc32

from thalweg.plan.codec import decode

Region = frozenset[Hashable]
"""A set of the smallest parts of a key space; `...` is all that no part names."""


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
        for low, high in self.ranges:
            if low is not None and high is not None and not _rank(low) < _rank(high):
                raise ValueError(f"the range from {low!r} to {high!r} is empty")

    def matches(self, value: Any, named: frozenset[Any] = frozenset()) -> bool:
        """Whether a key belongs here; `named` are the values that any part names."""
        if self.buckets:
            return bucket(value, self.of) in self.buckets
        if self.ranges:
            rank = _rank(value)
            return any(
                (low is None or not rank < _rank(low)) and (high is None or rank < _rank(high))
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


def regions(groups: Sequence[Sequence[Selector]]) -> tuple[list[list[Region]], Region]:
    """The selectors of one key space as sets of its smallest parts, and the set of all of these.

    A group has the parts of one stream; the key space is the same for all groups.

    >>> one, two = Selector(part=0, values=("x",)), Selector(part=1, others=True)
    >>> regions([[one, two]]) == ([[{"x"}, {...}]], {"x", ...})
    True
    """
    every = [s for group in groups for s in group]
    if len({(bool(s.buckets), bool(s.ranges), s.of if s.buckets else 0) for s in every}) > 1:
        raise ValueError("the parts of one key space are given in different ways")
    if every[0].buckets:
        listed = frozenset(b for s in every for b in s.buckets)
        whole = listed if len(listed) == every[0].of else listed | {...}
        return [[frozenset(s.buckets) for s in group] for group in groups], whole
    if every[0].ranges:
        ends = sorted({_rank(end) for s in every for r in s.ranges for end in r if end is not None})
        place = {end: n for n, end in enumerate(ends, 1)}
        whole = frozenset(range(len(ends) + 1))
        return [[_between(s, place) for s in group] for group in groups], whole
    named = frozenset(v for s in every for v in s.values)
    found = []
    for group in groups:
        own = {v for s in group for v in s.values}
        rest = (named - own) | {...}
        found.append([frozenset(s.values) | (rest if s.others else frozenset()) for s in group])
    return found, named | {...}


def _between(selector: Selector, place: Mapping[Any, int]) -> Region:
    """The numbers of the stretches between two neighbouring ends that the ranges have."""
    spans = (
        range(0 if low is None else place[_rank(low)], len(place) + 1 if high is None else place[_rank(high)])
        for low, high in selector.ranges
    )
    return frozenset(n for span in spans for n in span)


def _rank(value: Any) -> tuple[int, Any]:
    """One order for the keys of all types: numbers, then NaN, then all others as text."""
    return (0, value) if isinstance(value, int | float | Decimal) else (1, str(value))


def bucket(value: Any, of: int) -> int:
    """The hash bucket of a key.

    >>> bucket("a", 4), bucket(7.0, 4) == bucket(7, 4)
    (3, True)
    """
    whole = isinstance(value, float) and value.is_integer()
    return crc32(str(int(value) if whole else value).encode()) % of
