"""A program takes over from another while parcels of earlier ones are on their way; in this process."""

from __future__ import annotations

import dataclasses
import random

import pytest

from tests.simulate.sites_cases import (
    Case,
    by_planner,
    by_sequences,
    catalog_of,
    evaluate,
    expected,
    found,
    infos_of,
    labels,
    query,
    rows_of,
    sql_of,
    table,
    typed,
)
from thalweg.compile.compiler import Compiled, compile_plan
from thalweg.operators.program import Program
from thalweg.plan.operators import METHODS
from thalweg.simulate.host import SimulatedHost

PHASE = 10_000_000  # far more than windows and lateness
PARTS = {"partitions": "3", "partitioner": "hash"}


def random_case(seed: int) -> Case:
    rng = random.Random(seed)
    return Case(
        seed=seed,
        kind=rng.choice(["long", "string"]),
        shape=rng.choice(["star", "pair", "chain"]),
        windows=tuple(f"RANGE {rng.choice([20, 20, 7, 0])} MILLISECONDS" for _ in range(4)),
        tuples=rng.choice([5, 20, 30]),
        keys=rng.choice([2, 4, 10]),
        buckets=rng.choice([1, 2, 3]),
        filtered=rng.random() < 0.4,
        sites=tuple(rng.randrange(4) for _ in range(4)) if rng.random() < 0.3 else (0, 1, 2, 3),
    )


class Switching:
    """A query whose plan changes."""

    def __init__(self, case: Case) -> None:
        self.case, self.rng = case, random.Random(case.seed)
        self.known = catalog_of(case)
        self.asked = query(sql_of(case), self.known)
        self.first = self._compiled(0, None)
        self.host = SimulatedHost(self.first.program, self.first.selections, evaluate)
        self.generation = 0
        self.told = False
        self.batches: dict[str, list[list[dict]]] = {a: [] for a in self.asked.aliases}

    def _compiled(self, generation: int, first: Compiled | None) -> Compiled:
        rng, case = self.rng, self.case
        make = rng.choice(
            [
                lambda: by_planner("optimal", case),
                lambda: by_planner("simple", case),
                lambda: by_planner("pmjoin", case, **PARTS),
                lambda: by_sequences(rng.randrange(99), METHODS),
            ]
        )()
        made = compile_plan(
            [(typed(self.asked, case), make(self.asked, self.known))],
            infos_of(case, self.known),
            {n: s.site for n, s in self.known.streams.items()},
            buckets=case.buckets,
            labels=labels,
            keep_late=False,
            shape=None if first is None else first.shape,
            begin=None if first is None else self.host.report.newest,
            generation=generation,
        )
        assert first is None or made.selections == first.selections
        return made

    def switch(self) -> None:
        self.generation += 1
        made = self._compiled(self.generation, self.first).program
        program = made.after(self.host.program, self.host.report.ended)
        self.host.program = Program.from_json(program.to_json())
        self.told = True

    def batch(self, rows: dict[str, list[dict]], take: dict, *, end: bool = False) -> None:
        crash = self.rng.randrange(5) if self.rng.random() < 0.2 else None
        for a, part in rows.items():
            self.batches[a].append(part)
        tables = {a: table(self.case, part) for a, part in rows.items()}
        self.host.batch(tables, take, end=end, ending=self.told, crash_after=crash)
        self.told = False
        if self.rng.random() < 0.2:
            self.host.caches.clear()

    def phase(self, number: int) -> None:
        """All rows of a phase, at random paces; parcels are taken at random."""
        left = {
            a: [{**r, "id": r["id"] + 1000 * number, "ts": self._time(r["ts"], number)} for r in rows]
            for a, rows in rows_of(dataclasses.replace(self.case, seed=self.case.seed * 31 + number)).items()
        }
        while any(left.values()):
            fresh = {}
            for a in left:
                n = self.rng.choice([0, 1, 3, 10, 40])
                if left[a][:n]:
                    fresh[a], left[a] = left[a][:n], left[a][n:]
            self.batch(fresh, self.some())

    def _time(self, ts: int | None, number: int) -> int | None:
        if ts is None:
            return None
        return ts + number * PHASE - (self.rng.random() < 0.05) * (PHASE + 1_000_000)  # far too late

    def some(self) -> dict:
        waiting = self.host.waiting
        taken = {w: self.rng.randint(0, n) for w, n in waiting.items() if self.rng.random() < 0.3}
        return {w: n for w, n in taken.items() if n}

    def check(self) -> None:
        wanted = expected(self.case, self.asked, self.batches)
        assert found(self.case, self.asked, self.host, self.first.results[0].same) == wanted


def check(seed: int) -> None:
    of = Switching(random_case(seed))
    of.phase(0)
    for number in range(1, 7):
        for _ in range(of.rng.choice([1, 1, 2])):
            of.switch()
            if of.rng.random() < 0.3:
                of.batch({}, of.some())
        of.phase(number)
    of.batch({}, {}, end=True)
    of.host.drain()
    of.check()
    # All have ended, so nothing of them is left when the next one takes over.
    generations = {name.split(":")[0] for name in of.host.program.ending}
    before = {p.name for p in of.host.program.operators}
    of.switch()
    assert of.host.program.ending == before - of_ending(before, generations)
    of.batch({}, {})
    of.host.drain()
    of.switch()
    assert {n.split(":")[0] for n in of.host.program.ending} == {str(of.generation - 1)}


def of_ending(names: set[str], generations: set[str]) -> set[str]:
    return {n for n in names if n.split(":")[0] in generations}


@pytest.mark.parametrize("seed", range(12))
def test_nothing_is_lost_or_doubled(seed: int) -> None:
    check(seed)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 300))
def test_nothing_is_lost_or_doubled_often(seed: int) -> None:
    check(seed)
