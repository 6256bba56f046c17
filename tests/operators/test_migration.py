"""Moves from plan to plan while streams flow: nothing is lost, nothing comes twice."""

from __future__ import annotations

import random

import pytest

from tests.operators.test_program import Run, maker
from tests.planners.examples import query
from tests.simulate.sites_cases import (
    Case,
    catalog_of,
    check_counts,
    compiled,
    evaluate,
    expected,
    found,
    random_case,
    rows_of,
    sql_of,
)
from thalweg.simulate.host import SimulatedHost


class Moving(Run):
    """A run that moves from plan to plan. `moved` are the moves that were completed."""

    moved = 0
    undone = 0

    def start(self, planned) -> None:
        self.read = {i.stream for q, _ in planned for i in q.inputs}
        self.made = compiled(self.case, self.known, planned, keep=True)
        self.host = SimulatedHost(self.made, evaluate)

    def move(self, planned) -> None:
        host = self.host
        if host.program.starting:
            host.undo()
            self.undone += 1
        self.generation += 1
        made = compiled(
            self.case,
            self.known,
            planned,
            shape=self.made.shape,
            begin=host.report.progress,
            generation=self.generation,
            keep=True,
        )
        assert made.selections == self.made.selections
        host.migrate(made, self.generation)

    def step(self, fresh: dict[str, list[dict]]) -> None:
        super().step(fresh)
        started = bool(self.host.program.starting)
        self.host.advance()
        self.moved += started and not self.host.program.starting


def check_moves(case: Case, makers: list, seed: int) -> Moving:
    """Moves at random moments of one run; now and then before the last one is complete."""
    known = catalog_of(case)
    asked = query(sql_of(case), known)
    rng = random.Random(seed)
    plans = [[(asked, make(asked, known))] for make in makers]
    run = Moving(case, known, case.seed + 1)
    run.start(plans[0])
    rows = rows_of(case)
    cuts = {a: sorted(rng.randrange(len(own) + 1) for _ in plans[1:]) for a, own in rows.items()}
    for n in range(len(plans)):
        if n:
            run.move(plans[n])
        part = {a: own[([0, *cuts[a]])[n] : ([*cuts[a], len(own)])[n]] for a, own in rows.items()}
        run.feed(part)
        for _ in range(rng.choice([0, 0, 3, 8])):
            run.step({})
    run.finish()
    check_counts(case, run.host, run.batches)
    assert found(case, asked, run.host, run.made.results[0].same) == expected(case, asked, run.batches)
    return run


FAMILIES = ["simple", "optimal", "pmjoin", "linear-optimal", "sequences"]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("names", [(a, b) for a in FAMILIES for b in FAMILIES if a != b], ids="-".join)
def test_from_any_family_to_any_other_and_back(names: tuple[str, str], seed: int) -> None:
    case = random_case(1200 + seed)
    a, b = (maker(name, case) for name in names)
    check_moves(case, [a, b, a], seed)
