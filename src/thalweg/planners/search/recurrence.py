"""The exact recurrence for trees: the least cost of having the join of a set at a node.

    f[{i}][v] = cost of having stream i at v
    g[S][v]   = min over splits S = A + B of f[A][v] + f[B][v] + work(A, B)
    f[S][v]   = min over u of g[S][u] + cost of shipping S from u to v

(Dreyfus and Wagner's for Steiner trees, with the bytes of S as the weight.) Where S is available already,
g[S][u] is at most the cost of using it there. Sets are bit masks over *units*: streams, or results of
joins that were decided elsewhere. `search/splits.py` says which splits are looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from thalweg.cost.keys import Floats
from thalweg.cost.masks import members
from thalweg.cost.network import Numbers
from thalweg.planners.search.splits import Batch, Splits

_CHEAPER = 1 - 1e-12
"""How much cheaper a split must be than a preferred one; larger than rounding errors."""
_AT_ONCE = 4_000_000
"""So many joins (split and node) are compared at once: more would take much memory."""
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


@dataclass(frozen=True, eq=False)
class Solved:
    """The tables of the recurrence, by row of a set; `looked_at` counts the joins (split and node) compared.

    `left` and `right` are the rows of the two sides of the best split, -1 where a set is available.
    """

    splits: Splits
    made: Floats
    shipped: Floats
    origin: Numbers
    left: Numbers
    right: Numbers
    looked_at: int

    def anywhere(self, units: int) -> Floats:
        """The least cost of making a set at each node."""
        costs: Floats = self.made[self.splits.row[units]]
        return costs

    def cost(self, units: int, node: int | None) -> float:
        """The least cost of a set at a node; anywhere for None."""
        row = self.splits.row[units]
        return float(self.made[row].min() if node is None else self.shipped[row, node])

    def plan(self, units: int, node: int | None) -> Given | Made:
        """How that cost is reached."""
        row = self.splits.row[units]
        return self._at(row, int(self.made[row].argmin() if node is None else self.origin[row, node]))

    def _at(self, row: int, node: int) -> Given | Made:
        sides = int(self.left[row, node]), int(self.right[row, node])
        if sides[0] < 0:
            return Given(self.splits.masks[row], node)
        a, b = (self._at(side, int(self.origin[side, node])) for side in sides)
        return Made(a, b, node)


def solve(
    splits: Splits,
    available: Mapping[int, Floats],
    sizes: Callable[[int], float],
    spread: Spread,
    *,
    joinable: Callable[[int, int], bool],
    check_time: Callable[[], None],
    work: Callable[[int, int], float] | None = None,
    free: Mapping[int, int] | None = None,
) -> Solved:
    """Runs the recurrence over sets of units.

    `available` gives the costs of sets that need no join; single units must be in it. `sizes` are bytes
    a second. Of equally cheap splits the one with the fewest cross products is taken, then the one with
    the fewest joins, then the one of the smallest streams. A set in `free` costs nothing at that node,
    whatever it costs elsewhere.
    """
    nodes = len(next(iter(available.values())))
    count, row = len(splits.masks), splits.row
    made, shipped = np.full((count, nodes), np.inf), np.empty((count, nodes))
    origin = np.empty((count, nodes), dtype=np.int64)
    left, right = (np.full((count, nodes), -1, dtype=np.int64) for _ in range(2))
    size = np.array([sizes(mask) for mask in splits.masks])
    connects = _connects(splits, joinable)
    # The least number of joins, with cross products counted first, that it takes to make a set.
    effort = np.full(count, _MANY, dtype=np.int64)
    for units, costs in available.items():
        if units in row:
            made[row[units]], effort[row[units]] = costs, 0

    def ship(which: Numbers) -> None:
        for one in which.tolist():
            shipped[one], origin[one] = spread(made[one], float(size[one]))
            if free and splits.masks[one] in free:
                shipped[one, free[splits.masks[one]]] = 0.0

    ship(np.flatnonzero([mask.bit_count() == 1 for mask in splits.masks]))
    for batch in _portions(splits, nodes):
        check_time()
        rows = batch.rows
        cross = ~connects(batch.left, batch.right)
        tried = effort[batch.left] + effort[batch.right] + 1 + cross * _CROSS
        order = np.lexsort((size[batch.left] + size[batch.right], tried), axis=1)
        lefts, rights = (np.take_along_axis(side, order, axis=1) for side in (batch.left, batch.right))
        ways = shipped[lefts] + shipped[rights]
        if work is not None:
            pairs = zip(lefts.ravel().tolist(), rights.ravel().tolist(), strict=True)
            each = np.array([work(splits.masks[a], splits.masks[b]) for a, b in pairs])
            ways += each.reshape(lefts.shape)[:, :, None]
        first = (ways * _CHEAPER <= ways.min(axis=1, keepdims=True)).argmax(axis=1)
        best = np.take_along_axis(ways, first[:, None], axis=1)[:, 0]
        better = best < made[rows] * _CHEAPER
        made[rows] = np.where(better, best, made[rows])
        for side, chosen in ((left, lefts), (right, rights)):
            side[rows] = np.where(better, np.take_along_axis(chosen, first, axis=1), -1)
        effort[rows] = np.minimum(effort[rows], tried.min(axis=1))
        ship(rows)
    return Solved(splits, made, shipped, origin, left, right, splits.count * nodes)


_CROSS = 1 << 20
_MANY = 1 << 40


def _portions(splits: Splits, nodes: int) -> list[Batch]:
    """The batches, cut so that little is compared at once."""
    found = []
    for batch in splits.batches:
        step = max(1, _AT_ONCE // (batch.left.shape[1] * nodes))
        for start in range(0, len(batch.rows), step):
            part = slice(start, start + step)
            found.append(Batch(batch.rows[part], batch.left[part], batch.right[part]))
    return found


def _connects(
    splits: Splits, joinable: Callable[[int, int], bool]
) -> Callable[[Numbers, Numbers], npt.NDArray[np.bool_]]:
    """Whether an equality connects two sets, by their rows; what connects single units connects sets."""
    units = [mask for mask in splits.masks if mask.bit_count() == 1]
    beside = np.array([[a != b and joinable(a, b) for b in units] for a in units])
    inside = np.zeros((len(splits.masks), len(units)), dtype=np.bool_)
    for row, mask in enumerate(splits.masks):
        inside[row, members(mask)] = True
    own, near = (np.packbits(rows, axis=1) for rows in (inside, inside @ beside))
    return lambda left, right: np.asarray((near[left] & own[right]).any(axis=-1))
