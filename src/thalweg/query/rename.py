"""Expressions with their columns under other names."""

from __future__ import annotations

from collections.abc import Mapping

from thalweg.query.model import Expr, quoted


def rename(expr: Expr, names: Mapping[tuple[str, str], str]) -> str:
    """The expression's text with its columns under other names.

    >>> rename(Expr("`a`.`x` + `b`.`y`"), {("a", "x"): "c0", ("b", "y"): "c1"})
    '`c0` + `c1`'
    """

    return expr.rename(lambda alias, column: quoted(names[alias, column]))


def unqualified(expr: Expr) -> str:
    """The expression over the columns of its one stream."""
    return rename(expr, {(a, c): c for a, c in expr.columns})
