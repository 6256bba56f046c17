"""Where results go beside the run's own files."""

from __future__ import annotations

import json

import pytest
from pyspark.sql import functions as fn

from thalweg.catalog.model import Destination
from thalweg.errors import UserError
from thalweg.query import parse
from thalweg.spark.sinks.kafka import KafkaSink
from thalweg.spark.sinks.parquet import ParquetSink
from thalweg.spark.sinks.sink import Setting

from .feed import Feed, catalog_yaml, expected, multiset, results_of, rows, written
from .test_run import one_message

PLAIN = "SELECT a.id AS x, b.id AS y, a.at, result_time FROM a, b WITHIN 5 SECONDS WHERE a.k = b.k\n"
MADE = """SELECT upper(a.k) AS k, a.at - b.ts AS age, b.id
FROM a, b WITHIN 1 HOUR WHERE a.k = b.k AND a.id < b.id
"""
RUN = ("run", "q.sql", "--catalog", "catalog.yaml", "--out", "out", "--once")


def make_feeds():
    names = "ts k id at"
    columns = {"ts": "timestamp", "k": "string", "id": "bigint", "at": "timestamp"}
    at = 1_700_000_000_123_457
    batches = [
        [row for n in range(4) for row in rows(names, (4 * b + n, "xy"[n % 2], 10 * b + n, at + n))]
        for b in range(3)
    ]
    return {"a": Feed(columns, batches), "b": Feed(columns, [batch[::-1] for batch in batches])}


@pytest.fixture
def place(tmp_path):
    """Makes a place with the streams, a query and its sinks; returns what the query must give."""
    feeds = make_feeds()
    written(feeds, tmp_path / "data")

    def make(sinks, sql=PLAIN):
        (tmp_path / "catalog.yaml").write_text(catalog_yaml(feeds) + f"sinks: {{q: [{', '.join(sinks)}]}}\n")
        (tmp_path / "q.sql").write_text(sql)
        return expected(sql, feeds)

    return make


def orc(spark, tmp_path, name="copy"):
    return multiset(spark.read.orc(str(tmp_path / name)).toArrow())


COPY = "{format: orc, options: {path: copy}}"
CONSOLE = "{format: console, options: {rows: 2}}"


def test_each_sink_has_the_results(spark, thalweg, place, tmp_path):
    wanted = place(("{format: parquet}", COPY, CONSOLE))
    code, _, err = thalweg(*RUN, cwd=tmp_path)
    assert code == 0, err
    assert results_of(tmp_path / "out") == orc(spark, tmp_path) == wanted
    metrics = json.loads((tmp_path / "out" / "metrics.json").read_text())
    assert metrics["output_rows"] == {"q": sum(wanted.values())}
    lines = err.splitlines()
    assert any(line.endswith("sinks.q[0]: parquet, exactly once") for line in lines)
    first = next(n for n, line in enumerate(lines) if line.startswith("q, batch 0: "))
    shown = [json.loads(line) for line in lines[first + 1 : first + 3]]
    assert all(list(row) == ["x", "y", "at", "result_time"] for row in shown)
    assert {row["at"][:23] for row in shown} == {"2023-11-14T22:13:20.123"}
    assert lines[first + 3].startswith("and ")


def test_types_that_only_spark_can_store(spark, thalweg, place, tmp_path):
    wanted = place(("{format: parquet}", COPY), MADE)
    code, _, err = thalweg(*RUN, cwd=tmp_path)
    assert code == 0, err
    assert 0 < sum(wanted.values()) == spark.read.orc(str(tmp_path / "copy")).count()
    files, copy = (
        spark.read.format(format).load(str(tmp_path / path))
        for format, path in (("parquet", "out/results/q"), ("orc", "copy"))
    )
    assert files.exceptAll(copy).isEmpty()
    assert copy.exceptAll(files).isEmpty()


def test_without_parquet_there_is_nothing_to_verify(spark, thalweg, place, tmp_path):
    wanted = place((COPY,))
    code, _, err = thalweg(*RUN, cwd=tmp_path)
    assert code == 0, err
    assert orc(spark, tmp_path) == wanted
    assert not (tmp_path / "out" / "results").exists()
    code, out, err = thalweg("verify", *RUN[1:-1], cwd=tmp_path)
    assert (code, out) == (2, "")
    assert "sinks.q[0]: the results of query 'q' go to orc alone" in one_message(err)
    assert "{format: parquet}" in err


def test_what_a_crash_between_two_sinks_leaves(spark, thalweg, place, tmp_path, monkeypatch):
    """The run's own files have each result once; the other sink has those of the broken batch twice.

    A sink that is new when the run goes on has what follows.
    """
    wanted = place(("{format: parquet}", COPY))
    write = ParquetSink.write

    def fail(sink, results):
        if results.batch == 1:
            raise RuntimeError("the power is gone")
        write(sink, results)

    with monkeypatch.context() as patch:
        patch.setattr(ParquetSink, "write", fail)
        code, _, err = thalweg(*RUN, cwd=tmp_path)
    assert code == 1, err
    before = results_of(tmp_path / "out")
    broken = orc(spark, tmp_path) - before
    assert broken
    place(("{format: parquet}", COPY, COPY.replace("copy", "later")))
    code, _, err = thalweg(*RUN, cwd=tmp_path)
    assert code == 0, err
    assert results_of(tmp_path / "out") == wanted
    assert orc(spark, tmp_path) == wanted + broken
    assert orc(spark, tmp_path, "later") == wanted - before


@pytest.mark.parametrize(
    ("sink", "says"),
    [
        ("{format: nosuch}", "sinks.q[0]: Spark has no sink of the format 'nosuch'"),
        ("{format: orc}", "sinks.q[0]: "),
        ("{format: text, options: {path: copy}}", "sinks.q[0]: [UNSUPPORTED_DATA_TYPE_FOR_DATASOURCE]"),
        ("{format: console, options: {rows: few}}", "sinks.q[0]: rows is 'few'; it must be a whole number"),
    ],
)
def test_a_sink_that_can_not_be_is_refused_before_anything_is_read(thalweg, place, tmp_path, sink, says):
    place((sink,))
    code, out, err = thalweg(*RUN, cwd=tmp_path)
    assert (code, out) == (2, ""), err
    assert says in one_message(err)
    metrics = tmp_path / "out" / "metrics.json"
    assert not metrics.exists()


def test_sinks_of_an_unknown_query_are_refused(thalweg, place, tmp_path):
    place(("{format: parquet}",))
    text = (tmp_path / "catalog.yaml").read_text()
    (tmp_path / "catalog.yaml").write_text(text.replace("sinks: {q:", "sinks: {qq:"))
    code, out, err = thalweg(*RUN, cwd=tmp_path)
    assert (code, out) == (2, "")
    assert "sinks.qq[0]: sinks of an unknown query 'qq'; did you mean 'q'?" in one_message(err)
    (tmp_path / "qq.sql").write_text(PLAIN)
    code, _, err = thalweg(*RUN[:-1], "--set", "no=such", cwd=tmp_path)
    assert "qq" not in err


def sent(spark, rows, sql=PLAIN, **more):
    """The records that a Kafka sink sends for some results."""
    columns = {"ts": "timestamp", "k": "string", "id": "bigint", "at": "timestamp"}
    query = parse(sql, name="q", schemas={"a": columns, "b": columns}, times={"a": "ts", "b": "ts"})
    setting = Setting(spark, "run", query, begun=False, say=print)
    to = Destination(format="kafka", options={"topic": "t"}, where="catalog.yaml", **more)
    return KafkaSink(to, setting).records(rows).collect()


def test_records_of_kafka_as_json(spark):
    rows = spark.sql(
        "SELECT 1 AS n, CAST(NULL AS STRING) AS `a.b`, TIMESTAMP'2026-01-02 03:04:05.000006Z' AS ts, "
        "TIMESTAMP_NTZ'2026-01-02 03:04:05.5' AS local, X'00FF' AS raw, array(1.5, NULL) AS list"
    )
    (record,) = sent(spark, rows)
    assert record.asDict() == {"value": record.value}
    assert json.loads(record.value) == {
        "n": 1,
        "a.b": None,
        "ts": "2026-01-02T03:04:05.000006Z",
        "local": "2026-01-02T03:04:05.500000",
        "raw": "AP8=",
        "list": [1.5, None],
    }
    (record,) = sent(spark, rows, value="json", value_options={"ignoreNullFields": "true"}, key=("N",))
    assert (record.key, "a.b" in json.loads(record.value)) == ("1", False)
    (record,) = sent(spark, rows, key=("raw",))
    assert bytes(record.key) == b"\x00\xff"
    (record,) = sent(spark, rows, key=("n", "a.b"))
    assert json.loads(record.key) == {"n": 1, "a.b": None}


def test_a_key_that_is_no_column_is_named(spark):
    with pytest.raises(UserError, match=r"catalog.yaml: the key 'm' is no column of the results; .*n"):
        sent(spark, spark.range(1).select(fn.lit(1).alias("n")), key=("m",))
