"""The exact recurrence for trees: the least cost of having the join of a set at a node.

    f[{i}][v] = cost of having stream i at v
    g[S][v]   = min over splits S = A + B of f[A][v] + f[B][v] + work(A, B)
    f[S][v]   = min over u of g[S][u] + cost of shipping S from u to v

(Dreyfus and Wagner's for Steiner trees, with the bytes of S as the weight.) Where S is available already,
g[S][u] is at most the cost of using it there. Sets are bit masks over *units*: streams, or results of
joins that were decided elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from thalweg.cost.keys import Floats
from thalweg.cost.network import Numbers

_CHEAPER = 1 - 1e-12
"""How much cheaper a split must be than a preferred one; larger than rounding errors."""
Spread = Callable[[Floats, float], tuple[Floats, Numbers]]
"""From a stream's cost at each node, and its bytes, to its least cost at each and its origin."""


@dataclass(frozen=True)
class Given:
    """A set of units that is available at a node without a join."""

    units: int
    node: int


@dataclass(frozen=True)
class Made:
    """A join of two at a node."""

    left: Given | Made
    right: Given | Made
    node: int


@dataclass(frozen=True)
class Solved:
    """The tables of the recurrence; `looked_at` counts the joins (split and node) that were compared."""

    made: Mapping[int, Floats]
    shipped: Mapping[int, Floats]
    origin: Mapping[int, Numbers]
    split: Mapping[int, Numbers]
    looked_at: int

    def cost(self, units: int, node: int | None) -> float:
        """The least cost of a set at a node; anywhere for None."""
        return float(self.made[units].min() if node is None else self.shipped[units][node])

    def plan(self, units: int, node: int | None) -> Given | Made:
        """How that cost is reached."""
        start = int(self.made[units].argmin()) if node is None else int(self.origin[units][node])
        return self._at(units, start)

    def _at(self, units: int, node: int) -> Given | Made:
        left = int(self.split[units][node])
        if left == 0:
            return Given(units, node)
        a, b = (self._at(part, int(self.origin[part][node])) for part in (left, units & ~left))
        return Made(a, b, node)


def solve(
    count: int,
    available: Mapping[int, Floats],
    sizes: Callable[[int], float],
    spread: Spread,
    *,
    joinable: Callable[[int, int], bool],
    check_time: Callable[[], None],
    work: Callable[[int, int], float] | None = None,
    free: Mapping[int, int] | None = None,
) -> Solved:
    """Runs the recurrence over all sets of `count` units.

    `available` gives the costs of sets that need no join; single units must be in it. `sizes` are bytes
    a second. Of equally cheap splits the one with the fewest cross products is taken, then the one with
    the fewest joins, then the one of the smallest streams. A set in `free` costs nothing at that node,
    whatever it costs elsewhere.
    """
    made: dict[int, Floats] = {}
    shipped: dict[int, Floats] = {}
    origin: dict[int, Numbers] = {}
    split: dict[int, Numbers] = {}
    # The least number of cross products, and of joins, that it takes to make a set.
    crossed, joins = dict.fromkeys(available, 0), dict.fromkeys(available, 0)
    nodes = len(next(iter(available.values())))
    looked_at = 0
    for units in sorted(range(1, 1 << count), key=int.bit_count):
        check_time()
        best = available[units].copy() if units in available else np.full(nodes, np.inf)
        how = np.zeros(nodes, dtype=np.int64)
        splits = []
        for left in _splits(units):
            right = units & ~left
            cross = crossed[left] + crossed[right] + (not joinable(left, right))
            splits.append((cross, joins[left] + joins[right] + 1, sizes(left) + sizes(right), left))
        for *_, left in sorted(splits):
            ways = shipped[left] + shipped[units & ~left]
            if work is not None:
                ways = ways + work(left, units & ~left)
            better = ways < best * _CHEAPER
            best[better], how[better] = ways[better], left
            looked_at += nodes
        if units not in available:
            crossed[units], joins[units] = min(splits)[:2]
        made[units], split[units] = best, how
        shipped[units], origin[units] = spread(best, sizes(units))
        if free and units in free:
            shipped[units][free[units]] = 0.0
    return Solved(made, shipped, origin, split, looked_at)


def _splits(units: int) -> list[int]:
    """One side of every split of a set in two."""
    lowest = units & -units
    found = []
    part = (units - 1) & units
    while part:
        if part & lowest:
            found.append(part)
        part = (part - 1) & units
    return found
