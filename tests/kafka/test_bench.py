"""The benchmark from Kafka to Kafka, on a small scale."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.kafka.broker import SCRIPT

pytestmark = pytest.mark.kafka


def test_both_ways_give_the_same_results(tmp_path, command):
    """In a process of its own: a run ends its session."""
    small = ("--scale", "0.005", "--json", "--broker", SCRIPT)
    status, out, err = command("bench", "kafka", *small, cwd=tmp_path, timeout=1200)
    assert status == 0, err
    found = json.loads(out)
    assert [way["results"] > 1000 and min(way["rows_per_s"]) > 0 for way in found["ways"]] == [True, True]
    assert found["ratio"] > 0
    results = Path(tmp_path) / "benchmarks" / "results"
    assert json.loads((results / "kafka.json").read_text()) == found
    assert "Kafka to Kafka" in (results / "kafka.md").read_text()
