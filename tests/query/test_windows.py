"""Windows that are not written in brackets: ASOF JOIN, window(..), and conditions on the streams' times."""

from __future__ import annotations

import pytest

from thalweg.errors import UserError
from thalweg.query import parse

SCHEMAS = {name: {"ts": "timestamp", "x": "int", "y": "string"} for name in "stu"}
SECOND = 1_000_000


def windows(text: str, times: dict[str, str] | None = None) -> list[str]:
    known = dict.fromkeys("stu", "ts") if times is None else times
    query = parse(f"SELECT a.x FROM {text}", name="q", schemas=SCHEMAS, times=known, where="q.sql")
    return [str(one.window) for one in query.inputs]


def error(text: str, times: dict[str, str] | None = None) -> str:
    with pytest.raises(UserError) as raised:
        windows(text, times)
    return str(raised.value)


@pytest.mark.parametrize(
    ("condition", "of_a", "of_b"),
    [
        ("b.ts BETWEEN a.ts - INTERVAL 5 SECONDS AND a.ts + INTERVAL 1 SECOND", 1, 5),
        ("(b.ts BETWEEN a.ts - INTERVAL '5' SECOND AND a.ts + INTERVAL '1' SECOND)", 1, 5),
        ("a.ts >= b.ts - INTERVAL 1 SECOND AND a.ts < b.ts + INTERVAL 5 SECONDS", 1, 5),
        ("b.ts - INTERVAL 1 SECOND <= a.ts AND INTERVAL 5 SECONDS + b.ts > a.ts", 1, 5),
        ("A.TS BETWEEN b.ts - INTERVAL 3 SECONDS + INTERVAL 2 SECONDS AND b.ts + INTERVAL 5 SECONDS", 1, 5),
        ("a.ts = b.ts", 0, 0),
        ("b.ts BETWEEN a.ts + INTERVAL 2 SECONDS AND a.ts + INTERVAL 3 SECONDS", 3, 0),
    ],
)
def test_a_bound_on_two_times_is_the_window_of_both(condition: str, of_a: int, of_b: int) -> None:
    found = windows(f"s a, t b WHERE a.x = b.x AND {condition}")
    assert found == [f"range {of_a * SECOND}", f"range {of_b * SECOND}"]


def test_bounds_on_pairs_add_up_where_there_are_several_streams() -> None:
    found = windows(
        "s a, t b, u c WHERE a.x = b.x AND b.x = c.x AND b.ts BETWEEN a.ts AND a.ts + INTERVAL 60 SECONDS "
        "AND c.ts BETWEEN b.ts AND b.ts + INTERVAL 5 SECONDS"
    )
    assert found == [f"range {65 * SECOND}", f"range {5 * SECOND}", "range 0"]


def test_the_bounds_stay_as_conditions() -> None:
    text = "SELECT a.x FROM s a, t b WHERE a.x = b.x AND b.ts BETWEEN a.ts AND a.ts + INTERVAL 1 SECOND"
    query = parse(text, name="q", schemas=SCHEMAS, times=dict.fromkeys("stu", "ts"))
    assert len(query.conditions) == 1


def test_a_window_that_is_written_bounds_the_others() -> None:
    found = windows("s a [RANGE 7 SECONDS], t b WHERE a.x = b.x AND a.ts <= b.ts + INTERVAL 2 SECONDS")
    assert found == [f"range {7 * SECOND}", f"range {2 * SECOND}"]


@pytest.mark.parametrize(
    "condition",
    [
        "b.ts > a.ts",
        "b.ts BETWEEN a.ts AND a.ts + INTERVAL 1 MONTH",
        "NOT b.ts BETWEEN a.ts AND a.ts + INTERVAL 1 DAY",
        "b.y BETWEEN a.y AND a.y",
        "(b.ts BETWEEN a.ts AND a.ts + INTERVAL 1 DAY OR a.y = b.y)",
    ],
)
def test_what_bounds_nothing_is_no_window(condition: str) -> None:
    assert "the stream 's' has no window" in error(f"s a, t b WHERE a.x = b.x AND {condition}")


def test_without_the_time_columns_windows_are_written() -> None:
    assert "has no window" in error("s a, t b WHERE a.x = b.x AND a.ts = b.ts", times={})


def test_asof_join_is_the_latest_row_of_each_key() -> None:
    assert windows("s a ASOF JOIN t b ON a.x = b.x AND a.ts >= b.ts") == ["range 0", "rows 1 by x"]
    assert windows("s a ASOF JOIN t b USING (x, y)") == ["range 0", "rows 1 by x, y"]
    two = "s a ASOF JOIN t b ON a.x = b.x ASOF JOIN u c ON b.y = c.y"
    assert windows(two) == ["range 0", "rows 1 by x", "rows 1 by y"]
    assert windows("s a [ROWS 3] ASOF JOIN t b [ROWS 2] ON a.x = b.x") == ["rows 3", "rows 2"]
    assert windows("s a ASOF JOIN t b ON a.x = b.x WITHIN 1 s") == [f"range {SECOND}", "rows 1 by x"]


def test_asof_join_needs_a_column_and_no_strict_order() -> None:
    assert "`b`.`x` + 1 is not a column of it" in error("s a ASOF JOIN t b ON a.x = b.x + 1")
    assert "write >= or <=" in error("s a ASOF JOIN t b ON a.x = b.x AND a.ts > b.ts")
    assert windows("s a ASOF JOIN t b ON a.x = b.x AND a.y > b.y")


def test_equal_windows_are_tumbling_windows() -> None:
    equal = "window(a.ts, '5 seconds') = window(b.ts, '5 seconds')"
    assert windows(f"s a, t b WHERE {equal} AND a.x = b.x") == [f"tumble {5 * SECOND}"] * 2
    assert windows(f"s a JOIN t b ON a.x = b.x AND ({equal})") == [f"tumble {5 * SECOND}"] * 2


@pytest.mark.parametrize(
    ("froms", "left", "right", "says"),
    [
        ("s a, t b", "a.ts, '5 s'", "b.ts, '6 s'", "only if they are equally long"),
        ("s a, t b", "a.ts, '5 s'", "a.ts, '5 s'", "of two streams"),
        ("s a, t b", "a.ts, '5 s', '1 s'", "b.ts, '5 s'", "only window(time, 'length') is taken"),
        ("s a, t b", "a.ts", "b.ts, '5 s'", "only window(time, 'length') is taken"),
        ("s a, t b", "a.x, '5 s'", "b.ts, '5 s'", "a.x is not the time of its stream; write window(a.ts,"),
        ("s a, t b", "a.ts, '5 parsecs'", "b.ts, '5 s'", "is not a unit of time"),
        ("s a, t b", "a.ts, '0 s'", "b.ts, '0 s'", "longer than zero"),
        ("s a [ROWS 1], t b", "a.ts, '5 s'", "b.ts, '5 s'", "the stream 'a' has two windows"),
    ],
)
def test_windows_that_are_not_equal(froms: str, left: str, right: str, says: str) -> None:
    assert says in error(f"{froms} WHERE a.x = b.x AND window({left}) = window({right})")
