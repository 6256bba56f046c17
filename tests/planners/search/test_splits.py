"""The ways to part sets of units, and the recurrence over all of them or the connected ones."""

import random

import pytest

from thalweg.bench import made_up
from thalweg.cost.masks import members
from thalweg.cost.price import price
from thalweg.plan.options import Objective, PlanOptions
from thalweg.planners import optimal
from thalweg.planners.search.splits import connected, every
from thalweg.planners.search.tree import deploy
from thalweg.planners.table import Session


def chain(n):
    return [(1 << i - 1 if i else 0) | (1 << i + 1 if i + 1 < n else 0) for i in range(n)]


def star(n):
    return [(1 << n) - 2, *[1] * (n - 1)]


def clique(n):
    return [(1 << n) - 1 & ~(1 << i) for i in range(n)]


def pairs(splits):
    """Every split as a set of its two sides, with how often it occurs."""
    return sorted(
        tuple(sorted((splits.masks[a], splits.masks[b])))
        for batch in splits.batches
        for lefts, rights in zip(batch.left.tolist(), batch.right.tolist(), strict=True)
        for a, b in zip(lefts, rights, strict=True)
    )


@pytest.mark.parametrize(
    "near, count",
    [
        (chain(9), (9**3 - 9) // 6),
        (star(9), 8 * 2**7),
        (clique(6), (3**6 - 2**7 + 1) // 2),
        (chain(70), 57155),
    ],
)
def test_there_are_as_many_splits_as_the_formulas_say(near, count):
    found = connected(near, 10**6)
    assert found.count == count == len(pairs(found))
    assert connected(near, count - 1) is None


def test_all_sets_of_a_clique_are_connected():
    assert pairs(connected(clique(6), 10**6)) == pairs(every(6))


@pytest.mark.parametrize("seed", range(20))
def test_connected_splits_are_those_of_all_whose_sides_hang_together(seed):
    rng, n = random.Random(seed), 7
    near = [0] * n
    for i in range(1, n):
        for j in {rng.randrange(i), rng.randrange(i)}:
            near[i] |= 1 << j
            near[j] |= 1 << i

    def whole(mask):
        inside, seen, waiting = set(members(mask)), set(), [members(mask)[0]]
        while waiting:
            one = waiting.pop()
            if one not in seen:
                seen.add(one)
                waiting += [j for j in members(near[one]) if j in inside]
        return seen == inside

    wanted = [p for p in pairs(every(n)) if whole(p[0]) and whole(p[1]) and whole(p[0] | p[1])]
    assert pairs(connected(near, 10**6)) == wanted


@pytest.mark.parametrize("seed", range(8))
def test_without_cross_products_the_best_plan_costs_no_less(seed):
    n = 6
    rng = random.Random(seed)
    joins = [(f"s{rng.randrange(i)}", f"k{i}", f"s{i}", f"k{i}") for i in range(1, n)]
    known = made_up.catalog(n, 7, made_up.sparse(7, seed), keys=[f"k{i}" for i in range(n)], seed=seed)
    problem = Session(known, PlanOptions("optimal", Objective.USAGE)).problem(made_up.query(joins, "q"))
    units = [optimal.Leaf(i) for i in range(n)]
    near = [
        sum(1 << j for j in range(n) if j != i and problem.rates.joinable(1 << i, 1 << j)) for i in range(n)
    ]
    costs = []
    for splits in (every(n), connected(near, 10**6)):
        found = optimal.exact(problem, problem.rates, units, problem.at, None, splits)
        made = deploy(problem, found.tree())
        assert found.cost == pytest.approx(price(made, problem.network, problem.model))
        costs.append(found.cost)
    assert costs[0] <= costs[1] * (1 + 1e-12)
