"""The six one-way join methods (semijoin 3.1, appendix B), and what their shipments cost.

A one-way join leads from a *current stream* at a source site to a stream at its destination. Each method
takes work and sends messages, one every tau seconds: in the formulas r / wp = 1 / tau. Simple joins ship
whole tuples of one side; semijoins ship keys first, and then the tuples that have a match.

    SP-S   stream -> source: its tuples                     the result is at the source
    SP-D   current -> destination: its tuples               at the destination
    SM-S1  keys of current, back the tuples that match      at the source
    SM-S2  new keys of the stream, back which are wanted, then the tuples that match    at the source
    SM-D1  new keys of the stream, back the tuples that match     at the destination
    SM-D2  keys of current, back which match, then the tuples     at the destination
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import dijkstra

from thalweg.catalog.model import Costs
from thalweg.cost.keys import Floats
from thalweg.cost.network import Network, Numbers

Number = float | Floats
Lines = list[tuple[Floats, Floats]]
"""Fixed and per-byte costs; a row for each target or origin, and in it one for each site."""

METHODS = ("SP-S", "SP-D", "SM-S1", "SM-S2", "SM-D1", "SM-D2")
COUNT_BYTES = 8.0
"""The S(c) of SM-S1: how many tuples have expired."""
_LARGEST = 1e300


@dataclass(frozen=True)
class Side:
    """One side of a one-way join: r, F, P, d and w of semijoin's table 4; arrays for many joins at once."""

    rate: Number
    width: Number
    key: Number
    distinct: Number
    window: Number = 0.0


@dataclass(frozen=True)
class Shipment:
    """What goes to the other site, one message an interval; `back` is from the destination to the source.

    `sender` is the part of the join that sends it: `current`, `source` (of the stream), or a helper.
    """

    sender: str
    carries: str
    back: bool
    tuples_per_s: Number
    bytes_per_s: Number


@dataclass(frozen=True)
class Method:
    """A method's seconds of work a second, by the part that does it, and its shipments."""

    name: str
    work: Mapping[str, Number]
    shipments: tuple[Shipment, ...]

    @property
    def work_s(self) -> Number:
        return sum(self.work.values())


@dataclass(frozen=True)
class Piece:
    """An operator of a method: its kind, what it reads, and whether it is at the destination."""

    kind: str
    reads: tuple[str, ...]
    far: bool


PIECES: Mapping[str, tuple[Piece, ...]] = {
    "SP-S": (Piece("step", ("current", "source"), False),),
    "SP-D": (Piece("step", ("current", "source"), True),),
    "SM-S1": (
        Piece("reduce", ("current", "source"), True),
        Piece("step", ("current", "reduce", "source"), False),
    ),
    "SM-S2": (
        Piece("keys", ("source",), True),
        Piece("match", ("current", "keys"), False),
        Piece("reduce", ("match", "source"), True),
        Piece("step", ("current", "reduce"), False),
    ),
    "SM-D1": (
        Piece("keys", ("source",), True),
        Piece("reduce", ("current", "keys"), False),
        Piece("step", ("reduce", "source"), True),
    ),
    "SM-D2": (
        Piece("match", ("current", "source"), True),
        Piece("reduce", ("current", "match"), False),
        Piece("step", ("reduce", "source"), True),
    ),
}
"""The operators of each method; the graph has no circle, for `match` and `reduce` are apart."""


def at_source(method: str) -> bool:
    """Whether a method's result is at the current stream's site."""
    return method in ("SP-S", "SM-S1", "SM-S2")


def distinct_among(values: Number, tuples: Number) -> Floats:
    """How many of so many equally likely values occur among some tuples: k_i and m_i.

    semijoin's table 4 has lost its formula for this. Less than one tuple has less than one value.

    >>> [round(float(distinct_among(*case)), 9) for case in ((2.0, 2.0), (1.0, 5.0), (9.0, 0.0))]
    [1.5, 1.0, 0.0]
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        seen = -np.asarray(values) * np.expm1(tuples * np.log1p(-1 / np.asarray(values)))
    return np.where(np.asarray(tuples) > 0, np.minimum(seen, tuples), 0.0)


def methods(current: Side, stream: Side, costs: Costs) -> dict[str, Method]:
    """The six methods of a one-way join, in appendix B's terms."""
    cp, cu, ci, ch, tau = costs.probe_s, costs.update_s, costs.insert_s, costs.hash_s, costs.interval_s
    r1, r2, w2 = current.rate, stream.rate, stream.window
    f12 = np.minimum(1.0, stream.distinct / current.distinct)
    f21 = np.minimum(1.0, current.distinct / stream.distinct)
    with np.errstate(over="ignore"):
        # What changes hands, a second: keys of both sides' batches, and tuples of both with a match.
        keys1 = distinct_among(current.distinct, r1 * tau) / tau
        k2 = distinct_among(stream.distinct, w2)
        new2 = distinct_among(stream.distinct, r2 * tau) / tau * (1 - f21)
        wanted2 = k2 / tau * (1 - f12)

        def ship(sender: str, carries: str, back: bool, tuples: Number, width: Number) -> Shipment:
            return Shipment(sender, carries, back, _finite(tuples), _finite(tuples * width))

        def method(name: str, work: dict[str, Number], *shipments: Shipment) -> Method:
            return Method(name, {part: _finite(s) for part, s in work.items()}, shipments)

        found = (
            method(
                "SP-S",
                {"step": r1 * cu + r1 * cp * w2 + r2 * cu},
                ship("source", "tuples", True, r2, stream.width),
            ),
            method(
                "SP-D",
                {"step": r1 * ci + r1 * cp * w2 + r2 * cu},
                ship("current", "tuples", False, r1, current.width),
            ),
            method(
                "SM-S1",
                {"reduce": keys1 * cp * w2 + r2 * ci, "step": r1 * ci + r2 * f21 * ci + r1 * cp * w2 * f21},
                ship("current", "keys", False, keys1, current.key),
                ship("reduce", "tuples", True, r2 * f21, stream.width),
                ship("source", "counts", True, np.ones_like(k2) / tau, COUNT_BYTES),
            ),
            # The paper sends s_F, new tuples whose key was wanted before, along with the new keys. Here they
            # go with the other tuples: as many messages and bytes, and keys that all heads can read.
            method(
                "SM-S2",
                {
                    "match": r1 * ci + r1 * ch,
                    "reduce": wanted2 * cp * w2 + r2 * cp * k2 + r2 * ci + new2 * ci,
                    "step": r1 * ch + new2 * cu,
                },
                ship("keys", "keys", True, new2, stream.key),
                ship("match", "requests", False, wanted2, stream.key),
                ship("reduce", "tuples", True, wanted2 + r2 * f21, stream.width),
            ),
            method(
                "SM-D1",
                {
                    "reduce": r1 * ci + r1 * cp * k2 + new2 * ci,
                    "step": r1 * f12 * cp * w2 + r2 * cp * k2 + r2 * ci + new2 * ci,
                },
                ship("keys", "keys", True, new2, stream.key),
                ship("reduce", "tuples", False, r1 * f12, current.width),
            ),
            method(
                "SM-D2",
                {
                    "match": keys1 * cp * w2 + r2 * cu,
                    "reduce": r1 * ci + keys1 * f12 * cp * (r1 * tau),
                    "step": r1 * f12 * cp * w2,
                },
                ship("current", "keys", False, keys1, current.key),
                ship("match", "matches", True, keys1 * f12, current.key),
                ship("reduce", "tuples", False, r1 * f12, current.width),
            ),
        )
    return {m.name: m for m in found}


def _finite(amount: Number) -> Number:
    return np.minimum(amount, _LARGEST)


class Ways:
    """What it costs to ship between some sites, for many amounts at once.

    Between two sites that is the least of a few straight lines, fixed + bytes * per_byte, one for each path
    that is the cheapest for some amount. A network without fixed costs has one line for each pair.
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
        """What it costs from one place in `sites` to another."""
        return float((self.fixed[:, a, b] + self.per_byte[:, a, b] * bytes_per_s).min())


def least(lines: Lines, bytes_per_s: Number) -> Floats:
    """What it costs by these lines to ship an amount for each row."""
    amounts = np.asarray(bytes_per_s)[:, None]
    return reduce(np.minimum, (fixed + per_byte * amounts for fixed, per_byte in lines))


_MOST = 1e15
"""Bytes a second beyond which fixed parts do not count."""


class _Paths:
    """Cheapest paths in a network where shipments also pay a fixed part, so that the amount matters."""

    def __init__(self, network: Network) -> None:
        n = len(network.sites)
        self.network = network
        self.order = np.lexsort((network.heads, network.tails))
        self.ends = (network.tails * n + network.heads)[self.order]
        rows = np.concatenate(([0], np.cumsum(np.bincount(network.tails, minlength=n))))
        self.graph = csr_matrix((np.ones(len(self.order)), network.heads[self.order], rows), shape=(n, n))
        self.before: dict[tuple[int, float], Numbers] = {}

    def lines(self, a: int, b: int) -> list[tuple[float, float]]:
        """The lines whose least is what it costs from one site to another; none without a path."""
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
