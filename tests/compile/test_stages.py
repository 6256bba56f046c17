"""Programs that keep to a given shape: what has no stage goes through an exchange from a site to itself."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.operators import join_cases
from tests.operators.one_site import end, found, hosted, push
from tests.simulate.sites_cases import (
    ALIASES,
    Case,
    by_sequences,
    check,
    check_planner,
    check_several,
    random_case,
    several_of,
)
from thalweg.compile.stages import Shape
from thalweg.plan.one_way import METHODS

FAMILIES = ["simple", "optimal", "streamjoinopt", "pmjoin", "linear-optimal", "semijoin-greedy"]


def random_shape(seed: int) -> Shape:
    """Some stages; most streams enter at any of them."""
    rng = random.Random(seed + 5)
    stages = rng.choice([1, 1, 2, 3])
    return Shape(stages, {a: rng.randint(1, stages) for a in ALIASES if rng.random() < 0.7})


def at_few_sites(case: Case) -> Case:
    """Streams at one or two sites, where operators follow each other."""
    rng = random.Random(case.seed + 6)
    return replace(case, sites=tuple(rng.choice([0, 0, 1]) for _ in case.sites), buckets=rng.choice([2, 3]))


SEEDS = [*range(2), *(pytest.param(n, marks=pytest.mark.long) for n in range(2, 20))]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", FAMILIES)
def test_plans_in_one_stage(name: str, seed: int) -> None:
    host = check_planner(name, at_few_sites(random_case(400 + seed)), shape=Shape(1))
    assert {g.stage for g in host.program.groups} == {1}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", FAMILIES)
def test_plans_in_any_shape(name: str, seed: int) -> None:
    shape = random_shape(seed)
    host = check_planner(name, at_few_sites(random_case(500 + seed)), shape=shape)
    assert max(g.stage for g in host.program.groups) <= shape.stages


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("method", [*METHODS, "any"])
def test_probe_sequences_in_any_shape(method: str, seed: int) -> None:
    case = at_few_sites(random_case(600 + seed))
    make = by_sequences(seed, METHODS if method == "any" else [method])
    check(case, make, shape=random_shape(seed + 1) if seed % 2 else Shape(1))


@pytest.mark.parametrize(
    "seed", [*range(4), *(pytest.param(n, marks=pytest.mark.long) for n in range(4, 30))]
)
def test_queries_that_share_operators_in_any_shape(seed: int) -> None:
    rng = random.Random(seed)
    case = at_few_sites(Case(seed=seed, shape=rng.choice(["star", "chain"]), tuples=20))
    shape = random_shape(seed) if seed % 2 else Shape(1)
    check_several(case, several_of(case, rng.randint(2, 4)), "optimal", shape=shape)


def same_in_every_shape(case: join_cases.Case, shape: Shape) -> None:
    """The trees of one site, with and without enough stages."""
    query = join_cases.query_of(case)
    plan = join_cases.any_tree(case, query)
    batches = join_cases.batches_of(case, join_cases.rows_of(case))
    hosts = []
    for given_shape in (None, Shape(1), shape):
        host = hosted(join_cases.made_of(case, query, plan, shape=given_shape))
        for batch in batches:
            push(host, {a: join_cases.table(case, r) for a, r in batch.items()})
        end(host)
        hosts.append(host)
    first, *others = ((found(h, *query.aliases), h.report.late, h.report.read) for h in hosts)
    assert others == [first, first]
    assert not hosts[0].sent


shapes = st.integers(0, 1000).map(random_shape)
trees = join_cases.cases.filter(lambda case: join_cases.bounded(case) and len(case.windows) > 2)


@given(trees, shapes)
@settings(max_examples=60, deadline=None)
def test_one_site_gives_the_same_in_every_shape(case: join_cases.Case, shape: Shape) -> None:
    same_in_every_shape(case, shape)


@pytest.mark.long
@given(trees, shapes)
@settings(max_examples=500, deadline=None)
def test_one_site_gives_the_same_in_every_shape_many_times(case: join_cases.Case, shape: Shape) -> None:
    same_in_every_shape(case, shape)


def test_another_key_takes_an_exchange_where_there_is_no_stage() -> None:
    case = Case(seed=3, shape="chain", sites=(0, 0, 0, 0))
    host = check_planner("simple", case, shape=Shape(1))
    assert list(host.sent) == [("n0", "n0")]
    host = check_planner("simple", case)
    assert not host.sent
    assert max(g.stage for g in host.program.groups) > 1
