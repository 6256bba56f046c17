"""`optimal`: the cheapest order and placement of two-way joins over the whole network, with reuse.

Exact for one query, given those deployed before it; where a stream is read under several aliases, as long as
these share copies at no more than one site. With 14 streams or more, plans with cross products are left out
if the others are few. integrated.txt found such plans by enumerating them (`exhaustive`); the recurrence
finds the same ones with the place of each intermediate result in its state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from thalweg.cost.keys import Floats
from thalweg.cost.masks import mask_of, members
from thalweg.cost.objectives import join_work
from thalweg.cost.price import price
from thalweg.cost.rates import Rates
from thalweg.plan.deployment import Deployment
from thalweg.planners import local, simple, streamjoinopt
from thalweg.planners.search.problem import Found, NotApplicableError, Problem
from thalweg.planners.search.recurrence import Given, Made, Solved, solve
from thalweg.planners.search.reuse import Offer
from thalweg.planners.search.splits import Splits, connected, every
from thalweg.planners.search.tree import Join, Leaf, Reused, Tree, deploy

MOST = 14
"""Streams beyond which all splits, 3^m / 2, are too many."""
ALWAYS = 13
"""Of more streams than these, cross products are left out where that leaves few enough splits,"""
FEW = 400_000
"""which are so many."""
TWIN_SITES = 256
"""Up to so many sites each is tried as the one where a stream's aliases share a copy."""


def plan(problem: Problem) -> Found:
    """The cheapest tree of two-way joins."""
    units = [Leaf(i) for i in range(len(problem.at))]
    splits = splits_of(problem.rates, units)
    offers = problem.deployed.offers(problem)

    def solved(shared: Mapping[int, int]) -> Exact:
        return exact(problem, problem.rates, units, problem.at, problem.target, splits, offers, shared)

    best = solved({})
    searched, better = best.searched, True
    while better:  # one group of aliases after another, given where the others share
        better = False
        for group in _twins(problem):
            for site in _twin_sites(problem):
                other = solved({**best.shared, group: site})
                searched += other.searched
                if other.cost < best.cost * (1 - 1e-12):
                    best, better = other, len(_twins(problem)) > 1
    return Found(cheapest(problem, deploy(problem, best.tree())), searched)


def splits_of(rates: Rates, units: Sequence[Tree]) -> Splits:
    """The splits to look at: all of few units, those without cross products of more."""
    if len(units) > ALWAYS:
        near = [
            sum(1 << j for j, b in enumerate(units) if a is not b and rates.joinable(a.mask, b.mask))
            for a in units
        ]
        found = connected(near, FEW)
        if found is not None:
            return found
    if len(units) > MOST:
        raise NotApplicableError(
            f"{len(units)} streams have more than {FEW:,} ways to part sets of them, too many to look at",
            remedy="streamjoinopt takes any number",
        )
    return every(len(units))


def cheapest(problem: Problem, deployment: Deployment) -> Deployment:
    """The cheaper of a tree of two-way joins and the N-way joins of other planners.

    An N-way join keeps no intermediate results, so where work counts it may take less than any tree.
    """
    if not problem.model.work:
        return deployment
    plans = [deployment, simple.plan(problem).deployment, streamjoinopt.plan(problem).deployment]
    if len({*problem.at}) == 1:
        plans.append(local.plan(problem).deployment)
    return min(plans, key=lambda d: price(d, problem.network, problem.model))


def tries(problem: Problem) -> int:
    """How often the recurrence runs again to find where the aliases of a stream share a copy."""
    groups = len(_twins(problem))
    return groups * len(_twin_sites(problem)) * (1 if groups < 2 else groups)


@dataclass(frozen=True, eq=False)
class Exact:
    """The recurrence solved for some units, streams or joins made before, whose join is wanted at `target`.

    `shared` is the site at which aliases of a stream share a copy, `extra` the cost of these copies.
    """

    units: Sequence[Tree]
    target: int | None
    solved: Solved
    offers: Mapping[tuple[int, int], Offer]
    shared: Mapping[int, int]
    extra: float

    @property
    def cost(self) -> float:
        return self.solved.cost((1 << len(self.units)) - 1, self.target) + self.extra

    @property
    def searched(self) -> int:
        return self.solved.looked_at

    def tree(self) -> Tree:
        """The cheapest tree."""
        if self.cost == float("inf"):
            raise NotApplicableError(
                "the streams can't meet: no site can be reached from all of theirs",
                remedy="add links to the catalog",
            )
        return self._tree(self.solved.plan((1 << len(self.units)) - 1, self.target))

    def _tree(self, node: Given | Made) -> Tree:
        if isinstance(node, Made):
            return Join((self._tree(node.left), self._tree(node.right)), node.node)
        offer = self.offers.get((node.units, node.node))
        return Reused(node.units, offer) if offer is not None else self.units[members(node.units)[0]]


def exact(
    problem: Problem,
    rates: Rates,
    units: Sequence[Tree],
    at: Sequence[int],
    target: int | None,
    splits: Splits,
    offers: Sequence[Offer] = (),
    shared: Mapping[int, int] | None = None,
) -> Exact:
    """Solves the recurrence over units at their sites.

    Offers, and sets of aliases in `shared` that have one copy at a site between them, are for units that
    are the query's streams.
    """
    network = problem.network
    nodes = len(network.sites)
    available: dict[int, Floats] = {}
    for k, site in enumerate(at):
        available[1 << k] = np.full(nodes, np.inf)
        available[1 << k][site] = 0.0
    chosen: dict[tuple[int, int], Offer] = {}
    for offer in offers:
        costs = available.setdefault(offer.mask, np.full(nodes, np.inf))
        if offer.cost < costs[offer.site]:
            costs[offer.site] = offer.cost
            chosen[offer.mask, offer.site] = offer
    extra = 0.0
    free: dict[int, int] = {}
    for group, site in (shared or {}).items():
        first = 1 << members(group)[0]
        extra += float(network.spread(available[first], rates.flow(first).bytes)[0][site])
        free |= {1 << i: site for i in members(group)}

    @cache
    def streams(some: int) -> int:
        return sum(units[k].mask for k in members(some))

    solved = solve(
        splits,
        available,
        lambda some: rates.flow(streams(some)).bytes,
        network.spread,
        joinable=lambda a, b: rates.joinable(streams(a), streams(b)),
        check_time=problem.check_time,
        work=(lambda a, b: join_work(rates, (streams(a), streams(b)), problem.catalog.costs))
        if problem.model.work
        else None,
        free=free,
    )
    return Exact(units, target, solved, chosen, shared or {}, extra)


def _twins(problem: Problem) -> list[int]:
    """Sets of aliases that read the same tuples of one stream."""
    return [mask_of(group) for group in dict.fromkeys(problem.twins) if len(group) > 1]


def _twin_sites(problem: Problem) -> list[int]:
    nodes = len(problem.network.sites)
    return list(range(nodes)) if nodes <= TWIN_SITES else sorted(set(problem.at))
