"""The hierarchy of clusters that `top-down`, `bottom-up` and `npc` plan on (integrated 3.1.1).

At level 1 all sites are in clusters of at most max_cs. One site of each cluster, its coordinator, stands for
it at level 2, where the coordinators are in clusters again, and so on up to a level with one cluster. A
level estimates the cost between two sites as the cost between their representatives.

                      level 3            (c)                one cluster
                                       /     \\
                      level 2      (a  c)    (f  h)
                                   /   \\      |    \\
                      level 1  (a b) (c d e) (f g) (h i)    all sites

A level's representative of a site is the site itself at level 1, and the coordinator of its cluster one
level below at any other.
"""

from __future__ import annotations

import heapq
import warnings
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

import numpy as np

from thalweg.cost.keys import Floats
from thalweg.cost.network import SMALL, Network, Numbers
from thalweg.cost.objectives import MODELS
from thalweg.planners.search.problem import Problem

EXACT = 256
"""Up to so many sites each is described by its costs to all others, beyond by those to landmarks."""
LANDMARKS = 32
WAYS = 64
"""More clusters than this are made in two steps: k-means takes time for each site and each cluster."""
SLACK = 1.25
"""So many times the clusters that must be are made, or sites would go far away to fill the last ones.

The paper's 128 nodes are in 5 clusters of up to 32, and in 3 of up to 64 (4.2.1).
"""


def beta(height: float, max_cs: int, nodes: int, streams: int) -> float:
    """The largest share of the search space that planning by clusters looks at (integrated eq. 1).

    >>> round(beta(1.5, 100, 1000, 4), 6)
    0.0015
    """
    return float(height * (max_cs / nodes) ** (streams - 1))


@dataclass(frozen=True, eq=False)
class Level:
    """The clusters of one level, each a sorted array of sites, and their coordinators.

    `representative` and `cluster` have, for every site of the network, its representative at this level and
    the cluster of that.
    """

    clusters: tuple[Numbers, ...]
    coordinators: tuple[int, ...]
    representative: Numbers
    cluster: Numbers


@dataclass(frozen=True, eq=False)
class Hierarchy:
    """All levels; the first is number 1, as in the paper."""

    network: Network
    levels: tuple[Level, ...]
    _farthest: dict[int, tuple[int, int]] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, problem: Problem, max_cs: int) -> Hierarchy:
        """The hierarchy of a problem's network, built once for each network and max_cs."""
        known = _BUILT.setdefault(problem.network, {})
        if max_cs not in known:
            known[max_cs] = _levels(near_network(problem), max_cs), {}
        return cls(problem.network, *known[max_cs])

    @classmethod
    def keep(cls, network: Network, max_cs: int, levels: tuple[Level, ...]) -> None:
        """Has planners on a network use a hierarchy that was made otherwise."""
        _BUILT.setdefault(network, {})[max_cs] = levels, {}

    @property
    def height(self) -> int:
        return len(self.levels)

    def representative(self, level: int, site: int) -> int:
        """The representative of a site at a level."""
        return int(self.levels[level - 1].representative[site])

    def cluster(self, level: int, site: int) -> Numbers:
        """The cluster of a level that a site is in, or its representative."""
        at = self.levels[level - 1]
        return at.clusters[int(at.cluster[site])]

    def coordinator(self, level: int, site: int) -> int:
        """The coordinator of that cluster."""
        at = self.levels[level - 1]
        return at.coordinators[int(at.cluster[site])]

    def visible(self, level: int, site: int) -> int:
        """How many sites of the network lie under that cluster."""
        under = self.levels[level - 1].cluster
        return int(np.count_nonzero(under == under[site]))

    def estimated(self, level: int, source: int, target: int, bytes_per_s: float = 1.0) -> float:
        """A level's estimate of the cost between two sites (c_est of theorem 1)."""
        at = self.levels[level - 1].representative
        return self.network.cost(int(at[source]), int(at[target]), bytes_per_s)

    def farthest(self, level: int) -> tuple[int, int]:
        """Those two sites of one cluster of a level that are farthest apart, for one byte a second."""
        if level not in self._farthest:
            most, ends = -1.0, (0, 0)
            for sites in self.levels[level - 1].clusters:
                costs = self.network.among(sites.tolist(), 1.0)
                worst = int(costs.argmax())
                if costs.flat[worst] > most:
                    most = float(costs.flat[worst])
                    ends = int(sites[worst // len(sites)]), int(sites[worst % len(sites)])
            self._farthest[level] = ends
        return self._farthest[level]

    def d(self, level: int) -> float:
        """The largest cost between two sites of one cluster of a level, for one byte a second (d_i)."""
        return self.network.cost(*self.farthest(level), 1.0)


def near_network(problem: Problem) -> Network:
    """The network whose costs say which sites are near each other."""
    # In bytes all sites are equally far apart, so those near in latency go together.
    return Network.of(problem.catalog, MODELS["usage"]) if problem.network.once else problem.network


@dataclass(frozen=True, eq=False)
class Zone:
    """Sites near each other, and the one in their middle."""

    sites: Numbers
    coordinator: int


def zones(problem: Problem, count: int) -> tuple[Zone, ...]:
    """All sites in so many zones of any size; found once for a network and a count."""
    known = _ZONES.setdefault(problem.network, {})
    if count not in known:
        near = near_network(problem)
        features = distances(near)[1]
        parts = _clusters(features, min(count, len(features)), len(features))
        known[count] = tuple(Zone(part, _medoid(near, features, part)) for part in parts)
    return known[count]


# Only the levels are kept, not the hierarchy: that refers to the network, which then would never be freed.
_BUILT: WeakKeyDictionary[Network, dict[int, tuple[tuple[Level, ...], dict[int, tuple[int, int]]]]] = (
    WeakKeyDictionary()
)
_ZONES: WeakKeyDictionary[Network, dict[int, tuple[Zone, ...]]] = WeakKeyDictionary()


def _levels(network: Network, max_cs: int) -> tuple[Level, ...]:
    _, features = distances(network)
    sites = representative = np.arange(len(network.sites))
    levels: list[Level] = []
    while not levels or len(levels[-1].clusters) > 1:
        parts = _parts(features[sites], max_cs, _count(len(sites), max_cs))
        clusters = tuple(np.sort(sites[part]) for part in parts)
        coordinators = tuple(_medoid(network, features, c) for c in clusters)
        number = np.zeros(len(network.sites), dtype=np.int64)
        for i, members in enumerate(clusters):
            number[members] = i
        under = number[representative]
        levels.append(Level(clusters, coordinators, representative, under))
        sites = np.array(coordinators, dtype=np.int64)
        representative = sites[under]
    return tuple(levels)


def distances(network: Network) -> tuple[Numbers, Floats]:
    """Each site's costs to all sites, or to landmarks: sites that agree in these are near each other.

    Beside them, which sites these are.
    """
    n = len(network.sites)
    if n <= EXACT:
        costs = network.matrix(1.0)
        return np.arange(n), _finite(np.maximum(costs, costs.T))
    # Landmarks far from each other tell more sites apart than any others would.
    columns: list[Floats] = []
    landmarks = [0]
    while True:
        landmark = landmarks[-1]
        columns.append(np.maximum(network.from_site(landmark, 1.0), network.to_site(landmark, 1.0)))
        if len(columns) == LANDMARKS:
            return np.array(landmarks), _finite(np.array(columns).T)
        landmarks.append(int(np.min(columns, axis=0).argmax()))


def _finite(costs: Floats) -> Floats:
    """Sites without a path between them count as twice as far apart as any with one."""
    known = costs[np.isfinite(costs)]
    return np.where(np.isfinite(costs), costs, 2 * known.max() if known.any() else 1.0)


def _medoid(network: Network, features: Floats, sites: Numbers) -> int:
    """The site with the least cost to all others of its cluster.

    In a large network costs are estimated by the landmarks: the difference of two sites' costs to any one
    is at most the cost between them.
    """
    if len(network.sites) <= EXACT:
        apart = features[np.ix_(sites, sites)]
    elif len(network.sites) <= SMALL:
        costs = network.among(sites.tolist(), 1.0)
        apart = _finite(np.maximum(costs, costs.T))
    else:
        from scipy.spatial.distance import cdist

        apart = cdist(features[sites], features[sites], "chebyshev")
    return int(sites[apart.sum(axis=1).argmin()])


def _count(nodes: int, most: int) -> int:
    """How many clusters: with some slack, but not so many that there must be one more level above."""
    needed = -(-nodes // most)
    power = 1
    while power < needed:
        power *= most
    return max(needed, min(int(np.ceil(SLACK * nodes / most)), power))


def _parts(features: Floats, most: int, count: int) -> list[Numbers]:
    """The rows in so many parts of at most so many that are near each other."""
    n = len(features)
    if count == 1:
        return [np.arange(n)]
    if count <= WAYS:
        return _clusters(features, count, most)
    found: list[Numbers] = []
    for rows in _clusters(features, WAYS, most * -(-count // WAYS)):
        share = max(-(-len(rows) // most), len(rows) * count // n)
        found += (rows[part] for part in _parts(features[rows], most, share))
    return found


def _clusters(features: Floats, count: int, most: int) -> list[Numbers]:
    """k-means from centres far apart (so nothing is random), then no part larger than `most`."""
    from scipy.cluster.vq import kmeans2
    from scipy.spatial.distance import cdist

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an empty cluster is no harm
        centres, label = kmeans2(features, _far_apart(features, count), iter=20, minit="matrix")
    label = _limited(cdist(features, centres), label.astype(np.int64), most)
    return [rows for c in range(count) if len(rows := np.flatnonzero(label == c))]


def _far_apart(features: Floats, count: int) -> Floats:
    """Rows each as far as can be from those before it, from the one nearest to the mean on."""
    chosen = [int(((features - features.mean(axis=0)) ** 2).sum(axis=1).argmin())]
    nearest = np.full(len(features), np.inf)
    while len(chosen) < count:
        nearest = np.minimum(nearest, ((features - features[chosen[-1]]) ** 2).sum(axis=1))
        chosen.append(int(nearest.argmax()))
    return features[chosen]


def _limited(apart: Floats, label: Numbers, most: int) -> Numbers:
    """Moves rows out of clusters that are too large, those first that lose least by it."""
    label = label.copy()
    sizes = np.bincount(label, minlength=apart.shape[1])

    def loss(row: int) -> tuple[float, int, int]:
        there = np.where(sizes < most, apart[row], np.inf)
        best = int(there.argmin())
        return float(there[best] - apart[row, label[row]]), row, best

    waiting = [loss(int(row)) for row in np.flatnonzero(sizes[label] > most)]
    heapq.heapify(waiting)
    while waiting:
        _, row, there = heapq.heappop(waiting)
        if sizes[label[row]] <= most:
            continue
        if sizes[there] >= most:
            heapq.heappush(waiting, loss(row))
            continue
        sizes[label[row]] -= 1
        sizes[there] += 1
        label[row] = there
    return label
