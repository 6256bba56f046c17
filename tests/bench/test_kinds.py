"""The throughput of each kind of window, on a small scale."""

from __future__ import annotations

import json

import pytest

from thalweg.bench.kinds import Kind, rows


def test_the_table_has_ratios_to_the_first_kind():
    found = [Kind("[RANGE 1 s]", [100.0, 200.0], 7), Kind("[TUMBLE 2 s]", [75.0, 75.0], 8)]
    assert [row[2] for row in rows(found)] == ["1.00", "0.50"]


@pytest.mark.long
def test_each_kind_is_measured(tmp_path, command):
    """In a process of its own: a run ends its session."""
    status, out, err = command("bench", "kinds", "--scale", "0.01", "--json", cwd=tmp_path, timeout=1200)
    assert status == 0, err
    found = json.loads(out)["kinds"]
    assert len(found) == 3
    assert all(k["results"] > 1000 and min(k["rows_per_s"]) > 0 for k in found)
