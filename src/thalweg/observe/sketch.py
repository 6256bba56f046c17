"""A small summary of a stream's tuples, from which its statistics are computed.

A sketch counts tuples and bytes and knows the span of event times. Of each key column it keeps two things:

- *Sample*: of the values with the k least hashes, each with its count. All sites and streams hash alike, so
  they sample the same values, and the matches between two samples give the selectivity of a join.
- *Heavy values*: the most frequent values with their counts, which a sample by hash can miss.

Sketches of sites, buckets and batches merge. If `decay` is called now and then, recent tuples weigh more.
Apache DataSketches is not used: its Python interface takes the items one by one, these arrays as a whole.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from thalweg.catalog.model import Stats
from thalweg.observe.column import SAMPLE, Column, short

_DIGITS = 4


@dataclass
class Sketch:
    """What is known of one stream. `first` moves towards `last` as older tuples weigh less."""

    count: float = 0.0
    first: float | None = None
    last: float | None = None
    bytes: dict[str, float] = field(default_factory=dict)
    keys: dict[str, Column] = field(default_factory=dict)

    def update(
        self,
        columns: Mapping[str, pa.Array],
        times: np.ndarray,
        keys: Collection[str] = (),
        words: Mapping[str, np.ndarray] | None = None,
        *,
        k: int = SAMPLE,
    ) -> None:
        """Adds a batch: its columns, event times in microseconds, and which columns are keys.

        `words` are the key words of columns of integers or text, where these are known already.
        """
        if len(times) == 0:
            return
        known = words or {}
        self.merge(
            Sketch(
                float(len(times)),
                float(times.min()),
                float(times.max()),
                {name: _nbytes(array) for name, array in columns.items()},
                {name: Column.of(columns[name], known.get(name), k=k) for name in keys},
            ),
            k=k,
        )

    def merge(self, other: Sketch, *, k: int = SAMPLE) -> None:
        """Adds what another sketch of the stream knows."""
        self.count += other.count
        if other.first is not None and other.last is not None:
            self.first = other.first if self.first is None else min(self.first, other.first)
            self.last = other.last if self.last is None else max(self.last, other.last)
        for name, n in other.bytes.items():
            self.bytes[name] = self.bytes.get(name, 0.0) + n
        for name, column in other.keys.items():
            mine = self.keys.get(name)
            self.keys[name] = column if mine is None else mine.merge(column, k=k)

    def reach(self, time: float) -> None:
        """The stream is known to have come so far, in microseconds, even if it brought nothing."""
        if self.last is not None:
            self.last = max(self.last, float(time))

    def decay(self, factor: float, *, k: int = SAMPLE) -> None:
        """Lets all tuples so far weigh less."""
        self.count *= factor
        if self.first is not None and self.last is not None:
            self.first = self.last - (self.last - self.first) * factor
        self.bytes = {name: n * factor for name, n in self.bytes.items()}
        self.keys = {name: column.decay(factor, k=k) for name, column in self.keys.items()}

    @property
    def rate(self) -> float | None:
        """Tuples a second; None where it can't be known: without tuples, or with all of them at one time."""
        if self.first is None or self.last is None or self.last <= self.first or self.count <= 1:
            return None
        return (self.count - 1) / (self.last - self.first) * 1e6

    def stats(self) -> Stats:
        """The statistics, as a catalog has them. What is unknown is left out."""
        if self.count <= 0:
            return Stats()
        rate = None if self.rate is None else rounded(self.rate)
        widths = {name: rounded(n / self.count) for name, n in self.bytes.items()}
        return Stats(
            rate=rate,
            bytes=rounded(sum(self.bytes.values()) / self.count) if self.bytes else None,
            widths=widths,
            distinct={name: rounded(c.distinct) for name, c in self.keys.items() if c.distinct > 0},
            rates={name: found for name in self.keys if rate and (found := self._rates(name, rate))},
        )

    def _rates(self, name: str, rate: float) -> dict[str | int, float]:
        """The rates of named values, rounded down: together they are no more than the stream's."""
        named = self.keys[name].named(self.count)
        return {
            v: below for v, n in named.items() if (below := rounded(n / self.count * rate, down=True)) > 0
        }

    def to_json(self) -> dict[str, Any]:
        return {
            "count": short(self.count),
            "first": self.first,
            "last": self.last,
            "bytes": {name: short(n) for name, n in self.bytes.items()},
            "keys": {name: column.to_json() for name, column in self.keys.items()},
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Sketch:
        """Reads the output of `to_json`."""
        return cls(
            float(data["count"]),
            data["first"],
            data["last"],
            {name: float(n) for name, n in data["bytes"].items()},
            {name: Column.from_json(column) for name, column in data["keys"].items()},
        )


def merged(one: Mapping[str, Any] | None, other: dict[str, Any]) -> dict[str, Any]:
    """Two sketches of a stream as one, all of them as `to_json` writes them."""
    if one is None:
        return other
    sketch = Sketch.from_json(one)
    sketch.merge(Sketch.from_json(other))
    return sketch.to_json()


def rounded(value: float, *, down: bool = False) -> float:
    """A number with four significant digits.

    >>> rounded(1234.56), rounded(0.00012345678), rounded(76.519, down=True)
    (1235.0, 0.0001235, 76.51)
    """
    if value == 0 or not math.isfinite(value):
        return value
    near = float(f"{value:.{_DIGITS}g}")
    if not down or near <= value:
        return near
    unit = 10.0 ** (math.floor(math.log10(value)) - _DIGITS + 1)
    return float(f"{near - unit:.{_DIGITS}g}")


def _nbytes(array: pa.Array) -> float:
    """The bytes of the values: of a fixed width each, or as long as they are."""
    kind = array.type
    if pa.types.is_boolean(kind):
        return float(len(array))
    if pa.types.is_primitive(kind) or pa.types.is_decimal(kind):
        return float(len(array) * kind.bit_width // 8)
    if pa.types.is_string(kind) or pa.types.is_binary(kind) or pa.types.is_large_string(kind):
        return float(pc.sum(pc.binary_length(array)).as_py() or 0)
    return float(array.nbytes)
