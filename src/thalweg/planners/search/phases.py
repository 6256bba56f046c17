"""What planners in two phases share: a tree by rates alone, and where the joins of a given tree go.

integrated calls them "plan, then deploy" (its figure 1a): the order of joins is chosen before the network
is looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from thalweg.cost.keys import Floats
from thalweg.cost.network import Numbers
from thalweg.cost.objectives import join_work
from thalweg.planners.optimal import splits_of
from thalweg.planners.search.problem import NotApplicableError, Problem
from thalweg.planners.search.recurrence import Given, Made, solve
from thalweg.planners.search.reuse import Offer
from thalweg.planners.search.tree import Join, Leaf, Reused, Tree


@dataclass(frozen=True)
class Joined:
    """A join of a tree without a place: the two sets that it joins."""

    left: int
    right: int

    @property
    def mask(self) -> int:
        return self.left | self.right


Order = tuple[Joined, ...]
"""The joins of a tree, inputs before those that read them."""
Allowed = Callable[[Joined], Numbers]
"""The sites where a join may go."""


def by_rates(problem: Problem) -> tuple[Order, int]:
    """The tree with the least bytes a second between its joins, and how many joins were compared."""
    rates = problem.rates
    units = [Leaf(i) for i in range(len(problem.at))]
    nowhere = np.zeros(1, dtype=np.int64)
    solved = solve(
        splits_of(rates, units),
        {unit.mask: np.zeros(1) for unit in units},
        lambda mask: rates.flow(mask).bytes,
        lambda available, _: (available, nowhere),
        joinable=rates.joinable,
        check_time=problem.check_time,
        work=lambda a, b: rates.flow(a | b).bytes,
    )
    order: list[Joined] = []

    def visit(node: Given | Made) -> int:
        if isinstance(node, Given):
            return node.units
        joined = Joined(visit(node.left), visit(node.right))
        order.append(joined)
        return joined.mask

    visit(solved.plan(rates.all, 0))
    return tuple(order), solved.looked_at


@dataclass(frozen=True, eq=False)
class Placed:
    """The joins of a tree at sites; `places` are those of the joins that are made, by their set."""

    tree: Tree
    cost: float

    @property
    def places(self) -> Mapping[int, int]:
        found: dict[int, int] = {}
        waiting: list[Tree] = [self.tree]
        while waiting:
            node = waiting.pop()
            if isinstance(node, Join):
                found[node.mask] = node.site
                waiting += node.inputs
        return found


def everywhere(problem: Problem) -> Allowed:
    """Any site for any join."""
    sites = np.arange(len(problem.network.sites))
    return lambda _: sites


def place(problem: Problem, order: Order, allowed: Allowed, target: int | None) -> Placed:
    """The cheapest sites for the joins of a tree, out of those allowed.

    A stream or join of another query is used instead where that is cheaper.
    """
    network, rates = problem.network, problem.rates
    available, offers = _available(problem)
    shipped: dict[int, Floats] = {}
    origin: dict[int, Numbers] = {}
    made_at: dict[int, Floats] = {}
    joins: dict[int, Joined] = {}

    def ship(mask: int, costs: Floats) -> None:
        shipped[mask], origin[mask] = network.spread(costs, rates.flow(mask).bytes)

    for i in range(len(problem.at)):
        ship(1 << i, available[1 << i])
    none = np.full(len(network.sites), np.inf)
    for joined in order:
        problem.check_time()
        costs = none.copy()
        sites = allowed(joined)
        costs[sites] = (shipped[joined.left] + shipped[joined.right])[sites]
        if problem.model.work:
            costs[sites] += join_work(rates, (joined.left, joined.right), problem.catalog.costs)
        joins[joined.mask], made_at[joined.mask] = joined, costs
        ship(joined.mask, np.minimum(costs, available.get(joined.mask, none)))

    def tree(mask: int, site: int) -> Tree:
        own = made_at.get(mask, none)
        if available.get(mask, none)[site] <= own[site]:
            offer = offers.get((mask, site))
            return Leaf(mask.bit_length() - 1) if offer is None else Reused(mask, offer)
        sides = (joins[mask].left, joins[mask].right)
        return Join(
            (tree(sides[0], int(origin[sides[0]][site])), tree(sides[1], int(origin[sides[1]][site]))), site
        )

    top = order[-1].mask
    least = np.minimum(made_at[top], available.get(top, none))
    cost = float(least.min() if target is None else shipped[top][target])
    if cost == float("inf"):
        raise NotApplicableError(
            "the order of joins that is best by rates needs streams to meet where no path leads",
            remedy="optimal finds what can be reached",
        )
    return Placed(tree(top, int(least.argmin() if target is None else origin[top][target])), cost)


def _available(problem: Problem) -> tuple[dict[int, Floats], dict[tuple[int, int], Offer]]:
    """What each set costs where it is available without a join, and the offers that it is available by."""
    nodes = len(problem.network.sites)
    available: dict[int, Floats] = {}
    for i, site in enumerate(problem.at):
        available[1 << i] = np.full(nodes, np.inf)
        available[1 << i][site] = 0.0
    chosen: dict[tuple[int, int], Offer] = {}
    for offer in problem.deployed.offers(problem):
        costs = available.setdefault(offer.mask, np.full(nodes, np.inf))
        if offer.cost < costs[offer.site]:
            costs[offer.site] = offer.cost
            chosen[offer.mask, offer.site] = offer
    return available, chosen
