"""adaptive eq. 4 as a check."""

import pytest

from tests.adapt.cases import Case
from tests.planners.examples import planned, pmjoin_1
from thalweg.adapt.invariant import Violation, violations
from thalweg.plan.one_way import METHODS
from thalweg.planners.linear_greedy import SIMPLE, greedy
from thalweg.planners.search.sequences import Step, StepCosts, deploy


@pytest.mark.parametrize("seed", range(10))
def test_greedy_plans_keep_it(seed):
    problem = Case(seed, 5).problem()
    for methods in (SIMPLE, METHODS):
        plan, _ = greedy(StepCosts(problem), methods)
        assert violations(problem, plan, methods) == ()
        assert violations(problem, deploy(problem, plan), methods) == ()


def test_a_swap_and_a_wrong_placement_break_it():
    problem = Case(3, 5).problem()
    costs = StepCosts(problem)
    plan, _ = greedy(costs, SIMPLE)
    first, *rest = plan[1]
    wrong = Step(first.stream, "SP-S" if first.method == "SP-D" else "SP-D")
    (found, *_) = violations(problem, {**plan, 1: (wrong, *rest)})
    assert isinstance(found, Violation)
    assert (found.head, found.position) == ("a1", 1)
    assert found.chosen == (f"a{wrong.stream}", wrong.method)
    assert found.cheaper == (f"a{first.stream}", first.method)
    assert found.least < found.cost or (found.least == found.cost and first.method == "SP-S")
    assert "step 1 of a1 goes to" in str(found)


def test_a_tree_has_no_sequences():
    sql, known = pmjoin_1()
    tree = planned(sql, known, "optimal").deployment
    problem = Case(3, 5).problem()
    with pytest.raises(ValueError, match="not a deployment of a probe sequence"):
        violations(problem, tree)
