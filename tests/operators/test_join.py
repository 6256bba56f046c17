"""Joins of random streams at one site, compared with the rule."""

from __future__ import annotations

import itertools
import random
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings

from tests.operators.join_cases import (
    Case,
    any_tree,
    batches_of,
    bounded,
    cases,
    expected_ids,
    made_of,
    query_of,
    rows_of,
    table,
)
from tests.operators.one_site import end, found, hosted, join_of, push, ranged, rows, share_windows
from thalweg.errors import UserError
from thalweg.operators import join, state
from thalweg.oracle import reference
from thalweg.query.model import Window, WindowKind


def check(case: Case, planned: bool = False) -> None:
    query = query_of(case)
    rows = rows_of(case)
    batches = batches_of(case, rows)
    rng = random.Random(case.seed + 2)
    made = made_of(case, query, any_tree(case, query) if planned else None)
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(state, "FAN", rng.choice([2, 3, 16]))
        host = hosted(made)
        if case.seed % 2 and not any(w.kind is WindowKind.ROWS for w in case.windows):
            share_windows(host, Path(folder))
        for batch in batches:
            push(host, {a: table(case, r) for a, r in batch.items()})
            if rng.random() < 0.3:
                host.forget()  # another process goes on: with what is shared, if anything is
        end(host)

    kept, late = {}, Counter()
    for a, lateness in zip(query.aliases, case.lateness, strict=True):
        kept[a], gone = reference.late_split([b[a] for b in batches], lateness, time="ts")
        late[a] = len(gone)
    assert Counter(found(host, *query.aliases)) == Counter(expected_ids(case, query, kept))
    if case.kind in ("long", "string", "decimal"):  # others come out encoded, or with two zeros made one
        same = made.results[0].same
        for row in (row for part in host.results.get(0, []) for row in part.to_pylist()):
            for a, c in itertools.product(query.aliases, "xy"):
                alias, column = same.get((a, c), (a, c))
                assert row[f"{alias}.{column}"] == rows[a][row[f"{a}.id"]][c]
    for a in query.aliases:
        assert host.report.read.get(a, 0) == len(rows[a])
        assert host.report.late.get(a, 0) == late[a]
        assert sum(b.num_rows for b in host.late.get(a, [])) == late[a]


@given(cases.filter(bounded))
@settings(max_examples=150, deadline=None)
def test_results_equal_the_rule(case: Case) -> None:
    check(case)


@given(cases.filter(lambda case: bounded(case) and len(case.windows) > 2))
@settings(max_examples=150, deadline=None)
def test_any_tree_of_a_plan_gives_what_the_rule_says(case: Case) -> None:
    check(case, planned=True)


@pytest.mark.long
@given(cases.filter(bounded))
@settings(max_examples=2500, deadline=None)
def test_results_equal_the_rule_many_times(case: Case) -> None:
    check(case)


U, R1, R2 = Window(WindowKind.UNBOUNDED), Window(WindowKind.ROWS, 1), Window(WindowKind.ROWS, 2)


def test_an_end_that_never_comes_does_not_overflow_the_walk_along_a_chain() -> None:
    check(Case("decimal", (R1, U, U, U, R1), "star", (50, 3, 0, 50, 50), 2, 112, 20, 60, 1, 40))


def test_an_end_learnt_while_a_partial_result_waits_reaches_it() -> None:
    check(Case("decimal", (R1, R1, R1, R1), "chain", (0, 0, 0, 0), 1, 0, 20, 300, 1, 0))


def test_ends_lowered_later_leave_no_order_to_rely_on() -> None:
    check(Case("decimal", (U, U, U, R2, U), "chain", (0,) * 5, 1, 179574, 5, 300, 1, 5))


def test_equal_time_and_order_in_a_window_of_rows_is_an_error_that_names_them() -> None:
    rows = Window(WindowKind.ROWS, 2)
    case = Case("long", (rows, rows), "star", (0, 0), 1, 0, 0, 10, 3, 0)
    host = hosted(made_of(case, query_of(case)))
    twice = [{"ts": 7, "x": 1, "y": 1, "id": 3}] * 2
    with pytest.raises(
        UserError, match=r"stream a: two tuples have the time 1970-01-01T00:00:00.000007.*id.*3"
    ):
        push(host, {"a": table(case, twice)})
        end(host)


def test_results_with_long_strings_come_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(join, "RESULT_BYTES", 1000)
    host = hosted(join_of((ranged("x", "s"), ranged("y", "t")), buckets=1, shown=("id", "k")))
    push(host, {"s": rows((1, "k" * 400, 1)), "t": rows(*((1, "k" * 400, i) for i in range(50)))})
    assert found(host, "x", "y") == [(1, i) for i in range(50)]
    assert all(part.num_rows <= 2 for part in host.results[0])
