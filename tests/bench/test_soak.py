"""The soak test in its short form."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from thalweg.bench import soak
from thalweg.bench.cli import app


@pytest.mark.long
def test_a_short_soak(tmp_path):
    """Two minutes say nothing of growth, but that it is measured."""
    arguments = ("soak", "--minutes", "2", "--out", tmp_path / "out", "--data", tmp_path / "data", "--json")
    done = CliRunner().invoke(app, [str(a) for a in arguments])
    assert done.exit_code == 0, done.output
    for one in json.loads((tmp_path / "out" / "soak.json").read_text()):
        assert len(one["samples"]) > 3
        assert one["metrics"]["batches"] > 1
        assert sum(one["metrics"]["output_rows"].values()) > 0
        assert one["metrics"]["late_rows"] == dict.fromkeys(soak.NAMES, 0)
        assert all(s["memory_mb"] > 100 and s["threads"] > 10 for s in one["samples"])
    assert (tmp_path / "out" / "soak.png").exists()
    assert "memory of all processes" in (tmp_path / "out" / "soak.md").read_text()


def test_quarters_leave_out_the_start():
    zeros = dict.fromkeys(soak.MEASURES, 0)
    samples = tuple(soak.Sample(**{**zeros, "at_s": n, "threads": n}) for n in range(1, 101))
    done = soak.Soaked("", samples, {})
    assert done.quarter(2, "threads") == 37.5
    assert done.quarter(4, "threads") == 87.5
    assert ("threads", "37.5", "87.5", "2.33") in soak.rows(done)
