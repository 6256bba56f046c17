"""`result_id`: Spark and DuckDB make the same of the same members; other members give another."""

from __future__ import annotations

import datetime
import decimal
import math

import pytest

from thalweg.catalog.types import parse_type
from thalweg.oracle import duck
from thalweg.oracle.translate import translate
from thalweg.query.model import Expr
from thalweg.query.result_id import result_id

from .feed import SECOND, Feed, catalog_yaml, check_sql, expected, results_of, rows, written
from .test_sinks import RUN, sent

TYPES = {
    "ts": "timestamp",
    "k": "int",
    "text": "string",
    "x": "double",
    "f": "float",
    "raw": "binary",
    "local": "timestamp_ntz",
    "price": "decimal(20,8)",
    "day": "date",
    "ok": "boolean",
    "n": "bigint",
}
ANYTHING = {
    "text": ["", "-", "a,b", "3:abc", "ü\u00a0'x'", None],
    "x": [0.1, 1.0, -0.0, 0.0, 1e-310, 1e300, 123456789.125, math.nan, math.inf, -math.inf, None],
    "f": [0.5, 3.25, -1e-30, None],
    "raw": [b"", b"\x00\xff", None],
    "local": [datetime.datetime(2024, 1, 2, 3, 4, 5), datetime.datetime(1969, 12, 31, 1, 1, 1, 120), None],
    "price": [decimal.Decimal("0.00000001"), decimal.Decimal("-1234.5"), decimal.Decimal(0), None],
    "day": [datetime.date(2024, 2, 29), datetime.date(1900, 1, 1), None],
    "ok": [True, False, None],
    "n": [-(2**63), 7, None],
}


def many(count, keys):
    """Tuples with every kind of value, all different."""
    return [
        {"ts": n * SECOND, "k": n % keys}
        | {c: values[(n + n // len(values)) % len(values)] for c, values in ANYTHING.items()}
        for n in range(count)
    ]


@pytest.mark.parametrize("column", TYPES)
def test_the_text_of_a_value_is_what_duckdb_computes(spark, tmp_path, column):
    """For each value another one, but for NaNs."""
    feed = Feed(TYPES, [many(22, 3)])
    feed.write(tmp_path)
    own = result_id([(Expr.column("a", column), parse_type(TYPES[column]))])
    text = own.sql.removeprefix("md5(").removesuffix(")")
    rows = feed.static(spark, tmp_path).alias("a").selectExpr(f"{text} AS text")
    found = [row["text"] for row in rows.collect()]
    with duck.connect() as con:
        kept = con.from_arrow(feed.table(feed.rows))
        sql = translate(Expr(text), {"a": TYPES}, {"a": "a"})
        computed = kept.query("a", f"SELECT {sql} FROM a").fetchall()
    assert sorted(found) == sorted(one for (one,) in computed)
    values = {str(value) for value in feed.table(feed.rows).column(column).to_pylist()}
    assert len(set(found)) == len(values)


def test_equal_tuples_give_equal_ids_and_a_missing_partner_counts(spark, tmp_path):
    columns = {"ts": "timestamp", "k": "int"}
    feeds = {
        "a": Feed(columns, [rows("ts k", (1, 1), (1, 1), (2, 2))], lateness=1_000_000),
        "b": Feed(columns, [rows("ts k", (1, 1), (9, 3))], lateness=1_000_000),
    }
    sql = "SELECT a.k, result_id FROM a LEFT JOIN b ON a.k = b.k WITHIN 2 SECONDS"
    found = check_sql(spark, tmp_path, feeds, sql)
    assert sorted((k, times) for (k, _), times in found.items()) == [(1, 2), (2, 1)]


def test_a_run_with_values_that_duckdb_writes_otherwise(spark, thalweg, tmp_path):
    """Kafka's records have the id in a header; `verify` compares the other columns."""
    columns = {"ts": "timestamp", "k": "int", "list": "array<int>"}
    table = [{"ts": n * SECOND, "k": n % 2, "list": [n, None] if n else None} for n in range(6)]
    feeds = {"a": Feed(columns, [table]), "b": Feed(columns, [table])}
    written(feeds, tmp_path / "data")
    (tmp_path / "catalog.yaml").write_text(catalog_yaml(feeds))
    sql = "SELECT a.ts AS x, b.ts AS y, result_id AS id FROM a, b WITHIN 3 SECONDS WHERE a.k = b.k"
    (tmp_path / "q.sql").write_text(sql)
    code, _, err = thalweg(*RUN, cwd=tmp_path)
    assert code == 0, err
    found = results_of(tmp_path / "out")
    assert len({own for *_, own in found}) == len(found) == sum(found.values())
    assert {(x, y) for x, y, _ in found} == set(expected(sql.replace(", result_id AS id", ""), feeds))
    code, out, err = thalweg("verify", *RUN[1:-1], cwd=tmp_path)
    assert code == 0, err
    assert out.startswith("left out, as DuckDB can't compute it: id\nsame: ")


def test_the_header_of_a_record_has_the_id(spark):
    sql = "SELECT a.id AS n, result_id AS id FROM a, b WITHIN 1 HOUR WHERE a.k = b.k"
    results = spark.sql("SELECT 1 AS n, 'abc' AS id")
    (record,) = sent(spark, results, sql=sql)
    assert [(h.key, bytes(h.value)) for h in record.headers] == [("result_id", b"abc")]
