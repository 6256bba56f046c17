"""The experiments of semijoin."""

import numpy as np
import pytest

from thalweg.planners.table import planner
from thalweg.reproduce import semijoin_plans as plans
from thalweg.reproduce.files import write
from thalweg.reproduce.semijoin import SIX, OneWay, Side, catalog, estimated, problem, query, ran
from thalweg.reproduce.semijoin_fig7 import PARAMETERS
from thalweg.reproduce.table import EXPERIMENTS
from thalweg.workloads.queries import CHAIN, FULL, GRAPHS, STAR

SMALL = 0.02
CHEAP = ["semijoin-fig7f", "semijoin-table3", "semijoin-fig8", "semijoin-fig9", "semijoin-fig10"]
LONGER = [
    "semijoin-fig7a",
    "semijoin-fig7b",
    "semijoin-fig7c",
    "semijoin-fig7d",
    "semijoin-fig7e",
    "semijoin-fig7g",
]
FEW = OneWay(first=Side(60.0, 100.0, 10, 1000.0), second=Side(60.0, 100.0, 20, 1000.0))


def silent(line):
    pass


def check(name, folder):
    outcome = EXPERIMENTS[name].run(SMALL, silent)
    assert outcome.name == name
    assert outcome.claims and outcome.panels
    assert {len(row) for row in outcome.rows} == {len(outcome.header)}
    assert all(claim.measured for claim in outcome.claims)
    assert all(claim.why or claim.holds for claim in outcome.claims)
    table, picture = write(outcome, folder)
    assert len(table.read_text().splitlines()) > 1
    assert picture.stat().st_size > 1000


@pytest.mark.parametrize("name", CHEAP)
def test_an_experiment_at_a_small_size(name, tmp_path):
    check(name, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("name", LONGER)
def test_another_experiment_at_a_small_size(name, tmp_path):
    check(name, tmp_path)


def test_every_part_of_figure_7_is_an_experiment():
    assert {f"semijoin-fig7{part}" for part in PARAMETERS} == {n for n in EXPERIMENTS if "semijoin-fig7" in n}


@pytest.mark.parametrize("method", ["SP-S", "SP-D", "SM-S1", "SM-D2"])
def test_a_one_way_join_sends_what_its_method_sends(method):
    found, tau = ran(FEW, method, 0), FEW.interval_ms / 1e3
    messages = {"SP-S": 1, "SP-D": 1, "SM-S1": 2, "SM-D2": 3}[method]
    assert found.messages == pytest.approx(messages / tau, rel=0.1)
    taken = found.transmission_s(FEW) + found.work_s
    assert taken == pytest.approx(estimated(FEW, "own")[method], rel=0.1)


def test_all_methods_have_the_same_results():
    assert len({ran(FEW, method, 0).results for method in ("SP-S", "SP-D", "SM-S1", "SM-D2")}) == 1


def sides(seed):
    return plans.random_sides(np.random.default_rng(seed))


@pytest.mark.parametrize("graph", GRAPHS)
def test_no_greedy_plan_is_cheaper_than_the_best(graph):
    for seed in range(3):
        costs = plans.along(graph, plans.graph_problem(graph, sides(seed)))
        found = plans.greedy_plan(costs)
        assert plans.added_up(costs, found) >= plans.added_up(costs, plans.cheapest(costs, found)) * (
            1 - 1e-9
        )


def test_steps_follow_the_edges_of_a_graph():
    chain = plans.along(CHAIN, plans.graph_problem(CHAIN, sides(1)))
    assert chain.nexts(0b0001) == [1]
    assert chain.nexts(0b0010) == [0, 2]
    found = plans.cheapest(chain, plans.greedy_plan(chain))
    assert [step.stream for step in found[0]] == [1, 2, 3]
    star = plans.along(STAR, plans.graph_problem(STAR, sides(1)))
    assert {
        steps[0].stream for head, steps in plans.cheapest(star, plans.greedy_plan(star)).items() if head
    } == {0}


def test_the_best_plan_is_that_of_an_exhaustive_search():
    three = sides(2)[:3]
    joins = [("s0", "j", "s1", "j"), ("s1", "j", "s2", "j")]
    known = catalog(three, ["j"], OneWay().link, 100.0)
    one = problem(known, query(joins, three), formulas="printed", methods=",".join(SIX), price="additive")
    costs = plans.along(FULL, one)
    best = plans.added_up(costs, plans.cheapest(costs, plans.greedy_plan(costs)))
    assert planner("semijoin-exhaustive").plan(one).cost == pytest.approx(best, rel=1e-9)
