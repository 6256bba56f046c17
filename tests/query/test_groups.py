"""GROUP BY and SELECT DISTINCT by windows of a result's time."""

from __future__ import annotations

import pytest

from thalweg.errors import UserError
from thalweg.query import parse
from thalweg.query.model import Groups, Query

SCHEMAS = {
    "s": {"ts": "timestamp", "x": "int", "y": "double"},
    "t": {"ts": "timestamp", "x": "int", "z": "string"},
}
FROM = "FROM s [RANGE 5 SECONDS] a JOIN t [RANGE 5 SECONDS SLIDE 1 SECOND] b ON a.x = b.x"
MINUTE = "TUMBLE(result_time, INTERVAL '1' MINUTE)"
A_MINUTE = Groups(60_000_000)


def read(select: str, after: str = "") -> Query:
    return parse(f"SELECT {select} {FROM} {after}", name="q", schemas=SCHEMAS, where="q.sql")


def error(select: str, after: str = "") -> str:
    with pytest.raises(UserError) as raised:
        read(select, after)
    assert str(raised.value).startswith("q.sql, line 1, column ")
    return str(raised.value)


def test_groups_by_a_window_and_columns() -> None:
    query = read(
        f"{MINUTE} AS w, TUMBLE_END(result_time, INTERVAL 60 SECONDS) AS e, b.z, count(*) AS n, "
        "sum(a.y + 1) AS s, AVG(y) m, result_time, max(result_time) AS last",
        f"WHERE a.y > 0 GROUP BY {MINUTE}, b.z, upper(b.z)",
    )
    assert query.groups is not None
    assert (query.groups.size, query.slide) == (60_000_000, 60_000_000)
    assert [key.sql for key in query.groups.keys] == ["`b`.`z`", "upper(`b`.`z`)"]
    start, end = query.groups.start, query.groups.end
    found = [(o.name, o.aggregate, o.expr.sql) for o in query.outputs]
    assert found == [
        ("w", "", start.sql),
        ("e", "", end.sql),
        ("z", "", "`b`.`z`"),
        ("n", "count", "1"),
        ("s", "sum", "`a`.`y` + 1"),
        ("m", "avg", "`a`.`y`"),
        ("result_time", "", end.sql),
        ("last", "max", "`result_time`"),
    ]
    assert [query.columns_after_join(a) for a in "ab"] == [("y",), ("z",)]


@pytest.mark.parametrize(
    ("select", "after"),
    [
        ("TUMBLE_START(result_time, INTERVAL '1' MINUTE) AS w, count(*) AS n", f"GROUP BY {MINUTE}, b.z"),
        ("tumble(RESULT_TIME, interval 1 minute) AS w, count(*) AS n", "GROUP BY w, z"),
        ("window.start, count(*) AS n", "GROUP BY window(result_time, '1 minute'), z"),
        ("window.`start`, count(*) AS n", "GROUP BY b.z, window(result_time, '60 s')"),
    ],
)
def test_ways_to_write_it(select: str, after: str) -> None:
    query = read(select, after)
    assert query.groups is not None
    assert (query.groups.size, [key.sql for key in query.groups.keys]) == (60_000_000, ["`b`.`z`"])
    assert query.outputs[0].expr == A_MINUTE.start


def test_distinct_groups_by_all_columns() -> None:
    query = read(f"DISTINCT {MINUTE} AS w, b.z, result_time, a.x + 1 AS x")
    assert query.groups is not None
    assert [key.sql for key in query.groups.keys] == ["`b`.`z`", "`a`.`x` + 1"]
    assert query.outputs[2].expr == A_MINUTE.end


def test_a_name_in_group_by_is_a_column_first() -> None:
    query = read("'x' AS one, UPPER( B.z ) AS u, count(z) AS n", f"GROUP BY {MINUTE}, upper(z)")
    assert query.groups is not None
    query = read("upper(b.z) AS k, count(z) AS n", f"GROUP BY {MINUTE}, k")
    assert query.groups is not None
    assert [key.sql for key in query.groups.keys] == ["upper(`b`.`z`)"]
    assert "'z' is neither in GROUP BY nor" in error(
        "upper(b.z) AS z, count(*) AS n", f"GROUP BY {MINUTE}, z"
    )


@pytest.mark.parametrize(
    ("select", "after", "says"),
    [
        ("a.x, count(*) AS n", "", "COUNT without GROUP BY; add GROUP BY TUMBLE(result_time"),
        (f"{MINUTE} AS w, a.x", "", "TUMBLE without GROUP BY"),
        ("a.x, count(*) AS n", "GROUP BY a.x", "GROUP BY needs a window of result_time"),
        ("DISTINCT a.x", "", "SELECT DISTINCT needs a window of result_time"),
        (f"DISTINCT {MINUTE} AS w", f"GROUP BY {MINUTE}", "SELECT DISTINCT with GROUP BY is not supported"),
        (f"DISTINCT {MINUTE} AS w, count(*) AS n", "", "COUNT in SELECT DISTINCT"),
        ("b.z, count(*) AS n", f"GROUP BY {MINUTE}", "'z' is neither in GROUP BY nor an aggregate"),
        ("*", f"GROUP BY {MINUTE}", "'a_ts' is neither in GROUP BY nor an aggregate"),
        ("count(*)", f"GROUP BY {MINUTE}", "the output column count(*) has no name"),
        ("count(DISTINCT z) AS n", f"GROUP BY {MINUTE}", "COUNT(DISTINCT ...) is not supported"),
        ("sum(*) AS n", f"GROUP BY {MINUTE}", "* is not supported"),
        ("sum() AS n", f"GROUP BY {MINUTE}", "SUM of nothing"),
        ("sum(sum(y)) AS n", f"GROUP BY {MINUTE}", "SUM is refused: it is an aggregate function"),
        ("sum(y) / 2 AS n", f"GROUP BY {MINUTE}", "SUM is refused: it is an aggregate function"),
        ("stddev(y) AS n", f"GROUP BY {MINUTE}", "STDDEV is refused: it is an aggregate function"),
        ("count(*) AS n", f"GROUP BY {MINUTE}, n", "'n' is an aggregate; leave it out of GROUP BY"),
        ("count(*) AS n", f"GROUP BY {MINUTE}, count(*)", "COUNT in GROUP BY"),
        ("count(*) AS n", f"GROUP BY {MINUTE}, 1", "'1' in GROUP BY is no column"),
        ("count(*) AS n", f"GROUP BY {MINUTE}, result_time", "GROUP BY result_time has no windows"),
        ("count(*) AS n", f"GROUP BY {MINUTE},", "a condition was expected after the comma"),
        ("count(*) AS n", f"GROUP BY {MINUTE} HAVING n > 1", "HAVING is not supported"),
        ("count(*) AS n", f"GROUP BY {MINUTE} ORDER BY n", "ORDER BY is not supported"),
        ("count(*) AS n", "GROUP BY TUMBLE(result_time)", "TUMBLE takes result_time and a length"),
        ("count(*) AS n", "GROUP BY TUMBLE(a.ts, INTERVAL 1 DAY)", "grouped by their time, result_time"),
        ("count(*) AS n", "GROUP BY TUMBLE(result_time, INTERVAL 1 MONTH)", "a window has one length"),
        ("count(*) AS n", "GROUP BY TUMBLE(result_time, INTERVAL 0 SECONDS)", "more than zero"),
        ("count(*) AS n", "GROUP BY TUMBLE(result_time, '1 month')", "'month' is not a unit of time"),
        (
            "count(*) AS n",
            f"GROUP BY {MINUTE}, TUMBLE(result_time, INTERVAL 1 DAY)",
            "of two lengths",
        ),
        (
            "TUMBLE_END(result_time, '1 s') AS e, count(*) AS n",
            f"GROUP BY {MINUTE}",
            "of two lengths",
        ),
        ("count(*) AS n", "GROUP BY HOP(result_time, INTERVAL 1 DAY)", "GROUP BY needs a window"),
    ],
)
def test_what_is_refused(select: str, after: str, says: str) -> None:
    assert says in error(select, after)
