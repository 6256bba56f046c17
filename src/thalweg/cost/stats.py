"""Statistics of streams, and their certainty.

A rate, a width, a number of distinct values or a selectivity is declared in the catalog, measured, or
assumed. A measured value goes before a declared one. A value that is neither is assumed, never zero, and
`Statistics.assumed` lists every assumed value that was used.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from thalweg.catalog.model import Catalog, JoinSelectivity, Stats, selectivity_of

RATE = 1000.0
ROWS = 1000.0
DISTINCT = 1000.0
PASSES = 1 / 3
FOREVER_S = 3600.0
VARIABLE_WIDTH = 16.0
_WIDTHS = {
    **dict.fromkeys(("boolean", "byte", "tinyint"), 1.0),
    **dict.fromkeys(("short", "smallint"), 2.0),
    **dict.fromkeys(("int", "integer", "float", "real", "date"), 4.0),
    **dict.fromkeys(("long", "bigint", "double", "timestamp", "timestamp_ntz", "timestamp_ltz"), 8.0),
}


class Certainty(StrEnum):
    DECLARED = "declared"
    MEASURED = "measured"
    ASSUMED = "assumed"


@dataclass(frozen=True)
class Value:
    """A number, and how surely it is known: if measured, from how many tuples.

    >>> str(Value(2.5, Certainty.MEASURED, 1200)), str(Value(10, Certainty.DECLARED))
    ('2.5, measured from 1,200 tuples', '10, declared')
    """

    value: float
    certainty: Certainty
    tuples: float | None = None

    def __str__(self) -> str:
        known = f" from {self.tuples:,.0f} tuples" if self.tuples is not None else ""
        return f"{self.value:g}, {self.certainty}{known}"


@dataclass(frozen=True)
class Spread:
    """How a stream's tuples spread over the values of a column.

    `shares` are those of values known by name; the others, `rest` of all tuples, spread evenly over
    `distinct` further values.

    >>> Spread({"a": 0.5}, 0.5, 10).of("a"), Spread({"a": 0.5}, 0.5, 10).of("b")
    (0.5, 0.05)
    """

    shares: Mapping[Hashable, float]
    rest: float
    distinct: float

    def of(self, value: Hashable) -> float:
        """The share of one value."""
        named = self.shares.get(value)
        return (self.rest / self.distinct if self.rest else 0.0) if named is None else named

    @property
    def values(self) -> float:
        """The number of values, named or not."""
        return max(1.0, len(self.shares) + (self.distinct if self.rest else 0.0))


@dataclass
class Statistics:
    """Declared and measured statistics, by stream; `tuples` are those that a stream's were measured from."""

    catalog: Catalog
    measured: Mapping[str, Stats] = field(default_factory=dict)
    assumed: dict[str, None] = field(default_factory=dict)
    measured_joins: tuple[JoinSelectivity, ...] = ()
    tuples: Mapping[str, float] = field(default_factory=dict)

    def rate(self, stream: str) -> Value:
        """Tuples a second."""
        for stats, certainty in self._known(stream):
            if stats.rate is not None:
                return self._value(stream, stats.rate, certainty)
            for by_value in filter(None, stats.rates.values()):
                return self._value(stream, sum(by_value.values()), certainty)
        return self._assume(f"streams.{stream}.stats.rate", RATE)

    def rows(self, table: str) -> Value:
        """The rows of a table."""
        for stats, certainty in self._known(table):
            if stats.rows is not None:
                return self._value(table, stats.rows, certainty)
        return self._assume(f"tables.{table}.stats.rows", ROWS)

    def distinct(self, stream: str, column: str) -> Value:
        """Distinct values of a column."""
        for stats, certainty in self._known(stream):
            if column in stats.distinct:
                return self._value(stream, max(1.0, stats.distinct[column]), certainty)
            if stats.rates.get(column):
                return self._value(stream, float(len(stats.rates[column])), certainty)
        return self._assume(f"streams.{stream}.stats.distinct.{column}", DISTINCT)

    def spread(self, stream: str, column: str) -> Spread | None:
        """Shares of single values, where they are known."""
        for stats, _ in self._known(stream):
            by_value = stats.rates.get(column)
            if by_value:
                rate, total = self.rate(stream).value, sum(by_value.values())
                if total > rate * (1 + 1e-6):
                    self.note(
                        f"streams.{stream}.stats.rates.{column} ({total:g} in all) are shares of {rate:g}"
                    )
                total = max(rate, total)
                if total == 0:
                    return None
                shares = {_plain(v): r / total for v, r in by_value.items()}
                rest = max(0.0, 1 - sum(shares.values()))
                rest = rest if rest > 1e-9 else 0.0
                unnamed = max(1.0, self.distinct(stream, column).value - len(shares))
                return Spread(shares, rest, unnamed)
            if column in stats.distinct:
                return None
        return None

    def has_distinct(self, stream: str, column: str) -> bool:
        """Whether the number of distinct values is declared or measured as such."""
        return any(column in stats.distinct for stats, _ in self._known(stream))

    def selectivity(self, left: tuple[str, str], right: tuple[str, str]) -> float | None:
        """The selectivity of an equality of two (stream, column)s; None if unknown."""
        return selectivity_of((*self.measured_joins, *self.catalog.joins), left, right)

    def bytes(self, stream: str) -> Value | None:
        """Bytes of one whole tuple, if declared or measured as a whole."""
        for stats, certainty in self._known(stream):
            if stats.bytes is not None:
                return self._value(stream, stats.bytes, certainty)
        return None

    def has_widths(self, stream: str) -> bool:
        return any(stats.widths for stats, _ in self._known(stream))

    def width(self, stream: str, column: str) -> Value:
        """Bytes of one column; a type of fixed width needs no statistics."""
        for stats, certainty in self._known(stream):
            if column in stats.widths:
                return self._value(stream, stats.widths[column], certainty)
        type_ = self.catalog.streams[stream].types[column].lower().split("(")[0]
        if type_ in _WIDTHS:
            return Value(_WIDTHS[type_], Certainty.DECLARED)
        return self._assume(f"streams.{stream}.stats.widths.{column}", VARIABLE_WIDTH)

    def note(self, what: str) -> None:
        """Something else that had to be assumed."""
        self.assumed[what] = None

    def _known(self, stream: str) -> list[tuple[Stats, Certainty]]:
        known = [(self.catalog.streams[stream].stats, Certainty.DECLARED)]
        if stream in self.measured:
            known.insert(0, (self.measured[stream], Certainty.MEASURED))
        return known

    def _value(self, stream: str, value: float, certainty: Certainty) -> Value:
        tuples = self.tuples.get(stream) if certainty is Certainty.MEASURED else None
        return Value(value, certainty, tuples)

    def _assume(self, what: str, value: float) -> Value:
        self.note(f"{what} = {value:g}")
        return Value(value, Certainty.ASSUMED)


def _plain(value: Any) -> Hashable:
    """A value in the form in which it is compared: YAML and SQL can read one value as different types."""
    return (
        value if isinstance(value, str) else (float(value) if isinstance(value, (int, float)) else str(value))
    )
