"""Results in a topic: each at least once through kills, and its copies bear the same id."""

from __future__ import annotations

import collections
import json
import os
import random

import pyarrow.parquet as pq
import pytest

from tests.kafka.place import GIVEN, SQL, metrics, rows, verified, write
from tests.kafka.test_kill import killed

pytestmark = pytest.mark.kafka

KILLS = int(os.environ.get("KILLS", "3"))
COUNT = 40 * (KILLS + 4)


def test_a_topic_has_each_result_at_least_once_through_kills(broker, start, thalweg, tmp_path):
    rng = random.Random(os.environ.get("SEED", "2"))
    topics = {name: broker.topic(name) for name in "abc"}
    results = broker.topic("results")
    for seed, topic in enumerate(topics.values()):
        broker.send(topic, rows(seed, COUNT))
    write(tmp_path, broker.servers, topics, more=", maxOffsetsPerTrigger: 20")
    with (tmp_path / "catalog.yaml").open("a") as catalog:
        catalog.write(
            f"""sinks:
  q:
    - {{format: kafka, key: x, options: {{kafka.bootstrap.servers: "{broker.servers}", topic: {results}}}}}
    - {{format: parquet}}
"""
        )
    (tmp_path / "q.sql").write_text(SQL.replace("result_time", "result_id, result_time", 1))
    for _ in range(KILLS):
        killed(start, tmp_path, rng.randrange(3), rng.uniform(0, 1.5), rng)
    code, _, err = thalweg("run", *GIVEN, "--once", cwd=tmp_path)
    assert code == 0, err
    assert metrics(tmp_path)["complete"]
    verified(thalweg, tmp_path)
    exact = pq.read_table(tmp_path / "out" / "results" / "q").to_pylist()
    by_id = {row["result_id"]: row for row in exact}
    assert len(by_id) == len(exact)
    found = collections.defaultdict(set)
    for record in broker.records(results):
        value = json.loads(record.value)
        found[value["result_id"]].add((record.key, value["x"], value["y"], value["z"]))
    assert found == {
        own: {(str(row["x"]).encode(), row["x"], row["y"], row["z"])} for own, row in by_id.items()
    }
