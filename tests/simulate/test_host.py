"""Plans over several sites in this process: delayed, crashed and repeated, they give what the rule says."""

from __future__ import annotations

import dataclasses
import random
from collections import Counter
from pathlib import Path

import pytest

from tests.simulate.sites_cases import (
    ALIASES,
    WINDOWS,
    Case,
    by_planner,
    by_sequences,
    by_split,
    catalog_of,
    check,
    check_planner,
    check_several,
    compiled,
    drive_rows,
    evaluate,
    expected,
    infos_of,
    labels,
    query,
    random_case,
    rows_of,
    several_of,
    sql_of,
    table,
    typed,
)
from tests.simulate.sites_estimates import (
    EXAMPLE_S,
    Setting,
    asked_of,
    counted,
    estimated,
    known_of,
    run,
    shipped_in_example_1,
)
from thalweg.compile.compiler import compile_plan
from thalweg.oracle import reference
from thalweg.plan.one_way import METHODS
from thalweg.planners.table import PLANNERS
from thalweg.simulate.host import SimulatedHost

TREES = [p.name for p in PLANNERS if p.name not in ("local", "exhaustive")]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", ["simple", "streamjoinopt", "pmjoin"])
def test_joins_that_are_split_give_the_same_results(name: str, seed: int) -> None:
    case = random_case(seed)
    make = by_split(name, case, "binary")
    deployments = []

    def noted(asked, known):
        deployments.append(make(asked, known))
        return deployments[-1]

    check(case, noted)
    if case.shape != "chain":  # that is a tree of joins of two however it is written
        inputs = [
            {e.streams for e in d.edges if e.target == o.id}
            for d in deployments
            for o in d.operators
            if o.kind == "join"
        ]
        assert {len(streams) for streams in inputs} == {2}


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("method", [*METHODS, "any"])
def test_probe_sequences(method: str, seed: int) -> None:
    check(random_case(100 + seed), by_sequences(seed, METHODS if method == "any" else [method]))


@pytest.mark.parametrize("name", TREES)
def test_planners(name: str) -> None:
    check_planner(name, random_case(200))


@pytest.mark.parametrize("seed", range(6))
def test_queries_that_share_operators(seed: int) -> None:
    rng = random.Random(seed)
    case = Case(
        seed=seed, shape=rng.choice(["star", "chain"]), kind=rng.choice(["long", "string"]), tuples=20
    )
    check_several(case, several_of(case, rng.randint(2, 4)), rng.choice(["optimal", "npc", "top-down"]))


@pytest.mark.long
@pytest.mark.parametrize("seed", range(18))
@pytest.mark.parametrize("what", [*METHODS, "any", *TREES, "exhaustive", "several"])
def test_many_more(what: str, seed: int) -> None:
    if what == "several":
        rng = random.Random(1000 + seed)
        windows = tuple(rng.choice([*WINDOWS[:1] * 3, "ROWS 3"]) for _ in range(4))
        case = Case(seed=seed, shape=rng.choice(["star", "chain"]), windows=windows, tuples=20)
        check_several(case, several_of(case, rng.randint(2, 4)), "optimal")
    elif what in METHODS or what == "any":
        check(random_case(3000 + seed), by_sequences(seed, METHODS if what == "any" else [what]))
    else:
        check_planner(what, random_case(2000 + seed))


EXTREMES = [s * (1 << n) + d for n in (0, 40, 56, 60, 61, 62) for s in (1, -1) for d in (-1, 0, 1)]
EXTREMES += [(1 << 63) - 1, 1 - (1 << 63)]
SPANS = ["RANGE 1 MICROSECOND", "RANGE 1000000 DAYS", "RANGE 36500 DAYS", "ROWS 2", "UNBOUNDED"]
SPANS += ["TUMBLE 3 MICROSECONDS", "TUMBLE 1000000 DAYS"]


@pytest.mark.parametrize("seed", range(24))
@pytest.mark.parametrize("name", ["simple", "spilled", "optimal", "sequences"])
def test_times_and_windows_over_all_of_64_bits(name: str, seed: int, tmp_path: Path) -> None:
    """A time so far away that adding a window to it would not fit in 64 bits is kept aside, and no other."""
    rng = random.Random(seed)
    spilled = name == "spilled"
    windows = tuple(rng.choice([s for s in SPANS if s != "ROWS 2" or not spilled]) for _ in range(3))
    slide = f" SLIDE {rng.choice(['1 MICROSECOND', '1000000 DAYS'])}" if rng.random() < 0.3 else ""
    if not windows[0].startswith("RANGE"):
        slide = ""
    lateness = rng.choice([0, 10, 86_400_000 * 1_000_000])  # in milliseconds
    case = Case(
        seed, windows=(windows[0] + slide, *windows[1:]), sites=(0, 1, 2), keys=2, lateness_ms=lateness
    )
    rows = {
        a: [{"ts": rng.choice(EXTREMES), "x": rng.randrange(2), "y": 0, "v": 0, "id": i} for i in range(12)]
        for a in ALIASES[:3]
    }
    if rng.random() < 0.5:  # in order, so that less is late
        for own in rows.values():
            own.sort(key=lambda row: row["ts"])
    known = catalog_of(case)
    asked = query(sql_of(case), known)
    made_by = by_planner("simple" if spilled else name, case)
    make = by_sequences(seed, METHODS) if name == "sequences" else made_by
    made = compiled(case, known, [(asked, make(asked, known))])
    if spilled:
        made = dataclasses.replace(made, program=made.program.limited(1, 10))
    host = SimulatedHost(made, folder=tmp_path)
    batches = drive_rows(host, rows, lambda _, part: table(case, part), seed)
    for a, own in batches.items():
        late = reference.late_split(own, case.lateness_ms * 1000)[1]
        assert host.report.read.get(a, 0) == sum(map(len, own))
        assert host.report.late.get(a, 0) == len(late)
    wanted = Counter({(*key[:3], key[-1]): n for key, n in expected(case, asked, batches).items()})
    names = [*(f"{a}.id" for a in ALIASES[:3]), "#start"]
    parts = [part.select(names).to_pylist() for part in host.results.get(0, [])]
    assert Counter(tuple(r.values()) for part in parts for r in part) == wanted


def test_ten_sites_and_ten_queries() -> None:
    case = Case(seed=5, windows=("RANGE 20 MILLISECONDS",) * 6, sites=(0, 2, 4, 6, 8, 9), tuples=15)
    host, planned = check_several(case, several_of(case, 10), "optimal")
    assert len(planned) == 10
    assert len({g.site for g in host.program.groups}) >= 6 == len(ALIASES)


def test_an_end_learnt_with_the_tuple_itself_reaches_it() -> None:
    """Two batches of a window of rows, and what the second ended of the first, taken at once."""
    case = Case(
        seed=9,
        kind="string",
        shape="chain",
        windows=("RANGE 0 MILLISECONDS", "ROWS 3"),
        sites=(3, 3),
        tuples=20,
        keys=1,
        lateness_ms=0,
    )
    check(case, by_sequences(9, METHODS))


def test_a_plan_may_join_what_no_attribute_connects() -> None:
    """With one key a product is as cheap as any join, and planners choose it."""
    case = Case(
        seed=9,
        kind="string",
        shape="chain",
        windows=("RANGE 7 MILLISECONDS", *("RANGE 20 MILLISECONDS",) * 2, "RANGE 0 MILLISECONDS"),
        keys=1,
        lateness_ms=0,
        buckets=1,
        filtered=True,
    )
    check(case, by_planner("auto", case))


def test_a_reader_keeps_its_filter_when_what_it_reads_is_widened_for_another() -> None:
    """The second query reads the first one's join; the third has it widened for both."""
    case = Case(seed=66, kind="string", windows=("RANGE 20 MILLISECONDS",) * 4, tuples=20)
    ranges = "a [RANGE 20 MILLISECONDS], b [RANGE 20 MILLISECONDS]"
    on = "a.x = b.x AND b.x ="
    queries = {
        "q0": f"SELECT a.id AS a_id, a.ts AS a_ts, b.id AS b_id, b.ts AS b_ts, c.id AS c_id FROM {ranges}, "
        f"c [RANGE 10 MILLISECONDS] WHERE {on} c.x AND a.v > 3 AND b.v BETWEEN 4 AND 8",
        "q1": "SELECT a.id AS a_id, a.v AS a_v, b.id AS b_id, d.id AS d_id FROM a [RANGE 10 MILLISECONDS], "
        f"b [RANGE 20 MILLISECONDS], d [RANGE 10 MILLISECONDS] WHERE {on} d.x AND a.v > 3 "
        "AND b.v BETWEEN 4 AND 8 AND d.v > 5",
        "q2": "SELECT a.id AS a_id, b.id AS b_id, b.v AS b_v, c.id AS c_id FROM a [RANGE 10 MILLISECONDS], "
        f"b [RANGE 20 MILLISECONDS], c [RANGE 20 MILLISECONDS] WHERE {on} c.x AND a.v + b.v < 12",
    }
    _, planned = check_several(case, queries, "optimal")
    assert any(o.kind == "reuse" and o.filters_widened for _, d in planned for o in d.operators)


SETTINGS = {
    "one attribute": Setting(),
    "sparse windows": Setting(distinct=(2000,) * 4, range_s=2.0, seconds=60.0),
    "a chain": Setting(chain=True, distinct=(500,) * 4),
}
ENOUGH = 40_000
"""Payload of a way, in bytes, from which chance alone does not take it far from what is expected."""


@pytest.mark.parametrize("what", [*METHODS, "optimal"])
def test_what_is_shipped_is_what_the_plan_says(what: str) -> None:
    check_shipped(what, SETTINGS["one attribute"])


@pytest.mark.long
@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("what", [*METHODS, "simple", "optimal", "pmjoin", "linear-optimal", "auto"])
def test_what_is_shipped_in_other_settings(what: str, setting: str) -> None:
    check_shipped(what, SETTINGS[setting])


def check_shipped(what: str, one: Setting) -> None:
    known = known_of(one)
    asked = asked_of(one, known)
    make = by_sequences(3, [what]) if what in METHODS else by_planner(what, Case(0))
    deployment = make(asked, known)
    wanted, found = estimated(one, deployment), counted(run(one, known, asked, deployment))
    assert set(found) <= set(wanted)
    assert sum(found.values()) == pytest.approx(sum(wanted.values()), rel=0.1)
    for way, amount in wanted.items():
        if amount >= ENOUGH:
            assert found[way] == pytest.approx(amount, rel=0.1), way


def test_pmjoins_first_example_ships_less_than_a_hundredth_of_the_central_plan() -> None:
    """pmjoin example 1 with rates times 10 and the window a tenth of it."""
    times = 10.0
    central, parts = (
        shipped_in_example_1(times, by_planner(name, Case(0), **settings))
        for name, settings in (("simple", {}), ("pmjoin", {"partitions": "3", "partitioner": "range"}))
    )
    assert central == pytest.approx(100.1 * times * EXAMPLE_S, rel=0.05)
    assert 0 < parts < central / 100


def test_an_idle_stream_at_another_site_stops_holding_back_the_others() -> None:
    case = Case(seed=1, windows=("RANGE 20 MILLISECONDS",) * 2)
    known = catalog_of(case)
    asked = query(sql_of(case), known)
    deployment = by_sequences(1, ["SP-D"])(asked, known)
    infos = infos_of(case, known)
    infos["a"] = dataclasses.replace(infos["a"], idle=1_000_000)
    made = compile_plan(
        [(typed(asked, case), deployment)],
        infos,
        {n: s.site for n, s in known.streams.items()},
        buckets=2,
        labels=labels,
        keep_late=False,
    )
    host = SimulatedHost(made, evaluate)
    row = {"x": 1, "y": 1, "v": 0, "id": 0}
    host.batch({"a": table(case, [{"ts": 0, **row}]), "b": table(case, [{"ts": 5_000, **row}])}, {}, wall=1)
    for n in range(1, 40):
        late = {"b": table(case, [{"ts": 5_000 + 1_000 * n, **row, "id": n}])}
        host.batch(late, host.waiting, wall=100_000 * n)
        if host.results:
            break
    assert 10 <= n < 39  # once it had been silent for a second, and not before
    assert host.results[0][0].column("b.id").to_pylist() == [0]


def test_idle_streams_at_two_sites_do_not_keep_each_other_awake() -> None:
    """Each heard of the other in every batch, and answered with what it had said before."""
    case = Case(seed=4, windows=("RANGE 20 MILLISECONDS",) * 2, sites=(0, 1), idle=10**15)
    known = catalog_of(case)
    asked = query(sql_of(case), known)
    made = compiled(case, known, [(asked, by_planner("simple", case)(asked, known))])
    host = SimulatedHost(made, evaluate)
    for name, own in rows_of(case).items():
        host.batch({name: table(case, own)})
    for _ in range(20):
        host.batch({}, host.waiting)
    assert not host.waiting
