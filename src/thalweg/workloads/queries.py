"""Queries made of equalities, and the join graphs of the papers: star, chain, cycle, fully connected."""

from __future__ import annotations

from collections.abc import Sequence

from thalweg.query.model import Equality, Expr, Input, Output, Query, Window, WindowKind

STAR, CHAIN, CYCLE, FULL = "star", "chain", "cycle", "fully connected"
GRAPHS = (STAR, CHAIN, CYCLE, FULL)
WINDOW_S = 10.0

Joins = Sequence[tuple[str, str, str, str]]
"""Equalities, each (stream, column, stream, column)."""


def pairs(graph: str, streams: int) -> list[tuple[int, int]]:
    """Which streams (by number) a join graph connects.

    >>> pairs(STAR, 4), pairs(CYCLE, 4), len(pairs(FULL, 5))
    ([(0, 1), (0, 2), (0, 3)], [(0, 1), (1, 2), (2, 3), (0, 3)], 10)
    """
    if graph == STAR:
        return [(0, i) for i in range(1, streams)]
    if graph == FULL:
        return [(a, b) for b in range(1, streams) for a in range(b)]
    found = [(i - 1, i) for i in range(1, streams)]
    return [*found, (0, streams - 1)] if graph == CYCLE and streams > 2 else found


def query(joins: Joins, name: str, window_s: float = WINDOW_S) -> Query:
    """A query of equalities; every stream is its own alias, and its column `v` is wanted."""
    aliases = list(dict.fromkeys(alias for j in joins for alias in (j[0], j[2])))
    window = Window(WindowKind.RANGE, round(window_s * 1e6))
    return Query(
        name,
        "",
        tuple(Input(a, a, window) for a in aliases),
        tuple(Equality(Expr.column(a, x), Expr.column(b, y)) for a, x, b, y in joins),
        (),
        tuple(Output(f"{a}_v", Expr.column(a, "v")) for a in aliases),
    )
