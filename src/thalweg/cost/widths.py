"""How wide tuples are: a stream's own whole, a joined one as the columns that are still needed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from thalweg.cost.masks import mask_of, members
from thalweg.cost.stats import Statistics
from thalweg.query.model import Expr, Query


@dataclass(frozen=True, eq=False)
class Widths:
    """Widths in bytes; with `equal` every tuple, joined or not, counts as 1."""

    query: Query
    statistics: Statistics
    equal: bool = False

    def whole(self, alias: str) -> float:
        """A whole tuple of one stream."""
        if self.equal:
            return 1.0
        stream = self.query.input(alias).stream
        declared = self.statistics.bytes(stream)
        if declared is not None:
            return declared.value
        columns = self.statistics.catalog.streams[stream].columns
        return sum(self.statistics.width(stream, c).value for c in columns)

    def key(self, exprs: Sequence[Expr]) -> float:
        """The columns of a key."""
        if self.equal:
            return 1.0
        columns = {c for e in exprs for c in e.columns}
        return sum(self._column(alias, column) for alias, column in sorted(columns))

    def joined(self, mask: int) -> float:
        """A tuple joined of several streams: the columns that outputs and later conditions read."""
        if self.equal:
            return 1.0
        total, outside = 0.0, ~mask
        for i in members(mask):
            fixed, columns = self._parts[i]
            total += fixed
            for width, readers in columns:
                if readers & outside:
                    total += width
        return total

    def more(self, alias: str, columns: Iterable[str]) -> float:
        """The bytes that further columns add to a joined tuple; none if it counts as all of its bytes."""
        stream = self.query.input(alias).stream
        if self.equal or (self.statistics.bytes(stream) and not self.statistics.has_widths(stream)):
            return 0.0
        return sum(self._column(alias, c) for c in columns)

    def needed(self, mask: int) -> dict[str, tuple[str, ...]]:
        """The columns that a tuple joined of these streams must still have."""
        aliases = self.query.aliases
        return {
            aliases[i]: tuple(sorted(c for c, readers in self._readers[i].items() if readers & ~mask))
            for i in members(mask)
        }

    @cached_property
    def _parts(self) -> list[tuple[float, list[tuple[float, int]]]]:
        """For each stream the width that always counts, and columns that count while they have readers."""
        found: list[tuple[float, list[tuple[float, int]]]] = []
        for i, one in enumerate(self.query.inputs):
            declared = self.statistics.bytes(one.stream)
            if declared is not None and not self.statistics.has_widths(one.stream):
                found.append((declared.value, []))  # the division of the bytes among the columns is unknown
            else:
                columns = [(self._column(one.alias, c), masks) for c, masks in self._readers[i].items()]
                found.append((0.0, columns))
        return found

    def _column(self, alias: str, column: str) -> float:
        return self.statistics.width(self.query.input(alias).stream, column).value

    @cached_property
    def _readers(self) -> list[dict[str, int]]:
        """For each stream, its columns that something reads after it, and all streams needed for that.

        Output columns count as read by a stream that never joins, so they stay needed.
        """
        number = {a: i for i, a in enumerate(self.query.aliases)}
        never = 1 << len(number)
        found: list[dict[str, int]] = [{} for _ in number]
        reading = [(e.columns, never) for e in self.query.evaluated]
        reading += [(c.columns, mask_of(number[a] for a in c.aliases)) for c in self.query.conditions]
        for e in (e for e in self.query.equalities if not e.left.is_constant):
            both = mask_of(number[a] for a in e.left.aliases | e.right.aliases)
            reading += [(e.left.columns, both), (e.right.columns, both)]
        for columns, mask in reading:
            for alias, column in columns:
                if alias in number:
                    readers = found[number[alias]]
                    readers[column] = readers.get(column, 0) | mask
        return found
