"""`relaxation`: the best tree by rates alone, its joins drawn to their places by springs (Pietzuch 2006).

integrated says: the sites lie in a cost space of three dimensions, found in 4,000 iterations, with as many
for the placement. Our reading: distances in the space estimate the costs of links (Vivaldi: springs between
sites, each as long as the cost between them); in it, each join is pulled towards its inputs and its reader
by springs as strong as the bytes a second between them. Where the pulls are even, it goes to the nearest
site. Joins of other queries that are a part of the tree are reused where that costs less.
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

import numpy as np

from thalweg.cost.keys import Floats
from thalweg.cost.network import Network, Numbers
from thalweg.planners.search.hierarchy import distances, near_network
from thalweg.planners.search.phases import Order, by_rates, place
from thalweg.planners.search.problem import Found, Problem
from thalweg.planners.search.tree import deploy

ITERATIONS = 4000
DIMENSIONS = 3
_SEED = 7
_FIRST, _LAST = 0.25, 0.01  # how far along its force a site moves in the first and the last iteration
_STILL = 1e-9  # of the extent of the space: joins that move less have found their places


def plan(problem: Problem) -> Found:
    """Plans, then relaxes the tree in the cost space, then takes the nearest sites."""
    iterations = problem.number("iterations", ITERATIONS)
    space = cost_space(problem, iterations)
    order, searched = by_rates(problem)
    found, rounds = relaxed(problem, order, space, iterations)
    nearest = {mask: int(((space - position) ** 2).sum(axis=1).argmin()) for mask, position in found.items()}
    placed = place(problem, order, lambda one: np.array([nearest[one.mask]]), problem.target)
    return Found(deploy(problem, placed.tree), searched + rounds * len(order))


def cost_space(problem: Problem, iterations: int) -> Floats:
    """A position for each site; found once for a network and a number of iterations."""
    known = _SPACES.setdefault(problem.network, {})
    if iterations not in known:
        known[iterations] = _embedded(*distances(near_network(problem)), iterations)
    return known[iterations]


_SPACES: WeakKeyDictionary[Network, dict[int, Floats]] = WeakKeyDictionary()


def _embedded(others: Numbers, apart: Floats, iterations: int) -> Floats:
    """Vivaldi: in each iteration every site moves along the spring to one of `others`, at random.

    `apart` has a column of costs for each of these.
    """
    rng = np.random.default_rng(_SEED)
    count = len(apart)
    extent = float(apart.max()) or 1.0
    at = rng.normal(scale=extent / 10, size=(count, DIMENSIONS))
    here = np.arange(count)
    for step in np.geomspace(_FIRST, _LAST, iterations):
        column = rng.integers(len(others), size=count)
        other = others[column]
        towards = at[other] - at
        distance = np.sqrt((towards**2).sum(axis=1))
        stretched = np.where(other == here, 0.0, distance - apart[here, column])
        at += towards * (step * stretched / np.maximum(distance, extent * 1e-9))[:, None]
    return at


def relaxed(problem: Problem, order: Order, space: Floats, iterations: int) -> tuple[dict[int, Floats], int]:
    """The position of each join at which the springs are at rest, and after how many rounds."""
    rates = problem.rates
    fixed = {1 << i: space[site] for i, site in enumerate(problem.at)}
    at: dict[int, Floats] = {}
    for joined in order:  # first in the middle of its inputs
        known = fixed | at
        at[joined.mask] = (known[joined.left] + known[joined.right]) / 2
    pulls: dict[int, list[tuple[int, float]]] = {joined.mask: [] for joined in order}
    for joined in order:
        for side in (joined.left, joined.right):
            strength = rates.flow(side).bytes
            pulls[joined.mask].append((side, strength))
            if side in pulls:
                pulls[side].append((joined.mask, strength))
    sink = -1
    if problem.target is not None:
        fixed[sink] = space[problem.target]
        pulls[order[-1].mask].append((sink, rates.flow(rates.all).bytes))
    extent = float(np.ptp(space)) or 1.0
    for done in range(1, iterations + 1):
        moved = 0.0
        for mask, springs in pulls.items():
            total = sum(strength for _, strength in springs)
            if total <= 0:
                continue
            known = fixed | at
            new = sum(
                (known[other] * (strength / total) for other, strength in springs), np.zeros(DIMENSIONS)
            )
            moved = max(moved, float(np.abs(new - at[mask]).max()))
            at[mask] = new
        if moved <= _STILL * extent:
            return at, done
    return at, iterations
