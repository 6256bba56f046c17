"""Whether some filters imply another: what passes them all passes it too."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

import sqlglot
from sqlglot import exp


@dataclass(frozen=True)
class _Range:
    """What a filter lets pass: values of one column, as an interval or one by one."""

    column: str
    low: float | str | None = None
    low_open: bool = False
    high: float | str | None = None
    high_open: bool = False
    among: frozenset[float | str] | None = None


def implied(given: Iterable[str], wanted: str) -> bool:
    """Whether filters imply another, as far as comparisons of a column with constants tell.

    >>> implied(["x > 5"], "x >= 3"), implied(["x = 'a'"], "x IN ('a', 'b')"), implied(["x > 3"], "x > 5")
    (True, True, False)
    """
    given = list(given)
    if wanted in given:
        return True
    weaker = _range(wanted)
    if weaker is None:
        return False
    return any(stronger is not None and _within(stronger, weaker) for stronger in map(_range, given))


def _within(inner: _Range, outer: _Range) -> bool:
    if inner.column != outer.column:
        return False
    if inner.among is not None:
        return all(_passes(value, outer) for value in inner.among)
    if outer.among is not None:
        return False
    return _above(inner, outer) and _below(inner, outer)


def _above(inner: _Range, outer: _Range) -> bool:
    if outer.low is None:
        return True
    if inner.low is None or type(inner.low) is not type(outer.low):
        return False
    return inner.low > outer.low or (  # type: ignore[operator]
        inner.low == outer.low and (inner.low_open or not outer.low_open)
    )


def _below(inner: _Range, outer: _Range) -> bool:
    if outer.high is None:
        return True
    if inner.high is None or type(inner.high) is not type(outer.high):
        return False
    return inner.high < outer.high or (  # type: ignore[operator]
        inner.high == outer.high and (inner.high_open or not outer.high_open)
    )


def _passes(value: float | str, outer: _Range) -> bool:
    if outer.among is not None:
        return value in outer.among
    return _within(_Range(outer.column, value, False, value, False), outer)


@lru_cache(maxsize=4096)
def _range(sql: str) -> _Range | None:
    tree = sqlglot.parse_one(f"SELECT {sql}", dialect="spark").expressions[0]
    while isinstance(tree, exp.Paren):
        tree = tree.this
    if isinstance(tree, exp.In) and tree.expressions:
        values = [_constant(v) for v in tree.expressions]
        if isinstance(tree.this, exp.Column) and None not in values:
            return _Range(tree.this.sql("spark"), among=frozenset(v for v in values if v is not None))
        return None
    if isinstance(tree, exp.Between) and isinstance(tree.this, exp.Column):
        low, high = _constant(tree.args["low"]), _constant(tree.args["high"])
        return _Range(tree.this.sql("spark"), low, False, high, False) if None not in (low, high) else None
    for kind, (low_open, high_open, is_low, is_high) in _COMPARED.items():
        if type(tree) is not kind:
            continue
        column, value, flipped = tree.this, _constant(tree.expression), False
        if isinstance(tree.expression, exp.Column):
            column, value, flipped = tree.expression, _constant(tree.this), True
        if not isinstance(column, exp.Column) or value is None:
            return None
        name = column.sql("spark")
        if is_low and is_high:
            return _Range(name, among=frozenset([value]))
        if is_low != flipped:
            return _Range(name, low=value, low_open=low_open or high_open)
        return _Range(name, high=value, high_open=low_open or high_open)
    return None


_COMPARED: dict[type[exp.Expression], tuple[bool, bool, bool, bool]] = {
    exp.EQ: (False, False, True, True),
    exp.GT: (True, False, True, False),
    exp.GTE: (False, False, True, False),
    exp.LT: (False, True, False, True),
    exp.LTE: (False, False, False, True),
}


def _constant(tree: exp.Expression) -> float | str | None:
    negative = isinstance(tree, exp.Neg)
    tree = tree.this if negative else tree
    if not isinstance(tree, exp.Literal):
        return None
    if tree.is_string:
        return None if negative else str(tree.name)
    number = float(tree.name)
    if math.isnan(number):
        return None
    return -number if negative else number
