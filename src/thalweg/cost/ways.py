"""The costs of shipping between some sites, for many amounts at once."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np

from thalweg.cost.keys import Floats
from thalweg.cost.network import Network, Numbers

Number = float | Floats
Lines = list[tuple[Floats, Floats]]
"""Fixed and per-byte costs; a row for each target or origin, and in it one for each site."""


class Ways:
    """The costs of shipping between some sites, for many amounts at once.

    Between two sites the cost is the least of a few straight lines, fixed + bytes * per_byte, one for each
    path that is the cheapest for some amount. A network without fixed costs has one line for each pair.
    """

    def __init__(self, network: Network, sites: Sequence[int]) -> None:
        self.index = {s: i for i, s in enumerate(sites)}
        if np.any(network.fixed):
            paths = _Paths(network)
            lines = {(i, j): paths.lines(a, b) for a, i in self.index.items() for b, j in self.index.items()}
        else:
            unit = network.among(sites, 1.0)
            lines = {(i, j): [(0.0, float(unit[i, j]))] for i, j in np.argwhere(np.isfinite(unit))}
        deepest = max((len(found) for found in lines.values()), default=1)
        shape = (deepest, len(sites), len(sites))
        self.fixed, self.per_byte = np.full(shape, np.inf), np.zeros(shape)
        for (i, j), found in lines.items():
            for depth, line in enumerate(found):
                self.fixed[depth, i, j], self.per_byte[depth, i, j] = line

    def to(self, targets: Numbers) -> Lines:
        """The lines from each site to some targets, by their places in `sites`."""
        return [(f.T[targets], p.T[targets]) for f, p in zip(self.fixed, self.per_byte, strict=True)]

    def back(self, origins: Numbers) -> Lines:
        """The lines from some origins to each site."""
        return [(f[origins], p[origins]) for f, p in zip(self.fixed, self.per_byte, strict=True)]

    def cost(self, a: int, b: int, bytes_per_s: float) -> float:
        """The cost from one place in `sites` to another."""
        return float((self.fixed[:, a, b] + self.per_byte[:, a, b] * bytes_per_s).min())


def least(lines: Lines, bytes_per_s: Number) -> Floats:
    """The cost of shipping an amount for each row, by these lines."""
    amounts = np.asarray(bytes_per_s)[:, None]
    return reduce(np.minimum, (fixed + per_byte * amounts for fixed, per_byte in lines))


_MOST = 1e15
"""Bytes a second beyond which fixed parts do not count."""


class _Paths:
    """Cheapest paths in a network where shipments also pay a fixed part, so that the amount matters."""

    def __init__(self, network: Network) -> None:
        from scipy.sparse import csr_matrix

        n = len(network.sites)
        self.network = network
        self.order = np.lexsort((network.heads, network.tails))
        self.ends = (network.tails * n + network.heads)[self.order]
        rows = np.concatenate(([0], np.cumsum(np.bincount(network.tails, minlength=n))))
        self.graph = csr_matrix((np.ones(len(self.order)), network.heads[self.order], rows), shape=(n, n))
        self.before: dict[tuple[int, float], Numbers] = {}

    def lines(self, a: int, b: int) -> list[tuple[float, float]]:
        """The lines whose least is the cost from one site to another; none without a path."""
        low, high = self._line(a, b, 0.0), self._line(a, b, _MOST)
        if low is None or high is None:
            return []
        found, waiting = {low, high}, [(low, high)]
        while waiting:
            low, high = waiting.pop()
            if high[1] >= low[1]:
                continue
            # Where two lines cross, a third may lie below both; if none does, none does anywhere between.
            amount = (high[0] - low[0]) / (low[1] - high[1])
            middle = self._line(a, b, amount)
            assert middle is not None
            if middle[0] + middle[1] * amount < (low[0] + low[1] * amount) * (1 - 1e-12):
                found.add(middle)
                waiting += [(low, middle), (middle, high)]
        return sorted(found)

    def _line(self, a: int, b: int, amount: float) -> tuple[float, float] | None:
        """Fixed and per-byte part of the cheapest path for an amount."""
        from scipy.sparse.csgraph import dijkstra

        network, n = self.network, len(self.network.sites)
        if (a, amount) not in self.before:
            weights = (network.fixed + network.per_byte * amount)[self.order]
            self.graph.data[:] = np.maximum(weights, np.finfo(float).tiny)
            self.before[a, amount] = dijkstra(self.graph, indices=a, return_predecessors=True)[1]
        before, fixed, per_byte = self.before[a, amount], 0.0, 0.0
        while b != a:
            if before[b] < 0:
                return None
            link = self.order[np.searchsorted(self.ends, int(before[b]) * n + b)]
            fixed, per_byte = fixed + float(network.fixed[link]), per_byte + float(network.per_byte[link])
            b = int(before[b])
        return fixed, per_byte
