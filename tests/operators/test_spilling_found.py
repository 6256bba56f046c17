"""Cases of windows on disk that were wrong once."""

from __future__ import annotations

import copy
import random
import weakref
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from tests.operators.join_cases import Case, made_of, query_of
from tests.operators.one_site import PAIR, bytes_of_windows, end, found, join_of, push, ranged, rows
from tests.operators.spilling_cases import R20, by_duckdb, check, heads, ids, limited_host, stream
from thalweg.errors import UserError
from thalweg.kernel.spill_files import SpillFolder
from thalweg.operators import spilling
from thalweg.operators.program import Placed, Program
from thalweg.operators.spec import JoinSpec, Limit
from thalweg.operators.state import Head, Ledger
from thalweg.query.model import Window, WindowKind
from thalweg.simulate.host import SimulatedHost


@pytest.mark.parametrize("seed", range(12))
def test_a_join_is_as_far_as_the_last_of_its_buckets(seed: int, monkeypatch) -> None:
    """In one bucket tuples wait on disk, in the other none: the next join must not forget what they meet."""

    limited = Program.limited

    def all_wait(program: Program, budget: int, delay: int) -> Program:
        def one(placed: Placed) -> Placed:
            if not isinstance(placed.spec, JoinSpec):
                return placed
            return replace(placed, spec=replace(placed.spec, limit=Limit(budget, delay)))

        groups = limited(program, budget, delay).groups
        return replace(
            program, groups=tuple(replace(g, operators=tuple(map(one, g.operators))) for g in groups)
        )

    monkeypatch.setattr(Program, "limited", all_wait)
    unbounded = Window(WindowKind.UNBOUNDED)
    windows = (unbounded, unbounded, Window(WindowKind.RANGE, 0))
    check(Case("long", windows, "chain", (0, 0, 0), 2, seed, 8, 10, 1, 0), 0, 10)


def long_rows(rng: random.Random, n: int, begin: int) -> pa.RecordBatch:
    return pa.record_batch(
        [
            pa.array(range(begin, begin + n), pa.timestamp("us", "UTC")),
            pa.array([str(rng.randrange(1000)) for _ in range(n)]),
            pa.array(["y" * 50_000] * n),
            pa.array(range(begin, begin + n)),
        ],
        names=["ts", "x", "y", "id"],
    )


def test_few_long_strings_stay_within_the_budget(tmp_path: Path) -> None:
    """Arrays have room for 1,024 rows at the least; what strings take is not to be shared among those."""
    case = Case("string", (R20,) * 2, "star", (0, 0), 1, 1, 0, 1, 1, 0)
    budget = 4_000_000
    host = limited_host(made_of(case, query_of(case)), budget, 0, tmp_path)
    rng = random.Random(2)
    for b in range(15):
        push(host, {a: long_rows(rng, 10, b * 100) for a in "ab"})
        assert bytes_of_windows(host) <= budget
    assert heads(host)[0].cold


def test_parts_brought_in_are_gone_before_the_next_are(tmp_path: Path, monkeypatch) -> None:
    case = Case("long", (R20,) * 3, "star", (0, 0, 0), 1, 1, 0, 1, 1, 0)
    host = limited_host(made_of(case, query_of(case)), 100_000, 0, tmp_path)
    made: list[weakref.ref] = []
    make_join = spilling.make_join

    def watched(spec):
        assert not any(window() for window in made)
        join = make_join(spec)
        made.extend(weakref.ref(window) for window in join.windows)
        return join

    monkeypatch.setattr(spilling, "make_join", watched)
    rng = random.Random(2)
    for b in range(3):
        push(host, {a: stream(rng, 2000, 900, b * 2000, 1) for a in "abc"})
    assert len(made) > 30


def test_of_two_attempts_at_a_batch_either_may_count(tmp_path: Path) -> None:
    """Spark may begin a task again beside the first attempt, and commit the one or the other."""
    case = Case("long", (R20,) * 3, "star", (0, 0, 0), 1, 1, 0, 1, 1, 0)
    host = limited_host(made_of(case, query_of(case)), 20_000, 0, tmp_path)
    rng = random.Random(2)
    rows = {a: [stream(rng, 500, 900, b * 500, 1) for b in range(6)] for a in "abc"}
    for b in range(6):
        batch = {a: rows[a][b] for a in "abc"}
        stores, results = copy.deepcopy(host.stores), copy.deepcopy(host.results)
        push(host, batch)
        first = host.stores, host.results
        host.stores, host.results = stores, results
        host.forget()
        push(host, batch)
        if b % 2:
            host.stores, host.results = first
            host.forget()
    assert heads(host)[0].pieces
    end(host)
    assert ids(host, "abc") == by_duckdb(rows)


def test_a_folder_that_can_not_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "spill").write_text("")
    folder = SpillFolder(tmp_path / "spill" / "7")
    with pytest.raises(UserError, match=r"spill/7/x: .* could not be written"):
        folder.write("x", pa.record_batch([pa.array([1])], names=["n"]))


@pytest.mark.parametrize("budget", [0, 10**9])
def test_joins_of_a_query_judge_an_idle_stream_alike_whatever_waits(tmp_path: Path, budget: int) -> None:
    """A stream under two aliases: what is late for the one must be late for the other."""
    inputs = (ranged("a", "s", 10_000), ranged("x", "t", 10_000), ranged("y", "t", 10_000))
    equal = (("a.k", "x.k"), ("x.j", "y.k"))
    made = join_of(inputs, columns=PAIR, equal=equal, buckets=1, idle=30, order=())
    host = limited_host(made, budget, 10**9, tmp_path)
    push(host, {"s": rows((0, 1, 1, 1), columns=PAIR), "t": rows((0, 1, 1, 1), columns=PAIR)}, wall=1000)
    for step in range(1, 50):  # only s goes on, and t is taken to be as far
        push(host, {"s": rows((10 * step, 2, 2, step), columns=PAIR)}, wall=1000 + step)
    push(host, {"t": rows((50, 1, 1, 2), columns=PAIR)}, wall=1050)
    end(host)
    assert host.report.late == {"t": 1}
    assert found(host, "a", "x", "y") == [(1, 1, 1)]


@pytest.mark.parametrize("buckets", [1, 2])
def test_what_a_join_sends_to_another_does_not_depend_on_what_is_at_hand(
    tmp_path: Path, buckets: int
) -> None:
    """After the loss of a machine Spark repeats a part of a batch: who was sent something may keep that."""
    case = Case("long", (R20,) * 3, "chain", (0, 0, 0), buckets, 1, 0, 1, 1, 0)
    host = limited_host(made_of(case, query_of(case)), 700_000 * buckets, 3000, tmp_path)
    (last,) = (
        p.name
        for p in host.program.operators
        if isinstance(p.spec, JoinSpec) and p.outlets[0].to == "results"
    )
    rng = random.Random(1)
    for b in range(14):
        n = 300 * buckets
        batch = {a: stream(rng, n, 3000 * buckets, b * n, 1) for a in "abc"}
        for one in "abc":
            at = batch[one].schema.get_field_index("y")
            batch[one] = batch[one].set_column(at, "y", pa.array(rng.choices(range(3000 * buckets), k=n)))
        stores = copy.deepcopy(host.stores)
        push(host, batch)
        first = host.stores, host.caches, arrived(host, last)
        host.stores, host.caches = stores, {}
        push(host, batch)
        assert arrived(host, last) == first[2]
        host.stores, host.caches, _ = first
    assert any(head.cold for head in heads(host))


def arrived(host: SimulatedHost, name: str) -> list[int]:
    """How many tuples each bucket of a join has, in memory and on disk."""
    found = []
    for place, operator in sorted(host.caches):
        if operator == name:
            head = Head.of(Ledger(host.stores[place]).page(name), 2)
            windows = host.caches[place, name]._held.join.windows
            found.append(sum(len(w) for w in windows) + sum(p.rows for p in head.pieces))
    return found
