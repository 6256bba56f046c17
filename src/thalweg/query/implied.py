"""Whether some filters imply another: every tuple that passes them all passes it too.

The answer is yes only where it is certain whatever the columns' types: numbers are compared exactly, strings
only for equality, since `v > '10'` means one thing for a number and another for a string.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache

import sqlglot
from sqlglot import exp

from thalweg.query.model import Expr

Constant = Decimal | str


@dataclass(frozen=True)
class _Range:
    """The values of one column that pass a filter, as an interval or one by one."""

    column: str
    low: Constant | None = None
    low_open: bool = False
    high: Constant | None = None
    high_open: bool = False
    among: frozenset[Constant] | None = None


def implied(given: Iterable[str], wanted: str) -> bool:
    """Whether filters imply another, as far as comparisons of a column with constants tell.

    >>> implied(["x > 5"], "x >= 3"), implied(["x = 'a'"], "x IN ('a', 'b')"), implied(["x > 3"], "x > 5")
    (True, True, False)
    >>> implied(["x = 3"], "(x = 3) OR (x = 4)"), implied(["x > '9'"], "x > '10'")
    (True, False)
    """
    given = frozenset(given)
    return wanted in given or _follows(given, _parsed(wanted))


def united(ours: frozenset[str], theirs: frozenset[str]) -> frozenset[str]:
    """Filters that pass every tuple that either of two passes: nothing, or one OR of conjunctions.

    An OR that gets a further side stays flat, however often that happens.

    >>> sorted(united(frozenset(["x < 3 OR x > 9"]), frozenset(["y = 1", "x < 2 OR x > 5"])))
    ['((x < 2 OR x > 5) AND y = 1) OR (x < 3) OR (x > 9)']
    >>> sorted(united(frozenset(["(x > 3) OR (x < 1)"]), frozenset(["x > 2"])))
    ['(x < 1) OR (x > 2)']
    """
    if all(implied(ours, f) for f in theirs):
        return theirs
    if not ours or not theirs:
        return frozenset()
    kept = [side for side in _sides(ours) if not all(implied(side, f) for f in theirs)]
    texts = [" AND ".join(sorted(map(_grouped, side))) for side in (*kept, *_sides(theirs))]
    return frozenset([" OR ".join(f"({text})" for text in sorted(set(texts)))])


def _sides(filters: frozenset[str]) -> list[frozenset[str]]:
    """Filters as alternatives: a tuple passes them if it passes all filters of one side."""
    tree = _parsed(*filters).unnest() if len(filters) == 1 else None
    if not isinstance(tree, exp.Or):
        return [filters]
    sides = (side.flatten() if isinstance(side, exp.And) else [side] for side in tree.flatten())
    return [frozenset(part.sql("spark") for part in side) for side in sides]


def _grouped(sql: str) -> str:
    """A filter as a side of an AND."""
    return f"({sql})" if isinstance(_parsed(sql), exp.Or) else sql


def accepted(sql: str) -> tuple[str, list[Constant]] | None:
    """The column that a filter compares with constants by = or IN, and the values it lets pass.

    >>> accepted("`a`.`x` IN (1, -2)"), accepted("`a`.`x` > 1")
    (('x', [Decimal('-2'), Decimal('1')]), None)
    """
    found = _range_of(sql)
    column = None if found is None else Expr(found.column).plain_column
    if found is None or found.among is None or column is None:
        return None
    return column, sorted(found.among, key=lambda v: (isinstance(v, str), v))


def _follows(given: frozenset[str], wanted: exp.Expr) -> bool:
    wanted = wanted.unnest()
    if isinstance(wanted, exp.Or):
        return any(_follows(given, side) for side in wanted.flatten())
    if isinstance(wanted, exp.And):
        return all(_follows(given, side) for side in wanted.flatten())
    if wanted.sql("spark") in given:
        return True
    weaker = _range(wanted)
    if weaker is None:
        return False
    return any(stronger is not None and _within(stronger, weaker) for stronger in map(_range_of, given))


def _within(inner: _Range, outer: _Range) -> bool:
    if inner.column != outer.column:
        return False
    if inner.among is not None:
        return all(_passes(value, outer) for value in inner.among)
    if outer.among is not None:
        return False
    if outer.low is not None and not _beyond(inner.low, inner.low_open, outer.low, outer.low_open, 1):
        return False
    return outer.high is None or _beyond(inner.high, inner.high_open, outer.high, outer.high_open, -1)


def _beyond(inner: Constant | None, open_: bool, outer: Constant, outer_open: bool, sign: int) -> bool:
    """Whether one bound lies at or inside another; `sign` is 1 for lower bounds, -1 for upper ones."""
    if inner is None:
        return False
    if inner == outer:
        return open_ or not outer_open
    if isinstance(inner, str) or isinstance(outer, str):
        return False
    return inner * sign > outer * sign


def _passes(value: Constant, outer: _Range) -> bool:
    if outer.among is not None:
        return value in outer.among
    return _within(_Range(outer.column, value, False, value, False), outer)


@lru_cache(maxsize=4096)
def _parsed(sql: str) -> exp.Expression:
    found: exp.Expression = sqlglot.parse_one(f"SELECT {sql}", dialect="spark").expressions[0]
    return found


@lru_cache(maxsize=4096)
def _range_of(sql: str) -> _Range | None:
    return _range(_parsed(sql))


def _range(tree: exp.Expr) -> _Range | None:
    tree = tree.unnest()
    if isinstance(tree, exp.In) and tree.expressions:
        values = [_constant(v) for v in tree.expressions]
        if isinstance(tree.this, exp.Column) and None not in values:
            return _Range(tree.this.sql("spark"), among=frozenset(v for v in values if v is not None))
        return None
    if isinstance(tree, exp.Between) and isinstance(tree.this, exp.Column):
        low, high = _constant(tree.args["low"]), _constant(tree.args["high"])
        return _Range(tree.this.sql("spark"), low, False, high, False) if None not in (low, high) else None
    if type(tree) not in _COMPARED:
        return None
    column, value, flipped = tree.this, _constant(tree.expression), False
    if isinstance(tree.expression, exp.Column):
        column, value, flipped = tree.expression, _constant(tree.this), True
    if not isinstance(column, exp.Column) or value is None:
        return None
    name = column.sql("spark")
    if isinstance(tree, exp.EQ):
        return _Range(name, among=frozenset([value]))
    is_low, is_open = _COMPARED[type(tree)]
    if is_low != flipped:
        return _Range(name, low=value, low_open=is_open)
    return _Range(name, high=value, high_open=is_open)


_COMPARED: dict[type[exp.Expr], tuple[bool, bool]] = {
    exp.EQ: (True, False),
    exp.GT: (True, True),
    exp.GTE: (True, False),
    exp.LT: (False, True),
    exp.LTE: (False, False),
}
"""Comparisons: whether they bound from below, and whether the bound itself is left out."""


def _constant(tree: exp.Expr) -> Constant | None:
    negative = isinstance(tree, exp.Neg)
    tree = tree.this if negative else tree
    if not isinstance(tree, exp.Literal):
        return None
    if tree.is_string:
        return None if negative else str(tree.name)
    number = Decimal(tree.name)
    return -number if negative else number
