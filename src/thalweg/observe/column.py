"""A key column in a sketch: a sample of its values by hash, and its heavy values."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from thalweg.kernel.columns import fixed_values
from thalweg.kernel.keys import comparable, words
from thalweg.kernel.tally import SPACE, count_of, marks, tally

SAMPLE = 512
"""Values in a sample: estimates are off by about 1 / sqrt(SAMPLE)."""

HEAVY = 64
"""Heavy values of a column."""

LOOKED_AT = 4096
"""Rows of a batch in which heavy values are looked for; the values found are counted in all rows."""

_NEGLIGIBLE = 0.05
"""A value whose count has decayed to less is dropped."""

_SEEN = 4
"""The least count of a value that is named."""

_LONGEST = 64
"""A longer text is not named, so that a sketch stays small."""

_DAY_US = 86_400_000_000


class Heavy(NamedTuple):
    """A frequent value, and how often it was seen at least; `value` is None where it can't be named."""

    value: str | int | None
    seen: float


@dataclass(frozen=True, eq=False)
class Column:
    """What is known of one key column. NULLs count for nothing here, since they match nothing.

    `marks` are the hashes below `limit` of all values seen, in order, and `counts` how often each was seen.
    `heavy` has the frequent values by hash. A value was seen at most `missed` times more often than it says.
    """

    kind: str
    limit: int
    marks: np.ndarray
    counts: np.ndarray
    heavy: Mapping[int, Heavy]
    missed: float = 0.0

    @classmethod
    def of(cls, array: pa.Array, word: np.ndarray | None = None, *, k: int = SAMPLE) -> Column:
        """The column of a batch; `word` are its words (`kernel.keys.words`), if they are known already.

        >>> Column.of(pa.array(["a", "b", "a", None])).distinct
        2.0
        """
        kind = _kind(array.type)
        if array.null_count:
            valid = array.is_valid()
            array = array.filter(valid)
            word = None if word is None else word[np.asarray(valid).astype(bool)]
        mark = marks(word if word is not None and kind in ("integer", "text") else _words(array))
        held, counts, rows, limit = _least(mark, k)
        named, missed = (held, counts, rows), 0.0
        if limit < SPACE:
            named, missed = _frequent(mark)
        most = np.argsort(-named[1], kind="stable")[: HEAVY + 1]
        if len(most) > HEAVY:
            missed = max(missed, float(named[1][most[-1]]))
        most = most[:HEAVY]
        values = _named(array.take(pa.array(named[2][most])), kind)
        often = zip(values, named[1][most].astype(float).tolist(), strict=True)
        heavy = dict(zip(named[0][most].tolist(), map(Heavy._make, often), strict=True))
        family = "number" if kind == "integer" else kind
        return cls(family, int(limit), held, counts.astype(float), heavy, missed)

    def merge(self, other: Column, *, k: int = SAMPLE) -> Column:
        """The column of both."""
        held, where = np.unique(np.concatenate((self.marks, other.marks)), return_inverse=True)
        counts = np.bincount(where, np.concatenate((self.counts, other.counts)), len(held))
        heavy = dict(self.heavy)
        for mark, one in other.heavy.items():
            heavy[mark] = Heavy(one.value, one.seen + heavy[mark].seen if mark in heavy else one.seen)
        heavy, floor = _most(heavy)
        kind = self.kind if self.kind == other.kind else ""
        limit = min(self.limit, other.limit)
        return Column(kind, limit, held, counts, heavy, self.missed + other.missed + floor)._cut(k)

    def decay(self, factor: float, *, k: int = SAMPLE) -> Column:
        """All counts, multiplied."""
        counts = self.counts * factor
        stays = counts >= _NEGLIGIBLE
        heavy = {m: Heavy(h.value, h.seen * factor) for m, h in self.heavy.items()}
        heavy = {m: h for m, h in heavy.items() if h.seen >= _NEGLIGIBLE}
        kept = int(stays.sum())
        limit = self.limit
        if kept < k / 2:  # fewer values than before: from now on sample more of them
            limit = min(SPACE, limit * k // max(1, kept))
        return Column(self.kind, limit, self.marks[stays], counts[stays], heavy, self.missed * factor)

    @property
    def distinct(self) -> float:
        """Distinct values, with a standard error of 1 / sqrt(SAMPLE); exact while all are in the sample."""
        return max(float(len(self.marks)) * SPACE / self.limit, float(len(self.heavy)))

    def count(self, mark: int) -> float | None:
        """How often a value was seen; None where it is neither sampled nor heavy."""
        if mark < self.limit:
            at = int(np.searchsorted(self.marks, np.uint64(mark)))
            found = at < len(self.marks) and int(self.marks[at]) == mark
            return float(self.counts[at]) if found else 0.0
        return self.heavy[mark].seen if mark in self.heavy else None

    def named(self, total: float) -> dict[str | int, float]:
        """The counts of values that are clearly more frequent than the rest; `total` are all tuples."""
        found: dict[str | int, float] = {}
        rest, values = total, self.distinct
        known = {mark: self.count(mark) or 0.0 for mark in self.heavy}
        for mark in sorted(known, key=lambda m: (-known[m], str(self.heavy[m].value), m)):
            count, value = known[mark], self.heavy[mark].value
            usual = rest / max(1.0, values)
            exact = mark < self.limit
            if count < max(_SEEN, 2 * usual if values > HEAVY else 0, 0 if exact else 2 * self.missed):
                continue
            rest, values = max(0.0, rest - count), values - 1
            if value is not None:
                found[value] = count
        return found

    def _cut(self, k: int) -> Column:
        limit = self.limit
        if np.searchsorted(self.marks, np.uint64(limit)) > k:
            limit = int(self.marks[k])
        below = int(np.searchsorted(self.marks, np.uint64(limit)))
        return replace(self, limit=limit, marks=self.marks[:below], counts=self.counts[:below])

    def to_json(self) -> dict[str, Any]:
        heavy = [[h.value, mark, short(h.seen)] for mark, h in self.heavy.items()]
        steps = np.diff(self.marks, prepend=np.uint64(0))
        return {
            "kind": self.kind,
            "limit": self.limit,
            "sample": _packed(steps, self.counts),
            "heavy": heavy,
            "missed": short(self.missed),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Column:
        steps, counts = _unpacked(data["sample"])
        heavy = {int(mark): Heavy(value, float(count)) for value, mark, count in data["heavy"]}
        held = np.cumsum(steps, dtype=np.uint64)
        return cls(data["kind"], int(data["limit"]), held, counts, heavy, float(data["missed"]))


def _least(mark: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """What `tally` says; a few rows tell most of the others apart from those that matter."""
    limit = tally(mark[:LOOKED_AT], k)[3] if len(mark) > LOOKED_AT else SPACE
    if limit == SPACE:
        return tally(mark, k)
    near = np.flatnonzero(mark < np.uint64(limit))
    held, counts, rows, found = tally(mark[near], k)
    return held, counts, near[rows], min(limit, found)


def _frequent(mark: np.ndarray) -> tuple[tuple[np.ndarray, np.ndarray, np.ndarray], float]:
    """The values that are frequent among some rows, with their counts in all; and what may be missed.

    Of 4 * step rows with one value at least one is looked at, with a likelihood of 98%.
    """
    step = -(-len(mark) // LOOKED_AT)
    if step == 1:
        return tally(mark, LOOKED_AT)[:3], 0.0
    # Of each stretch of rows one, at another place each time: streams can have a rhythm.
    chosen = np.arange(0, len(mark), step)
    chosen = np.minimum(chosen + (marks(chosen) % np.uint64(step)).astype(np.int64), len(mark) - 1)
    held, counts, rows, _ = tally(mark[chosen], LOOKED_AT)
    most = np.argsort(-counts, kind="stable")[: HEAVY + 1]
    return (held[most], count_of(mark, held[most]), chosen[rows[most]]), 4.0 * step


def _most(heavy: dict[int, Heavy]) -> tuple[dict[int, Heavy], float]:
    """The most frequent of them, and the greatest count of the others."""
    if len(heavy) <= HEAVY:
        return heavy, 0.0
    order = sorted(heavy, key=lambda mark: (-heavy[mark].seen, mark))
    return {mark: heavy[mark] for mark in order[:HEAVY]}, heavy[order[HEAVY]].seen


def _kind(kind: pa.DataType) -> str:
    """Values of one kind are equal if their words are."""
    if pa.types.is_dictionary(kind):
        return _kind(kind.value_type)
    if pa.types.is_integer(kind):
        return "integer"
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return "number"
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return "time"
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return "text"
    return str(kind)


def _words(array: pa.Array) -> np.ndarray:
    """A word for each value, equal for values that compare equal whatever their types."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        return _words(array.cast(kind.value_type))
    if pa.types.is_date(kind):
        return words(array.cast(pa.date32())) * _DAY_US
    if pa.types.is_timestamp(kind):
        return words(array.cast(pa.timestamp("us", kind.tz), safe=False))
    if pa.types.is_decimal(kind) and (kind.scale or not pa.types.is_decimal128(kind) or kind.precision > 18):
        array = array.cast(pa.float64())
    if pa.types.is_floating(array.type):
        found = words(comparable(array.cast(pa.float64())))
        value = fixed_values(array.cast(pa.float64())).view(np.float64)
        whole = (np.abs(value) < 2.0**63) & (np.floor(value) == value)
        return np.where(whole, np.where(whole, value, 0).astype(np.int64), found)
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        array = array.cast(pa.string())
    return words(comparable(array))


def _named(array: pa.Array, kind: str) -> list[str | int | None]:
    """The values as a catalog can have them; None for those of other types, and for long texts."""
    if kind not in ("integer", "text"):
        return [None] * len(array)
    return [None if isinstance(v, str) and len(v) > _LONGEST else v for v in array.to_pylist()]


def short(number: float) -> float:
    """A number as JSON has it in the fewest characters."""
    return int(number) if number == int(number) else number


def _packed(steps: np.ndarray, counts: np.ndarray) -> str:
    """Numbers as text: bytes of the same weight beside each other, since those in front are mostly zero."""
    table = np.concatenate((steps.astype("<u8"), counts.astype("<f8").view("<u8")))
    planes = table.view(np.uint8).reshape(len(table), 8).T
    return base64.b64encode(zlib.compress(planes.tobytes(), 6)).decode()


def _unpacked(text: str) -> tuple[np.ndarray, np.ndarray]:
    planes = np.frombuffer(zlib.decompress(base64.b64decode(text)), np.uint8)
    table = np.ascontiguousarray(planes.reshape(8, -1).T).view("<u8").ravel()
    half = len(table) // 2
    return table[:half].astype(np.uint64), table[half:].view("<f8").astype(float)
