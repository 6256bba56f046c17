"""Settings that keep the linear planners to a paper: formulas, methods, and the additive price."""

import numpy as np
import pytest

from tests.planners.examples import catalog, planned, stream
from thalweg.catalog.model import Costs, Link, Links
from thalweg.cost.appendix_b import printed
from thalweg.cost.methods import Side, distinct_among
from thalweg.errors import UserError
from thalweg.plan import operators as ops
from thalweg.plan.options import Objective, PlanOptions
from thalweg.planners.search.sequences import StepCosts
from thalweg.planners.table import Session

LINEAR = ("linear-optimal", "semijoin-exhaustive", "semijoin-greedy")
PRINTED = ("SP-S", "SP-D", "SM-S1", "SM-S2", "SM-D1", "SM-D2")


def case():
    """Few of many wide tuples match, so that semijoins pay."""
    streams = [
        stream(f"s{i}", f"n{i}", {"k": "long"}, rate=100.0, bytes=2000.0, distinct={"k": d})
        for i, d in enumerate((2000.0, 40.0, 1000.0))
    ]
    known = catalog(streams, links=Links(default=Link(latency_ms=5, mbps=10)))
    froms = ", ".join(f"s{i} [RANGE 1 SECONDS]" for i in range(3))
    return f"SELECT s0.k FROM {froms} WHERE s0.k = s1.k AND s1.k = s2.k", known


def methods(found):
    return {o.method for o in found.deployment.operators if isinstance(o, ops.Step)}


@pytest.mark.parametrize("name", LINEAR)
def test_only_the_methods_that_are_listed_are_used(name):
    best = planned(*case(), name, "time")
    assert methods(planned(*case(), name, "time", methods="SM-S1")) == {"SM-S1"}
    simple = planned(*case(), name, "time", methods="SP-S,SP-D")
    assert methods(simple) <= {"SP-S", "SP-D"}
    six = planned(*case(), name, "time", methods=",".join(PRINTED))
    assert not methods(six) & {"SB-S1", "SB-D1"}
    if name != "semijoin-greedy":
        assert best.cost <= six.cost * (1 + 1e-9) <= simple.cost * (1 + 2e-9)


def test_a_method_that_is_not_one_is_refused():
    with pytest.raises(UserError, match="'methods' can't have 'SX'"):
        planned(*case(), "linear-optimal", "time", methods="SP-S,SX")
    with pytest.raises(UserError, match="'methods' can't have 'SB-S1'"):
        planned(*case(), "linear-optimal", "time", methods="SB-S1", formulas="printed")


@pytest.mark.parametrize("name", LINEAR)
def test_printed_formulas_have_six_methods(name):
    found = planned(*case(), name, "time", formulas="printed")
    assert methods(found) <= set(PRINTED)


@pytest.mark.parametrize("settings", [{}, {"formulas": "printed"}])
def test_the_additive_price_is_the_sum_over_all_steps(settings):
    sql, known = case()
    shared = planned(sql, known, "linear-optimal", "time", **settings)
    found = planned(sql, known, "linear-optimal", "time", price="additive", **settings)
    assert found.cost >= shared.cost * (1 - 1e-9)
    assert found.cost == pytest.approx(
        planned(sql, known, "semijoin-exhaustive", "time", price="additive", **settings).cost
    )
    greedy = planned(sql, known, "semijoin-greedy", "time", price="additive", **settings)
    assert found.cost <= greedy.cost * (1 + 1e-9)


def test_an_additive_plan_costs_what_its_sequences_cost_one_by_one():
    from tests.planners.examples import query

    sql, known = case()
    options = PlanOptions("linear-optimal", Objective.TIME, None, {"price": "additive"})
    costs = StepCosts(Session(known, options).problem(query(sql, known)))
    from thalweg.planners.linear_optimal import Family

    family = Family(costs.problem)
    best = {table.head: table.best() for table in family.tables}
    total = sum(costs.additive(head, steps) for head, steps in best.items())
    assert planned(sql, known, "linear-optimal", "time", price="additive").cost == pytest.approx(total)


def test_formulas_as_printed():
    """SM-D2 and SM-S1 of appendix B with its default setting: each term once, by hand."""
    costs = Costs(probe_s=1e-7, update_s=2e-7, insert_s=3e-7, hash_s=4e-7, interval_s=0.1)
    r, w, d, width, key = 300.0, 900.0, 10.0, 1250.0, 5.0
    here, there = Side(r, width, key, d), Side(r, width, key, d, w)
    found = printed(here, there, costs)
    assert set(found) == set(PRINTED)
    m = float(distinct_among(d, r * 0.1)) / 0.1
    two = found["SM-D2"]
    assert [float(s.bytes_per_s) for s in two.shipments] == pytest.approx([m * key, m * key, r * width])
    work = r * 3e-7 + m * 1e-7 * w + m * 1e-7 * (r * 0.1) + r * 1e-7 * w + r * 2e-7
    assert float(two.work_s) == pytest.approx(work)
    one = found["SM-S1"]
    assert [float(s.bytes_per_s) for s in one.shipments] == pytest.approx([m * key, r * width + 8 / 0.1])
    assert float(one.work_s) == pytest.approx(r * 3e-7 + m * 1e-7 * w + r * 3e-7 + r * 3e-7 + r * 1e-7 * w)


def test_printed_formulas_take_many_joins_at_once():
    costs = Costs()
    rates = np.array([10.0, 20.0])
    found = printed(Side(rates, 100.0, 8.0, 50.0), Side(rates, 100.0, 8.0, 20.0, rates), costs)
    alone = printed(Side(20.0, 100.0, 8.0, 50.0), Side(20.0, 100.0, 8.0, 20.0, 20.0), costs)
    for name, method in found.items():
        for both, one in zip(method.shipments, alone[name].shipments, strict=True):
            assert np.broadcast_to(both.bytes_per_s, (2,))[1] == pytest.approx(float(one.bytes_per_s))
