from __future__ import annotations

import itertools

import pyarrow.parquet as pq
import pytest

from thalweg.bench import truth
from thalweg.bench.data import WORKLOADS, Workload, generate, prefix, workload
from thalweg.errors import UserError

SMALL = Workload("small", keys=20, rate=2.0, tick_us=1_000_000, tuples_per_stream=60, rows_per_batch=60)


def test_the_same_seed_gives_the_same_streams(tmp_path):
    one, other = generate(SMALL, tmp_path / "one"), generate(SMALL, tmp_path / "other")
    for alias in "abc":
        assert pq.read_table(one / alias).equals(pq.read_table(other / alias))
    assert not pq.read_table(one / "a").equals(pq.read_table(one / "b"))


def test_one_file_per_stream_and_batch_in_order_of_time(tmp_path):
    data = generate(SMALL, tmp_path)
    files = sorted((data / "a").iterdir())
    assert len(files) == SMALL.batches == 3
    assert [file.stat().st_mtime for file in files] == sorted({file.stat().st_mtime for file in files})
    tables = [pq.read_table(file) for file in files]
    assert [table.num_rows for table in tables] == [20, 20, 20]
    times = list(itertools.chain(*(table["ts"].to_pylist() for table in tables)))
    assert times == sorted(times)
    assert len(set(times)) < len(times)  # ties


def test_data_of_another_shape_is_made_anew(tmp_path):
    home = generate(SMALL, tmp_path)
    before = pq.read_table(home / "a")
    again = generate(Workload(**{**vars(SMALL), "seed": 2}), tmp_path)
    assert again == home
    assert not pq.read_table(home / "a").equals(before)


def test_a_prefix_has_the_first_batches(tmp_path):
    data = generate(SMALL, tmp_path)
    home = prefix(data, SMALL, 2, tmp_path / "prefix")
    assert sorted(path.name for path in (home / "c").iterdir()) == ["00000.parquet", "00001.parquet"]


@pytest.mark.parametrize("name", WORKLOADS)
def test_about_one_result_a_tuple(tmp_path, name):
    spec = workload(name).scaled(0.02 if name != "1500k" else 0.004)
    data = generate(spec, tmp_path)
    results = truth.count(spec, data)
    assert 0.8 < results / (spec.streams * spec.batches * spec.batch_tuples) < 1.2


def test_a_third_of_all_tuples_bear_the_hot_key(tmp_path):
    data = generate(workload("hot").scaled(0.01), tmp_path)
    keys = pq.read_table(data / "b")["k"].to_numpy()
    assert abs((keys == 0).mean() - 1 / 3) < 0.01


@pytest.mark.parametrize("two_attributes", [False, True])
def test_duckdb_says_what_the_rule_says(tmp_path, two_attributes):
    spec = Workload(**{**vars(SMALL), "two_attributes": two_attributes, "keys": 8})
    data = generate(spec, tmp_path)
    streams = {alias: pq.read_table(data / alias).to_pylist() for alias in "abc"}
    expected = 0
    for a, b, c in itertools.product(*streams.values()):
        times = [row["ts"] for row in (a, b, c)]
        near = (max(times) - min(times)).total_seconds() * 1e6 <= spec.window_us
        named = {"a": a, "b": b, "c": c}
        same = all(named[left[0]][left[2:]] == named[right[0]][right[2:]] for left, right in spec.equalities)
        expected += near and same
    assert truth.count(spec, data) == expected > 50


def test_a_wrong_name_or_scale_is_the_users_error():
    with pytest.raises(UserError, match="one of 300k, 1500k"):
        workload("30k")
    with pytest.raises(UserError, match="above 0"):
        workload("300k").scaled(0)
