"""Moves from plan to plan while streams flow: nothing is lost, nothing comes twice."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tests.operators.one_site import found as ids_of
from tests.operators.one_site import hosted, join_of, push, ranged, rows
from tests.operators.test_program import PLANNERS, Run, maker
from tests.planners.examples import query
from tests.simulate.sites_cases import (
    Case,
    by_duckdb,
    by_planner,
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
from thalweg.kernel.window import NEVER
from thalweg.operators import migration
from thalweg.operators.event_time import Arrived, Ends
from thalweg.operators.keeper import Keeper
from thalweg.operators.spec import SEQ, START, KeepSpec, RowWindow
from thalweg.operators.state import Ledger, MemoryStore
from thalweg.oracle import reference
from thalweg.plan.options import Objective, PlanOptions
from thalweg.planners.table import Session, planner
from thalweg.simulate.host import SimulatedHost
from thalweg.wire.parcel import Kind


class Moving(Run):
    """A run that moves from plan to plan; it counts the moves that were completed and that were given up."""

    moved = 0
    undone = 0
    budget: int | None = None
    folder: Path | None = None

    def _compiled(self, planned, **more):
        made = compiled(self.case, self.known, planned, keep=True, **more)
        if self.budget is None:
            return made
        return replace(made, program=made.program.limited(self.budget, 10_000))

    def start(self, planned) -> None:
        self.read = {i.stream for q, _ in planned for i in q.inputs}
        self.made = self._compiled(planned)
        self.host = SimulatedHost(self.made, evaluate, folder=self.folder)

    def move(self, planned) -> None:
        host = self.host
        if host.program.coming:
            host.undo()
            self.undone += 1
        self.generation += 1
        made = self._compiled(
            planned, shape=self.made.shape, begin=host.report.progress, generation=self.generation
        )
        assert made.selections == self.made.selections
        host.migrate(made, self.generation)

    def step(self, fresh: dict[str, list[dict]]) -> None:
        super().step(fresh)
        started = bool(self.host.program.coming)
        self.host.advance()
        self.moved += started and not self.host.program.coming
        program = self.host.program
        there = {p.name for p in program.operators}
        assert program.ending | program.starting | program.leaving <= there, "waits for who is gone"


def drive(run: Moving, plans: list, seed: int) -> None:
    """Moves at random moments of one run; now and then before the last one is complete."""
    rng = random.Random(seed)
    run.start(plans[0])
    rows = rows_of(run.case)
    cuts = {a: sorted(rng.randrange(len(own) + 1) for _ in plans[1:]) for a, own in rows.items()}
    for n, planned in enumerate(plans):
        if n:
            run.move(planned)
        run.feed({a: own[[0, *cuts[a]][n] : [*cuts[a], len(own)][n]] for a, own in rows.items()})
        for _ in range(rng.choice([0, 0, 3, 8])):
            run.step({})
    run.finish()
    check_counts(run.case, run.host, {a: b for a, b in run.batches.items() if a in run.read})


def check_moves(case: Case, makers: list, seed: int, **more) -> Moving:
    known = catalog_of(case)
    asked = query(sql_of(case), known)
    run = Moving(case, known, case.seed + 1)
    run.__dict__.update(more)
    drive(run, [[(asked, make(asked, known))] for make in makers], seed)
    assert found(case, asked, run.host, run.made.results[0].same) == expected(case, asked, run.batches)
    return run


FAMILIES = ["simple", "optimal", "pmjoin", "linear-optimal", "sequences"]


@pytest.mark.parametrize("names", [(a, b) for a in FAMILIES for b in FAMILIES if a < b], ids="-".join)
def test_from_any_family_to_any_other_and_back(names: tuple[str, str]) -> None:
    case = random_case(1201)
    a, b = (maker(name, case) for name in names)
    check_moves(case, [a, b, a], len(names[0]))


@pytest.mark.parametrize(
    "seed", [*range(6), *(pytest.param(n, marks=pytest.mark.long) for n in range(6, 90))]
)
def test_random_moves(seed: int) -> None:
    rng = random.Random(seed)
    case = random_case(5000 + seed)
    if case.keys == 10:
        case = replace(case, keys=4)
    if rng.random() < 0.4:
        case = replace(case, sites=tuple(rng.choice([0, 0, 1]) for _ in case.sites))
    if case.windows[0].startswith("RANGE") and rng.random() < 0.2:
        case = replace(case, windows=(f"{case.windows[0]} SLIDE 15 MILLISECONDS", *case.windows[1:]))
    makers = [maker(rng.choice(PLANNERS), case) for _ in range(rng.randint(2, 5))]
    if rng.random() < 0.3:
        case = replace(case, idle=10**15)  # streams watch each other, and none falls idle
    check_moves(case, makers, seed)


@pytest.mark.parametrize(
    "seed", [*range(3), *(pytest.param(n, marks=pytest.mark.long) for n in range(3, 40))]
)
def test_several_queries(seed: int) -> None:
    rng = random.Random(seed)
    case = Case(seed=seed, shape=rng.choice(["star", "chain"]), tuples=20)
    known = catalog_of(case)
    asked = [query(sql, known, n) for n, sql in several_of(case, 3).items()]
    plans = []
    for name in (rng.choice(["optimal", "simple", "npc", "top-down"]) for _ in range(3)):
        session = Session(known, PlanOptions(name, Objective("bytes"), None, {}))
        plans.append([(q, session.deploy(q, planner(name)).deployment) for q in asked])
    run = Moving(case, known, seed)
    drive(run, plans, seed)
    kept = {a: reference.late_split(b, case.lateness_ms * 1000)[0] for a, b in run.batches.items()}
    for number, q in enumerate(asked):
        same = run.made.results[number].same
        assert handed_out(q, run.host.results.get(number, []), same) == by_duckdb(q, known, kept, case)


@pytest.mark.parametrize(
    "seed", [*range(2), *(pytest.param(n, marks=pytest.mark.long) for n in range(2, 30))]
)
def test_windows_that_are_partly_on_disk(seed: int, tmp_path: Path) -> None:
    case = Case(seed=seed, windows=("RANGE 20 MILLISECONDS",) * 3, tuples=40, sites=(0, 1, 2))
    makers = [maker(name, case) for name in ("simple", "optimal", "pmjoin", "simple")]
    check_moves(case, makers, seed, budget=1, folder=tmp_path)


def test_what_goes_to_operators_that_end_is_not_read_by_others() -> None:
    """It is cut off at their last moment; here a third plan reads what the first one read."""
    names = ["pmjoin", "linear-optimal", "simple", "sequences", "pmjoin"]
    case = replace(random_case(5047), sites=(0, 1, 0, 1), keys=4)
    check_moves(case, [maker(name, case) for name in names], 47)


def test_a_channel_that_arrives_at_two_places_of_a_site_has_a_keeper_at_each() -> None:
    case = random_case(5133)
    names = ["streamjoinopt", "sequences", "linear-optimal", "sequences"]
    check_moves(case, [maker(name, case) for name in names], 133)


def test_what_one_query_has_shipped_and_another_sends_on_has_one_keeper_where_it_arrives() -> None:
    test_several_queries(22)


def moving(case: Case, first: str, then: str) -> Moving:
    """A run in the middle of a move."""
    known = catalog_of(case)
    asked = query(sql_of(case), known)
    run = Moving(case, known, 3)
    run.start([(asked, maker(first, case)(asked, known))])
    for name, own in rows_of(case).items():
        run.host.batch({name: table(case, own)})
    run.host.drain()
    run.move([(asked, maker(then, case)(asked, known))])
    return run


@pytest.mark.parametrize("then", ["optimal", "pmjoin", "sequences"])
def test_giving_up_a_move_leaves_everything_as_it_was(then: str) -> None:
    case = Case(seed=4)
    run = moving(case, "simple", then)
    before = run.made.program
    assert run.host.program.coming
    run.host.batch({}, run.host.waiting)
    run.host.undo()
    after = run.host.program
    assert [p.name for p in after.operators] == [p.name for p in before.operators]
    assert {o.channel for p in after.operators for o in p.outlets} == {
        o.channel for p in before.operators for o in p.outlets
    }
    assert after.routes == before.routes
    assert after.streams == before.streams


def test_nobody_waits_for_a_keeper_that_is_gone_with_its_last_reader() -> None:
    """It goes before it can say that it has ended, and while any end, a run makes no other change."""
    case = Case(seed=1, windows=("RANGE 20 MILLISECONDS",) * 4)
    check_moves(case, [maker("sequences", case), maker("simple", case)], 1)


def test_the_same_plan_again_starts_nothing() -> None:
    run = moving(Case(seed=5), "optimal", "optimal")
    assert not run.host.program.starting
    assert not run.host.program.leaving
    run.host.advance()
    assert (run.host.program.change, run.host.program.coming) == (1, 0)


def test_parts_of_the_key_space_that_do_not_change_stay() -> None:
    """Of a partitioned plan only the operators of the parts with another plan are new."""
    case = Case(seed=6, keys=10, windows=("RANGE 20 MILLISECONDS",) * 3, sites=(0, 1, 2))
    known = catalog_of(case)
    asked = query(sql_of(case), known)
    deployment = by_planner("pmjoin", case, partitions="3", partitioner="hash")(asked, known)
    made = compiled(case, known, [(asked, deployment)], keep=True)
    again = compiled(case, known, [(asked, deployment)], keep=True, shape=made.shape, generation=1)
    program = migration.begin(made.program, again.program, 1, 0)
    assert not program.starting
    assert len(list(program.operators)) == len(list(made.program.operators))


def gathered_at(name: str, case: Case, asked, known):
    """Everything at the site of one stream, which is taken to be the fastest."""
    stats = known.streams[name].stats.model_copy(update={"rate": 1e6})
    fast = known.streams[name].model_copy(update={"stats": stats})
    other = known.model_copy(update={"streams": {**known.streams, name: fast}})
    return [(asked, by_planner("simple", case)(asked, other))]


def test_the_time_of_a_stream_goes_to_no_group_that_is_gone() -> None:
    case = Case(
        seed=7,
        shape="chain",
        windows=("RANGE 30 MILLISECONDS",) * 4,
        sites=(0, 0, 0, 1),
        nulls=0.0,
        tuples=12,
        idle=10**15,
    )
    known = catalog_of(case)
    asked = query(sql_of(case), known)
    run = Moving(case, known, 3)
    run.start(gathered_at("a", case, asked, known))
    places = {(g.site, g.stage) for g in run.host.program.groups}
    rows = rows_of(case)
    for name, own in rows.items():
        run.host.batch({name: table(case, own[:6])})
    run.host.drain()
    run.move(gathered_at("d", case, asked, known))
    for n in range(12):
        later = {a: own[6:] for a, own in rows.items()} if n == 6 else {}
        for own in later.values():
            for row in own:
                row["ts"] += 10_000_000
        run.host.batch({a: table(case, own) for a, own in later.items()}, run.host.waiting)
        run.host.advance()
    assert places - {(g.site, g.stage) for g in run.host.program.groups}
    for name, own in rows.items():
        run.host.batch({name: table(case, own[6:])})


def test_only_the_windows_that_move_are_sent_and_only_what_is_alive_of_them() -> None:
    case = Case(seed=7, windows=("RANGE 30 MILLISECONDS",) * 3, sites=(0, 1, 2), tuples=60, nulls=0.0)
    known = catalog_of(case)
    asked = query(sql_of(case), known)
    run = Moving(case, known, 3)
    run.start(gathered_at("a", case, asked, known))
    rows = rows_of(case)
    for name, own in rows.items():
        run.host.batch({name: table(case, own)})
    run.host.drain()
    newest = max(run.host.report.newest.values())
    run.move(gathered_at("b", case, asked, known))
    for _ in range(5):
        run.host.batch({}, run.host.waiting)
        run.host.advance()
    assert not run.host.program.coming
    moved = {
        way: sum(p.n for _, parcels in log for p in parcels if p.kind == Kind.PAST)
        for way, log in run.host.sent.items()
    }
    batches = {a: [own] for a, own in rows.items()}
    kept = {a: reference.late_split(b, case.lateness_ms * 1000)[0] for a, b in batches.items()}
    alive = {a: sum(r["ts"] + 30_000 > newest for r in own) for a, own in kept.items()}
    assert {way: n for way, n in moved.items() if n and way[0] != way[1]} == {
        ("n0", "n1"): alive["a"],
        ("n2", "n1"): alive["c"],
    }


@pytest.mark.parametrize("then", ["optimal", "sequences"])
def test_operators_that_have_ended_leave_no_tuples_in_the_store(then: str) -> None:
    run = moving(Case(seed=4), "simple", then)
    old = set(run.host.program.leaving)
    assert old
    while run.host.program.coming:
        run.host.batch({}, run.host.waiting)
        run.host.advance()
    run.host.end()
    run.host.batch({}, run.host.waiting)
    run.host.drain()
    run.host.advance()
    assert not run.host.program.ending
    for store in run.host.stores.values():
        for name, said in json.loads(store[0])["of"].items():
            assert name not in old or not said["entries"]


def test_a_join_does_not_write_what_a_keeper_beside_it_has_stored() -> None:
    """Windows are restored from what the keeper stored, as it arrived: here two aliases filter one stream."""
    sizes = []
    for keep in (False, True):
        inputs = (ranged("x", "s", size=10**6), ranged("y", "t", size=10**6), ranged("z", "s", size=10**6))
        host = hosted(join_of(inputs, keep=keep))
        for n in range(3):
            ids = range(1000 * n, 1000 * n + 1000)
            push(host, {s: rows(*((i, f"k{i}", i) for i in ids)) for s in "st"})
            host.forget()
        sizes.append(sum(len(value) for store in host.stores.values() for value in store.values()))
        assert ids_of(host, "x", "y", "z") == [(i, i, i) for i in range(3000)]
        push(host, {"t": rows(*((5000, f"k{i}", i) for i in range(3000)))})
        assert len(ids_of(host, "x", "y", "z")) == 6000
    assert sizes[1] < sizes[0]  # of two aliases, one entry


def test_a_keeper_stays_while_others_restore_their_windows_from_what_it_stored() -> None:
    made = join_of((ranged("x", "s"), ranged("y", "t")), keep=True)
    (group,) = made.program.groups
    keepers = {p.name for p in group.operators if isinstance(p.spec, KeepSpec)}
    assert len(keepers) == 2
    assert group.without(keepers) == group
    assert not group.without({p.name for p in group.operators}).operators


def test_a_keeper_rewrites_only_entries_whose_ends_are_learnt() -> None:
    """A long window keeps many tuples; a short one of rows of the same stream learns a few ends a call."""
    spec = KeepSpec("s", span=10**9, rows=(RowWindow(2),))
    store = MemoryStore()
    for n in range(8):
        ledger = Ledger(store)
        arrived = Arrived.of(1)
        seq = np.arange(10 * n, 10 * n + 10)
        columns = {START: seq, SEQ: seq, RowWindow(2).end: np.full(10, NEVER)}
        arrived.ports[0].tuples = [pa.record_batch({name: pa.array(v) for name, v in columns.items()})]
        if n:
            arrived.ends = [Ends("2", np.arange(10 * n - 10, 10 * n), np.arange(10 * n - 8, 10 * n + 2))]
        before = dict(store)
        list(Keeper(spec).call(arrived, ledger.page("keeper")))
        ledger.save()
        kept = [key for key in before if key and before[key] == store.get(key)]
        assert len(kept) == max(0, n - 1)
