"""How many tuples flow: the rate and the window content of any set of streams.

For a set S of streams with rates r and window contents w (tuples; pmjoin's lambda and W), of whose
combinations a share F(S) agrees,

    window(S) = F(S) * prod w_i                        pmjoin eq. 3
    rate(S)   = F(S) * sum_i r_i * prod_{j != i} w_j   pmjoin eq. 2

This is the same as applying the paper's equations to one join after another, in any order. F(S) is the
product over all classes of equal attributes (`cost/keys.py`) and the conditions that S can decide.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from thalweg.cost.keys import Floats, KeyClass, Selection
from thalweg.cost.masks import mask_of, members
from thalweg.cost.stats import DISTINCT, FOREVER_S, PASSES, Spread, Statistics
from thalweg.cost.widths import Widths
from thalweg.names import LIVE
from thalweg.query import classes
from thalweg.query.implied import accepted
from thalweg.query.model import Equality, Expr, Input, Query, WindowKind

LARGEST = 1e300
"""No estimate is larger."""


@dataclass(frozen=True)
class Flow:
    """A stream of tuples or of partial results: its rate, its window's content, the width of a tuple."""

    rate: float
    window: float
    width: float

    @property
    def bytes(self) -> float:
        """Bytes a second."""
        return self.rate * self.width


@dataclass(frozen=True, eq=False)
class Rates:
    """Estimates for one query. Sets of streams are bit masks over `aliases`.

    `rate` and `window` are of the single streams, after their own filters. `keys` are the expressions of
    each class of equal attributes, by alias.
    """

    query: Query
    statistics: Statistics
    rate: Floats
    window: Floats
    classes: tuple[KeyClass, ...]
    keys: tuple[Mapping[str, Sequence[Expr]], ...]
    equal_width: bool = False
    _flows: dict[int, Flow] = field(default_factory=dict, repr=False)
    # The same in every part of the key space:
    _widths: dict[int, float] = field(default_factory=dict, repr=False)
    _names: dict[int, tuple[str, ...]] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, query: Query, statistics: Statistics, *, equal_width: bool = False) -> Rates:
        """Estimates from statistics; missing statistics are assumed, and noted there."""
        number = {a: i for i, a in enumerate(query.aliases)}
        rate, window = np.zeros(len(number)), np.zeros(len(number))
        for i, one in enumerate(query.inputs):
            rate[i], window[i] = _source(one, statistics)
        keys = tuple(_classes(query, statistics))
        found = tuple(_key_class(by_alias, number, query, statistics) for by_alias in keys)
        return cls(query, statistics, rate, window, found, keys, equal_width)

    @cached_property
    def aliases(self) -> tuple[str, ...]:
        return self.query.aliases

    @cached_property
    def all(self) -> int:
        """The mask of all streams."""
        return (1 << len(self.aliases)) - 1

    @cached_property
    def sites(self) -> tuple[str, ...]:
        """The site of each stream."""
        streams = self.statistics.catalog.streams
        return tuple(streams[i.stream].site for i in self.query.inputs)

    @cached_property
    def widths(self) -> Widths:
        return Widths(self.query, self.statistics, self.equal_width)

    def names(self, mask: int) -> tuple[str, ...]:
        if mask not in self._names:
            aliases = self.aliases
            self._names[mask] = tuple([aliases[i] for i in members(mask)])
        return self._names[mask]

    def flow(self, mask: int) -> Flow:
        """The join of a set of streams."""
        if mask not in self._flows:
            inside = members(mask)
            rate, window = self._joined(inside, self._log_agree(mask))
            self._flows[mask] = Flow(rate, window, self.width(mask))
        return self._flows[mask]

    def width(self, mask: int) -> float:
        """Bytes of a tuple: all columns of a stream's own, the columns still needed of a joined one."""
        if mask not in self._widths:
            names = self.names(mask)
            one = len(names) == 1
            self._widths[mask] = self.widths.whole(names[0]) if one else self.widths.joined(mask)
        return self._widths[mask]

    def headed(self, head: int, mask: int) -> float:
        """The rate of a set's results whose latest tuple is one of `head`."""
        others = [float(self.window[i]) for i in members(mask) if i != head]
        return min(LARGEST, float(self.rate[head]) * math.prod(others) * self.agree(mask))

    def agree(self, mask: int) -> float:
        """The share of combinations of a set's tuples that match, F(S)."""
        return math.exp(self._log_agree(mask))

    def _log_agree(self, mask: int) -> float:
        """Its logarithm: with a thousand streams the share itself is less than any number."""
        log = _log(self.decided(mask))
        for one in self.classes:
            inside = mask & one.mask
            if inside == one.mask:
                log += one.log_all
            elif inside & (inside - 1):  # two or more
                log += one.log_agree(frozenset(members(inside)))
        return log

    def selectivity(self, left: int, right: int) -> float:
        """The share of pairs of two sets' results that match."""
        apart = self._log_agree(left) + self._log_agree(right)
        return math.exp(min(0.0, self._log_agree(left | right) - apart)) if apart > -math.inf else 0.0

    def joinable(self, left: int, right: int) -> bool:
        """Whether some attribute connects two sets."""
        return any(one.mask & left and one.mask & right for one in self.classes)

    def part(self, class_: int, selection: Selection) -> Rates:
        """The same query within a part of one attribute's key space."""
        within, inside = self.classes[class_].part(selection)
        rate, window = self.rate.copy(), self.window.copy()
        for member, share in zip(within.members, inside, strict=True):
            rate[member] *= share
            window[member] *= share
        others = tuple(within if i == class_ else one for i, one in enumerate(self.classes))
        return replace(self, rate=rate, window=window, classes=others, _flows={})

    def _joined(self, inside: Sequence[int], log: float) -> tuple[float, float]:
        """Eqs. 2 and 3, through logarithms: a product of a thousand windows is more than any number."""
        rates, windows, logs = self._single
        if len(inside) == 1:
            return rates[inside[0]], windows[inside[0]]
        empty = [i for i in inside if windows[i] == 0]
        together = _exp(sum([logs[i] for i in inside]) + log)  # the log of an empty window counts as 0
        if not empty:
            return min(together * sum([rates[i] / windows[i] for i in inside]), LARGEST), together
        # Where one window is empty, only its own tuples, as they come, meet the others.
        return (min(rates[empty[0]] * together, LARGEST) if len(empty) == 1 else 0.0), 0.0

    @cached_property
    def _single(self) -> tuple[list[float], list[float], list[float]]:
        """Rates, windows and their logarithms as plain numbers, which are faster one by one."""
        windows: list[float] = self.window.tolist()
        return self.rate.tolist(), windows, [math.log(w) if w else 0.0 for w in windows]

    def decided(self, mask: int) -> float:
        """The share of combinations that pass the conditions which a set can decide."""
        share = 1.0
        for condition, read in self._conditions:
            if read & mask == read:
                self.statistics.note(f"{condition.sql} passes 1/3")
                share *= PASSES
        return share

    @cached_property
    def _conditions(self) -> list[tuple[Expr, int]]:
        return [(c, mask_of(self.aliases.index(a) for a in c.aliases)) for c in self.query.conditions]


def _classes(query: Query, statistics: Statistics) -> list[dict[str, list[Expr]]]:
    """The classes of equal attributes.

    An equality of a string and a number compares numbers: '05' = 5 and 5 = '5', but '05' is not '5'. So the
    two sides of such an equality are not in one class with the other expressions that equal either side.
    """
    apart = {}
    own = [
        Equality(Expr(e.left.sql), Expr(e.right.sql)) for e in query.equalities
    ]  # each side its own object
    for n, equality in enumerate(own):
        left, right = (_family(side, query, statistics) for side in (equality.left, equality.right))
        if left != right:
            apart[id(equality.left)] = apart[id(equality.right)] = n
    return classes(own, lambda side: (side.sql, apart.get(id(side))))


def _family(side: Expr, query: Query, statistics: Statistics) -> str:
    column = side.plain_column
    if column is None:
        return "expression"
    (alias,) = side.aliases
    type_ = statistics.catalog.streams[query.input(alias).stream].columns[column].lower().split("(")[0]
    if type_.strip() in _NUMBERS:
        return "number"
    return "string" if type_.strip() in ("string", "char", "varchar") else type_


_NUMBERS = frozenset(
    (
        *("byte", "tinyint", "short", "smallint", "int", "integer", "long", "bigint"),
        *("float", "real", "double", "decimal", "dec", "numeric"),
    )
)


def _log(share: float) -> float:
    return math.log(share) if share > 0 else -math.inf


def _exp(log: float) -> float:
    return math.exp(min(log, math.log(LARGEST)))


def _source(one: Input, statistics: Statistics) -> tuple[float, float]:
    passing = 1.0
    for condition in one.filters:
        passing *= passes(one, condition, statistics)
    if one.is_table:
        return 0.0, statistics.rows(one.stream).value * passing
    whole = statistics.rate(one.stream).value
    if one.window.kind is WindowKind.ROWS:
        # Rows are counted before the filters; the window holds those of the last k that passed.
        values = [statistics.distinct(one.stream, column).value for column in one.window.by]
        return whole * passing, min(one.window.size * math.prod(values) * passing, LARGEST)
    seconds = one.window.size / 1e6
    if one.window.kind is WindowKind.TUMBLE:
        seconds /= 2  # a tuple lives for half of its window, on average
    if one.window.kind is WindowKind.UNBOUNDED:
        seconds = FOREVER_S
        statistics.note(f"the unbounded window of {one.alias} is as long as {FOREVER_S:g} seconds")
    return whole * passing, whole * passing * seconds


def passes(one: Input, condition: Expr, statistics: Statistics) -> float:
    """The share of a stream's tuples that pass a filter."""
    if condition.plain_column == LIVE:
        return 1.0
    named = _compared(condition)
    if named is not None:
        column, values = named
        spread = statistics.spread(one.stream, column)
        if spread is not None:
            return min(1.0, sum(spread.of(v) for v in values))
        if statistics.has_distinct(one.stream, column):
            return min(1.0, len(values) / statistics.distinct(one.stream, column).value)
    statistics.note(f"{condition.sql} passes 1/3")
    return PASSES


def _compared(condition: Expr) -> tuple[str, list[Hashable]] | None:
    """The column that a filter compares with constants, and the values it accepts as statistics have them."""
    found = accepted(condition.sql)
    if found is None:
        return None
    return found[0], [v if isinstance(v, str) else float(v) for v in found[1]]


def _key_class(
    by_alias: Mapping[str, Sequence[Expr]], number: dict[str, int], query: Query, statistics: Statistics
) -> KeyClass:
    numbers = [number[a] for a in by_alias]
    columns = {
        number[a]: next(filter(None, (e.plain_column for e in exprs)), None) for a, exprs in by_alias.items()
    }
    distinct, spreads = [], []
    for alias, exprs in by_alias.items():
        one, column = query.input(alias), columns[number[alias]]
        constant = exprs[0].is_constant
        if column is None and not constant:
            statistics.note(f"{exprs[0].sql} has {DISTINCT:g} distinct values")
        spread = statistics.spread(one.stream, column) if column else None
        spread = _filtered(one, column, spread)
        spreads.append(spread)
        distinct.append(
            spread.values
            if spread
            else (statistics.distinct(one.stream, column).value if column else 1.0 if constant else DISTINCT)
        )
    declared = {}
    for i in numbers:
        for j in numbers:
            left, right = columns[i], columns[j]
            if i < j and left and right:
                streams = query.inputs[i].stream, query.inputs[j].stream
                known = statistics.selectivity((streams[0], left), (streams[1], right))
                if known is not None:
                    declared[i, j] = known
    found = KeyClass.of(numbers, distinct, spreads, declared)
    if any(f > 0 and found.estimate(frozenset(pair)) == 0 for pair, f in declared.items()):
        # The named values never meet, yet the catalog says that these streams do: it knows better.
        found = KeyClass.of(numbers, distinct, [None] * len(numbers), declared)
    return found


def _filtered(one: Input, column: str | None, spread: Spread | None) -> Spread | None:
    """The spread after filters on the key itself."""
    for condition in one.filters:
        named = _compared(condition)
        if named is None or named[0] != column:
            continue
        if spread is None:
            shares = {v: 1 / len(named[1]) for v in named[1]}
        else:
            kept = {v: spread.of(v) for v in named[1]}
            total = sum(kept.values())
            shares = {v: s / total for v, s in kept.items()} if total else dict.fromkeys(kept, 1 / len(kept))
        spread = Spread(shares, 0.0, 1.0)
    return spread
