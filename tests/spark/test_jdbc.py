"""Results in a table of a database, here in the Derby that comes with Spark."""

from __future__ import annotations

import datetime
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError

from thalweg.catalog.model import Destination
from thalweg.errors import UserError
from thalweg.query import parse
from thalweg.spark.result_files import DraftFiles
from thalweg.spark.sinks.jdbc import DIALECTS, JdbcSink
from thalweg.spark.sinks.sink import BatchResults, Setting

from ..conftest import environment
from .feed import catalog_yaml, expected, multiset, written
from .test_kill import RANGES, finish, make
from .test_kill import RUN as KILLED
from .test_run import one_message
from .test_sinks import PLAIN, RUN, make_feeds

COLUMNS = {"ts": "timestamp", "k": "string", "n": "int"}
ROWS = "k STRING, n INT, at TIMESTAMP"


@pytest.fixture
def url(tmp_path):
    return f"jdbc:derby:memory:{tmp_path.name};create=true"


@pytest.fixture
def sink(spark, url):
    """A sink of results with a key, a number and a time."""

    def make(select="a.k, b.n, result_time AS at", key=("K",), **options):
        text = f"SELECT {select} FROM a, b WITHIN 1 HOUR WHERE a.k = b.k"
        query = parse(text, name="q", schemas={"a": COLUMNS, "b": COLUMNS}, times={"a": "ts", "b": "ts"})
        to = Destination(
            format="jdbc", options={"url": url, "dbtable": "T", **options}, key=key, where="catalog.yaml"
        )
        return JdbcSink(to, Setting(spark, "run", query, begun=False, say=print))

    return make


@pytest.fixture
def write(spark, tmp_path):
    """Writes the rows of a batch as a run does."""

    def one(sink, batch, rows, schema=ROWS):
        results = spark.createDataFrame(rows, schema)
        drafts = DraftFiles(tmp_path / f"draft-{batch}")
        drafts.clear()
        files = drafts.write(results.repartition(2))
        sink.write(BatchResults(batch, drafts.folder, files, results.schema))

    return one


def at(second):
    return datetime.datetime(2026, 1, 2, 3, 4, second)


def table(spark, url, name="T"):
    found = spark.read.format("jdbc").options(url=url, dbtable=name).load()
    return sorted(tuple(row) for row in found.collect())


def test_a_row_for_each_key_the_latest_by_time(spark, sink, write, url):
    made = sink()
    made.prepare(spark.createDataFrame([], ROWS))
    first = [("x", 1, at(5)), ("x", 2, at(3)), ("y", None, at(1))]
    write(made, 0, first)
    assert table(spark, url) == [("x", 1, at(5)), ("y", None, at(1))]
    write(made, 1, [("x", 9, at(4)), ("y", 7, at(1)), ("z", 0, at(0))])
    now = [("x", 1, at(5)), ("y", 7, at(1)), ("z", 0, at(0))]
    assert table(spark, url) == now
    write(made, 1, [("z", 0, at(0)), ("y", 7, at(1)), ("x", 9, at(4))])  # a repeat
    assert table(spark, url) == now
    made.prepare(spark.createDataFrame([], ROWS))  # a further run
    assert table(spark, url) == now


def test_without_a_time_the_later_batch_stays(spark, sink, write, url):
    schema = "k STRING, n INT"
    made = sink("a.k, b.n")
    made.prepare(spark.createDataFrame([], schema))
    write(made, 0, [("x", 1), ("x", 5)], schema)
    assert table(spark, url) == [("x", 5)]
    write(made, 1, [("x", 3)], schema)
    assert table(spark, url) == [("x", 3)]


def test_a_table_of_the_users_may_have_more_columns(spark, sink, write, url):
    made = sink("a.k, b.n", key=("k", "n"))
    with made._connected() as database:
        database.run("CREATE TABLE T (K VARCHAR(9), OWN INT DEFAULT 4, N INT, PRIMARY KEY (K, N))")
    made.prepare(spark.createDataFrame([], "k STRING, n INT"))
    write(made, 0, [("x", 1), ("x", 2), ("x", 1)], "k STRING, n INT")
    assert table(spark, url) == [("x", 4, 1), ("x", 4, 2)]


def test_a_batch_that_was_interrupted_is_merged_again(spark, sink, write, url, monkeypatch):
    """Rows that were written beside the table, and not merged, are not there twice."""
    made = sink()
    made.prepare(spark.createDataFrame([], ROWS))
    with monkeypatch.context() as patch:
        patch.setattr(JdbcSink, "_merge", lambda *_: "no statement")
        with pytest.raises(Py4JJavaError):
            write(made, 0, [("x", 1, at(5))])
    assert table(spark, url) == []
    assert table(spark, url, made.staging) == [("x", 1, at(5))]
    write(made, 0, [("x", 1, at(5))])
    assert table(spark, url) == [("x", 1, at(5))]
    with pytest.raises(Exception, match=made.staging.upper()):
        table(spark, url, made.staging)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"url": "jdbc:oracle:thin:@x"}, "the database 'oracle' is not supported; supported are"),
        (
            {"url": "jdbc:h2:mem:x", "driver": "no.such.Driver"},
            "Java has no driver for jdbc:h2:mem:x; add its jar",
        ),
        ({"key": ("m",)}, "the key 'm' is no column of the results"),
        ({"key": ()}, "rows are merged by key, and there is none; add `key`"),
    ],
)
def test_what_can_not_be_is_refused(spark, sink, change, says):
    made = sink()
    options = {**made.to.options, **{k: v for k, v in change.items() if k != "key"}}
    to = made.to.model_copy(update={"options": options, "key": change.get("key", made.to.key)})
    with pytest.raises(UserError, match=r"^catalog.yaml: ") as caught:
        replace(made, to=to).prepare(spark.createDataFrame([], ROWS))
    assert says in str(caught.value)
    assert {"postgresql", "h2", "derby"} == set(DIALECTS)


def test_a_table_without_a_column_is_named(spark, sink):
    made = sink("a.k, b.n")
    with made._connected() as database:
        database.run("CREATE TABLE T (K VARCHAR(9) PRIMARY KEY)")
    with pytest.raises(UserError, match="the table T has no column 'n'; it has K"):
        made.prepare(spark.createDataFrame([], "k STRING, n INT"))


def test_a_run_by_the_results_id(spark, thalweg, tmp_path, url):
    """Without `key` the id is the key: results that are equal are one row."""
    feeds = make_feeds()
    written(feeds, tmp_path / "data")
    sinks = f"sinks: {{q: [{{format: jdbc, options: {{url: '{url}', dbtable: T}}}}]}}\n"
    (tmp_path / "catalog.yaml").write_text(catalog_yaml(feeds) + sinks)
    (tmp_path / "q.sql").write_text(PLAIN)
    code, _, err = thalweg(*RUN, cwd=tmp_path)
    assert code == 2
    assert "rows are merged by key, and there is none" in one_message(err)
    sql = PLAIN.replace("result_time", "result_time, result_id")
    (tmp_path / "q.sql").write_text(sql)
    code, _, err = thalweg(*RUN, cwd=tmp_path)
    assert code == 0, err
    found = spark.read.format("jdbc").options(url=url, dbtable="T").load()
    wanted = expected(sql, feeds)
    assert sorted(row["result_id"] for row in found.collect()) == sorted(own for *_, own in wanted)


@pytest.mark.long
def test_killed_between_two_sinks(spark, tmp_path, command):
    """Results come twice to a sink that promises nothing else, and once to the others."""
    sql = RANGES.replace("result_time", "result_time, result_id")
    feeds, wanted = make(tmp_path, sql)
    url = f"jdbc:derby:{tmp_path}/db;create=true"
    sinks = (
        "{format: parquet}",
        "{format: orc, options: {path: copy}}",
        f"{{format: jdbc, options: {{url: '{url}', dbtable: T}}}}",
    )
    (tmp_path / "catalog.yaml").write_text(catalog_yaml(feeds) + f"sinks: {{q: [{', '.join(sinks)}]}}\n")
    for batch in (1, 5):
        (tmp_path / f"die-{batch}").touch()
        again = [sys.executable, "-m", "tests.spark.dying", *KILLED]
        there = {**environment(), "PYTHONPATH": str(Path(__file__).parents[2])}
        done = subprocess.run(again, cwd=tmp_path, env=there, capture_output=True, check=False)
        assert done.returncode == -signal.SIGKILL
    finish(tmp_path, command, feeds, wanted)
    copy = multiset(spark.read.orc(str(tmp_path / "copy")).toArrow())
    twice = copy - wanted
    assert wanted < copy
    assert twice <= wanted
    rows = spark.read.format("jdbc").options(url=url, dbtable="T").load().select("result_id").collect()
    assert sorted(row["result_id"] for row in rows) == sorted(own for *_, own in wanted)
