"""Joins with less memory than their windows need, compared with the rule and with DuckDB."""

from __future__ import annotations

import copy
import dataclasses
import random
from collections import Counter
from itertools import pairwise
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.operators.join_cases import Case, bounded, cases, made_of, query_of
from tests.operators.one_site import TIME, bytes_of_windows, end, hosted, join_of, push, ranged
from tests.operators.spilling_cases import R20, by_duckdb, check, heads, ids, limited_host, stream
from tests.simulate.sql_cases import W, known_of, leave_together, planned_by
from tests.simulate.sql_cases import ids as ids_of
from tests.simulate.sql_cases import made_of as sites_of
from thalweg.errors import UserError
from thalweg.kernel.window import NEVER
from thalweg.query.model import Window, WindowKind


def without_rows(case: Case) -> Case:
    ranges = [Window(WindowKind.RANGE, 20) if w.kind is WindowKind.ROWS else w for w in case.windows]
    return dataclasses.replace(case, windows=tuple(ranges))


limited_cases = cases.filter(bounded).map(without_rows)
budgets = st.sampled_from([0, 1000, 20_000, 60_000, 200_000, 10**9])
delays = st.sampled_from([0, 1, 10, 100, 10**9])


@given(limited_cases, budgets, delays)
@settings(max_examples=40, deadline=None)
def test_results_equal_the_rule_whatever_the_budget(case: Case, budget: int, delay: int) -> None:
    check(case, budget, delay)


@pytest.mark.long
@given(limited_cases, budgets, delays)
@settings(max_examples=1800, deadline=None)
def test_results_equal_the_rule_whatever_the_budget_many_times(case: Case, budget: int, delay: int) -> None:
    check(case, budget, delay)


def run_three(tmp_path: Path, budget: int, delay: int, *, batches: int = 30, quiet_after: int = 10**9):
    """Three streams of 1,000 tuples a batch, each alive for twenty batches; then, maybe, far fewer."""
    case = Case("long", (R20,) * 3, "star", (0, 0, 0), 2, 1, 0, 1, 1, 0)
    query = query_of(case)
    host = limited_host(made_of(case, query), budget, delay, tmp_path / "spill")
    rng = random.Random(5)
    rows: dict[str, list[pa.RecordBatch]] = {a: [] for a in "abc"}
    memory, cold = [], []
    for b in range(batches):
        n, step = (1000, 1) if b < quiet_after else (10, 100)
        batch = {a: stream(rng, n, 30_000, b * 1000, step) for a in "abc"}
        for a in "abc":
            rows[a].append(batch[a])
        push(host, batch)
        memory.append(bytes_of_windows(host))
        cold.append([len(head.cold) for head in heads(host)])
        waiting = min((p.start for head in heads(host) for p in head.pieces if p.waiting), default=NEVER)
        assert waiting >= (b + 1) * 1000 - 1 - delay - 1000  # what was not due before this batch
    end(host)
    return host, rows, memory, cold


@pytest.mark.parametrize("delay", [0, 4000, 50_000])
def test_windows_of_five_times_the_memory(tmp_path: Path, delay: int) -> None:
    whole, rows, memory, _ = run_three(tmp_path / "whole", 10**9, delay)
    budget = max(memory) // 5
    host, _, memory, cold = run_three(tmp_path / "less", budget, delay)
    assert max(memory) <= budget
    assert max(map(min, cold)) > 30  # most parts are on disk, in both buckets
    assert ids(host, "abc") == ids(whole, "abc") == by_duckdb(rows)


def test_parts_come_back_when_there_is_room_again(tmp_path: Path) -> None:
    _, _, memory, _ = run_three(tmp_path / "whole", 10**9, 0)
    host, rows, _, cold = run_three(tmp_path / "less", max(memory) // 3, 0, batches=70, quiet_after=30)
    assert max(map(min, cold[:30])) > 10
    assert cold[-1] == [0, 0]
    assert ids(host, "abc") == by_duckdb(rows)


def test_a_part_that_comes_back_and_goes_again_is_rebuilt_from_what_counts(tmp_path: Path) -> None:
    """Old segments still have what a part had before it went to disk; only what came since may count."""
    case = Case("long", (Window(WindowKind.RANGE, 1000),) * 2, "star", (0, 0), 1, 1, 0, 1, 1, 0)
    query = query_of(case)
    made = made_of(case, query)
    host = limited_host(made, 10**9, 0, tmp_path)
    rng = random.Random(1)
    rows: dict[str, list[pa.RecordBatch]] = {a: [] for a in "ab"}
    for b in range(40):
        budget = 10**9 if b % 4 < 2 else 0  # all goes to disk, all comes back
        host.program = made.program.limited(budget, 0)
        batch = {a: stream(rng, 20, 40, b * 20, 1) for a in "ab"}
        for a in "ab":
            rows[a].append(batch[a])
        push(host, batch)
        host.forget()
    end(host)
    a, b = (pa.Table.from_batches(rows[n]) for n in "ab")
    with duckdb.connect() as db:
        db.register("a", a)
        db.register("b", b)
        found = db.sql(
            "SELECT a.id, b.id FROM a, b WHERE a.x = b.x AND abs(epoch_us(a.ts) - epoch_us(b.ts)) <= 1000"
        ).fetchall()
    assert ids(host, "ab") == Counter(found)


def test_a_missing_file_is_named_and_nothing_is_wrong_once_it_is_back(tmp_path: Path) -> None:
    case = Case("long", (R20,) * 3, "star", (0, 0, 0), 1, 1, 0, 1, 1, 0)
    host = limited_host(made_of(case, query_of(case)), 20_000, 0, tmp_path)
    rng = random.Random(2)
    rows = {a: [stream(rng, 500, 900, b * 500, 1) for b in range(6)] for a in "abc"}
    for b in range(5):
        push(host, {a: rows[a][b] for a in "abc"})
    files = sorted(p for p in tmp_path.rglob("*.arrow") if p.name in {q.name for q in heads(host)[0].pieces})
    assert files
    good = files[0].read_bytes()
    stores, results = copy.deepcopy(host.stores), copy.deepcopy(host.results)
    for harm in (None, good[:-1], b"", bytes([good[0] ^ 1]) + good[1:]):
        if harm is None:
            files[0].unlink()
        else:
            files[0].write_bytes(harm)
        with pytest.raises(UserError, match=files[0].name):
            push(host, {a: rows[a][5] for a in "abc"})
        host.stores, host.results = copy.deepcopy(stores), copy.deepcopy(results)
        host.forget()
    files[0].write_bytes(good)
    push(host, {a: rows[a][5] for a in "abc"})
    end(host)
    assert ids(host, "abc") == by_duckdb(rows)


def test_windows_of_rows_have_no_budget() -> None:
    rows = Window(WindowKind.ROWS, 2)
    case = Case("long", (rows, rows), "star", (0, 0), 1, 0, 0, 10, 3, 0)
    with pytest.raises(UserError, match="windows of rows"):
        made_of(case, query_of(case)).program.limited(1000, 0)


def test_probe_sequences_have_no_budget() -> None:
    known = known_of((0, 1))
    planned = planned_by(known, [ids_of("ab", f"a {W}, b {W}", "a.x = b.x")], "linear-optimal")
    with pytest.raises(UserError, match="probe sequences"):
        sites_of(known, planned).program.limited(1000, 0)


def test_a_budget_once_given_must_be_given_again(tmp_path: Path) -> None:
    case = Case("long", (R20,) * 2, "star", (0, 0), 1, 1, 0, 1, 1, 0)
    host = limited_host(made_of(case, query_of(case)), 0, 0, tmp_path)
    rng = random.Random(2)
    push(host, {a: stream(rng, 50, 9, 0, 1) for a in "ab"})
    host.program = made_of(case, query_of(case)).program
    with pytest.raises(UserError, match="memory budget"):
        push(host, {a: stream(rng, 50, 9, 50, 1) for a in "ab"})


def test_results_are_at_most_so_late(tmp_path: Path) -> None:
    """What could be joined `delay` ago is out: in event time, as the streams' own times tell it."""
    case = Case("long", (Window(WindowKind.RANGE, 100_000),) * 2, "star", (0, 0), 1, 1, 0, 1, 1, 0)
    host = limited_host(made_of(case, query_of(case)), 0, 5000, tmp_path)
    rng = random.Random(3)
    for b in range(30):
        push(host, {a: stream(rng, 100, 9, b * 1000, 10) for a in "ab"})
        now = b * 1000 + 990
        told = [t for part in host.results.get(0, []) for t in part.column("#start").to_pylist()]
        if now > 7000:
            assert max(told) >= now - 5000 - 1000
    assert sum(host.report.waiting.values()) > 0


@pytest.mark.parametrize("buckets", [1, 2])
def test_tuples_wait_on_disk_with_a_slide_too(tmp_path: Path, buckets: int) -> None:
    """Results come out when all that waits for their slide has been joined, and not before."""
    inputs = (ranged("a", "a", 1000, slide=100), ranged("b", "b", 1000))
    columns = {"ts": TIME, "k": pa.int64(), "y": pa.int64(), "id": pa.int64()}
    made = join_of(inputs, columns=columns, buckets=buckets, order=())
    whole, less = hosted(made), limited_host(made, 0, 700, tmp_path)
    rng, waited, upto = random.Random(3), 0, [0]
    for b in range(40):
        batch = {n: stream(rng, 20, 40, b * 20, 1).rename_columns(list(columns)) for n in "ab"}
        for host in (whole, less):
            push(host, batch)
        waited = max(waited, sum(p.rows for head in heads(less) for p in head.pieces if p.waiting))
        told = [t for part in less.results.get(0, []) for t in part.column("#start").to_pylist()]
        assert max(told, default=0) < b * 20 + 20
        upto.append(len(less.results.get(0, [])))
    assert waited > 100
    for host in (whole, less):
        end(host)
    upto.append(len(less.results[0]))
    assert leave_together(100, [less.results[0][lo:hi] for lo, hi in pairwise(upto)])
    assert ids(less, "ab") == ids(whole, "ab")
    assert ids(less, "ab")
