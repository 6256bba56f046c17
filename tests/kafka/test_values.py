"""Values in Avro, with Spark's own package."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.kafka.place import GIVEN, verified

pytestmark = pytest.mark.kafka

SCHEMA = {
    "type": "record",
    "name": "a",
    "fields": [
        {"name": "ts", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "k", "type": ["null", "int"]},
        {"name": "id", "type": "string"},
    ],
}
CATALOG = """sites: {{n: {{}}}}
streams:
  a:
    site: n
    time: ts
    schema: {schema}
    source:
      format: kafka
      value: avro
      value_options: {{schema: a.avsc}}
      options: {{kafka.bootstrap.servers: "{servers}", subscribe: {topic}}}
  b:
    site: n
    time: ts
    schema: {{ts: timestamp, k: int}}
    source: {{format: parquet, options: {{path: b}}}}
"""


def encoded(spark, rows):
    """The rows as Spark encodes them."""
    from pyspark.sql import functions as f
    from pyspark.sql.avro.functions import to_avro

    frame = spark.createDataFrame(rows, "ms long, k int, id string")
    record = f.struct(f.timestamp_millis("ms").alias("ts"), "k", "id")
    return [bytes(row.v) for row in frame.select(to_avro(record, json.dumps(SCHEMA)).alias("v")).collect()]


def place(tmp_path, broker, topic, schema="{ts: timestamp, k: int, id: int}"):
    (tmp_path / "a.avsc").write_text(json.dumps(SCHEMA))
    (tmp_path / "catalog.yaml").write_text(CATALOG.format(schema=schema, servers=broker.servers, topic=topic))
    (tmp_path / "q.sql").write_text("SELECT a.id, b.k FROM a, b WITHIN 5 SECONDS WHERE a.k = b.k")
    (tmp_path / "b").mkdir()
    b = {"ts": pa.array([2_000_000] * 3, pa.timestamp("us", "UTC")), "k": pa.array([1, 2, 3], pa.int32())}
    pq.write_table(pa.table(b), tmp_path / "b" / "0.parquet")


def test_avro_in_a_topic_and_what_is_none(spark, broker, thalweg, tmp_path):
    topic = broker.topic("avro")
    place(tmp_path, broker, topic)
    good = encoded(spark, [(1000, 1, "7"), (1500, None, "8"), (2500, 3, "9"), (2500, 3, "nine")])
    broker.send(topic, [*good, b"\x01", None], key=b"x")
    code, _, err = thalweg("run", *GIVEN, "--once", cwd=tmp_path)
    assert code == 0, err
    verified(thalweg, tmp_path)
    found = pq.read_table(tmp_path / "out" / "results" / "q").to_pylist()
    assert sorted((row["id"], row["k"]) for row in found) == [(7, 1), (9, 3)]
    aside = pq.read_table(tmp_path / "out" / "late" / "a").to_pylist()
    assert {row["_late_reason"] for row in aside} == {"not decoded"}
    assert len(aside) == 3  # no Avro, no value, and an id that is no number


def test_a_column_that_the_schema_does_not_have(spark, broker, thalweg, tmp_path):
    place(tmp_path, broker, broker.topic("avro"), "{ts: timestamp, k: int, idd: int}")
    (tmp_path / "q.sql").write_text("SELECT a.idd, b.k FROM a, b WITHIN 5 SECONDS WHERE a.k = b.k")
    code, _, err = thalweg("run", *GIVEN, "--once", cwd=tmp_path)
    assert code == 2
    assert "the avro value has no field 'idd'; did you mean 'id'?" in err
