"""`top-down`: plans on the top level's representatives, then each cluster its own share (integrated 3.2).

The top coordinator decides on a tree with each join at one of its representatives. Connected joins at one
representative are a view, which is planned again within its cluster, one level below, and so on down to the
sites. Views that others read are planned first, so their real sites are known.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, isinf

import numpy as np

from thalweg.cost.keys import Floats
from thalweg.cost.network import Network, Numbers
from thalweg.cost.objectives import join_work
from thalweg.planners.exhaustive import Option, plans
from thalweg.planners.optimal import MOST
from thalweg.planners.search.hierarchy import Hierarchy
from thalweg.planners.search.problem import Found, NotApplicableError, Problem, Search
from thalweg.planners.search.recurrence import Given, Made, solve
from thalweg.planners.search.reuse import Offer
from thalweg.planners.search.splits import every
from thalweg.planners.search.tree import Join, Leaf, Reused, deploy

MAX_CS = 32


def plan(problem: Problem) -> Found:
    """Plans from the one cluster at the top down to the sites."""
    views = Views.of(problem)
    top = views.hierarchy.height
    return views.found(views.planned(top, problem.at[0], views.streams(), problem.target))


@dataclass(frozen=True)
class Unit:
    """An input of a view: a stream or the output of a view or query, at one of some sites."""

    mask: int
    options: tuple[Option, ...]


@dataclass(frozen=True, eq=False)
class Places:
    """Some sites, and the costs of shipping between them."""

    network: Network
    sites: Numbers
    unit: Floats | None
    """Costs for a byte a second, where twice as much costs twice that."""

    @classmethod
    def of(cls, network: Network, sites: Numbers) -> Places:
        linear = not network.fixed.any()
        return cls(network, sites, network.among(sites.tolist(), 1.0) if linear else None)

    def spread(self, available: Floats, bytes_per_s: float) -> tuple[Floats, Numbers]:
        """As `Network.spread`, over these sites (by their position) only."""
        if self.unit is None:
            everywhere = np.full(len(self.network.sites), np.inf)
            everywhere[self.sites] = available
            costs, origin = self.network.spread(everywhere, bytes_per_s)
            position = np.zeros(len(everywhere), dtype=np.int64)
            position[self.sites] = np.arange(len(self.sites))
            return costs[self.sites], position[origin[self.sites]]
        scaled = self.unit * bytes_per_s if bytes_per_s else np.where(np.isinf(self.unit), np.inf, 0.0)
        ways = available[:, None] + scaled
        here = np.arange(len(available))
        origin = ways.argmin(axis=0)
        best = ways[origin, here]
        return best, np.where(available <= best, here, origin)


@dataclass(frozen=True, eq=False)
class View:
    """A part of the query that one coordinator has planned on the nodes of its cluster.

    `given` has, for each set that needs no join, its source and the site from which it comes to each node.
    """

    level: int
    nodes: Numbers
    given: Mapping[int, tuple[Unit, Numbers]]
    root: Given | Made
    consumer: int | None
    cost: float


@dataclass(eq=False)
class Views:
    """Plans views within clusters; `searched` counts as the paper does, by lemma 1 for each view."""

    problem: Problem
    hierarchy: Hierarchy
    offers: Sequence[Offer]
    searched: int = 0
    searches: list[Search] = field(default_factory=list)
    _work: dict[tuple[int, int], float] = field(default_factory=dict)

    @classmethod
    def of(cls, problem: Problem) -> Views:
        hierarchy = Hierarchy.of(problem, problem.number("max_cs", MAX_CS, least=2))
        return cls(problem, hierarchy, problem.deployed.offers(problem))

    def streams(self) -> list[Unit]:
        """The query's streams, with copies that are already elsewhere."""
        return [
            Unit(1 << i, (Option(Leaf(i), site, 0.0), *_options(o for o in self.offers if o.mask == 1 << i)))
            for i, site in enumerate(self.problem.at)
        ]

    def found(self, result: Unit) -> Found:
        """The plan that a result stands for."""
        options = sorted(result.options, key=lambda o: o.cost)
        if self.problem.target is not None:
            start = np.full(len(self.problem.network.sites), inf)
            for option in reversed(options):
                start[option.site] = option.cost
            costs, origin = self.problem.network.spread(start, self._size(result.mask))
            if isinf(costs[self.problem.target]):
                raise _unreachable()
            options = [o for o in options if o.site == origin[self.problem.target]]
        return Found(deploy(self.problem, options[0].tree), self.searched, searches=tuple(self.searches))

    def planned(self, level: int, site: int, units: Sequence[Unit], consumer: int | None) -> Unit:
        """Units joined, from a level's cluster around a site down to real sites."""
        if len(units) == 1:
            self.searched += 1
            return units[0]
        return self.settled(self.search(level, site, units, consumer))

    def search(self, level: int, site: int, units: Sequence[Unit], consumer: int | None) -> View:
        """The best plan that a coordinator finds for a view, by the costs it knows: those of its level."""
        if len(units) > MOST:
            raise NotApplicableError(
                f"a cluster would search all joins of {len(units)} streams, and {MOST} are the most it does",
                remedy="streamjoinopt takes any number",
            )
        at = self.hierarchy.levels[level - 1].representative
        nodes = self.hierarchy.cluster(level, site)
        given = {1 << i: unit for i, unit in enumerate(units)} | self._derived(level, nodes, units)
        outside = {int(at[o.site]) for unit in given.values() for o in unit.options}
        outside |= set() if consumer is None else {int(at[consumer])}
        extra = np.array(sorted(outside - set(nodes.tolist())), dtype=np.int64)
        places = Places.of(self.problem.network, np.concatenate((nodes, extra)))
        where = {int(s): i for i, s in enumerate(places.sites)}
        masks = _unions(units)

        def spread(available: Floats, size: float) -> tuple[Floats, Numbers]:
            costs, origin = places.spread(np.append(available, np.full(len(extra), inf)), size)
            return costs[: len(nodes)], origin[: len(nodes)]

        available, origins = {}, {}
        for local, unit in given.items():
            start = np.full(len(places.sites), inf)
            for option in unit.options:
                place = where[int(at[option.site])]
                start[place] = min(start[place], option.cost)
            costs, origin = places.spread(start, self._size(masks[local]))
            available[local], origins[local] = costs[: len(nodes)], places.sites[origin[: len(nodes)]]
        solved = solve(
            every(len(units)),
            available,
            lambda local: self._size(masks[local]),
            spread,
            joinable=lambda a, b: self.problem.rates.joinable(masks[a], masks[b]),
            check_time=self.problem.check_time,
            work=(lambda a, b: self._join_work(masks[a], masks[b])) if self.problem.model.work else None,
        )
        everything = len(masks) - 1
        looked_at = plans(everything, given.keys(), len(nodes))
        self.searched += looked_at
        self.searches.append(Search(level, self.hierarchy.coordinator(level, site), looked_at))
        made = np.append(solved.anywhere(everything), np.full(len(extra), inf))
        if consumer is None:
            end, cost = int(made.argmin()), float(made.min())
        else:
            costs, origin = places.spread(made, self._size(masks[everything]))
            there = where[int(at[consumer])]
            end, cost = int(origin[there]), float(costs[there])
        if isinf(cost):
            raise _unreachable()
        known = {local: (unit, origins[local]) for local, unit in given.items()}
        return View(level, nodes, known, solved.plan(everything, end), consumer, cost)

    def settled(self, view: View) -> Unit:
        """A view's plan with each join at a real site."""
        return self._settled(view, view.root, view.consumer)

    def _settled(self, view: View, node: Given | Made, consumer: int | None) -> Unit:
        if isinstance(node, Given):
            unit, origins = view.given[node.units]
            at = self.hierarchy.levels[view.level - 1].representative
            return Unit(unit.mask, tuple(o for o in unit.options if at[o.site] == origins[node.node]))
        place = int(view.nodes[node.node])
        if view.level > 1:
            read = [self._settled(view, n, place) for n in _read(node)]
            return self.planned(view.level - 1, place, read, consumer)
        left, right = (self._settled(view, n, place) for n in (node.left, node.right))
        tree = Join(tuple(min(u.options, key=lambda o: o.cost).tree for u in (left, right)), place)
        return Unit(tree.mask, (Option(tree, place, 0.0),))

    def _derived(self, level: int, nodes: Numbers, units: Sequence[Unit]) -> dict[int, Unit]:
        """The joins of other queries in a cluster, as its coordinator knows them (3.1.3)."""
        at = self.hierarchy.levels[level - 1].representative
        inside = set(nodes.tolist())
        found: dict[int, list[Offer]] = {}
        for offer in self.offers:
            local = sum(1 << i for i, unit in enumerate(units) if unit.mask & offer.mask)
            whole = sum(unit.mask for i, unit in enumerate(units) if local >> i & 1) == offer.mask
            if whole and local.bit_count() > 1 and at[offer.site] in inside:
                found.setdefault(local, []).append(offer)
        return {local: Unit(offers[0].mask, _options(offers)) for local, offers in found.items()}

    def _size(self, mask: int) -> float:
        return self.problem.rates.flow(mask).bytes

    def _join_work(self, left: int, right: int) -> float:
        if (left, right) not in self._work:
            self._work[left, right] = join_work(self.problem.rates, (left, right), self.problem.catalog.costs)
        return self._work[left, right]


def _options(offers: Iterable[Offer]) -> tuple[Option, ...]:
    return tuple(Option(Reused(o.mask, o), o.site, o.cost) for o in offers)


def _unions(units: Sequence[Unit]) -> list[int]:
    """The streams of every set of units."""
    masks = [0]
    for unit in units:
        masks += [mask | unit.mask for mask in masks]
    return masks


def _read(node: Made) -> list[Given | Made]:
    """The inputs of the joins that are connected with one and at the same place."""
    found: list[Given | Made] = []
    for one in (node.left, node.right):
        found += _read(one) if isinstance(one, Made) and one.node == node.node else [one]
    return found


def _unreachable() -> NotApplicableError:
    return NotApplicableError(
        "a cluster's coordinator finds no path for the query's streams, since links lead one way only",
        remedy="optimal plans on the links themselves",
    )
