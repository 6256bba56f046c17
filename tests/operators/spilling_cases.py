"""Joins at one site with less memory than their windows need."""

from __future__ import annotations

import copy
import random
import tempfile
from collections import Counter
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from tests.operators.join_cases import Case, batches_of, expected_ids, made_of, query_of, rows_of, table
from tests.operators.one_site import end, found, hosted, push, share_windows
from thalweg.compile.compiler import Compiled
from thalweg.operators import spilling, state
from thalweg.operators.spec import JoinSpec
from thalweg.operators.state import Head, Ledger
from thalweg.oracle import reference
from thalweg.query.model import Window, WindowKind
from thalweg.simulate.host import SimulatedHost


def limited_host(made: Compiled, budget: int, delay: int, folder: Path) -> SimulatedHost:
    """The host of what was compiled, with a memory budget."""
    host = hosted(made, folder)
    host.program = made.program.limited(budget, delay)
    return host


def ids(host: SimulatedHost, aliases) -> Counter:
    return Counter(found(host, *aliases))


def heads(host: SimulatedHost) -> list[Head]:
    """The records of all buckets of all joins."""
    return [
        Head.of(Ledger(store).page(placed.name), len(placed.spec.ports))
        for (_, label), store in host.stores.items()
        for placed in host.program.by_group[label].operators
        if isinstance(placed.spec, JoinSpec)
    ]


def again(host: SimulatedHost, batch) -> None:
    """A batch whose first attempt is lost: its state and its results, but not the files that it wrote."""
    stores, results, late = (copy.deepcopy(x) for x in (host.stores, host.results, host.late))
    push(host, batch)
    host.stores, host.results, host.late = stores, results, late
    host.forget()
    push(host, batch)


def check(case: Case, budget: int, delay: int) -> SimulatedHost:
    query = query_of(case)
    batches = batches_of(case, rows_of(case))
    rng = random.Random(case.seed + 2)
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(state, "FAN", rng.choice([2, 3, 16]))
        patch.setattr(spilling, "_FILES", rng.choice([1, 2, 4]))
        host = limited_host(made_of(case, query), budget, delay, Path(folder) / "spill")
        if case.seed % 2:
            share_windows(host, Path(folder) / "windows")
        for batch in batches:
            rows = {a: table(case, r) for a, r in batch.items()}
            (again if rng.random() < 0.2 else push)(host, rows)
            if rng.random() < 0.3:
                host.forget()
            if rng.random() < 0.2:
                host.hurry()
                host.batch({}, host.waiting)
                assert not any(p.waiting for head in heads(host) for p in head.pieces)
        end(host)
        assert not any(head.pieces for head in heads(host))
        end(host)  # what was listed until then is removed by the next call
        assert not [p for p in (Path(folder) / "spill").rglob("*") if p.is_file()]
    kept = {
        a: reference.late_split([b[a] for b in batches], lateness, time="ts")[0]
        for a, lateness in zip(query.aliases, case.lateness, strict=True)
    }
    assert ids(host, query.aliases) == Counter(expected_ids(case, query, kept))
    return host


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
