"""Expressions have the values that Spark gives them; the values below are Spark 4.3's own."""

import datetime
import math
from decimal import Decimal

import pytest

from thalweg.errors import UserError
from thalweg.oracle import duck
from thalweg.oracle.translate import translate
from thalweg.oracle.types import duck_type
from thalweg.query.model import Expr

MOMENT = datetime.datetime(2024, 2, 29, 12, 34, 56, 789000)
DAY = datetime.date(2024, 2, 29)
# column: (Spark type, value in DuckDB)
COLUMNS = {
    "x": ("double", "1.75"),
    "i": ("int", "7"),
    "b": ("byte", "5"),
    "f": ("float", "1.1"),
    "d": ("decimal(3,2)", "2.50"),
    "s": ("string", "'12'"),
    "w": ("string", "'hello'"),
    "ts": ("timestamp", "'2024-02-29 12:34:56.789+00'"),
    "ntz": ("timestamp_ntz", "'2024-02-29 12:34:56.789'"),
    "dt": ("date", "'2024-02-29'"),
    "n": ("int", "NULL"),
    "arr": ("array<int>", "[3, 2, 2]"),
    "m": ("map<string,int>", "map{'k': 5}"),
    "st": ("struct<f:int>", "{'f': 9}"),
    "bin": ("binary", "'ab'"),
}
SPARK = {
    # numbers
    "{b} * 1000": 5000,
    "{i} / 2": 3.5,
    "{i} div 2": 3,
    "-7 div 2": -3,
    "-7 % 3": -1,
    "pmod(-7, 3)": 2,
    "{f} * 1.5": 1.6500000357627869,
    "{f} + {i}": 8.100000023841858,
    "{f} / {f}": 1.0,
    "{f} = 1.1": False,
    "{d} * {d}": Decimal("6.2500"),
    "cast({x} as int)": 1,
    "cast({d} as int)": 2,
    "cast(-1.75D as int)": -1,
    "round({x}, 1)": 1.8,
    "round(1.005D, 2)": 1.01,
    "round(2.5)": Decimal("3"),
    "round({i}, -1)": 10,
    "ln(-1)": None,
    "isnan(sqrt(-1))": True,
    "isnan({n})": False,
    "not isnan({n})": True,
    "greatest({i}, {n}, 3)": 7,
    "least({i}, {n}, 3)": 3,
    "shiftleft({i}, 1)": 14,
    "~{i}": -8,
    # a string beside something else
    "{s} = 12": True,
    "{s} = 12.0": True,
    "{s} in (12, 13)": True,
    "{i} in ('7', '8')": True,
    "{s} between 11 and 13": True,
    "{i} = '7'": True,
    "{dt} = '2024-02-29'": True,
    "{ts} = '2024-02-29 12:34:56.789'": True,
    # time
    "{ts} > {dt}": True,
    "{ntz} = {ts}": True,
    "cast({ts} as long)": 1709210096,
    "cast({i} as timestamp)": datetime.datetime(1970, 1, 1, 0, 0, 7),
    "cast({ts} as string)": "2024-02-29 12:34:56.789",
    "unix_timestamp({ts})": 1709210096,
    "unix_seconds({ts})": 1709210096,
    "unix_micros({ts})": 1709210096789000,
    "timestamp_millis(1500)": datetime.datetime(1970, 1, 1, 0, 0, 1, 500000),
    "dayofweek({ts})": 5,
    "weekday({dt})": 3,
    "date_add({dt}, 1)": datetime.date(2024, 3, 1),
    "datediff({dt}, date '2024-01-01')": 59,
    "date_trunc('HOUR', {ts})": datetime.datetime(2024, 2, 29, 12),
    "trunc({dt}, 'MM')": datetime.date(2024, 2, 1),
    "{ts} + interval 5 seconds": MOMENT + datetime.timedelta(seconds=5),
    "{ts} - timestamp '2024-02-29 12:00:00' > interval 30 minutes": True,
    "date_format({ts}, 'yyyy-MM-dd HH:mm:ss')": "2024-02-29 12:34:56",
    "hour({ts})": 12,
    "extract(hour from {ts})": 12,
    "add_months({dt}, 1)": datetime.date(2024, 3, 29),
    # text
    "substring({w}, 0, 2)": "he",
    "substring({w}, -2)": "lo",
    "{w} like 'h\\\\_%'": False,
    "{w} like 'he%'": True,
    "{w} rlike '^h.l'": True,
    "concat({w}, {i})": "hello7",
    "concat({w}, {n})": None,
    "concat_ws('-', {w}, {n}, 'y')": "hello-y",
    "regexp_extract('a12b', '([0-9]+)')": "12",
    "lpad({w}, 7)": "  hello",
    "split('a,b,c', ',')[1]": "b",
    "cast({x} as string)": "1.75",
    "cast({bin} as string)": "ab",
    "md5({w})": "5d41402abc4b2a76b9719d911017c592",
    # structure
    "{arr}[0]": 3,
    "size({arr})": 3,
    "{m}['k']": 5,
    "({st}).`f`": 9,
    "if({i} > 1, 2, 3)": 2,
    "{n} <=> null": True,
    "transform({arr}, v -> v + 1)": [4, 3, 3],
    "'it\\'s'": "it's",
}


@pytest.fixture(scope="module")
def con():
    with duck.connect() as con:
        values = ", ".join(f"CAST({v} AS {duck_type(t)}) AS {c}" for c, (t, v) in COLUMNS.items())
        con.execute(f"CREATE TABLE t AS SELECT {values}")
        yield con


def in_duckdb(sql):
    expr = Expr(sql.format(**{column: f"`a`.`{column}`" for column in COLUMNS}))
    return translate(expr, {"a": {c: t for c, (t, _) in COLUMNS.items()}}, {"a": "one"})


@pytest.mark.parametrize("sql", SPARK)
def test_as_spark(con, sql):
    (found,) = con.execute(f"SELECT {in_duckdb(sql)} FROM t AS one").fetchone()
    if isinstance(found, datetime.datetime):
        found = found.replace(tzinfo=None)
    expected = SPARK[sql]
    assert found == expected
    assert isinstance(found, bool) == isinstance(expected, bool)


@pytest.mark.parametrize(
    "sql",
    ["hash({i})", "xxhash64({i})", "rand()", "uuid()", "array_distinct({arr})", "cast({arr} as string)"],
)
def test_what_only_spark_can_evaluate_is_refused_by_name(sql):
    with pytest.raises(UserError, match=r"DuckDB can't evaluate .*\("):
        in_duckdb(sql)


@pytest.mark.parametrize(
    ("value", "text"), [("0", "0.0"), ("'NaN'", "NaN"), ("'-inf'", "-Infinity"), ("12.5", "12.5")]
)
def test_a_double_is_written_as_java_writes_it(con, value, text):
    written = in_duckdb("cast({x} as string)")
    assert con.execute(f"SELECT {written} FROM (SELECT {value}::DOUBLE AS x) one").fetchone() == (text,)


def test_a_double_that_java_writes_with_an_exponent_is_not_guessed(con):
    import duckdb

    with pytest.raises(duckdb.Error, match="written out"):
        con.execute(
            f"SELECT {in_duckdb('cast({x} as string)')} FROM (SELECT 1e20::DOUBLE AS x) one"
        ).fetchone()


@pytest.mark.parametrize(
    ("spark", "duck_name"),
    [
        ("decimal", "DECIMAL(10, 0)"),
        ("dec(5)", "DECIMAL(5, 0)"),
        ("decimal(38, 18)", "DECIMAL(38, 18)"),
        ("char(3)", "TEXT"),
        ("long", "BIGINT"),
        ("byte", "TINYINT"),
        ("timestamp_ltz", "TIMESTAMPTZ"),
        ("interval day to second", "INTERVAL"),
        ("struct<a: int not null comment 'x', order: array<string>>", 'STRUCT("a" INT, "order" TEXT[])'),
        ("map<string, map<int, date>>", "MAP(TEXT, MAP(INT, DATE))"),
    ],
)
def test_types(spark, duck_name):
    assert duck_type(spark) == duck_name


def test_types_that_duckdb_lacks_are_refused():
    for spark in ("string collate UTF8_LCASE", "variant", "no such type"):
        with pytest.raises(UserError):
            duck_type(spark)


@pytest.mark.parametrize(
    ("kinds", "values", "equal"),
    [
        (("decimal(38,0)", "decimal(38,2)"), ("2", "1.50"), True),
        (("decimal(38,0)", "decimal(38,2)"), ("2", "2.50"), False),
        (("decimal(38,0)", "decimal(38,2)"), ("9" * 38, "9" * 36 + ".00"), False),
        (("decimal(38,2)", "decimal(38,0)"), ("-4.50", "-5"), True),
        (("bigint", "decimal(38,30)"), (str(2**63 - 1), "1"), False),
        (("decimal(38,10)", "decimal(38,2)"), ("1.0000000001", "1.00"), True),
        (("decimal(30,2)", "decimal(30,10)"), ("1.00", "1.0000000001"), False),
    ],
)
def test_decimals_that_no_decimal_holds_are_rounded_as_in_spark(con, kinds, values, equal):
    types = {"a": {"x": kinds[0]}, "b": {"y": kinds[1]}}
    sql = translate(Expr("`a`.`x` = `b`.`y`"), types, {"a": "a", "b": "b"})
    x, y = (f"'{v}'::{duck_type(k)}" for k, v in zip(kinds, values, strict=True))
    assert con.execute(f"SELECT {sql} FROM (SELECT {x} AS x) a, (SELECT {y} AS y) b").fetchone() == (equal,)


def test_nan_in_examples_is_fit_for_json():
    assert math.isnan(float(duck._plain(math.nan)))
