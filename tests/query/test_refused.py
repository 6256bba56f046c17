"""Queries that are wrong: what is said, and where."""

# ruff: noqa: E501 - tables, one case a line

from __future__ import annotations

import sys

import pytest

from thalweg.errors import UserError
from thalweg.query import parse

from .test_parse import SCHEMAS, TAIL

FROM = "FROM flights [ROWS 1] f, weather [ROWS 1] w WHERE f.dest = w.city"
TWO = "flights f [ROWS 1] {} weather w [ROWS 1]"


def error(text: str) -> str:
    with pytest.raises(UserError) as raised:
        parse(
            text,
            name="q",
            schemas={
                **SCHEMAS,
                "maps": {
                    "m": "map<int,int>",
                    "v": "variant",
                    "s": "struct<a: map<int,int>, b: int>",
                    "dest": "string",
                },
            },
            where="q.sql",
        )
    message = str(raised.value)
    assert "\x1b" not in message
    assert "Traceback" not in message
    assert message.startswith("q.sql, line ")
    assert raised.value.where is not None
    return message


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "the query is empty"),
        (" -- nothing\n", "the query is empty"),
        (";;", "the query is empty"),
        ("INSERT INTO x SELECT 1", "a query begins with SELECT, not 'INSERT'"),
        ("(SELECT 1)", "a query begins with SELECT"),
        ("FROM flights SELECT num", "a query begins with SELECT"),
        ("WITH x AS (SELECT 1) SELECT * FROM x", "WITH (common table expressions) is not supported"),
        ("SELECT f.num", "FROM is missing"),
        ("SELECT f.num FROM", "a stream's name was expected here"),
        (f"SELECT {FROM}", "an output column was expected"),
        (f"SELECT f.num, {FROM}", "an output column was expected"),
        (f"SELECT f.num,,w.temp {FROM}", "an output column was expected"),
        (f"SELECT f.num {FROM}; SELECT 1", "several statements; put each query in a file of its own"),
        (f"SELECT /*+ BROADCAST(f) */ f.num {FROM}", "hints are not supported"),
        ("SELECT f.num FROM flights f [ROWS 1]", "a join needs two streams or more"),
        ("SELECT f.num FROM flights f, weather w [ROWS 1] WHERE f.dest = w.city", "the stream 'flights' has no window; write for example flights AS f [RANGE 5 MINUTES]"),
        ("SELECT f.num FROM flights f [ROWS 1] [ROWS 2], weather w [ROWS 1]", "has two windows"),
        ("SELECT f.num FROM flights f [ROWS 1] g, weather w [ROWS 1]", "unexpected 'g'"),
        ("SELECT f.num FROM db.flights f [ROWS 1], weather w [ROWS 1]", "a stream's name has no dots"),
        ("SELECT f.num FROM (flights f [ROWS 1]), weather w [ROWS 1]", "parentheses in FROM"),
        ("SELECT f.num FROM (SELECT 1) f, weather w [ROWS 1]", "subqueries are not supported"),
        ("SELECT f.num FROM range(5) f, weather w [ROWS 1]", "table functions are not supported"),
        ("SELECT f.num FROM flights f (a, b) [ROWS 1], weather w [ROWS 1]", "names for columns in FROM"),
        ("SELECT f.num FROM 'flights' f [ROWS 1], weather w [ROWS 1]", "a stream's name was expected"),
        ("SELECT f.num FROM fligths f [ROWS 1], weather w [ROWS 1]", "unknown stream 'fligths'; did you mean 'flights'?"),
        ("SELECT f.num FROM flights f [ROWS 1], weather F [ROWS 1]", "two streams are called 'F'"),
        ("SELECT 1 AS x FROM flights [ROWS 1], flights [ROWS 1]", "two streams are called 'flights'; write flights AS another_name"),
        ("SELECT f.num FROM flights `` [ROWS 1], weather w [ROWS 1]", "line 1"),
        ("SELECT f.num FROM flights f [ROWS 1], weather w [ROWS 1], checkins c [ROWS 1] WHERE f.dest = w.city", "no equality connects (f, w) and (c); add one, for example f.column = c.column; to compare all pairs, on one core, write CROSS JOIN"),
        ("SELECT f.num FROM flights f [ROWS 1], weather w [ROWS 1] WHERE f.dest <=> w.key", "does not connect streams"),
        ("SELECT f.num FROM flights f [ROWS 1] ON f.num = 1", "ON without a JOIN"),
        ("SELECT f.num FROM flights f [ROWS 1] JOIN weather w [ROWS 1] USING (num)", "'w' has no column 'num'"),
        ("SELECT f.num FROM flights f [ROWS 1] JOIN weather w [ROWS 1] USING (key)", "no stream before it has a column 'key'"),
        ("SELECT f.num FROM flights f [ROWS 1] JOIN weather w [ROWS 1] USING num", "USING needs columns in parentheses"),
        ("SELECT f.num FROM flights f [ROWS 1] JOIN weather w [ROWS 1] USING ()", "a column's name was expected"),
        ("SELECT f.num FROM flights f [ROWS 1] JOIN weather w [ROWS 1] USING (ts dest)", "a comma was expected"),
        ("SELECT f.num FROM weather f [ROWS 1], checkins w [ROWS 1] JOIN weather x [ROWS 1] USING (key)", "'key' is ambiguous"),
        ("SELECT f.num FROM flights f [ROWS 1] INNER weather w [ROWS 1]", "JOIN was expected here"),
        (f"SELECT f.num {FROM} WHERE 1 = 1", "unexpected 'WHERE'"),
        ("SELECT f.num FROM flights f [ROWS 1], weather w [ROWS 1] WHERE", "a condition was expected after WHERE"),
        (f"SELECT f.num {FROM} AND", "a condition was expected"),
        (f"SELECT f.num {FROM} AND AND f.num = 1", "a condition was expected"),
        (f"SELECT f.num {FROM} AND f.num =", "not a Spark SQL expression"),
        (f"SELECT f.num {FROM} AND (f.num = 1", "'(' is never closed by ')'"),
        (f"SELECT f.num {FROM} AND f.num = 1)", "')' closes nothing"),
        (f"SELECT f.num {FROM} AND f.xs[0) = 1", "')' closes nothing"),
        (f"SELECT f.num {FROM} AND f.dest = 'B", "a quote ' is never closed"),
        (f"SELECT f.num {FROM} AND f.dest = /* B", "never closed"),
        (f"SELECT CASE WHEN f.num = 1 THEN 2 AS x {FROM}", "'CASE' is never closed by 'END'"),
    ],
)  # fmt: skip
def test_the_shape_of_a_query(text: str, says: str) -> None:
    assert says in error(text)


@pytest.mark.parametrize(
    ("window", "says"),
    [
        ("[]", "[] is not a window; write a window in brackets"),
        ("[RANGE 5]", "[RANGE 5] has no unit; write [RANGE 5 SECONDS]"),
        ("[RANGE 5 PARSECS]", "'PARSECS' is not a unit of time"),
        ("[RANGE -5 SECONDS]", "is not a window"),
        ("[RANGE 0.1 MICROSECONDS]", "not a whole number of microseconds"),
        ("[RANGE 9999999999 DAYS]", "longer than a million days"),
        ("[RANGE UNBOUNDED]", "is not a window"),
        ("[ROWS 0]", "a window of rows holds 1 to"),
        ("[ROWS 99999999999999]", "a window of rows holds 1 to"),
        ("[ROWS 1.5]", "is not a window"),
        ("[ROWS 5 MINUTES]", "is not a window"),
        ("[5 MINUTES]", "is not a window"),
        ("[TUMBLE 5]", "[TUMBLE 5] has no unit; write [TUMBLE 5 SECONDS]"),
        ("[TUMBLE 0 SECONDS]", "a tumbling window must be longer than zero"),
        ("[PARTITION BY num RANGE 5 SECONDS]", "is not a window"),
        ("[PARTITION BY ROWS 5]", "is not a window"),
        ("[PARTITION BY num, ROWS 5]", "is not a window"),
        ("[PARTITION BY num ROWS 0]", "a window of rows holds 1 to"),
        ("[RANGE 5 MINUTES SLIDE]", "is not a window"),
        ("[RANGE 5 MINUTES SLIDE 0 SECONDS]", "a slide must be longer than zero"),
        ("[RANGE 5 MINUTES, SLIDE 1 SECOND]", "is not a window"),
        ("['RANGE 5 MINUTES']", "is not a window"),
    ],
)
def test_windows_that_are_none(window: str, says: str) -> None:
    message = error(f"SELECT f.num\nFROM flights f {window}, weather w [ROWS 1] WHERE f.dest = w.city")
    assert message.startswith("q.sql, line 2, column 16: ")
    assert says in message


@pytest.mark.parametrize(
    ("item", "says"),
    [
        ("f.nmu", "'f' has no column 'nmu'; did you mean 'num'?"),
        ("forcast", "unknown column 'forcast'; did you mean 'forecast'?"),
        ("ff.num", "unknown alias 'ff'; did you mean 'f'?"),
        ("ts", "the column 'ts' is ambiguous; write f.ts or w.ts"),
        ("f", "'f' is a stream, not a column; write f.column"),
        ("f.info.cty", "f.info has no field 'cty'; did you mean 'city'?"),
        ("info.loc.x", "f.info.loc has no field 'x'; there is lat"),
        ("f.num.x", "f.num is of type int and has no field 'x'"),
        ("x.*", "unknown alias 'x'"),
        ("* EXCEPT (num)", "* EXCEPT is not supported; list the columns"),
        ("f.* EXCEPT (num)", "* EXCEPT is not supported"),
        ("f.num + 1", "the output column f.num + 1 has no name; write f.num + 1 AS name"),
        ("f.ts, w.ts", "two output columns are called 'ts'; name one of them with AS"),
        ("f.num, w.temp AS NUM", "two output columns are called 'NUM'"),
        ("f.*, f.num AS f_num", "two output columns are called 'f_num'"),
        ("f.num a b", "not a Spark SQL expression near 'b'"),
        ("f.num AS", "AS is followed by one name"),
        ("f.num AS 'x'", "AS is followed by one name"),
        ("f.num AS (a, b)", "AS is followed by one name"),
        ("f.num * AS x", "not a Spark SQL expression"),
        ("result_time + f.nothing AS x", "no column 'nothing'"),
        ("f.result_time", "'f' has no column 'result_time'"),
    ],
)
def test_outputs_that_are_wrong(item: str, says: str) -> None:
    message = error(f"SELECT\n  {item} {FROM}")
    assert says in message
    assert message.startswith("q.sql, line 2, column ")


REFUSED = [
    ("1 + count(*)", "COUNT is refused: it is an aggregate function"),
    ("- sum(f.num)", "SUM is refused: it is an aggregate function"),
    ("collect_list(f.num)", "COLLECT_LIST is refused"),
    ("`max`(f.num)", "MAX is refused"),
    ("system.builtin.max(f.num)", "MAX is refused"),
    ("percentile(f.num, 0.5)", "PERCENTILE is refused"),
    ("row_number() OVER (ORDER BY f.num)", "ROW_NUMBER is refused: it is a window function"),
    ("abs(f.num) OVER (PARTITION BY f.dest)", "OVER (a window function) is not supported"),
    ("window(f.ts, '1 minute')", "WINDOW is refused"),
    ("now()", "NOW is refused: it is the current time; use a stream's time column, or result_time"),
    ("current_timestamp()", "CURRENT_TIMESTAMP is refused"),
    ("CURRENT_TIMESTAMP", "CURRENT_TIMESTAMP is refused"),
    ("current_date", "CURRENT_DATE is refused"),
    ("CURRENT_TIME", "CURRENT_TIME is refused"),
    ("localtimestamp", "LOCALTIMESTAMP is refused"),
    ("curdate()", "CURDATE is refused"),
    ("unix_timestamp()", "UNIX_TIMESTAMP() is refused"),
    ("TIMESTAMP 'now'", "the time 'now' is refused"),
    ("CAST('today' AS DATE)", "the time 'today' is refused"),
    ("to_date('tomorrow')", "the time 'tomorrow' is refused"),
    ("current_user()", "CURRENT_USER is refused"),
    ("current_user", "CURRENT_USER is refused"),
    ("rand()", "RAND is refused: it is not deterministic"),
    ("uuid()", "UUID is refused"),
    ("shuffle(f.xs)", "SHUFFLE is refused"),
    ("monotonically_increasing_id()", "MONOTONICALLY_INCREASING_ID is refused"),
    ("input_file_name()", "INPUT_FILE_NAME is refused"),
    ("explode(f.xs)", "EXPLODE is refused: it is a generator"),
    ("stack(2, 1, 2)", "STACK is refused"),
    ("(SELECT 1)", "subqueries are not supported"),
    ("f.num IN (SELECT 1)", "subqueries are not supported"),
    ("EXISTS (SELECT 1)", "subqueries are not supported"),
    ("f.num = ?", "parameters and variables (?) are not supported"),
    ("f.num = :x", "a parameter is not supported"),
    ("f.num = ${x}", "parameters and variables ($) are not supported"),
    ("f.num = @x", "parameters and variables (@) are not supported"),
    ("{{ x }}", "templates are not supported"),
    (
        "exists(xs, F -> f = num)",
        "the variable F hides 'f' of the column 'num'; give the variable another name",
    ),
    ("exists(xs, num -> num = f.num)", "the variable num hides 'num' of the column 'f.num'"),
    ("f.m:a", "a path after ':' is not supported"),
    ("f.num f.num", "not a Spark SQL expression"),
    ("f.num = *", "* is not supported"),
]


@pytest.mark.parametrize(("expression", "says"), REFUSED)
@pytest.mark.parametrize(
    "form", ["SELECT {} AS x " + FROM, "SELECT f.num " + FROM + " AND w.temp > 1 AND ({})"]
)
def test_what_is_refused_is_refused_by_name(expression: str, says: str, form: str) -> None:
    assert says in error(form.replace("{}", expression))


@pytest.mark.parametrize(
    ("clause", "says"),
    [
        ("GROUP BY f.num", "GROUP BY needs a window of result_time"),
        ("HAVING f.num > 1", "HAVING is not supported"),
        ("ORDER BY f.num", "ORDER BY is not supported; results have no order"),
        ("SORT BY f.num", "SORT BY is not supported"),
        ("LIMIT 5", "LIMIT is not supported"),
        ("OFFSET 5", "OFFSET is not supported"),
        ("UNION SELECT 1", "UNION is not supported"),
        ("UNION ALL SELECT 1", "UNION is not supported"),
        ("INTERSECT SELECT 1", "INTERSECT is not supported"),
        ("EXCEPT SELECT 1", "EXCEPT is not supported"),
        ("MINUS SELECT 1", "MINUS is not supported"),
        ("WINDOW x AS (ORDER BY f.num)", "the WINDOW clause is not supported"),
        ("QUALIFY 1 = 1", "QUALIFY is not supported"),
    ],
)
def test_clauses_are_refused_by_name(clause: str, says: str) -> None:
    message = error(f"SELECT f.num {FROM}\n{clause}")
    assert message.startswith("q.sql, line 2, column 1: ")
    assert says in message
    assert "; " in message  # what to use instead


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("OUTER JOIN", "OUTER JOIN is no join; write LEFT, RIGHT, FULL, LEFT SEMI or LEFT ANTI before JOIN"),
        ("RIGHT SEMI JOIN", "RIGHT SEMI JOIN is no join"),
        ("LEFT INNER JOIN", "LEFT INNER JOIN is no join"),
        ("FULL ANTI JOIN", "FULL ANTI JOIN is no join"),
        ("NATURAL JOIN", "NATURAL JOIN is not supported; name the columns"),
        ("JOIN LATERAL", "LATERAL is not supported"),
        (", LATERAL", "LATERAL is not supported"),
        ("LATERAL VIEW explode(f.xs) x AS y JOIN", "LATERAL is not supported"),
        ("TABLESAMPLE (5 ROWS) JOIN", "TABLESAMPLE is not supported"),
        ("PIVOT (1) JOIN", "PIVOT is not supported"),
    ],
)
def test_joins_are_refused_by_name(words: str, says: str) -> None:
    assert says in error(f"SELECT f.num FROM {TWO.format(words)} ON f.dest = w.city")


LEFT = TWO.format("LEFT JOIN")


@pytest.mark.parametrize(
    ("tail", "says"),
    [
        (
            f"{LEFT} ON f.dest = w.city JOIN weather v [ROWS 1] ON f.dest = v.city",
            "an inner join after a LEFT JOIN is not supported; put the inner joins first",
        ),
        (
            f"{LEFT} ON f.dest = w.city, weather v [ROWS 1] WHERE f.dest = v.city",
            "an inner join after a LEFT JOIN is not supported",
        ),
        (
            f"{LEFT} ON f.dest = w.city FULL JOIN weather v [ROWS 1] ON f.dest = v.city",
            "FULL JOIN joins two streams, and no more; put the stream that is kept first, and write LEFT JOIN",
        ),
        (
            f"{TWO.format('RIGHT JOIN')} ON f.dest = w.city LEFT JOIN weather v [ROWS 1] ON f.dest = v.city",
            "RIGHT JOIN joins two streams, and no more",
        ),
        (
            f"{TWO.format('FULL JOIN')} USING (dest)",
            "USING after a FULL JOIN is not supported; write ON a.x = b.x",
        ),
        (LEFT, "the LEFT JOIN of 'weather' has no ON; write ON and its condition right after the stream"),
        (f"{LEFT} ON f.num > 3", "LEFT JOIN of 'weather': nothing compares it with a stream before it"),
        (
            "flights f [ROWS 1] JOIN checkins c [ROWS 1] ON f.num = c.flight "
            "LEFT JOIN weather w [ROWS 1] ON c.flight = w.key AND f.num > 3",
            "`f`.`num` > 3 is a condition on 'f', with which there is no equality",
        ),
        (f"{LEFT} ON w.temp > 3", "LEFT JOIN of 'weather': nothing compares it with a stream before it"),
        (f"{LEFT} ON f.dest = w.city AND true", "a condition without a column decides nothing"),
        (
            f"{LEFT} ON f.dest = w.city AND f.dest || w.city = 'x'",
            "= 'x' can't be decided while partners are looked for",
        ),
        (f"{TWO.format('LEFT SEMI JOIN')} ON f.dest = w.city WHERE w.temp > 3", "unknown alias 'w'"),
    ],
)
def test_outer_joins_that_are_refused(tail: str, says: str) -> None:
    assert says in error(f"SELECT f.num FROM {tail}")


def test_a_window_is_counted_by_columns_of_its_stream() -> None:
    message = error(
        "SELECT f.num FROM flights f [PARTITION BY nun ROWS 1], weather w [ROWS 1] WHERE f.dest = w.city"
    )
    assert "'f' has no column 'nun' to partition by" in message
    assert "num" in message


def test_within_is_a_name_like_others() -> None:
    text = "SELECT within.num FROM flights [ROWS 1] within, weather [ROWS 1] w WHERE within.dest = w.city"
    assert parse(text, name="q", schemas=SCHEMAS).aliases == ("within", "w")


@pytest.mark.parametrize(
    ("condition", "says"),
    [
        ("f.dest <=> w.key", "does not connect streams; string and int are not compared with <=>; cast both"),
        (
            "(f.num + 1 <=> w.key)",
            "does not connect streams; the type of `f`.`num` + 1 is not known here; write",
        ),
        ("f.max_temp < 3 AND w.temp > 4", "no equality connects (f) and (w)"),
    ],
)
def test_comparisons_that_connect_nothing_are_named(condition: str, says: str) -> None:
    assert says in error(f"SELECT f.num FROM flights [ROWS 1] f, weather [ROWS 1] w WHERE {condition}")


def test_an_or_of_equalities_can_be_written_as_two_queries() -> None:
    text = f"SELECT f.num {FROM} AND (f.num = w.key) IS NOT TRUE"
    assert parse(text, name="q", schemas=SCHEMAS).conditions[0].sql == "(`f`.`num` = `w`.`key`) IS NOT TRUE"


def test_distinct_without_a_window_is_refused() -> None:
    assert "SELECT DISTINCT needs a window of result_time" in error(f"SELECT DISTINCT f.num {FROM}")


@pytest.mark.parametrize("key", ["a.m = b.m", "a.v = b.v", "a.s = b.s", "a.s.a = b.dest", "(a.m) = b.dest"])
def test_keys_without_an_equality_are_refused(key: str) -> None:
    assert "can't be a key" in error(f"SELECT a.dest FROM maps [ROWS 1] a, maps [ROWS 1] b WHERE {key}")
    assert "can't be a key" in error("SELECT a.dest FROM maps [ROWS 1] a JOIN maps [ROWS 1] b USING (m)")


def test_parts_of_maps_may_be_keys() -> None:
    schemas = {"maps": {"m": "map<int,int>", "s": "struct<a: map<int,int>, b: int>"}}
    text = "SELECT a.s.b FROM maps [ROWS 1] a, maps [ROWS 1] b WHERE a.m[1] = b.m[1] AND a.s.b = b.s.b"
    assert len(parse(text, name="q", schemas=schemas).equalities) == 2


def test_the_result_time_is_for_outputs_only() -> None:
    assert "use it in SELECT only" in error(f"SELECT f.num {FROM} AND result_time > f.ts")


def test_a_place_is_file_line_and_column() -> None:
    assert error(f"SELECT f.num,\n\n   f.nope{TAIL}").startswith("q.sql, line 3, column 4: 'f' has no column")
    with pytest.raises(UserError, match=r"^query gate, line 1, column 1: "):
        parse("x", name="gate", schemas=SCHEMAS)


@pytest.mark.parametrize(
    "deep",
    [
        "(" * 5000 + "1" + ")" * 5000,
        "(" * 40 + "1" + ")" * 40,
        "abs(" * 60 + "1" + ")" * 60,
        "CASE WHEN " * 60 + "true" + " THEN true END" * 60,
        "NOT " * 5000 + "true",
        "- " * 5000 + "1 = 1",
        "f.xs[" * 60 + "0" + "]" * 60,
        "cast(null as " + "array<" * 900 + "int" + ">" * 900 + ") is null",
    ],
)
def test_what_is_nested_too_deeply_is_said_so(deep: str) -> None:
    assert "nested too deeply" in error(f"SELECT f.num {FROM} AND {deep}")


def test_many_conditions_are_no_problem() -> None:
    text = f"SELECT f.num {FROM}" + " AND f.num > 1" * 500
    assert len(parse(text, name="q", schemas=SCHEMAS).inputs[0].filters) == 500


def test_a_query_has_a_name_that_can_be_a_file() -> None:
    with pytest.raises(UserError, match="'gate-1' can't be the name of a query"):
        parse(f"SELECT f.num {FROM}", name="gate-1", schemas=SCHEMAS, where="gate-1.sql")


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (f"SELECT f.num {FROM} AND f.num IN ({', '.join(map(str, range(100_000)))})", "characters, and at most 100,000 are read"),
        (f"SELECT f.num {FROM}" + " AND f.num > 1" * 5_000, "at most 2,000 conditions"),
        (f"SELECT f.num {FROM}" + " AND f.num = w.key" * 5_000, "at most 2,000 conditions"),
        ("SELECT * FROM wide [ROWS 1] a, wide [ROWS 1] b WHERE a.c1 = b.c1", "at most 10,000 output columns"),
        ("SELECT a.c1 FROM wide [ROWS 1] a, wide [ROWS 1] b WHERE a.c1 = b.c111111", "has no column 'c111111'"),
    ],
    ids=["in", "conditions", "equalities", "columns", "unknown column"],
)  # fmt: skip
def test_what_is_too_large_is_refused_at_once(text, what):
    schemas = {**SCHEMAS, "wide": {f"c{i}": "int" for i in range(100_000)}}
    made = 0

    def count(*_: object) -> None:
        nonlocal made
        made += 1

    sys.setprofile(count)
    try:
        with pytest.raises(UserError, match=what):
            parse(text, name="q", schemas=schemas, where="q.sql")
    finally:
        sys.setprofile(None)
    assert made < 20_000_000  # calls of functions and returns from them: some seconds
