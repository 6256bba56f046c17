"""`in-network`: the best tree by rates alone, its joins spread over zones (Ahmad and Cetintemel 2004).

integrated says of it that it plans first and deploys then, that the network is divided into zones (five in
its experiments), and that it examines about as many plans as Top-Down: so each zone tries all placements of
its share. Our reading of how the tree is divided: from the leaves up, a join belongs to the zone of its
input with the most bytes, so that the larger input stays in its zone. The coordinator of a zone places
connected joins together, knows where their inputs are, and of what is outside knows the coordinators. Joins
of other queries that are a part of the tree are reused where that costs less.
"""

from __future__ import annotations

import numpy as np

from thalweg.cost.network import Numbers
from thalweg.planners.search.hierarchy import zones
from thalweg.planners.search.phases import Joined, Order, by_rates, place
from thalweg.planners.search.problem import Found, Problem
from thalweg.planners.search.tree import deploy

ZONES = 5


def plan(problem: Problem) -> Found:
    """Plans, divides the tree among zones, and has each zone place its share."""
    parts = zones(problem, problem.number("zones", ZONES))
    zone_of = np.zeros(len(problem.network.sites), dtype=np.int64)
    for number, part in enumerate(parts):
        zone_of[part.sites] = number
    order, searched = by_rates(problem)
    zone = _divided(problem, order, zone_of)
    reader = {side: joined.mask for joined in order for side in (joined.left, joined.right)}
    places: dict[int, int] = {}
    for joined in order:  # inputs come first, and each share is placed with its last join
        mask, here = joined.mask, zone[joined.mask]
        above = reader.get(mask)
        if above is not None and zone[above] == here:
            continue
        wanted = problem.target if above is None else parts[zone[above]].coordinator
        share = [j for j in order if j.mask & ~mask == 0 and j.mask not in places]

        def allowed(one: Joined, known: Numbers = parts[here].sites) -> Numbers:
            return np.array([places[one.mask]]) if one.mask in places else known

        inside = tuple(j for j in order if j.mask & ~mask == 0)
        found = place(problem, inside, allowed, wanted).places
        searched += len(parts[here].sites) ** len(share)
        for one in share:  # below a join that is reused, none is made
            places[one.mask] = found.get(one.mask, parts[here].coordinator)
    placed = place(problem, order, lambda one: np.array([places[one.mask]]), problem.target)
    return Found(deploy(problem, placed.tree), searched)


def _divided(problem: Problem, order: Order, zone_of: Numbers) -> dict[int, int]:
    """The zone of each set: a stream's own, a join's that of its larger input."""
    zone = {1 << i: int(zone_of[site]) for i, site in enumerate(problem.at)}
    for joined in order:
        larger = max((joined.left, joined.right), key=lambda side: problem.rates.flow(side).bytes)
        zone[joined.mask] = zone[larger]
    return zone
