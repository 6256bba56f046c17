"""Windows of rows that are counted by columns: changing tables, of which each key has its latest row."""

from __future__ import annotations

import pytest

from tests.operators.one_site import (
    COLUMNS,
    end,
    found,
    hosted,
    in_windows,
    join_of,
    push,
    ranged,
    rows,
)
from thalweg.errors import UserError
from thalweg.query.model import Input, Window, WindowKind

LATEST = Window(WindowKind.ROWS, 1, by=("k",))
NOW = ranged("y", "t", size=0)


def test_each_tuple_meets_the_latest_row_of_its_key() -> None:
    host = hosted(join_of((Input("x", "s", LATEST), NOW)))
    push(host, {"s": rows((10, "a", 1), (20, "b", 2), (30, "a", 3))})
    push(host, {"t": rows((29, "a", 7), (30, "a", 8), (31, "b", 9))})
    end(host)
    assert found(host, "x", "y") == [(1, 7), (2, 9), (3, 8)]


def test_null_is_a_value_that_rows_are_counted_by() -> None:
    window = Window(WindowKind.ROWS, 1, by=("id",))
    host = hosted(join_of((Input("x", "s", window), NOW), shown=("id", "ts"), order=("k",)))
    push(host, {"s": rows((10, "a", None), (20, "a", None)), "t": rows((25, "a", 7))})
    end(host)
    assert found(host, "x", "y") == [(None, 7)]


def test_what_nothing_tells_apart_is_refused_only_if_it_is_counted_together() -> None:
    inputs = (Input("x", "s", LATEST), NOW)
    host = hosted(join_of(inputs, order=(), buckets=1))
    push(host, {"s": rows((10, "a", 1), (10, "b", 2), (10, None, 3)), "t": rows((10, "a", 7), (10, "b", 8))})
    end(host)
    assert found(host, "x", "y") == [(1, 7), (2, 8)]
    host = hosted(join_of(inputs, order=(), buckets=1))
    with pytest.raises(UserError, match=r"two tuples have the time .* and the partition \(k\) = \('a'\)"):
        push(host, {"s": rows((10, "a", 1), (10, "b", 2), (10, "a", 3), (11, "b", 4))})


def test_a_key_that_never_changes_does_not_hold_the_others_in_memory() -> None:
    host = hosted(join_of((Input("x", "s", LATEST), NOW), buckets=1))
    push(host, {"s": rows((0, "still", 0)), "t": rows((0, "a", 0))})
    for n in range(1, 60):
        push(
            host, {"s": rows(*((10 * n + i, "ab"[i % 2], n) for i in range(10))), "t": rows((10 * n, "c", n))}
        )
    assert in_windows(host) < 60  # of six hundred
    push(host, {"t": rows((600, "still", 7))})
    end(host)
    assert (0, 7) in found(host, "x", "y")


def test_rows_are_counted_in_many_buckets_where_the_key_is_one_of_the_columns() -> None:
    """All tuples that are counted together have one key, so they are in one bucket."""

    def kinds(window: Window) -> set[str]:
        made = join_of((Input("x", "s", window), NOW), buckets=3)
        return {group.key for group in made.program.groups}

    assert kinds(LATEST) == {"keyed"}
    assert kinds(Window(WindowKind.ROWS, 2, by=("id", "k"))) == {"keyed"}
    assert kinds(Window(WindowKind.ROWS, 2, by=("id",))) == {"whole"}
    assert kinds(Window(WindowKind.ROWS, 2)) == {"whole"}


def test_the_time_is_not_what_rows_are_counted_by() -> None:
    with pytest.raises(UserError, match="PARTITION BY ts counts nothing"):
        join_of((Input("x", "s", Window(WindowKind.ROWS, 1, by=("ts",))), NOW), columns=COLUMNS)
