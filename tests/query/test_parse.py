"""Queries that are right: what is read from them."""

# ruff: noqa: E501 - tables, one case a line

from __future__ import annotations

import sys

import pytest

from thalweg.errors import UserError
from thalweg.query import Query, Window, WindowKind, parse

SCHEMAS = {
    "flights": {
        "ts": "timestamp",
        "num": "int",
        "dest": "string",
        "terminal": "string",
        "max_temp": "double",
        "info": "struct<city: string, loc: struct<lat: double>, tags: array<struct<k: int>>>",
        "xs": "array<int>",
        "m": "map<string, int>",
        "user": "string",
        "offset": "bigint",
    },
    "weather": {"ts": "timestamp", "City": "string", "forecast": "string", "temp": "double", "key": "int"},
    "checkins": {"ts": "timestamp", "flight": "int", "status": "string", "key": "int", "odd name": "int"},
}
TAIL = " FROM flights [RANGE 5 MINUTES] f, weather [RANGE 5 MINUTES] w WHERE f.dest = w.city"


def read(text: str) -> Query:
    return parse(text, name="q", schemas=SCHEMAS, where="q.sql")


def expression(text: str) -> str:
    return read(f"SELECT {text} AS x{TAIL}").outputs[0].expr.sql


def equalities(query: Query) -> list[tuple[str, str]]:
    return [(e.left.sql, e.right.sql) for e in query.equalities]


def filters(query: Query) -> dict[str, list[str]]:
    return {i.alias: [f.sql for f in i.filters] for i in query.inputs if i.filters}


def conditions(query: Query) -> list[str]:
    return [c.sql for c in query.conditions]


def test_the_whole_of_a_query() -> None:
    query = read(
        """SELECT f.num, w.forecast, c.status AS checkin
        FROM flights [RANGE 5 MINUTES] AS f, weather w [RANGE 5 MINUTES], checkins [RANGE 1 MINUTE SLIDE 10 SECONDS] c
        WHERE f.dest = w.city AND f.num = c.flight AND f.terminal = 'B' AND w.temp < f.max_temp"""
    )
    assert [(i.alias, i.stream) for i in query.inputs] == [
        ("f", "flights"),
        ("w", "weather"),
        ("c", "checkins"),
    ]
    assert query.inputs[2].window == Window(WindowKind.RANGE, 60_000_000, 10_000_000)
    assert query.slide == 10_000_000
    assert equalities(query) == [("`f`.`dest`", "`w`.`City`"), ("`f`.`num`", "`c`.`flight`")]
    assert filters(query) == {"f": ["`f`.`terminal` = 'B'"]}
    assert conditions(query) == ["`w`.`temp` < `f`.`max_temp`"]
    assert [(o.name, o.expr.sql) for o in query.outputs] == [
        ("num", "`f`.`num`"),
        ("forecast", "`w`.`forecast`"),
        ("checkin", "`c`.`status`"),
    ]
    assert query.columns_after_join("f") == ("max_temp", "num")


SAME = [
    "FROM flights [ROWS 5] f, weather [ROWS 5] w WHERE f.dest = w.city AND w.temp > 3",
    "FROM flights f [ROWS 5], weather w [ROWS 5] WHERE (f.dest = w.city) AND ((w.temp > 3))",
    "FROM flights f [ROWS 5] JOIN weather AS w [ROWS 5] ON f.dest = w.city WHERE w.temp > 3",
    "FROM flights f [ROWS 5] INNER JOIN weather [ROWS 5] AS w ON f.dest = w.city AND w.temp > 3",
    "FROM flights AS f [ROWS 5] CROSS JOIN weather w [rows 5] WHERE (f.dest == w.city AND w.temp > 3)",
    "FROM flights f [ROWS 5] JOIN weather w [ROWS 5] WHERE dest = CITY and temp > 3;",
    "FROM Flights F [ROWS 5] JOIN `weather` `W` [ROWS /* five */ 5] ON f.Dest = w.`city` -- so\n WHERE w.temp > 3",
]


@pytest.mark.parametrize("text", SAME[1:])
def test_every_form_of_a_join_means_the_same(text: str) -> None:
    one, other = read(f"SELECT f.num {SAME[0]}"), read(f"SELECT f.num {text}")
    assert [i.stream for i in one.inputs] == [i.stream for i in other.inputs]
    assert [i.window for i in one.inputs] == [i.window for i in other.inputs]
    lower = [[s.lower() for s in (*e.left.aliases, e.left.sql, e.right.sql)] for e in other.equalities]
    assert lower == [[s.lower() for s in (*e.left.aliases, e.left.sql, e.right.sql)] for e in one.equalities]
    assert [f.sql.lower() for f in other.inputs[1].filters] == ["`w`.`temp` > 3"]


@pytest.mark.parametrize(
    ("written", "window"),
    [
        ("[RANGE 5 MINUTES]", Window(WindowKind.RANGE, 300_000_000)),
        ("[range 1 minute]", Window(WindowKind.RANGE, 60_000_000)),
        ("[RANGE 0 SECONDS]", Window(WindowKind.RANGE, 0)),
        ("[RANGE 0.5 SECONDS]", Window(WindowKind.RANGE, 500_000)),
        ("[RANGE .5 SECONDS]", Window(WindowKind.RANGE, 500_000)),
        ("[RANGE 5 ms]", Window(WindowKind.RANGE, 5_000)),
        ("[RANGE 5D]", Window(WindowKind.RANGE, 5 * 86_400_000_000)),
        ("[RANGE 10s]", Window(WindowKind.RANGE, 10_000_000)),
        ("[RANGE 2 Hours SLIDE 1 Day]", Window(WindowKind.RANGE, 7_200_000_000, 86_400_000_000)),
        ("[ROWS 100]", Window(WindowKind.ROWS, 100)),
        ("[ROWS 100 SLIDE 1 SECOND]", Window(WindowKind.ROWS, 100, 1_000_000)),
        ("[PARTITION BY num ROWS 1]", Window(WindowKind.ROWS, 1, by=("num",))),
        ("[partition by `Num`, dest rows 2 SLIDE 1 s]", Window(WindowKind.ROWS, 2, 10**6, ("num", "dest"))),
        ("[TUMBLE 1 HOUR]", Window(WindowKind.TUMBLE, 3_600_000_000)),
        ("[ UNBOUNDED ]", Window(WindowKind.UNBOUNDED)),
        ("[UNBOUNDED SLIDE 1 SECOND]", Window(WindowKind.UNBOUNDED, 0, 1_000_000)),
        ("[RANGE -- a comment\n 5 /* and ] one */ MINUTES]", Window(WindowKind.RANGE, 300_000_000)),
    ],
)
@pytest.mark.parametrize("form", ["flights {} f", "flights f {}", "flights {} AS f", "flights AS f {}"])
def test_windows(written: str, window: Window, form: str) -> None:
    query = read(f"SELECT f.num FROM {form.format(written)}, weather w [ROWS 1] WHERE f.dest = w.city")
    assert query.input("f").window == window


@pytest.mark.parametrize(
    "text",
    [
        "FROM flights f, weather w [ROWS 1] WITHIN 10 SECONDS WHERE f.dest = w.city",
        "FROM flights f JOIN weather w [ROWS 1] ON f.dest = w.city WITHIN 10s",
        "FROM weather [ROWS 1] w JOIN flights f WITHIN 10 SECONDS WHERE f.dest = w.city",
    ],
)
def test_within_is_the_window_of_streams_without_one(text: str) -> None:
    query = read(f"SELECT f.num {text}")
    assert query.input("f").window == Window(WindowKind.RANGE, 10_000_000)
    assert query.input("w").window == Window(WindowKind.ROWS, 1)


@pytest.mark.parametrize(
    ("condition", "left", "right"),
    [
        ("f.dest <=> w.city", "CAST(`f`.`dest` AS STRING)", "CAST(`w`.`City` AS STRING)"),
        ("(f.num IS NOT DISTINCT FROM w.key)", "CAST(`f`.`num` AS BIGINT)", "CAST(`w`.`key` AS BIGINT)"),
        ("f.num <=> w.temp", "CAST(`f`.`num` AS DOUBLE) + 0.0D", "CAST(`w`.`temp` AS DOUBLE) + 0.0D"),
        (
            "f.ts <=> CAST(w.city AS TIMESTAMP)",
            "unix_micros(CAST(`f`.`ts` AS TIMESTAMP))",
            "unix_micros(CAST(CAST(`w`.`City` AS TIMESTAMP) AS TIMESTAMP))",
        ),
    ],
)
def test_an_equality_in_which_nulls_match_is_one_of_texts(condition: str, left: str, right: str) -> None:
    query = read(f"SELECT f.num FROM flights f [ROWS 1], weather w [ROWS 1] WHERE {condition}")
    (equality,) = query.equalities
    sides = [f"coalesce('=' || CAST({side} AS STRING), '')" for side in (left, right)]
    assert [equality.left.sql, equality.right.sql] == sides


def test_a_stream_is_its_own_alias_and_may_appear_twice() -> None:
    query = read("SELECT flights.num FROM flights [ROWS 1], flights [ROWS 1] g WHERE flights.num = g.num")
    assert [(i.alias, i.stream) for i in query.inputs] == [("flights", "flights"), ("g", "flights")]


@pytest.mark.parametrize(
    ("condition", "equal", "filtered", "others"),
    [
        ("f.num = upper(w.forecast)", [("`f`.`num`", "upper(`w`.`forecast`)")], {}, []),
        ("(f.num + 1) = (w.temp)", [("`f`.`num` + 1", "`w`.`temp`")], {}, []),
        ("f.num | 1 = w.temp", [("`f`.`num` | 1", "`w`.`temp`")], {}, []),
        ("f.info.city = w.city", [("(`f`.`info`).`city`", "`w`.`City`")], {}, []),
        ("f.num = w.temp + f.num", [], {}, ["`f`.`num` = `w`.`temp` + `f`.`num`"]),
        ("f.num - w.temp = 0", [], {}, ["`f`.`num` - `w`.`temp` = 0"]),
        ("f.num <=> w.temp + f.num", [], {}, ["`f`.`num` <=> `w`.`temp` + `f`.`num`"]),
        ("f.num <=> w.city", [], {}, ["`f`.`num` <=> `w`.`City`"]),
        ("NOT f.num <=> w.key", [], {}, ["NOT `f`.`num` <=> `w`.`key`"]),
        ("f.num IS NOT DISTINCT FROM 1", [], {"f": ["`f`.`num` IS NOT DISTINCT FROM 1"]}, []),
        ("NOT f.num = w.temp", [], {}, ["NOT `f`.`num` = `w`.`temp`"]),
        ("! f.num = w.temp", [], {}, ["! `f`.`num` = `w`.`temp`"]),
        ("f.num = w.temp IS NULL", [], {}, ["`f`.`num` = `w`.`temp` IS NULL"]),
        ("f.num = w.temp = true", [], {}, ["`f`.`num` = `w`.`temp` = true"]),
        ("f.num = w.temp OR f.num = 1", [], {}, ["(`f`.`num` = `w`.`temp` OR `f`.`num` = 1)"]),
        ("(f.num = 1 OR f.num = 2)", [], {"f": ["(`f`.`num` = 1 OR `f`.`num` = 2)"]}, []),
        ("f.num = f.max_temp", [], {"f": ["`f`.`num` = `f`.`max_temp`"]}, []),
        ("f.num = 1", [], {"f": ["`f`.`num` = 1"]}, []),
        ("1 = 1", [], {"f": ["1 = 1"]}, []),
        (
            "w.temp BETWEEN 1 AND 2 AND w.key = 3",
            [],
            {"w": ["`w`.`temp` BETWEEN 1 AND 2", "`w`.`key` = 3"]},
            [],
        ),
        ("w.temp NOT BETWEEN f.num AND 2", [], {}, ["`w`.`temp` NOT BETWEEN `f`.`num` AND 2"]),
        ("(w.key = 1 AND (w.key = 2 AND w.key = 3))", [], {"w": [f"`w`.`key` = {n}" for n in (1, 2, 3)]}, []),
        (
            "CASE WHEN w.key = 1 AND f.num = 2 THEN true END",
            [],
            {},
            ["CASE WHEN `w`.`key` = 1 AND `f`.`num` = 2 THEN true END"],
        ),
        ("exists(f.xs, x -> x = 1 AND x > 0)", [], {"f": ["exists(`f`.`xs`, x -> x = 1 AND x > 0)"]}, []),
        ("f.num IN (w.key, 2)", [], {}, ["`f`.`num` IN (`w`.`key`, 2)"]),
        ("f.num IS DISTINCT FROM w.key", [], {}, ["`f`.`num` IS DISTINCT FROM `w`.`key`"]),
    ],
)
def test_conditions_are_told_apart(
    condition: str, equal: list[tuple[str, str]], filtered: dict[str, list[str]], others: list[str]
) -> None:
    query = read(
        f"SELECT f.num{TAIL} AND {condition}"
        if " OR " not in condition
        else f"SELECT f.num{TAIL} AND ({condition})"
    )
    assert equalities(query) == [("`f`.`dest`", "`w`.`City`"), *equal]
    assert filters(query) == filtered
    assert conditions(query) == others


def test_or_is_never_split() -> None:
    query = read(
        "SELECT f.num FROM flights f [ROWS 1] JOIN weather w [ROWS 1] ON f.dest = w.city WHERE w.key = 1 AND w.key = 2 OR f.num = 3"
    )
    assert conditions(query) == ["(`w`.`key` = 1 AND `w`.`key` = 2 OR `f`.`num` = 3)"]


def test_using_is_the_equality_of_both_and_makes_the_name_clear() -> None:
    query = read("SELECT key FROM weather w [ROWS 1] JOIN checkins c [ROWS 1] USING (key)")
    assert equalities(query) == [("`w`.`key`", "`c`.`key`")]
    assert query.outputs[0].expr.sql == "`w`.`key`"
    both = read(
        "SELECT a.key FROM weather a [ROWS 1] JOIN weather b [ROWS 1] USING (key, `city`) JOIN checkins c [ROWS 1] USING (KEY)"
    )
    assert equalities(both) == [
        ("`a`.`key`", "`b`.`key`"),
        ("`a`.`City`", "`b`.`City`"),
        ("`a`.`key`", "`c`.`key`"),
    ]


def test_stars_give_every_column_its_alias() -> None:
    query = read("SELECT w.temp, * FROM weather w [ROWS 1], checkins c [ROWS 1] WHERE w.key = c.key")
    assert [o.name for o in query.outputs] == [
        *("temp", "w_ts", "w_City", "w_forecast", "w_temp", "w_key"),
        *("c_ts", "c_flight", "c_status", "c_key", "c_odd name"),
    ]
    assert query.outputs[-1].expr.sql == "`c`.`odd name`"
    one = read("SELECT C.*, result_time FROM weather w [ROWS 1], checkins c [ROWS 1] WHERE w.key = c.key")
    assert [o.name for o in one.outputs][-2:] == ["c_odd name", "result_time"]


@pytest.mark.parametrize(
    ("item", "name", "sql"),
    [
        ("NUM", "num", "`f`.`num`"),
        ("(f.num)", "num", "(`f`.`num`)"),
        ("f.info.city", "city", "(`f`.`info`).`city`"),
        ("info.LOC.Lat", "lat", "(`f`.`info`).`loc`.`lat`"),
        ("f.info.tags.k", "k", "(`f`.`info`).`tags`.`k`"),
        ("f.info.tags[0].k", "k", "(`f`.`info`).`tags`[0].k"),
        ("(f.info).city", "city", "(`f`.`info`).city"),
        ("f.m.a", "a", "(`f`.`m`).`a`"),
        ("result_time", "result_time", "`result_time`"),
        ("user", "user", "`f`.`user`"),
        ("offset", "offset", "`f`.`offset`"),
        ("f.num n", "n", "`f`.`num`"),
        ("f.num `the ``n`", "the `n", "`f`.`num`"),
        ("f.num + w.temp AS s", "s", "`f`.`num` + `w`.`temp`"),
        ("f.num+1 s", "s", "`f`.`num`+1"),
        ("CASE WHEN f.num = 1 THEN 2 END c", "c", "CASE WHEN `f`.`num` = 1 THEN 2 END"),
        ("interval 1 day d", "d", "interval 1 day"),
        ("date_trunc('hour', result_time) AS h", "h", "date_trunc('hour', `result_time`)"),
        ("f.num AS left", "left", "`f`.`num`"),
        ("f.num AS current_date", "current_date", "`f`.`num`"),
    ],
)
def test_outputs(item: str, name: str, sql: str) -> None:
    output = read(f"SELECT {item}{TAIL}").outputs[0]
    assert (output.name, output.expr.sql) == (name, sql)


def test_the_result_time_has_no_alias() -> None:
    output = read(f"SELECT result_time, f.num{TAIL}").outputs[0]
    assert output.expr.columns == (("", "result_time"),)
    assert output.expr.aliases == frozenset()


KEPT = [  # expressions whose text must reach Spark as it is, but for the columns
    "{f.num} / 2",
    "{f.num} DIV 2 % 3",
    "1L + 1.0BD + 10S + 3Y + 2.5F + 1e3 + .5",
    "'a\\nb\\'c'",
    '"double"',
    "r'\\d+'",
    "x'1F'",
    "'[ROWS 5]'",
    "date_add({f.ts}, 5)",
    "datediff(DAY, {f.ts}, {w.ts})",
    "timestampadd(HOUR, 2, {f.ts})",
    "extract(YEAR FROM {f.ts})",
    "trim(BOTH 'x' FROM {f.dest})",
    "substring({f.dest} FROM 2 FOR 3)",
    "CAST({f.num} AS DECIMAL(10, 2))",
    "CAST(NULL AS struct<a: int, b: map<int, string>>)",
    "try_cast({f.dest} AS int)",
    "{f.num}::string",
    "{f.dest} || '-' || {w.City}",
    "{f.dest} RLIKE '^a'",
    "{f.dest} LIKE 'a!%' ESCAPE '!'",
    "{f.dest} LIKE ANY ('a', 'b')",
    "{f.xs}[0] + {f.xs}[{f.num}]",
    "{f.m}['a']",
    "interval '1' day + interval 5 minutes",
    "transform({f.xs}, x -> x + {f.num})",
    "aggregate({f.xs}, 0, (acc, v) -> acc + v)",
    "named_struct('a', {f.num})",
    "if({f.num} > 1, 'a', 'b')",
    "NOT {f.num} IN (1, 2)",
    "-{f.num} + ~{f.num}",
]


@pytest.mark.parametrize("template", KEPT)
def test_the_users_own_text_is_kept(template: str) -> None:
    plain = template.replace("{", "").replace("}", "")
    expected = template
    for column in ("f.num", "f.ts", "w.ts", "f.dest", "w.City", "f.xs", "f.m"):
        alias, name = column.split(".")
        expected = expected.replace("{" + column + "}", f"`{alias}`.`{name}`")
    assert expression(plain) == expected


def test_doubled_quotes_are_written_so_that_every_reader_agrees() -> None:
    assert expression("'it''s' || \"a\"\"b\"") == "'it\\'s' || \"a\\\"b\""


def test_comments_are_left_out() -> None:
    assert expression("f.num -- one\n + /* two */ 1") == "`f`.`num` + 1"


def test_variables_of_lambdas_are_no_columns() -> None:
    kept = expression("transform(xs, num -> num + f.max_temp)")
    assert kept == "transform(`f`.`xs`, num -> num + `f`.`max_temp`)"
    assert expression("transform(xs, NUM -> num + 1)") == "transform(`f`.`xs`, NUM -> NUM + 1)"
    query = read(f"SELECT transform(xs, X -> x + num) AS t{TAIL}")
    assert query.outputs[0].expr.columns == (("f", "num"), ("f", "xs"))


def test_odd_names_are_quoted() -> None:
    query = parse(
        "SELECT `a b`.`x``y` FROM s [ROWS 1] `a b`, s [ROWS 1] AS c WHERE `a b`.`x``y` = c.`x``y`",
        name="q",
        schemas={"s": {"x`y": "int"}},
    )
    assert equalities(query) == [("`a b`.`x``y`", "`c`.`x``y`")]
    assert query.equalities[0].left.columns == (("a b", "x`y"),)


def test_types_that_have_no_name_in_sql_are_no_obstacle() -> None:
    schemas = {"s": {"x": "udt of something", "y": "int"}}
    query = parse("SELECT a.x.z FROM s [ROWS 1] a, s [ROWS 1] b WHERE a.x = b.x", name="q", schemas=schemas)
    assert query.outputs[0].name == "z"


def test_a_column_called_interval_needs_its_alias() -> None:
    schemas = {"s": {"x": "int", "interval": "int"}, "t": {"x": "int"}}
    tail = "FROM s [ROWS 1] a, t [ROWS 1] b WHERE a.x = b.x"
    assert parse(f"SELECT a.interval + 1 AS i {tail}", name="q", schemas=schemas).outputs[0].expr.columns
    assert parse(f"SELECT interval 1 day AS i {tail}", name="q", schemas=schemas).outputs
    with pytest.raises(UserError, match=r"write alias.interval"):
        parse(f"SELECT interval + 1 AS i {tail}", name="q", schemas=schemas)


@pytest.mark.parametrize(
    "text",
    [
        lambda n: f"SELECT f.num {TAIL}" + "".join(f" AND f.num > {i}" for i in range(n)),
        lambda n: f"SELECT f.num {TAIL}" + "".join(f" AND f.num + {i} = w.key" for i in range(n)),
        lambda n: f"SELECT f.num {TAIL} AND (" + " OR ".join(f"f.num = {i}" for i in range(n)) + ")",
        lambda n: f"SELECT f.num {TAIL} AND f.num IN (" + ", ".join(map(str, range(n))) + ")",
        lambda n: (
            "SELECT a0.num FROM "
            + ", ".join(f"flights [ROWS 1] a{i}" for i in range(n))
            + " WHERE "
            + " AND ".join(f"a0.num = a{i}.num" for i in range(1, n))
        ),
    ],
    ids=["conditions", "equalities", "or", "in", "streams"],
)
def test_a_long_query_takes_work_in_proportion(text):
    """Counted in calls of functions, which no other work on the machine changes."""

    def calls(n: int) -> int:
        made = 0

        def count(*_: object) -> None:
            nonlocal made
            made += 1

        query = text(n)
        sys.setprofile(count)
        try:
            read(query)
        finally:
            sys.setprofile(None)
        return made

    calls(50)
    assert calls(1_600) < 16 * calls(200)  # 8 times as many if it is linear, 64 if it is quadratic


@pytest.mark.parametrize(
    ("where", "keys"),
    [
        ("(f.num = w.key AND f.dest = 'B') OR (w.key = f.num AND w.temp > 3)", ["`f`.`num` = `w`.`key`"]),
        ("f.dest > 'A' AND ((f.num = w.key AND f.dest = 'B') OR f.num = w.key)", ["`f`.`num` = `w`.`key`"]),
        ("(f.num = w.key AND (w.temp < 1 OR w.temp > 3)) OR (f.num = w.key)", ["`f`.`num` = `w`.`key`"]),
        (
            "(f.num = w.key AND f.dest = w.city AND w.temp = 1) OR "
            "((f.dest = w.city AND f.num = w.key AND w.temp = 2) OR (f.num = w.key AND w.city = f.dest))",
            ["`f`.`num` = `w`.`key`", "`f`.`dest` = `w`.`City`"],
        ),
    ],
)
def test_an_equality_in_every_branch_of_an_or_connects(where: str, keys: list[str]) -> None:
    asked = read(f"SELECT f.num FROM flights f [ROWS 1], weather w [ROWS 1] WHERE {where}")
    assert [f"{e.left.sql} = {e.right.sql}" for e in asked.equalities] == keys
    assert len(asked.conditions) == 1
    assert not asked.warnings


@pytest.mark.parametrize(
    ("froms", "pairs"),
    [
        ("flights f [ROWS 1], weather w [ROWS 1] WHERE f.dest = w.city OR f.num = w.key", ["fw"]),
        ("flights f [ROWS 1], weather w [ROWS 1] WHERE f.num < w.key", ["fw"]),
        ("flights f [ROWS 1] CROSS JOIN weather w [ROWS 1]", ["fw"]),
        ("flights f [ROWS 1] LEFT JOIN weather w [ROWS 1] ON f.num < w.key", ["fw"]),
        (
            "flights f [ROWS 1], weather w [ROWS 1], checkins c [ROWS 1] "
            "WHERE f.num = c.flight AND c.flight < w.key AND f.num <> w.key",
            ["wc"],
        ),
        (
            "flights f [ROWS 1] CROSS JOIN weather w [ROWS 1], checkins c [ROWS 1] WHERE f.num + w.key = c.flight",
            ["fw", "fc"],
        ),
    ],
)
def test_streams_without_an_equality_meet_in_one_bucket(froms: str, pairs: list[str]) -> None:
    asked = read(f"SELECT 1 AS one FROM {froms}")
    assert [w.split(":")[0] for w in asked.warnings] == [
        f"no equality connects {a} and {b}" for a, b in pairs
    ]
    every = [*asked.equalities, *(e for one in asked.outer for e in one.equalities)]
    constant = [e for e in every if e.left.is_constant]
    assert len(constant) == len(pairs)
    assert all(e.right.is_constant for e in constant)
