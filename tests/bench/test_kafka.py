"""The figures of the benchmark from Kafka to Kafka. `tests/kafka/test_bench.py` runs it, with a broker."""

from __future__ import annotations

import pytest

from thalweg.bench import broker
from thalweg.bench.kafka import Beside, Way, rows
from thalweg.errors import UserError


def test_the_table_has_the_ratio_and_its_target():
    found = Beside(Way("parquet", [100.0, 300.0], 7), Way("kafka", [100.0, 200.0], 7))
    assert [row[2] for row in rows(found)] == ["1.00", "0.75 (target: at least 0.6)"]
    assert found.to_json()["ratio"] == 0.75


def test_without_a_script_for_a_broker_it_says_so(tmp_path):
    with pytest.raises(UserError, match=r"/none\.sh: can't be started: .*checkout"):
        broker.spark_arguments(tmp_path / "none.sh")
