"""`exhaustive`: every tree of two-way joins with every placement, one after another (integrated lemma 1).

It is there to be compared with: `optimal` finds a plan of the same cost without looking at all of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import combinations
from math import factorial, inf, isinf

import numpy as np

from thalweg.cost.keys import Floats
from thalweg.cost.masks import members
from thalweg.cost.network import Numbers
from thalweg.cost.objectives import join_work
from thalweg.planners.optimal import cheapest
from thalweg.planners.search.problem import Found, NotApplicableError, Problem
from thalweg.planners.search.tree import Join, Leaf, Reused, Tree, deploy

MOST = 50_000_000
"""Plans beyond which the search takes too long."""

History = tuple[tuple[int, int], ...]
"""Which two items each join merges. Inputs are the first numbers, results of joins the next ones."""


def plan(problem: Problem) -> Found:
    """The cheapest of all plans, each looked at."""
    everything, nodes = problem.rates.all, len(problem.network.sites)
    offers = problem.deployed.offers(problem)
    offered = {o.mask for o in offers}
    count = plans(everything, offered, nodes)
    if count > MOST:
        raise NotApplicableError(
            f"exhaustive would look at {count:,} plans, and {MOST:,} is the most it does",
            remedy="optimal finds a plan of the same cost without looking at all",
        )
    options: dict[int, list[Option]] = {}
    for i, site in enumerate(problem.at):
        options.setdefault(1 << i, []).append(Option(Leaf(i), site, 0.0))
    for offer in offers:
        options.setdefault(offer.mask, []).append(Option(Reused(offer.mask, offer), offer.site, offer.cost))
    search = Search(problem, options)
    cost, tree = min(
        (search.cheapest(parts) for parts in covers(everything, offered)), key=lambda found: found[0]
    )
    if isinf(cost):
        raise NotApplicableError(
            "there is no site that all streams of the query can reach",
            remedy="add links to the catalog, or a links.default",
        )
    return Found(cheapest(problem, deploy(problem, tree)), count)


def lemma1(streams: int, nodes: int) -> int:
    """The number of plans: K! (K-1)! / 2^(K-1) histories of K streams, N^(K-1) placements of each on N nodes.

    >>> f"{lemma1(5, 64):.2e}", f"{lemma1(5, 128):.2e}"
    ('3.02e+09', '4.83e+10')
    """
    joins = streams - 1
    return int(factorial(streams) * factorial(joins) // 2**joins * nodes**joins)


def plans(everything: int, offered: Collection[int], nodes: int) -> int:
    """Lemma 1's number, summed over all ways to put a set together from single units and offered sets."""
    sets = frozenset(o for o in offered if o & everything == o and o.bit_count() > 1)

    @cache
    def by_parts(left: int) -> tuple[int, ...]:
        """How many covers have no part, one, two, and so on."""
        counts = [0] * (left.bit_count() + 1)
        if not left:
            return (1,)
        for part in _first_parts(left, sets):
            for k, ways in enumerate(by_parts(left & ~part)):
                counts[k + 1] += ways
        return tuple(counts)

    return sum(ways * lemma1(k, nodes) for k, ways in enumerate(by_parts(everything)) if ways)


def covers(everything: int, offered: Collection[int]) -> Iterator[tuple[int, ...]]:
    """All ways to put a set together from single units and offered sets.

    >>> list(covers(0b111, {0b110}))
    [(1, 2, 4), (1, 6)]
    """
    if not everything:
        yield ()
        return
    for part in _first_parts(everything, offered):
        for others in covers(everything & ~part, offered):
            yield (part, *others)


def _first_parts(left: int, offered: Collection[int]) -> list[int]:
    lowest = left & -left
    return sorted({lowest, *(o for o in offered if o & lowest and o & left == o)})


def histories(count: int) -> Iterator[History]:
    """Every sequence in which two of the current items are merged until one is left."""

    def further(items: tuple[int, ...], fresh: int) -> Iterator[History]:
        if len(items) == 1:
            yield ()
        for a, b in combinations(items, 2):
            left = (*(i for i in items if i not in (a, b)), fresh)
            for later in further(left, fresh + 1):
                yield ((a, b), *later)

    return further(tuple(range(count)), count)


@dataclass(frozen=True)
class Option:
    """One way to have a set without a new join: its site and its cost."""

    tree: Tree
    site: int
    cost: float


@dataclass(frozen=True, eq=False)
class Search:
    """Prices all placements of a tree at once, as an array with one axis for the place of each join."""

    problem: Problem
    options: dict[int, list[Option]]
    _arrivals: dict[int, tuple[Floats, Numbers]] = field(default_factory=dict)
    _works: dict[tuple[int, int], float] = field(default_factory=dict)

    def cheapest(self, parts: Sequence[int]) -> tuple[float, Tree]:
        """The cheapest plan that joins these sets."""
        if len(parts) == 1:
            target = self.problem.target
            ways = [
                o.cost + (0.0 if target is None else self._from(o, parts[0])[target])
                for o in self.options[parts[0]]
            ]
            best = int(np.argmin(ways))
            return ways[best], self.options[parts[0]][best].tree
        least: tuple[float, History, tuple[int, ...]] = inf, (), ()
        seen = set()
        for history in histories(len(parts)):
            self.problem.check_time()
            masks = _masks(parts, history)
            tree = frozenset(masks)
            if tree in seen:  # merged in another order, with the same placements
                continue
            seen.add(tree)
            costs = self._placements(masks, history)
            place = int(costs.argmin())
            if costs.flat[place] < least[0] or not least[1]:
                where = np.unravel_index(place, costs.shape)
                least = float(costs.flat[place]), history, tuple(int(v) for v in where)
        return least[0], self._tree(parts, least[1], least[2])

    def _placements(self, masks: Sequence[int], history: History) -> Floats:
        """The cost of the tree for each placement of its joins."""
        inputs, axes = len(masks) - len(history), len(history)
        rates, network = self.problem.rates, self.problem.network
        reader = {item: axis for axis, pair in enumerate(history) for item in pair}
        total: Floats = np.zeros((1,) * axes)
        for item, axis in reader.items():
            mask = masks[item]
            if item < inputs:
                total = total + self._source(item, masks[:inputs], reader, axes)
            else:
                total = total + _along(network.matrix(rates.flow(mask).bytes), (item - inputs, axis), axes)
        if self.problem.target is not None:
            result = network.to_site(self.problem.target, rates.flow(masks[-1]).bytes)
            total = total + _along(result, (axes - 1,), axes)
        if self.problem.model.work:
            total = total + sum(self._work(masks[a], masks[b]) for a, b in history)
        return total

    def _source(self, item: int, masks: Sequence[int], reader: dict[int, int], axes: int) -> Floats:
        """The cost of an input where it is read: nothing if another alias of it is read there too."""
        cost = _along(self._arrive(masks[item])[0], (reader[item],), axes)
        for other in range(item):
            if self._same(masks[item], masks[other]):
                if reader[item] == reader[other]:
                    return np.zeros((1,) * axes)
                together = _along(
                    np.eye(len(self.problem.network.sites)), (reader[other], reader[item]), axes
                )
                cost = np.where(together, 0.0, cost)
        return cost

    def _tree(self, parts: Sequence[int], history: History, places: Sequence[int]) -> Tree:
        reader = {item: places[axis] for axis, pair in enumerate(history) for item in pair}
        items: list[Tree] = []
        for i, mask in enumerate(parts):
            items.append(self.options[mask][int(self._arrive(mask)[1][reader[i]])].tree)
        for (a, b), place in zip(history, places, strict=True):
            items.append(Join((items[a], items[b]), place))
        return items[-1]

    def _same(self, one: int, other: int) -> bool:
        """Whether two sets are aliases that read the same tuples of one stream."""
        alone = one.bit_count() == other.bit_count() == 1
        return alone and members(other)[0] in self.problem.twins[members(one)[0]]

    def _arrive(self, mask: int) -> tuple[Floats, Numbers]:
        """The least cost of having an input at each site, and the option that gives it."""
        if mask not in self._arrivals:
            ways = np.array([o.cost + self._from(o, mask) for o in self.options[mask]])
            self._arrivals[mask] = ways.min(axis=0), ways.argmin(axis=0)
        return self._arrivals[mask]

    def _from(self, option: Option, mask: int) -> Floats:
        return self.problem.network.from_site(option.site, self.problem.rates.flow(mask).bytes)

    def _work(self, left: int, right: int) -> float:
        if (left, right) not in self._works:
            self._works[left, right] = join_work(
                self.problem.rates, (left, right), self.problem.catalog.costs
            )
        return self._works[left, right]


def _masks(parts: Sequence[int], history: History) -> list[int]:
    masks = list(parts)
    for a, b in history:
        masks.append(masks[a] | masks[b])
    return masks


def _along(values: Floats, axes: tuple[int, ...], count: int) -> Floats:
    """An array over some of the axes, in the shape of one over all."""
    order = sorted(range(len(axes)), key=lambda i: axes[i])
    shape = [1] * count
    for i in order:
        shape[axes[i]] = values.shape[i]
    return values.transpose(order).reshape(shape)
