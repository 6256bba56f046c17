"""A run that an earlier version has begun goes on with this one."""

import json

import pytest

from tests.spark.upgrade.begin import ARGUMENTS, OLDER, place, unpack, write
from thalweg.operators.state import FORMAT


@pytest.mark.long
def test_a_run_that_an_earlier_version_has_begun_goes_on(tmp_path, thalweg):
    place(tmp_path)
    unpack(tmp_path)
    before = json.loads((tmp_path / "out/metrics.json").read_text())
    assert (before["input_rows"], before["complete"]) == ({"a": 60, "b": 60}, False)
    write(tmp_path, 2, 60, 90)
    code, out, err = thalweg(*ARGUMENTS, "--once", "--json", cwd=tmp_path)
    assert code == 0, err
    metrics = json.loads(out)
    assert (metrics["input_rows"], metrics["complete"]) == ({"a": 90, "b": 90}, True)
    assert metrics["batches"] > before["batches"]
    code, out, err = thalweg(
        "verify", "pairs.sql", "--catalog", "catalog.yaml", "--out", "out", "--json", cwd=tmp_path
    )
    assert code == 0, err
    assert json.loads(out)["same"] and json.loads(out)["expected"] > before["output_rows"]["pairs"]


def test_a_run_with_another_format_is_left_as_it_is(tmp_path, command):
    place(tmp_path)
    unpack(tmp_path, OLDER)
    own = tmp_path / "out/_thalweg"
    before = {f: f.read_bytes() for f in own.rglob("*") if f.is_file()}
    code, _, err = command(*ARGUMENTS, "--once", cwd=tmp_path)
    assert code == 2
    assert f"its state has format 5, and this version reads format {FORMAT}; continue it with that" in err
    assert {f: f.read_bytes() for f in own.rglob("*") if f.is_file() and f.name != "lock"} == before
