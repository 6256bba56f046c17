"""Sites that join and leave a hierarchy."""

import numpy as np
import pytest

from thalweg.plan.options import Objective, PlanOptions
from thalweg.planners.search.hierarchy import Hierarchy
from thalweg.planners.search.membership import Membership
from thalweg.planners.table import Session, planner
from thalweg.workloads import synthetic, transit_stub


def line(n):
    """Sites along a line."""
    return np.abs(np.subtract.outer(np.arange(n), np.arange(n))).astype(float)


def check(group, sites):
    """Every level holds the coordinators of the one below, in clusters that are not too large."""
    below = sorted(sites)
    for level in group.levels:
        assert sorted(m for g in level for m in g.members) == below
        assert all(0 < len(g.members) <= group.max_cs and g.coordinator in g.members for g in level)
        below = sorted(g.coordinator for g in level)
    assert len(below) == 1


@pytest.mark.parametrize("seed", range(5))
def test_sites_join_and_leave_and_the_hierarchy_holds(seed):
    rng = np.random.default_rng(seed)
    points = rng.random((60, 2))
    apart = np.sqrt(((points[:, None] - points[None]) ** 2).sum(axis=2))
    group = Membership(apart, 4)
    group.start([0])
    there = {0}
    for _ in range(150):
        site = int(rng.integers(60))
        if site in there and len(there) > 1:
            there.remove(site)
            assert group.leave(site) >= 1
        elif site not in there:
            assert group.join(site, next(iter(there))) >= 1
            there.add(site)
        check(group, there)


def test_a_site_joins_the_cluster_near_it():
    group = Membership(line(20), 4)
    group.start([0, 1, 2, 10, 11, 12, 19])
    check(group, [0, 1, 2, 10, 11, 12, 19])
    group.join(18, 0)
    assert next(set(g.members) for g in group.levels[0] if 18 in g.members) >= {18, 19}


def test_messages_are_counted_one_by_one():
    group = Membership(line(10), 4)
    group.start([0, 1])
    # 2 asks 1, that asks its coordinator 0, which is at the top; the cluster's two other members hear of it.
    assert group.join(2, 1) == 1 + 1 + 2
    assert group.advertise(2) == 1
    assert group.advertise(0) == 0
    # 0 coordinates: both others hear that it leaves.
    assert group.leave(0) == 2
    assert group.levels[0][0].coordinator in (1, 2)


def test_planners_use_a_hierarchy_that_has_grown():
    made = synthetic.workload(40, transit_stub.links(40, 1), 1, queries=3)
    session = Session(made.catalog, PlanOptions("top-down", Objective.USAGE, "n3", {"max_cs": "4"}))
    group = Membership(session.network.matrix(1.0), 4)
    group.start(list(range(40)))
    levels = group.as_levels(40)
    Hierarchy.keep(session.network, 4, levels)
    problem = session.problem(made.queries[0])
    assert Hierarchy.of(problem, 4).levels == levels
    for query in made.queries:
        assert session.deploy(query, planner("top-down")).cost > 0
