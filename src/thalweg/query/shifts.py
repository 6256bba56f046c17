"""Columns to which an interval is added: `b.ts - INTERVAL 5 MINUTES`."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from thalweg.errors import UserError
from thalweg.units import parse_duration


@dataclass(frozen=True)
class Shifted:
    """A column of an alias, and the microseconds that are added to it."""

    alias: str
    column: str
    by: int = 0


def shifted(tree: exp.Expr | None) -> Shifted | None:
    """What an expression is, if it is nothing but that."""
    tree = tree.unnest() if tree is not None else None
    if isinstance(tree, exp.Column):
        plain = tree.table and not tree.args.get("db")
        return Shifted(tree.table, tree.name) if plain else None
    if not isinstance(tree, exp.Add | exp.Sub):
        return None
    left, right = tree.left.unnest(), tree.right.unnest()
    if isinstance(tree, exp.Add) and isinstance(left, exp.Interval):
        left, right = right, left
    term, length = shifted(left), interval(right)
    if term is None or length is None:
        return None
    return Shifted(term.alias, term.column, term.by + (length if isinstance(tree, exp.Add) else -length))


def interval(tree: exp.Expr) -> int | None:
    """The microseconds of an interval such as INTERVAL 5 MINUTES; None where it has no fixed length."""
    if not isinstance(tree, exp.Interval) or not isinstance(tree.this, exp.Literal):
        return None
    unit = tree.args.get("unit")
    try:
        return parse_duration(f"{tree.this.this} {unit.name if unit is not None else ''}")
    except UserError:
        return None
