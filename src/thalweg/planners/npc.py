"""`npc`: `bottom-up` that joins at a level only if that seems to cost no more than to wait (integrated 3.4).

To join now costs Gamma_l, the net present cost: that of the join within the cluster, and later of shipping
the other streams. To wait costs Omega_l, that of shipping the whole query's results.
"""

from __future__ import annotations

from itertools import pairwise

from thalweg.planners.bottom_up import Stage, climb
from thalweg.planners.search.problem import Found, Problem


def plan(problem: Problem) -> Found:
    """Joins at a level where Omega_l >= Gamma_l; otherwise the streams go up unjoined."""
    return climb(problem, _joins_now)


def _joins_now(stage: Stage) -> bool:
    omega = _later(stage, stage.views.problem.rates.all)
    gamma = _later(stage, stage.remote)
    if omega < gamma:  # the join's cost does not matter then
        return False
    return omega >= gamma + sum(view.cost for view in stage.searched)


def _later(stage: Stage, mask: int) -> float:
    """sum over i > l of p_i * lambda(mask) * d_i.

    p_i, the chance that the missing streams are found at level i, is the share of the network that level i
    adds, of all that level l lacks.
    """
    hierarchy, network = stage.views.hierarchy, stage.views.problem.network
    size = stage.views.problem.rates.flow(mask).bytes
    in_sight = [hierarchy.visible(i, stage.sink) for i in range(stage.level, hierarchy.height + 1)]
    hidden = len(network.sites) - in_sight[0]
    total = 0.0
    for i, (before, now) in enumerate(pairwise(in_sight), start=stage.level + 1):
        # lambda * d_i; with fixed costs of shipments, the cost of that amount on the same path.
        total += (now - before) / hidden * network.cost(*hierarchy.farthest(i), size)
    return total
