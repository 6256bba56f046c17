"""Topics of JSON as streams: exact at one site and at three, once and live. Lost records are an error."""

from __future__ import annotations

import json

import pyarrow.parquet as pq
import pytest

from tests.kafka.place import GIVEN, live, metrics, rows, verified, write

pytestmark = pytest.mark.kafka

COUNT = 120


@pytest.fixture
def topics(broker):
    return {name: broker.topic(name) for name in "abc"}


def fill(broker, topics, count=COUNT):
    for seed, topic in enumerate(topics.values()):
        broker.send(topic, rows(seed, count))


@pytest.mark.parametrize("sites", [1, 3])
def test_three_topics_once(broker, topics, thalweg, tmp_path, sites):
    fill(broker, topics)
    write(tmp_path, broker.servers, topics, sites, ", maxOffsetsPerTrigger: 50")
    code, out, err = thalweg("run", *GIVEN, "--once", "--json", cwd=tmp_path)
    assert code == 0, err
    found = json.loads(out)
    assert found["complete"]
    assert found["input_rows"] == dict.fromkeys("abc", COUNT)
    assert found["batches"] >= 3
    verified(thalweg, tmp_path)


@pytest.mark.parametrize("sites", [1, 3])
def test_three_topics_live_and_then_to_their_end(broker, topics, thalweg, tmp_path, sites):
    write(tmp_path, broker.servers, topics, sites)
    half = {
        name: (rows(seed, COUNT)[: COUNT // 2], rows(seed, COUNT)[COUNT // 2 :])
        for seed, name in enumerate(topics)
    }

    def send(part):
        return lambda: [broker.send(topic, half[name][part]) for name, topic in topics.items()]

    code, _, err = live(thalweg, tmp_path, [(send(0), 3 * COUNT // 2), (send(1), 3 * COUNT)])
    assert code == 0, err
    assert not metrics(tmp_path)["complete"]
    code, _, err = thalweg("run", *GIVEN, "--once", cwd=tmp_path)
    assert code == 0, err
    assert metrics(tmp_path)["complete"]
    assert metrics(tmp_path)["input_rows"] == dict.fromkeys("abc", COUNT)
    verified(thalweg, tmp_path)


def test_columns_from_a_record_and_values_that_are_none(broker, thalweg, tmp_path):
    a, b = broker.topic("a"), broker.topic("b")
    headers = [("other", b"x"), ("trace", b"t1")]
    broker.send(a, [{"id": 1}], key=b"5", partition=2, timestamp_ms=1000, headers=headers)
    broker.send(a, [b"{oops", None], key=b"5", partition=0, timestamp_ms=1000)
    broker.send(a, [{"id": 2}], key=b"five", partition=1, timestamp_ms=1000)
    broker.send(b, [{"k": 5}], key=None, partition=0, timestamp_ms=2000)
    options = f'kafka.bootstrap.servers: "{broker.servers}"'
    (tmp_path / "catalog.yaml").write_text(f"""sites: {{n: {{}}}}
streams:
  a:
    site: n
    time: ts
    schema: {{ts: timestamp, k: int, id: int, trace: string, part: int, place: long, name: string}}
    source:
      format: kafka
      value: json
      columns: {{ts: timestamp, k: key, trace: headers.trace, part: partition, place: offset, name: topic}}
      options: {{{options}, subscribe: {a}}}
  b:
    site: n
    time: ts
    schema: {{ts: timestamp, k: int}}
    source: {{format: kafka, value: json, columns: {{ts: timestamp}}, options: {{{options}, subscribe: {b}}}}}
""")
    (tmp_path / "q.sql").write_text("SELECT a.* FROM a, b WITHIN 5 SECONDS WHERE a.k = b.k")
    code, _, err = thalweg("run", *GIVEN, "--once", cwd=tmp_path)
    assert code == 0, err
    verified(thalweg, tmp_path)
    (row,) = pq.read_table(tmp_path / "out" / "results" / "q").to_pylist()
    assert row["a_ts"].timestamp() == 1
    assert [row[f"a_{c}"] for c in ("k", "id", "trace", "part", "place", "name")] == [5, 1, "t1", 2, 0, a]
    aside = pq.read_table(tmp_path / "out" / "late" / "a").to_pylist()
    assert {row["_late_reason"] for row in aside} == {"not decoded"}
    assert sorted(row["_undecoded"] for row in aside) == ["NULL", '{"id": 2}', "{oops"]


def one_line(err):
    (line,) = (line for line in err.splitlines() if line.startswith("thalweg: "))
    assert "Traceback" not in err
    return line


def begun(broker, topics, thalweg, tmp_path):
    """A run that has read half of each topic and was stopped."""
    write(tmp_path, broker.servers, topics)
    code, _, err = live(thalweg, tmp_path, [(lambda: fill(broker, topics), 3 * COUNT)])
    assert code == 0, err


def test_a_topic_trimmed_below_what_was_read_is_an_error(broker, topics, thalweg, tmp_path):
    begun(broker, topics, thalweg, tmp_path)
    broker.send(topics["b"], rows(9, 30))
    broker.trim(topics["b"], 1, COUNT // 3 + 5)
    code, _, err = thalweg("run", *GIVEN, "--once", cwd=tmp_path)
    assert code == 2, err
    assert "records of a topic were gone before they were read" in one_line(err)
    assert f"{topics['b']}-1" in one_line(err)


def test_a_topic_that_was_deleted_and_made_anew_is_an_error(broker, topics, thalweg, tmp_path):
    begun(broker, topics, thalweg, tmp_path)
    broker.delete(topics["c"])
    broker.create(topics["c"])
    broker.send(topics["c"], rows(9, 9))
    code, _, err = thalweg("run", *GIVEN, "--once", cwd=tmp_path)
    assert code == 2, err
    assert "records of a topic were gone before they were read" in one_line(err)


def test_a_topic_that_does_not_exist_and_a_broker_that_does_not_answer(broker, topics, thalweg, tmp_path):
    write(tmp_path, broker.servers, {**topics, "b": "no-such-topic"})
    code, _, err = thalweg("run", *GIVEN, "--once", cwd=tmp_path)
    assert code == 2, err
    assert "a topic does not exist" in one_line(err)
    quick = ", kafka.default.api.timeout.ms: 2000, kafka.request.timeout.ms: 1000"
    write(tmp_path, "127.0.0.1:1", topics, more=quick)
    code, _, err = thalweg("run", *GIVEN[:-1], "out2", "--once", cwd=tmp_path)
    assert code == 2, err
    assert "no Kafka broker answers" in one_line(err)


def test_verify_names_a_source_whose_beginning_is_unknown(broker, topics, thalweg, tmp_path):
    fill(broker, topics)
    write(tmp_path, broker.servers, topics)
    assert thalweg("run", *GIVEN, "--once", cwd=tmp_path)[0] == 0
    write(tmp_path, broker.servers, topics, more=", startingOffsets: latest")
    code, _, err = thalweg("verify", *GIVEN, cwd=tmp_path)
    assert code == 2
    assert "with startingOffsets: latest, nobody knows later where a run began to read" in one_line(err)
