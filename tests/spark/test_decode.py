"""Encoded values, and times that are numbers or texts: read, or kept aside with the reason."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
import pytest

CATALOG = """sites: {{n1: {{}}}}
streams:
  a: {{site: n1, time: ts, {time}, schema: {{ts: {kind}, k: int, id: int}}, source: {source}}}
  b:
    site: n1
    time: ts
    schema: {{ts: timestamp, k: int, id: int}}
    source: {{format: parquet, options: {{path: b}}}}
"""
SQL = "SELECT a.id AS x, b.id AS y, a.ts FROM a [RANGE 5 SECONDS], b [RANGE 5 SECONDS] WHERE a.k = b.k"
TEXT = "{format: text, value: VALUE, options: {path: a}}"
JSON = "{format: json, options: {path: a}}"
PARQUET = "{format: parquet, options: {path: a}}"
TIME = pa.timestamp("us", "UTC")


@pytest.fixture
def run(tmp_path, thalweg):
    """Runs a join of `a` with tuples of b at 1 and 2 s, and verifies it: results, and what is kept aside."""

    def run(source, time="lateness: 10 s", kind="timestamp"):
        (tmp_path / "catalog.yaml").write_text(CATALOG.format(source=source, time=time, kind=kind))
        (tmp_path / "q.sql").write_text(SQL)
        (tmp_path / "b").mkdir(exist_ok=True)
        own = {"ts": pa.array([10**6, 2 * 10**6], TIME), "k": pa.array([1, 2], pa.int32())}
        pq.write_table(pa.table({**own, "id": pa.array([1, 2], pa.int32())}), tmp_path / "b" / "0.parquet")
        out_dir = tmp_path / f"out{len(list(tmp_path.glob('out*')))}"
        about = ("q.sql", "--catalog", "catalog.yaml", "--out", out_dir.name)
        code, _, err = thalweg("run", *about, "--once", cwd=tmp_path)
        if code:
            return code, err
        code, out, err = thalweg("verify", *about, "--json", cwd=tmp_path)
        assert code == 0, out + err
        late = out_dir / "late" / "a"
        aside = pq.read_table(late).to_pylist() if late.exists() else []
        found = pq.read_table(out_dir / "results" / "q").to_pylist()
        return sorted((row["x"], row["y"], round(row["ts"].timestamp() * 1000)) for row in found), aside

    return run


def lines(folder: Path, *values: str) -> None:
    (folder / "a").mkdir(exist_ok=True)
    (folder / "a" / "0.txt").write_text("".join(f"{value}\n" for value in values))


def test_json_in_a_value_and_what_is_none(run, tmp_path):
    good = [
        {"ts": "1970-01-01T00:00:01Z", "k": 1, "id": 7, "more": [1]},
        {"ts": "1970-01-01 00:00:03", "k": 2, "id": 8},
    ]
    lines(
        tmp_path,
        *map(json.dumps, good),
        "{oops",
        '{"ts": "1970-01-01T00:00:01Z", "k": "x"}',
        '{"k": 1, "id": 9}',
    )
    found, aside = run(TEXT.replace("VALUE", "json"))
    assert found == [(7, 1, 1000), (8, 2, 3000)]
    why = sorted((row["_late_reason"], row["_undecoded"] or "") for row in aside)
    assert why == [
        ("no time", ""),
        ("not decoded", '{"ts": "1970-01-01T00:00:01Z", "k": "x"}'),
        ("not decoded", "{oops"),
    ]


def test_csv_in_a_value_with_options(run, tmp_path):
    lines(tmp_path, "1970-01-01 00:00:01;1;7", "1970-01-01 00:00:02;2;8", "1970-01-01 00:00:02;two;9", "x")
    source = TEXT.replace("VALUE", "csv, value_options: {sep: ';'}")
    found, aside = run(source)
    assert found == [(7, 1, 1000), (8, 2, 2000)]
    assert [row["_late_reason"] for row in aside] == ["not decoded"] * 2


@pytest.mark.parametrize(
    ("unit", "kind", "times"),
    [
        ("seconds", "timestamp", [1, 2.5]),
        ("milliseconds", "timestamp", [1000, 2500]),
        ("microseconds", "long", [1_000_000, 2_500_000]),
        ("seconds", "double", [1.0, 2.5]),
    ],
)
def test_a_time_that_is_a_number_in_json(run, tmp_path, unit, kind, times):
    lines(
        tmp_path,
        *(json.dumps({"ts": t, "k": i + 1, "id": 7 + i}) for i, t in enumerate(times)),
        '{"ts": 1e40}',
    )
    found, aside = run(TEXT.replace("VALUE", "json"), f"time_unit: {unit}", kind)
    assert found == [(7, 1, 1000), (8, 2, 2500)]
    assert len(aside) == 1


def test_a_time_that_is_a_number_in_parquet(run, tmp_path):
    (tmp_path / "a").mkdir()
    columns = {
        "ts": pa.array([1000, None]),
        "k": pa.array([1, 2], pa.int32()),
        "id": pa.array([7, 8], pa.int32()),
    }
    pq.write_table(pa.table(columns), tmp_path / "a" / "0.parquet")
    code, err = run(PARQUET)
    assert code == 2
    assert (
        "column ts is int64 in the file and timestamp in the catalog; if it is the stream's time, write"
        in err
    )
    assert "time_unit: seconds, milliseconds or microseconds" in err
    found, aside = run(PARQUET, "time_unit: milliseconds")
    assert found == [(7, 1, 1000)]
    assert aside == [{"ts": None, "k": 2, "id": 8}]


@pytest.mark.parametrize("source", [TEXT.replace("VALUE", "json"), JSON])
def test_a_number_where_a_timestamp_is_declared_is_an_error_that_names_the_unit(run, tmp_path, source):
    """Spark takes it for seconds: a time in milliseconds would be far in the future, and all else late."""
    lines(tmp_path, '{"ts": 1700000000000, "k": 1, "id": 7}')
    code, err = run(source)
    assert code == 2
    assert "the column ts has a number; write time_unit: seconds, milliseconds or microseconds" in err
    assert "Traceback" not in err


def test_a_time_that_is_a_text_of_another_form(run, tmp_path):
    lines(tmp_path, "01.01.1970 00:00:01,1,7", "soon,1,8")
    found, aside = run("{format: csv, options: {path: a}}", "time_format: 'dd.MM.yyyy HH:mm:ss'", "string")
    assert found == [(7, 1, 1000)]
    assert aside == [{"ts": None, "k": 1, "id": 8}]


def test_columns_from_other_fields_of_a_record(spark):
    """As Kafka has them: key, headers, and when the broker got it."""
    from thalweg.catalog.model import Source, Stream
    from thalweg.spark.decode import declared
    from thalweg.spark.streams import schema_of

    places = {"ts": "timestamp", "k": "key", "trace": "headers.it's", "p": "partition"}
    source = Source(format="kafka", value="json", columns=places)
    kinds = {"ts": "timestamp", "k": "bigint", "trace": "string", "p": "int", "id": "int"}
    stream = Stream(name="s", site="here", time="ts", columns=kinds, source=source)
    schema = "key binary, value binary, partition int, timestamp timestamp, "
    schema += "headers array<struct<key: string, value: binary>>"
    moment = spark.sql("SELECT timestamp'1970-01-01 00:00:01' AS t").first().t
    records = [
        (b"5", b'{"id": 7}', 3, moment, [("other", b"x"), ("it's", b"abc")]),
        (b"6", b"nope", 3, moment, None),
        (b"six", b'{"id": 8}', 3, moment, []),
        (b"7", None, 3, moment, []),
    ]
    found = declared(spark.createDataFrame(records, schema), stream, schema_of(stream)).collect()
    assert [(row.ts is None, row.k, row.trace, row.p, row.id, row["_undecoded"]) for row in found] == [
        (False, 5, "abc", 3, 7, None),
        (True, 6, None, 3, None, "nope"),
        (True, None, None, 3, 8, '{"id": 8}'),
        (True, 7, None, 3, None, "NULL"),
    ]


def test_a_field_of_a_record_that_the_source_does_not_have(run, tmp_path):
    lines(tmp_path, "{}")
    code, err = run(TEXT.replace("VALUE", "json, columns: {k: key}"))
    assert code == 2
    assert "streams.a.source.columns: the source has no column 'key', only value" in err


def test_avro_without_its_package_names_the_package(run, tmp_path):
    """Where Spark has it, tests/kafka/test_values.py decodes."""
    lines(tmp_path, "x")
    record = {"type": "record", "name": "r", "fields": [{"name": "ts", "type": "long"}]}
    (tmp_path / "a.avsc").write_text(json.dumps(record))
    code, err = run(TEXT.replace("VALUE", "avro, value_options: {schema: a.avsc}"))
    assert code == 2
    assert "Spark can't decode Avro without its package" in err
    assert f"spark.jars.packages=org.apache.spark:spark-avro_2.13:{pyspark.__version__}" in err


@pytest.mark.parametrize(
    ("schema", "what"),
    [
        (None, "can't read"),
        ("{oops", "the Avro schema is not JSON"),
        ('"string"', "the Avro schema is not of a record"),
    ],
)
def test_an_avro_schema_that_is_none(run, tmp_path, schema, what):
    lines(tmp_path, "x")
    if schema is not None:
        (tmp_path / "a.avsc").write_text(schema)
    code, err = run(TEXT.replace("VALUE", "avro, value_options: {schema: a.avsc}"))
    assert code == 2
    assert f"streams.a.source.value_options: {what}" in err
