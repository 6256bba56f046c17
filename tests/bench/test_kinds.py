"""The throughput of each kind of window, on a small scale."""

from __future__ import annotations

import json

import pytest

from thalweg.bench.kinds import OUTER, Kind, rows


def test_the_table_has_ratios_to_the_first_kind():
    windows = [Kind("[RANGE 1 s]", [100.0, 200.0], [7]), Kind("[TUMBLE 2 s]", [75.0, 75.0], [8])]
    joins = [Kind("JOIN", [10.0], [7]), Kind("LEFT JOIN", [8.0], [9])]
    assert [row[2] for row in rows([windows, joins])] == ["1.00", "0.50", "1.00", "0.80"]


@pytest.mark.long
def test_each_kind_is_measured(tmp_path, command):
    """In a process of its own: a run ends its session."""
    given = ("--scale", "0.01", "--turns", "1", "--json")
    status, out, err = command("bench", "kinds", *given, cwd=tmp_path, timeout=1200)
    assert status == 0, err
    found = json.loads(out)["kinds"]
    assert len(found) == 5
    assert all(min(k["results"]) > 1000 and min(k["rows_per_s"]) > 0 for k in found)
    inner, left = (k["results"][0] for k in found[3:])
    alone = left - inner  # tuples of the first stream without a partner
    assert alone == pytest.approx(OUTER.scaled(0.01).tuples_per_stream / 2, rel=0.1)
