"""Central and distributed updates end at the same plan (adaptive Algorithms 2 and 3)."""

import random

import pytest

from tests.adapt.cases import Case
from tests.planners.examples import pmjoin_1, random_sequences
from thalweg.adapt import central, distributed
from thalweg.adapt.distributed import Nodes
from thalweg.adapt.invariant import violations
from thalweg.adapt.knowledge import Setting, facts_of, plain
from thalweg.adapt.update import synchronisation
from thalweg.catalog.model import Stats
from thalweg.plan.node_operators import node_operators
from thalweg.planners.linear_greedy import SIMPLE, greedy
from thalweg.planners.search.sequences import Step, StepCosts, deploy, read


def planned(problem):
    return greedy(StepCosts(problem), SIMPLE)[0]


def changed_streams(old, new):
    then = facts_of(old)
    return [alias for alias, facts in facts_of(new).items() if facts != then[alias]]


def check(seed, most, changes=2):
    """How many of the changes gave another plan."""
    case = Case(seed, most)
    old, different = case.problem(), 0
    plan = planned(old)
    for n in range(changes):
        case.change()
        new = case.problem()
        one = central.update(new, plan, changed_streams(old, new))
        other = distributed.update(old, new, plan, random.Random(f"{seed} {n}"))
        assert other.plan == one.plan
        assert not violations(new, one.plan)
        assert other.affected == one.affected
        different += one.plan != plan
        old, plan = new, one.plan
    return different


def check_at_any_time(seed, most):
    """Changes come while messages about earlier ones are on their way; the plan was not greedy at first."""
    case, rng = Case(seed, most), random.Random(seed)
    first = case.problem()
    simple = random_sequences(first, rng, lambda: rng.choice(SIMPLE))
    nodes = Nodes(first, read(simple, first.query.aliases), rng)
    last = facts_of(first)
    for _ in range(3):
        for _ in range(rng.randrange(40)):
            nodes.deliver()
        case.change()
        problem = case.problem()
        for alias, facts in facts_of(problem).items():
            if facts != last[alias]:
                nodes.node(alias).change(facts)
                last[alias] = facts
    nodes.settle()
    assert nodes.plan == planned(problem)
    assert not violations(problem, nodes.plan)
    there = deploy(problem, nodes.plan)
    for site, node in nodes.by_site.items():
        assert node.operators() == node_operators(there, site)


def check_for_long(seed, most, rounds=12):
    """The same nodes change again and again; several changes can meet at a head before it looks."""
    case, rng = Case(seed, most), random.Random(seed)
    problem = case.problem()
    nodes, last = Nodes(problem, planned(problem), rng), facts_of(problem)
    for _ in range(rounds):
        for _ in range(rng.choice([1, 1, 2, 4])):
            case.change()
            problem = case.problem()
            for alias, facts in facts_of(problem).items():
                if facts != last[alias]:
                    nodes.node(alias).change(facts)
                    last[alias] = facts
            for _ in range(rng.randrange(30)):
                nodes.deliver()
        nodes.settle()
        assert nodes.plan == planned(problem)


@pytest.mark.parametrize("first", range(0, 90, 30))
def test_distributed_ends_at_the_plan_of_central(first):
    assert sum(check(seed, 5) for seed in range(first, first + 30)) > 20


@pytest.mark.parametrize("seed", range(3000, 3003))
def test_eight_streams(seed):
    case = Case(seed)
    while case.count < 8:
        seed += 10
        case = Case(seed)
    check(seed, 8)


def test_changes_at_any_time():
    for seed in range(40):
        check_at_any_time(seed, 5)


@pytest.mark.parametrize("seed", [51017, 51029])
def test_a_fall_before_a_rise_is_not_forgotten(seed):
    """The head hears of both before it looks: the stream bids all the same."""
    check_for_long(seed, 7)


@pytest.mark.parametrize("seed", [30210, 30214, 30038])
def test_a_bid_that_beats_a_stream_which_has_changed_too(seed):
    """The head has not heard of the other change: the bidder need not be the cheapest of all."""
    check(seed, 8)


@pytest.mark.long
@pytest.mark.parametrize("first", range(10_000, 10_150, 30))
def test_many(first):
    for seed in range(first, first + 30):
        check(seed, 8)
        check_at_any_time(seed, 8)
        check_for_long(seed, 8, 3)


def test_nobody_is_given_the_statistics_of_others():
    problem = Case(1).problem()
    setting = Setting.of(problem)
    assert all(s.stats == Stats() for s in setting.catalog.streams.values())
    assert setting.catalog.joins == ()
    nodes = Nodes(problem, planned(problem))
    for site, node in nodes.by_site.items():
        assert node.setting.catalog == setting.catalog
        assert {setting.sites[alias] for alias in node.own} == {site}


def test_rates_of_single_values_can_be_left_out():
    _, known = pmjoin_1()
    found = plain(known).streams["s1"].stats
    assert (found.rate, dict(found.distinct), dict(found.rates)) == (pytest.approx(100.2), {"dest": 3.0}, {})
    assert found.bytes == 1


def test_a_changed_head_has_its_whole_sequence_searched():
    """Algorithm 3 as printed looks only at the sequences in which the changed stream is joined to."""
    for seed in range(400):
        case = Case(seed, 5)
        old = case.problem()
        case.stats[0] = {**case.stats[0], "rate": case.stats[0]["rate"] * 16}
        new = case.problem()
        before, after = planned(old), planned(new)
        if before[0] != after[0]:
            found = distributed.update(old, new, before)
            assert found.plan == after
            return
    pytest.fail("no case")


def test_nothing_changes_without_a_change():
    problem = Case(5).problem()
    found = distributed.update(problem, problem, planned(problem))
    assert (found.plan, found.affected, found.modification) == (planned(problem), (), 0)


def test_semijoins_are_refused():
    problem = Case(5).problem()
    plan = {h: (Step(steps[0].stream, "SM-D1"), *steps[1:]) for h, steps in planned(problem).items()}
    with pytest.raises(ValueError, match="simple"):
        Nodes(problem, plan)


def test_central_writes_to_the_affected_and_hears_of_the_changed():
    case = Case(8)
    old, plan = case.problem(), None
    plan = planned(old)
    for stats in case.stats:
        stats["rate"] = 1 + case.rng.randrange(1000)
    new = case.problem()
    found = central.update(new, plan, changed_streams(old, new), at="n1")
    assert found.messages["operators"] == len(set(found.affected) - {"n1"}) > 0
    assert found.messages["report"] == len({*case.at} - {"n1"})
    same = central.update(new, found.plan, [])
    assert (same.affected, same.modification) == ((), 0)


def test_synchronisation_of_table_3():
    assert [synchronisation(n) for n in (0, 1, 4, 8)] == [0, 0, 24, 112]
