"""When a plan is changed, and when it is not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.planners.examples import catalog, query, stream
from thalweg.adapt.decide import Decider, Rules, copied, moves, priced
from thalweg.catalog.model import Catalog
from thalweg.plan.options import PlanOptions
from thalweg.planners.table import Session, make_plan

COLUMNS = {"k": "long", "v": "long"}
SQL = "SELECT a.v, b.v AS w, c.v AS x FROM a [RANGE 10 SECONDS], b [RANGE 10 SECONDS], c [RANGE 10 SECONDS] "
SQL += "WHERE a.k = b.k AND b.k = c.k"


def known(**rates: float) -> Catalog:
    return catalog(
        [stream(name, f"n{name}", COLUMNS, rate=rate, distinct={"k": 1000}) for name, rate in rates.items()]
    )


QUERY = query(SQL, known(a=1, b=1, c=1))
OPTIONS = PlanOptions("optimal")


def decider(now: Catalog, **rules: float) -> Decider:
    plan = make_plan([QUERY], now, OPTIONS)
    return Decider([QUERY], OPTIONS, plan, plan, now, Rules(**rules))


def test_another_stream_becomes_the_fastest() -> None:
    slow, fast = known(a=1000, b=10, c=10), known(a=10, b=10, c=1000)
    asked = decider(slow)
    assert asked.consider(slow) is not None  # the first time, whatever the statistics
    decision = asked.consider(fast)
    assert decision is not None
    assert decision.taken
    assert {m.name for m in decision.moved} == {"a rate", "c rate"}
    assert decision.cost_after == pytest.approx(make_plan([QUERY], fast, OPTIONS).total)
    assert decision.cost_before > 10 * decision.cost_after
    asked.plan = decision.plan
    assert asked.consider(fast) is None  # nothing has moved since


def test_costs_are_those_of_now() -> None:
    """The plan in force is priced anew, not by what it cost when it was made."""
    slow, fast = known(a=1000, b=10, c=10), known(a=1000, b=20, c=20)
    decision = decider(slow).consider(fast)
    assert decision is not None
    assert not decision.taken
    assert decision.cost_before == pytest.approx(make_plan([QUERY], fast, OPTIONS).total)


def test_a_margin_keeps_two_plans_from_taking_turns() -> None:
    first, then = known(a=100, b=99, c=10), known(a=99, b=100, c=10)
    decision = decider(first, moves=0.001).consider(then)
    assert decision is not None
    assert not decision.taken
    assert "% of this one" in decision.reason


def test_moving_must_pay_within_the_horizon() -> None:
    slow, fast = known(a=1000, b=10, c=10), known(a=10, b=10, c=1000)
    decision = decider(slow, horizon_s=0.001).consider(fast)
    assert decision is not None
    assert not decision.taken
    assert decision.reason == "moving costs more than it saves in 0.001 s"
    assert decision.bytes_to_move > 0


def test_what_has_moved() -> None:
    before, now = known(a=100, b=100, c=100), known(a=119, b=121, c=100)
    assert [m.name for m in moves(before, now, 0.2, "abc")] == ["b rate"]
    unknown = catalog([stream(name, f"n{name}", COLUMNS) for name in "abc"])
    found = [str(m) for m in moves(unknown, now, 0.2, "a")]
    assert found == ["a rate: not known, now 119", "a k distinct: not known, now 1000"]


def test_values_change_places() -> None:
    """A stream can be as fast as before, with other values."""
    heavy = [{"k": {1: 90.0, 2: 10.0}}, {"k": {1: 10.0, 2: 90.0}}]
    before, now = (catalog([stream("a", "n", COLUMNS, rate=100, rates=rates)]) for rates in heavy)
    assert [m.name for m in moves(before, now, 0.2, "a")] == ["a k, share of tuples with other values"]
    assert not list(moves(before, before, 0.2, "a"))


def test_windows_that_are_there_are_not_copied() -> None:
    now = known(a=1000, b=10, c=10)
    plan = make_plan([QUERY], now, OPTIONS)
    _, flows = priced(Session(now, OPTIONS), [QUERY], plan)
    assert not list(copied(Session(now, OPTIONS), [QUERY], flows, plan))
    other = make_plan([QUERY], known(a=10, b=10, c=1000), OPTIONS)
    found = list(copied(Session(now, OPTIONS), [QUERY], flows, other))
    assert "nc" in {c.target_site for c in found}
    assert all(c.bytes > 0 for c in found)
    sequences = make_plan([QUERY], now, replace(OPTIONS, planner="linear-optimal"))
    assert sum(c.bytes for c in copied(Session(now, OPTIONS), [QUERY], flows, sequences)) >= 0


def test_nodes_find_the_plan_that_the_planner_finds() -> None:
    options = PlanOptions("linear-greedy")
    slow, fast = known(a=1000, b=10, c=10), known(a=10, b=10, c=1000)
    plan = make_plan([QUERY], slow, options)
    found = []
    for by_nodes in (False, True):
        decision = Decider([QUERY], options, plan, plan, slow, by_nodes=by_nodes).consider(fast)
        assert decision is not None
        assert bool(decision.messages) == by_nodes
        found.append(decision)
    assert found[0].cost_after == pytest.approx(found[1].cost_after)
    assert found[0].plan.queries[0].deployment == found[1].plan.queries[0].deployment
