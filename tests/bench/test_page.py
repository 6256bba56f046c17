"""A run with a visitor of its page, on a small scale."""

from __future__ import annotations

import json

import pytest

from thalweg.bench.page import Visited, rows


def test_the_table_has_the_ratio():
    assert rows(Visited([100.0, 200.0], [120.0], [7]))[2] == ("ratio", "0.80", "at least 0.97")


@pytest.mark.long
def test_a_run_is_visited(tmp_path, command):
    """In a process of its own: a run ends its session."""
    given = ("--scale", "0.02", "--turns", "2", "--json")
    status, out, err = command("bench", "page", *given, cwd=tmp_path, timeout=1200)
    assert status == 0, err
    found = json.loads(out)
    assert min(found["scrapes"]) > 1
    assert min(found["on"] + found["off"]) > 0
