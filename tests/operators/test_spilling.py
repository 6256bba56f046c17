"""Joins with less memory than their windows need, compared with the reference join and DuckDB."""

from __future__ import annotations

import copy
import dataclasses
import random
import tempfile
from collections import Counter
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.simulate.test_join_property import (
    Case,
    batches_of,
    bounded,
    cases,
    expected_ids,
    job_of,
    query_of,
    rows_of,
    table,
)
from thalweg.errors import UserError
from thalweg.kernel.shared import SharedWindows
from thalweg.kernel.window import NEVER
from thalweg.oracle import reference
from thalweg.programs import overflow, state
from thalweg.programs.cache import SharedCache
from thalweg.programs.local import LocalHost
from thalweg.programs.packet import Kind
from thalweg.programs.state import Head
from thalweg.query.model import Window, WindowKind


def ids(host: LocalHost, aliases) -> Counter:
    return Counter(
        tuple(row[f"{a}.id"] for a in aliases) for part in host.results.get(0, []) for row in part.to_pylist()
    )


def heads(host: LocalHost) -> list[Head]:
    return [Head.parse(store.get(0), 0) for store in host.stores.values()]


def again(host: LocalHost, batch) -> None:
    """A batch whose first attempt is lost: its state and its results, but not the files that it wrote."""
    stores, results, late = (copy.deepcopy(x) for x in (host.stores, host.results, host.late))
    host.push(batch)
    host.stores, host.results, host.late = stores, results, late
    host.forget()
    host.push(batch)


def check(case: Case, budget: int, delay: int) -> LocalHost:
    query = query_of(case)
    batches = batches_of(case, rows_of(case))
    rng = random.Random(case.seed + 2)
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(state, "FAN", rng.choice([2, 3, 16]))
        patch.setattr(overflow, "_FILES", rng.choice([1, 2, 4]))
        host = LocalHost(job_of(case, query).limited(budget, delay), folder=Path(folder) / "spill")
        if case.seed % 2:
            host.new_cache = lambda group: SharedCache(SharedWindows(Path(folder) / "windows"), str(group))
        for batch in batches:
            rows = {a: table(case, r) for a, r in batch.items()}
            (again if rng.random() < 0.2 else LocalHost.push)(host, rows)
            if rng.random() < 0.3:
                host.forget()
            if rng.random() < 0.2:
                host.idle()
                assert not any(p.waiting for head in heads(host) for p in head.pieces)
        host.end()
        assert not any(head.pieces for head in heads(host))
        host.end()  # what was listed until then is removed by the next call
        assert not [p for p in (Path(folder) / "spill").rglob("*") if p.is_file()]
    kept = {
        a: reference.late_split([b[a] for b in batches], lateness, time="ts")[0]
        for a, lateness in zip(query.aliases, case.lateness, strict=True)
    }
    assert ids(host, query.aliases) == Counter(expected_ids(case, query, kept))
    return host


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
@settings(max_examples=3000, deadline=None)
def test_results_equal_the_rule_whatever_the_budget_many_times(case: Case, budget: int, delay: int) -> None:
    check(case, budget, delay)


R20 = Window(WindowKind.RANGE, 20_000)


def stream(rng: random.Random, n: int, keys: int, begin: int, step: int) -> pa.RecordBatch:
    starts = [begin + i * step for i in range(n)]
    return pa.record_batch(
        [
            pa.array(starts, pa.timestamp("us", "UTC")),
            pa.array([rng.randrange(keys) for _ in range(n)]),
            pa.array([0] * n),
            pa.array(range(begin // step, begin // step + n)),
        ],
        names=["ts", "x", "y", "id"],
    )


def run_three(tmp_path: Path, budget: int, delay: int, *, batches: int = 30, quiet_after: int = 10**9):
    """Three streams of 1,000 tuples a batch, each alive for twenty batches; then, maybe, far fewer."""
    case = Case("long", (R20,) * 3, "star", (0, 0, 0), 2, 1, 0, 1, 1, 0)
    query = query_of(case)
    host = LocalHost(job_of(case, query).limited(budget, delay), folder=tmp_path / "spill")
    rng = random.Random(5)
    rows: dict[str, list[pa.RecordBatch]] = {a: [] for a in "abc"}
    memory, held, cold = [], [], []
    for b in range(batches):
        n, step = (1000, 1) if b < quiet_after else (10, 100)
        batch = {a: stream(rng, n, 30_000, b * 1000, step) for a in "abc"}
        for a in "abc":
            rows[a].append(batch[a])
        host.push(batch)
        memory.append(sum(w.nbytes for cache in host.caches.values() for w in cache._held.join.windows))
        held.append(host.counted)
        cold.append([len(head.cold) for head in heads(host)])
        waiting = min((p.start for head in heads(host) for p in head.pieces if p.waiting), default=NEVER)
        assert waiting >= (b + 1) * 1000 - 1 - delay - 1000  # what was not due before this batch
    host.end()
    return host, rows, memory, cold


def by_duckdb(rows: dict[str, list[pa.RecordBatch]]) -> Counter:
    a, b, c = (pa.Table.from_batches(rows[n]) for n in "abc")
    with duckdb.connect() as db:
        for name, one in zip("abc", (a, b, c), strict=True):
            db.register(name, one)
        found = db.sql(
            "SELECT a.id, b.id, c.id FROM a, b, c WHERE a.x = b.x AND b.x = c.x "
            "AND epoch_us(greatest(a.ts, b.ts, c.ts)) <= epoch_us(least(a.ts, b.ts, c.ts)) + 20000"
        )
        return Counter(found.fetchall())


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
    job = job_of(case, query).limited(10**9, 0)
    host = LocalHost(job, folder=tmp_path)
    rng = random.Random(1)
    rows: dict[str, list[pa.RecordBatch]] = {a: [] for a in "ab"}
    for b in range(40):
        budget = 10**9 if b % 4 < 2 else 0  # all goes to disk, all comes back
        host.job = job_of(case, query).limited(budget, 0)
        batch = {a: stream(rng, 20, 40, b * 20, 1) for a in "ab"}
        for a in "ab":
            rows[a].append(batch[a])
        host.push(batch)
        host.forget()
    host.end()
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
    host = LocalHost(job_of(case, query_of(case)).limited(20_000, 0), folder=tmp_path)
    rng = random.Random(2)
    rows = {a: [stream(rng, 500, 900, b * 500, 1) for b in range(6)] for a in "abc"}
    for b in range(5):
        host.push({a: rows[a][b] for a in "abc"})
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
            host.push({a: rows[a][5] for a in "abc"})
        host.stores, host.results = copy.deepcopy(stores), copy.deepcopy(results)
        host.forget()
    files[0].write_bytes(good)
    host.push({a: rows[a][5] for a in "abc"})
    host.end()
    assert ids(host, "abc") == by_duckdb(rows)


def test_windows_of_rows_have_no_budget() -> None:
    rows = Window(WindowKind.ROWS, 2)
    case = Case("long", (rows, rows), "star", (0, 0), 1, 0, 0, 10, 3, 0)
    with pytest.raises(UserError, match="windows of rows"):
        job_of(case, query_of(case)).limited(1000, 0)


def test_a_budget_once_given_must_be_given_again(tmp_path: Path) -> None:
    case = Case("long", (R20,) * 2, "star", (0, 0), 1, 1, 0, 1, 1, 0)
    host = LocalHost(job_of(case, query_of(case)).limited(0, 0), folder=tmp_path)
    rng = random.Random(2)
    host.push({a: stream(rng, 50, 9, 0, 1) for a in "ab"})
    host.job = job_of(case, query_of(case))
    with pytest.raises(UserError, match="memory budget"):
        host.push({a: stream(rng, 50, 9, 50, 1) for a in "ab"})


def test_results_are_at_most_so_late(tmp_path: Path) -> None:
    """What could be joined `delay` ago is out: in event time, as the streams' own times tell it."""
    case = Case("long", (Window(WindowKind.RANGE, 100_000),) * 2, "star", (0, 0), 1, 1, 0, 1, 1, 0)
    host = LocalHost(job_of(case, query_of(case)).limited(0, 5000), folder=tmp_path)
    rng = random.Random(3)
    for b in range(30):
        host.push({a: stream(rng, 100, 9, b * 1000, 10) for a in "ab"})
        now = b * 1000 + 990
        told = [t for part in host.results.get(0, []) for t in part.column("#start").to_pylist()]
        if now > 7000:
            assert max(told) >= now - 5000 - 1000
    assert host.counted[Kind.DISK, 0] > 0
