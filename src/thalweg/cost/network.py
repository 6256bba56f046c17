"""The sites as a graph, and the cost of shipping from one to another by the cheapest path.

In every model, a shipment of b bytes a second over a link costs fixed + b * per_byte. The cheapest path is
by that weight; where `fixed` is zero it is the same for every b. A small network keeps all its paths as
matrices, a large one finds them from one site, or from many at once, with Dijkstra's algorithm. Only large
networks need SciPy, so only they wait for its import.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NoReturn

import numpy as np
import numpy.typing as npt

from thalweg.catalog.model import Catalog, Link
from thalweg.cost.keys import Floats
from thalweg.cost.objectives import Model
from thalweg.errors import UserError

Numbers = npt.NDArray[np.int64]

SMALL = 2048
"""Up to so many sites all pairs are kept."""
MOST_LINKS = 10_000_000
"""Links beyond which a network takes too much memory and time."""
TINY = 256
"""Up to so many sites matrices are faster than Dijkstra's algorithm, however few links there are."""
FEW = 128
"""Up to so many sites NumPy finds all paths as fast as SciPy, which takes long to import."""


@dataclass(frozen=True, eq=False)
class Network:
    """The links between sites (by number) with their two weights; several links can be used in a row."""

    sites: tuple[str, ...]
    tails: Numbers
    heads: Numbers
    fixed: Floats
    per_byte: Floats
    once: bool = False
    _rows: dict[tuple[int, float, bool], Floats] = field(default_factory=dict, repr=False)
    _all: dict[float, Floats] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, catalog: Catalog, model: Model) -> Network:
        """The catalog's network in a model's weights."""
        sites = tuple(catalog.sites)
        number = {s: i for i, s in enumerate(sites)}
        n = len(sites)
        if catalog.links.default is None:
            pairs = [
                (number[a], number[b], model.link(k, catalog.costs))
                for (a, b), k in catalog.links.pairs.items()
            ]
            tails, heads = (np.array([p[k] for p in pairs], dtype=np.int64) for k in (0, 1))
            weights = np.array([p[2] for p in pairs], dtype=float).reshape(-1, 2)
            return cls(sites, tails, heads, weights[:, 0], weights[:, 1], model.once)
        if n * (n - 1) > MOST_LINKS:
            raise UserError(
                f"{n:,} sites with a link between any two have {n * (n - 1):,} links, and at most "
                f"{MOST_LINKS:,} can be planned",
                where=catalog.path,
                remedy="name the links in links.pairs, without a default",
            )
        fixed, per_byte = (
            np.full((n, n), weight) for weight in model.link(catalog.links.default, catalog.costs)
        )
        for (a, b), link in catalog.links.pairs.items():
            fixed[number[a], number[b]], per_byte[number[a], number[b]] = model.link(link, catalog.costs)
        tails, heads = np.nonzero(~np.eye(n, dtype=bool))
        return cls(sites, tails, heads, fixed[tails, heads], per_byte[tails, heads], model.once)

    @cached_property
    def number(self) -> dict[str, int]:
        return {s: i for i, s in enumerate(self.sites)}

    def cost(self, source: int, target: int, bytes_per_s: float) -> float:
        """The cost of shipping an amount from one site to another; infinite without a path."""
        return float(self.from_site(source, bytes_per_s)[target])

    def from_site(self, source: int, bytes_per_s: float) -> Floats:
        """The costs of shipping an amount from one site to each."""
        if self._keeps_pairs:
            from_it: Floats = self.matrix(bytes_per_s)[source]
            return from_it
        return self._row(source, bytes_per_s, reverse=False)

    def to_site(self, target: int, bytes_per_s: float) -> Floats:
        """The costs of shipping an amount from each site to one."""
        if self._keeps_pairs:
            to_it: Floats = self.matrix(bytes_per_s)[:, target]
            return to_it
        return self._row(target, bytes_per_s, reverse=True)

    def matrix(self, bytes_per_s: float) -> Floats:
        """The costs of shipping an amount from each site to each."""
        if self._linear:
            return _times(self._pairs(1.0), bytes_per_s)
        return self._pairs(bytes_per_s)

    def among(self, sites: Sequence[int], bytes_per_s: float) -> Floats:
        """The costs of shipping an amount between some of the sites."""
        if self._keeps_pairs:
            return self.matrix(bytes_per_s)[np.ix_(sites, sites)]
        return np.array([self.from_site(s, bytes_per_s)[list(sites)] for s in sites])

    def spread(self, available: Floats, bytes_per_s: float) -> tuple[Floats, Numbers]:
        """The least cost of having a stream at each site, and where it then comes from.

        `available` is the cost of having it at a site without shipping, infinite where it is not.
        """
        n = len(self.sites)
        here = np.arange(n)
        if self.once:
            return self._spread_once(available, bytes_per_s)
        if n <= TINY or (self._keeps_pairs and self._dense):
            ways = available[:, None] + self.matrix(bytes_per_s)
            origin = ways.argmin(axis=0)
            best = ways[origin, here]
            return best, np.where(available <= best, here, origin)
        starts = np.flatnonzero(np.isfinite(available))
        if len(starts) == 0:
            return available.copy(), here
        from scipy.sparse import csr_matrix
        from scipy.sparse.csgraph import dijkstra

        # One more node, the last, leads to every site where the stream is available, at the cost there.
        links, heads, ends = self._rows_of_links
        graph = csr_matrix(
            (
                np.concatenate((_positive(self._weights(bytes_per_s)[links]), _positive(available[starts]))),
                np.concatenate((heads, starts)),
                np.append(ends, ends[-1] + len(starts)),
            ),
            shape=(n + 1, n + 1),
        )
        costs, before = dijkstra(graph, indices=n, return_predecessors=True)
        return costs[:n], _origins(before[:n], n)

    def check_paths(self, sources: Sequence[str], target: str | None) -> None:
        """Refuses streams that can't meet: all must reach some site, and the target if there is one."""
        reached = np.ones(len(self.sites), dtype=bool)
        for site in dict.fromkeys(sources):
            there = np.isfinite(self.from_site(self.number[site], 1.0))
            if target is not None and not there[self.number[target]]:
                self._no_path(f"from the site {site} to {target}")
            if not (reached & there).any():
                others = ", ".join(s for s in dict.fromkeys(sources) if s != site)
                self._no_path(f"by which streams at {site} could meet those at {others}")
            reached &= there

    def _no_path(self, which: str) -> NoReturn:
        raise UserError(f"there is no path {which}", remedy="add links to the catalog, or a links.default")

    @cached_property
    def _keeps_pairs(self) -> bool:
        """Whether the costs of all pairs are worth finding; seldom, where every amount has its own paths."""
        return len(self.sites) <= (SMALL if self._linear else TINY)

    @cached_property
    def _dense(self) -> bool:
        return len(self.tails) > len(self.sites) ** 2 / 16

    @cached_property
    def _rows_of_links(self) -> tuple[Numbers, Numbers, Numbers]:
        """The links in the order of their tails, the heads in that order, and where each tail's links end."""
        order = np.lexsort((self.heads, self.tails))
        ends = np.concatenate(([0], np.cumsum(np.bincount(self.tails, minlength=len(self.sites)))))
        return order, self.heads[order], ends

    @cached_property
    def _linear(self) -> bool:
        """Whether the cheapest path is the same for any amount."""
        return not np.any(self.fixed)

    def _weights(self, bytes_per_s: float) -> Floats:
        return self.fixed + self.per_byte * bytes_per_s

    def _pairs(self, bytes_per_s: float) -> Floats:
        if bytes_per_s not in self._all:
            if len(self._all) > 256:
                self._all.clear()
            self._all[bytes_per_s] = self._shortest(bytes_per_s)
        return self._all[bytes_per_s]

    def _shortest(self, bytes_per_s: float) -> Floats:
        n = len(self.sites)
        weights = self._weights(bytes_per_s)
        if self.once:
            reach = self._reach
            return np.where(reach, bytes_per_s * (1.0 - np.eye(n)), np.inf)
        direct = np.full((n, n), np.inf)
        direct[self.tails, self.heads] = weights
        np.fill_diagonal(direct, 0.0)
        if len(weights) and len(weights) == n * (n - 1) and 2 * weights.min() >= weights.max():
            return direct  # no way round can be shorter
        if n <= FEW:
            for via in range(n):  # Floyd and Warshall
                np.minimum(direct, direct[:, via, None] + direct[via], out=direct)
            return direct
        from scipy.sparse import csr_matrix
        from scipy.sparse.csgraph import dijkstra, shortest_path

        # Always a sparse graph: of a dense one SciPy drops all weights below 1e-8, taking them for no link.
        graph = csr_matrix((_positive(weights), (self.tails, self.heads)), shape=(n, n))
        found: Floats = shortest_path(graph, method="FW") if len(weights) > n * n / 8 else dijkstra(graph)
        found[found < 1e-290] = 0.0
        return found

    def _row(self, site: int, bytes_per_s: float, *, reverse: bool) -> Floats:
        scale = bytes_per_s if self._linear else 1.0
        key = (site, 1.0 if self._linear else bytes_per_s, reverse)
        if key not in self._rows:
            from scipy.sparse import csr_matrix
            from scipy.sparse.csgraph import dijkstra

            n = len(self.sites)
            if len(self._rows) > 4096:
                self._rows.clear()
            ends = (self.heads, self.tails) if reverse else (self.tails, self.heads)
            weights = np.ones(len(self.tails)) if self.once else self._weights(key[1])
            graph = csr_matrix((_positive(weights), ends), shape=(n, n))
            found = dijkstra(graph, indices=site)
            if self.once:
                found = np.where(np.isinf(found), np.inf, 1.0)
                found[site] = 0.0
            found[found < 1e-290] = 0.0
            self._rows[key] = found
        return _times(self._rows[key], scale)

    def _spread_once(self, available: Floats, bytes_per_s: float) -> tuple[Floats, Numbers]:
        """Where the number of links does not count, the cheapest copy within reach is the source for all."""
        here = np.arange(len(self.sites))
        best, origin = available.copy(), here.copy()
        if len(self._order) == 1:  # every site can be reached from every other
            cheapest = available.argmin()
            moved = available[cheapest] + bytes_per_s
            closer = moved < available
            best[closer], origin[closer] = moved, cheapest
            return best, origin
        for part, after in self._order:
            inside = np.flatnonzero(self._strong == part)
            reaching = np.flatnonzero(np.isin(self._strong, [part, *after]))
            cheapest = reaching[available[reaching].argmin()]
            moved = available[cheapest] + bytes_per_s
            closer = inside[moved < available[inside]]
            best[closer], origin[closer] = moved, cheapest
        return best, origin

    @cached_property
    def _strong(self) -> Numbers:
        """For each site, the number of its strongly connected part."""
        n = len(self.sites)
        if n <= FEW:
            reach: npt.NDArray[np.bool_] = np.eye(n, dtype=bool)
            reach[self.tails, self.heads] = True
            for via in range(n):  # Warshall
                reach |= reach[:, via, None] & reach[via]
            first: Numbers = (reach & reach.T).argmax(axis=1)
            return first
        from scipy.sparse import csr_matrix
        from scipy.sparse.csgraph import connected_components

        graph = csr_matrix((np.ones(len(self.tails)), (self.tails, self.heads)), shape=(n, n))
        return np.asarray(connected_components(graph, directed=True, connection="strong")[1], dtype=np.int64)

    @cached_property
    def _order(self) -> list[tuple[int, list[int]]]:
        """Each strongly connected part, with all others from which it can be reached."""
        into: dict[int, set[int]] = {part: set() for part in sorted(set(self._strong.tolist()))}
        for a, b in {
            (int(x), int(y)) for x, y in zip(self._strong[self.tails], self._strong[self.heads], strict=True)
        }:
            if a != b:
                into[b].add(a)

        def before(part: int) -> set[int]:
            seen, waiting = set[int](), [part]
            while waiting:
                new = into[waiting.pop()] - seen
                seen |= new
                waiting.extend(new)
            return seen

        return [(p, sorted(before(p))) for p in into]

    @cached_property
    def _reach(self) -> npt.NDArray[np.bool_]:
        reach = np.zeros((len(self.sites),) * 2, dtype=bool)
        for part, before in self._order:
            reach[np.ix_(np.isin(self._strong, [part, *before]), self._strong == part)] = True
        return reach


def _times(costs: Floats, factor: float) -> Floats:
    return costs * factor if factor else np.where(np.isinf(costs), np.inf, 0.0)


def _positive(weights: Floats) -> Floats:
    """Weights without zeros, which a sparse graph may take for no link."""
    return np.maximum(weights, np.finfo(float).tiny)


def _origins(before: npt.NDArray[np.int32], start: int) -> Numbers:
    """From each node's predecessor to the first node of its path after `start`."""
    here = np.arange(len(before))
    origin = np.where((before == start) | (before < 0), here, before).astype(np.int64)
    while not np.array_equal(origin, further := origin[origin]):
        origin = further
    return origin


@dataclass(frozen=True, eq=False)
class Quickest:
    """The quickest paths of a catalog's network."""

    catalog: Catalog
    _before: dict[str, dict[str, str]] = field(default_factory=dict, repr=False)

    def path(self, source: str, target: str) -> tuple[tuple[tuple[str, str], Link], ...]:
        """The links from one site to another, each with its ends."""
        links = self.catalog.links
        direct = links.between(source, target)
        if direct is not None and direct.latency_ms <= 2 * self._least_ms:
            return (((source, target), direct),)  # no way round can be quicker
        if source not in self._before:
            self._before[source] = self._tree(source)
        before = self._before[source]
        if target not in before:
            raise UserError(f"no path leads from {source} to {target}")
        found: list[tuple[tuple[str, str], Link]] = []
        while target != source:
            link = links.between(before[target], target)
            assert link is not None
            found.append(((before[target], target), link))
            target = before[target]
        return tuple(reversed(found))

    def _tree(self, source: str) -> dict[str, str]:
        """The site before each that can be reached."""
        links, before, known = self.catalog.links, dict[str, str](), {source: 0.0}
        waiting: list[tuple[float, str, str]] = [(0.0, source, source)]
        while waiting:
            latency_ms, site, came = heapq.heappop(waiting)
            if site in before:
                continue
            before[site] = came
            for other in self._neighbours.get(site, self.catalog.sites):
                link = links.between(site, other)
                if other in before or link is None:
                    continue
                if (to := latency_ms + link.latency_ms) < known.get(other, float("inf")):
                    known[other] = to
                    heapq.heappush(waiting, (to, other, site))
        return before

    @cached_property
    def _neighbours(self) -> dict[str, list[str]]:
        """The sites to which links lead from each; empty where any two are linked."""
        if self.catalog.links.default is not None:
            return {}
        found: dict[str, list[str]] = {site: [] for site in self.catalog.sites}
        for source, target in self.catalog.links.pairs:
            found[source].append(target)
        return found

    @cached_property
    def _least_ms(self) -> float:
        links = self.catalog.links
        every = [link.latency_ms for link in links.pairs.values()]
        return min([*every, *([links.default.latency_ms] if links.default is not None else [])], default=0.0)


def way(catalog: Catalog, source: str, target: str) -> tuple[float, float | None]:
    """The quickest path: its latency in seconds, and the bytes a second of its narrowest link."""
    links = [link for _, link in Quickest(catalog).path(source, target)]
    mbps = min((link.mbps for link in links if link.mbps is not None), default=None)
    return sum(link.latency_ms for link in links) / 1e3, None if mbps is None else mbps * 1e6 / 8
