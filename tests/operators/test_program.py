"""Programs that take over from others while tuples are on their way: nothing is lost, nothing comes twice."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest

from tests.operators.one_site import join_of, ranged
from tests.planners.examples import query
from tests.simulate.sites_cases import (
    Case,
    by_duckdb,
    by_planner,
    by_sequences,
    catalog_of,
    check_counts,
    compiled,
    evaluate,
    expected,
    found,
    handed_out,
    random_case,
    rows_of,
    several_of,
    sql_of,
    table,
)
from thalweg.operators.program import Program
from thalweg.operators.state import FORMAT
from thalweg.oracle import reference
from thalweg.plan.one_way import METHODS
from thalweg.plan.options import Objective, PlanOptions
from thalweg.planners.table import Session, planner
from thalweg.simulate.host import SimulatedHost

GAP_US = 1_000_000
"""Between the phases of the data: more than any window and any lateness."""

RANGES = ["RANGE 20 MILLISECONDS", "RANGE 0 MILLISECONDS", "RANGE 7 MILLISECONDS"]


def phases_of(case: Case, count: int) -> list[dict[str, list[dict]]]:
    """The rows of each phase; a stream may be silent in one."""
    rng = random.Random(case.seed + 8)
    found = []
    for n in range(count):
        rows = rows_of(replace(case, seed=case.seed * 10 + n))
        for name, own in rows.items():
            for row in own:
                row["id"] += n * case.tuples
                row["ts"] = None if row["ts"] is None else row["ts"] + n * GAP_US
            if rng.random() < 0.1:
                rows[name] = []
        found.append(rows)
    return found


class Run:
    """A run through several programs: streams at random paces, delays and crashes."""

    def __init__(self, case: Case, known, seed: int) -> None:
        self.case, self.known, self.rng = case, known, random.Random(seed)
        self.batches: dict[str, list[list[dict]]] = {a: [] for a in known.streams}
        self.generation = 0

    def start(self, planned) -> None:
        self.read = {i.stream for q, _ in planned for i in q.inputs}
        self.made = compiled(self.case, self.known, planned)
        self.host = SimulatedHost(self.made, evaluate)

    def switch(self, planned) -> None:
        """Let another plan take over; operators of any plan before may still have to finish."""
        host = self.host
        self.generation += 1
        made = compiled(
            self.case,
            self.known,
            planned,
            shape=self.made.shape,
            begin={s: [[t - self.known.streams[s].lateness], [0]] for s, t in host.report.newest.items()},
            generation=self.generation,
        )
        assert made.selections == self.made.selections
        host.switch(host.number - 1, made, host.report.ended)

    def step(self, fresh: dict[str, list[dict]]) -> None:
        host, rng = self.host, self.rng
        take = {w: rng.randint(0, n) for w, n in host.waiting.items() if rng.random() < 0.6}
        for name, rows in fresh.items():
            self.batches[name].append(rows)
        host.batch(
            {name: table(self.case, rows) for name, rows in fresh.items()},
            {w: n for w, n in take.items() if n},
            crash_after=rng.randrange(5) if rng.random() < 0.3 else None,
        )
        if rng.random() < 0.2:
            host.forget()

    def feed(self, rows: dict[str, list[dict]]) -> None:
        """The rows of a phase, in one batch at least."""
        left, begun = {a: list(r) for a, r in rows.items()}, False
        while not begun or any(left.values()):
            begun = True
            fresh = {}
            for name in left:
                n = self.rng.choice([0, 0, 1, 3, 10, 40])
                chosen, left[name] = left[name][:n], left[name][n:]
                if chosen:
                    fresh[name] = chosen
            self.step(fresh)

    def finish(self) -> None:
        self.host.end()
        self.step({})
        while self.host.waiting:
            self.step({})


def run_plans(case: Case, known, plans: list) -> Run:
    """One phase of data for each plan."""
    run = Run(case, known, case.seed + 1)
    phases = phases_of(case, len(plans))
    run.start(plans[0])
    for n, (planned, rows) in enumerate(zip(plans, phases, strict=True)):
        if n:
            run.switch(planned)
        run.feed(rows)
    run.finish()
    check_counts(case, run.host, {a: b for a, b in run.batches.items() if a in run.read})
    return run


def ranges_only(case: Case) -> Case:
    """Windows that end before the next phase begins."""
    rng = random.Random(case.seed)
    windows = [w if w.startswith("RANGE") else rng.choice(RANGES) for w in case.windows]
    if rng.random() < 0.3:
        windows[0] += " SLIDE 15 MILLISECONDS"
    return replace(case, windows=tuple(windows), tuples=min(case.tuples, 20))


def check_switches(case: Case, makers: list) -> None:
    known = catalog_of(case)
    asked = query(sql_of(case), known)
    plans = [[(asked, make(asked, known))] for make in makers]
    run = run_plans(case, known, plans)
    assert found(case, asked, run.host, run.made.results[0].same) == expected(case, asked, run.batches)


def maker(name: str, case: Case):
    if name == "sequences":
        return by_sequences(case.seed, METHODS)
    parts = {"partitions": "3", "partitioner": "hash"} if name == "pmjoin" else {}
    return by_planner(name, case, **parts)


PLANNERS = ["simple", "optimal", "streamjoinopt", "pmjoin", "linear-optimal", "semijoin-greedy", "sequences"]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "names",
    [
        ("simple", "sequences", "simple", "pmjoin"),
        ("pmjoin", "linear-optimal", "optimal", "pmjoin"),
        ("sequences", "pmjoin", "sequences"),
    ],
    ids="-".join,
)
def test_plans_of_all_families_take_over_from_each_other(names: tuple[str, ...], seed: int) -> None:
    case = ranges_only(random_case(700 + seed))
    check_switches(case, [maker(name, case) for name in names])


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100))
def test_any_plans_take_over_from_each_other(seed: int) -> None:
    rng = random.Random(seed)
    case = ranges_only(random_case(800 + seed))
    if rng.random() < 0.5:
        case = replace(case, sites=tuple(rng.choice([0, 0, 1]) for _ in case.sites))
    check_switches(case, [maker(rng.choice(PLANNERS), case) for _ in range(rng.randint(2, 5))])


def check_several_switches(case: Case, names: list[str]) -> None:
    """Several queries that share operators, deployed in another order by each plan."""
    known = catalog_of(case)
    asked = [query(sql, known, n) for n, sql in several_of(case, 3).items()]
    plans = []
    for name in names:
        session = Session(known, PlanOptions(name, Objective("bytes"), None, {}))
        plans.append([(q, session.deploy(q, planner(name)).deployment) for q in asked])
    run = run_plans(case, known, plans)
    kept = {a: reference.late_split(b, case.lateness_ms * 1000)[0] for a, b in run.batches.items()}
    for number, q in enumerate(asked):
        same = run.made.results[number].same
        assert handed_out(q, run.host.results.get(number, []), same) == by_duckdb(q, known, kept, case)


@pytest.mark.parametrize(
    "seed", [*range(3), *(pytest.param(n, marks=pytest.mark.long) for n in range(3, 60))]
)
def test_plans_of_several_queries_take_over_from_each_other(seed: int) -> None:
    rng = random.Random(seed)
    case = Case(seed=seed, shape=rng.choice(["star", "chain"]), tuples=15)
    check_several_switches(case, [rng.choice(["optimal", "simple", "npc", "top-down"]) for _ in range(3)])


def test_what_has_ended_is_gone_after_the_next_switch() -> None:
    case = Case(seed=1, tuples=5)
    known = catalog_of(case)
    asked = query(sql_of(case), known)
    makers = [maker(name, case) for name in ("simple", "sequences") * 3]
    plans = [[(asked, make(asked, known))] for make in makers]
    run = Run(case, known, 1)
    run.start(plans[0])
    for n, planned in enumerate(plans):
        if n:
            run.host.drain()  # by now all that was ending has ended
            run.switch(planned)
        run.feed(rows_of(replace(case, seed=n)))
    program = run.host.program
    last = len(plans) - 1
    names = {p.name for p in program.operators}
    assert {n.split(":")[0] for n in names} == {str(last), str(last - 1)}
    assert {n for n in names if n.startswith(f"{last - 1}:")} == program.ending
    read = {inlet.channel for p in program.operators for inlet in p.inlets}
    assert {route.channel for route in program.routes} <= read
    numbers = Counter(o.shipment for p in program.operators for o in p.outlets if o.to == "site")
    assert max(numbers.values()) == 1


def test_programs_that_differ_in_the_size_of_the_budget_are_the_same_without_limits() -> None:
    """So a run can go on with another budget, and not with another plan."""
    made, other = (join_of((ranged("a", "s"), ranged(alias, "t"))).program for alias in ("b", "c"))
    small, large = made.limited(1 << 20, 0), made.limited(1 << 21, 5)
    assert small != large
    assert small.unlimited() == large.unlimited() == made
    assert small.unlimited() != other.limited(1 << 20, 0).unlimited()


def test_a_program_of_another_format_is_refused() -> None:
    made = join_of((ranged("a", "s"), ranged("b", "t"))).program.to_json()
    assert Program.from_json(made).to_json() == made
    with pytest.raises(ValueError, match="format"):
        Program.from_json(made.replace(f'"format":{FORMAT}'.encode(), b'"format":3'))
