"""The planners in two phases: a tree by rates alone, then its places."""

import itertools
import random
from dataclasses import replace

import numpy as np
import pytest

from thalweg.bench import made_up
from thalweg.cost.price import price
from thalweg.plan import operators as ops
from thalweg.plan.options import Objective, PlanOptions
from thalweg.planners import relaxation
from thalweg.planners.search.hierarchy import zones
from thalweg.planners.search.phases import by_rates, everywhere, place
from thalweg.planners.search.tree import Join, Leaf, deploy
from thalweg.planners.table import Session, planner

PHASED = ("plan-then-deploy", "in-network", "relaxation")


def case(seed, streams=4, nodes=6, objective=Objective.USAGE, target=True, **settings):
    known = made_up.catalog(streams, nodes, made_up.sparse(nodes, seed), keys=("x", "y"), seed=seed)
    options = PlanOptions("optimal", objective, f"n{seed % nodes}" if target else None, settings)
    return Session(known, options), made_up.chain(streams)


def cost(session, query, name):
    return session.deploy(query, planner(name)).marginal_cost


def trees(units):
    """All binary trees over some units."""
    if len(units) == 1:
        yield units[0]
        return
    first, *others = units
    for size in range(len(others)):
        for beside in itertools.combinations(others, size):
            left = [first, *beside]
            right = [u for u in others if u not in beside]
            yield from itertools.product(trees(left), trees(right))


def between(problem, tree):
    """The bytes a second of all joins of a tree, and the set it joins."""
    if isinstance(tree, int):
        return 0.0, 1 << tree
    (a, left), (b, right) = (between(problem, side) for side in tree)
    return a + b + problem.rates.flow(left | right).bytes, left | right


@pytest.mark.parametrize("seed", range(6))
def test_the_tree_by_rates_has_the_least_bytes_between_joins(seed):
    session, query = case(seed, streams=5)
    problem = session.problem(query)
    order, compared = by_rates(problem)
    found = sum(problem.rates.flow(j.mask).bytes for j in order)
    assert found == pytest.approx(min(between(problem, t)[0] for t in trees(list(range(5)))))
    assert order[-1].mask == problem.rates.all
    assert compared == (3**5 - 2**6 + 1) // 2


def placements(problem, order):
    """Every placement of a tree's joins."""
    for sites in itertools.product(range(len(problem.network.sites)), repeat=len(order)):
        made = {1 << i: Leaf(i) for i in range(len(problem.at))}
        for joined, site in zip(order, sites, strict=True):
            made[joined.mask] = Join((made[joined.left], made[joined.right]), site)
        yield made[order[-1].mask]


@pytest.mark.parametrize("objective", [Objective.USAGE, Objective.BYTES, Objective.TIME])
@pytest.mark.parametrize("target", [True, False])
def test_a_tree_is_placed_as_cheaply_as_can_be(objective, target):
    session, query = case(3, streams=4, nodes=4, objective=objective, target=target)
    problem = session.problem(query)
    order, _ = by_rates(problem)

    def priced(tree):
        return price(deploy(problem, tree), problem.network, problem.model)

    placed = place(problem, order, everywhere(problem), problem.target)
    assert placed.cost == pytest.approx(priced(placed.tree))
    assert placed.cost == pytest.approx(min(map(priced, placements(problem, order))))


@pytest.mark.parametrize("seed", range(8))
def test_they_are_never_better_than_the_optimum_and_one_is_the_best_of_them(seed):
    best = cost(*case(seed, nodes=12), "optimal")
    costs = {name: cost(*case(seed, nodes=12), name) for name in PHASED}
    assert best <= costs["plan-then-deploy"] * (1 + 1e-9)
    assert costs["plan-then-deploy"] <= min(costs.values()) * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_with_one_zone_its_coordinator_places_the_tree_as_well_as_can_be(seed):
    found = cost(*case(seed, nodes=10, zones="1"), "in-network")
    assert found == pytest.approx(cost(*case(seed, nodes=10), "plan-then-deploy"))


def test_a_join_belongs_to_the_zone_of_its_larger_input():
    session, query = case(5, streams=5, nodes=12, zones="12")
    problem = session.problem(query)
    made = session.deploy(query, planner("in-network")).deployment
    order, _ = by_rates(problem)
    site = {1 << i: s for i, s in enumerate(problem.rates.sites)}
    for joined in order:
        larger = max((joined.left, joined.right), key=lambda side: problem.rates.flow(side).bytes)
        site[joined.mask] = site[larger]
    joins = [o for o in made.operators if isinstance(o, ops.Join)]
    assert {frozenset(j.streams): j.site for j in joins} == {
        frozenset(problem.rates.names(j.mask)): site[j.mask] for j in order
    }
    assert sum(len(zone.sites) for zone in zones(problem, 12)) == 12


def test_zones_are_of_sites_near_each_other():
    known = made_up.catalog(3, 32, made_up.transit_stub(32, 2))
    problem = Session(known, PlanOptions("in-network", Objective.BYTES)).problem(made_up.one_attribute(3))
    found = zones(problem, 4)
    assert sorted(s for zone in found for s in zone.sites.tolist()) == list(range(32))
    near = Session(known, PlanOptions("in-network", Objective.USAGE)).network.matrix(1.0)
    inside = [near[np.ix_(z.sites, z.sites)].mean() for z in found]
    assert max(inside) < near.mean()
    assert all(zone.coordinator in zone.sites for zone in found)


def test_distances_in_the_cost_space_are_about_the_costs():
    known = made_up.catalog(3, 40, made_up.transit_stub(40, 1))
    problem = Session(known, PlanOptions("relaxation", Objective.USAGE)).problem(made_up.one_attribute(3))
    costs = problem.network.matrix(1.0)
    apart = ~np.eye(40, dtype=bool)

    def wrong(iterations):
        space = relaxation.cost_space(problem, iterations)
        assert space.shape == (40, 3)
        found = np.sqrt(((space[:, None] - space[None]) ** 2).sum(axis=2))
        return float(np.median(np.abs(found - costs)[apart] / costs[apart]))

    assert wrong(1000) < 0.25 < wrong(1)


def test_joins_rest_where_the_pulls_on_them_are_even():
    session, query = case(2, streams=4, nodes=9)
    problem = session.problem(query)
    space = relaxation.cost_space(problem, 500)
    order, _ = by_rates(problem)
    at, rounds = relaxation.relaxed(problem, order, space, 4000)
    assert 1 < rounds < 4000
    known = {**{1 << i: space[s] for i, s in enumerate(problem.at)}, **at}
    ends = [(j.mask, side, side) for j in order for side in (j.left, j.right)]
    for joined in order:
        pull = np.zeros(3)
        for reader, side, sent in ends:
            strength = problem.rates.flow(sent).bytes
            if joined.mask in (reader, side):
                other = side if reader == joined.mask else reader
                pull += strength * (known[other] - known[joined.mask])
        if joined.mask == problem.rates.all:
            pull += problem.rates.flow(joined.mask).bytes * (space[problem.target] - known[joined.mask])
        assert np.abs(pull).max() < 1e-5 * problem.rates.flow(joined.left).bytes * np.ptp(space)


@pytest.mark.parametrize("name", PHASED)
def test_a_part_of_the_tree_that_is_there_is_reused(name):
    session, query = case(1, streams=4, nodes=8)
    first = session.deploy(query, planner(name))
    assert first.marginal_cost > 0
    again = session.deploy(replace(query, name="again"), planner(name))
    assert again.marginal_cost == pytest.approx(0.0)
    assert any(isinstance(o, ops.Reuse) for o in again.deployment.operators)


@pytest.mark.parametrize("name", PHASED)
def test_reuse_never_costs_more_than_a_deployment_of_its_own(name):
    rng = random.Random(4)
    joins = made_up.schema(6, 4)
    known = made_up.catalog(6, 12, made_up.sparse(12, 4), keys=("k0", "k1", "k2", "k3"), seed=4)
    session = Session(known, PlanOptions(name, Objective.USAGE, "n3"))
    alone = 0.0
    for number in range(6):
        query = made_up.random_query(joins, rng.randint(3, 4), f"q{number}", rng)
        alone += Session(known, session.options).deploy(query, planner(name)).marginal_cost
        session.deploy(query, planner(name))
    together = sum(
        price(r.deployment, session.network, session.model) for r in session.deployed.running.values()
    )
    assert together < alone


def test_settings_are_checked():
    from thalweg.errors import UserError

    session, query = case(1, zones="none")
    with pytest.raises(UserError, match="'zones' can't be 'none'"):
        session.deploy(query, planner("in-network"))
