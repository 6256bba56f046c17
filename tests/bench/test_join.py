from __future__ import annotations

import json
import subprocess
import sys

import pytest

from thalweg.bench import batch, join, report, truth
from thalweg.bench.cli import app
from thalweg.bench.data import Workload, generate
from thalweg.bench.memory import PeakMemory
from thalweg.bench.side import Task

SMALL = Workload("small", keys=100, rate=10.0, tuples_per_stream=300, rows_per_batch=300, cascade_batches=2)


def side(name, results, seconds=1.0):
    batches = [{"rows": 300, "seconds": seconds, "results": n, "checksum": n * 7} for n in results]
    return join.Run(name, 300 * (len(results) - 1), seconds * (len(results) - 1), 100.0, batches)


@pytest.fixture
def per_batch(tmp_path):
    data = generate(SMALL, tmp_path)
    totals = [truth.count(SMALL, data, n) for n in range(1, SMALL.batches + 1)]
    return data, [totals[0], totals[1] - totals[0], totals[2] - totals[1]]


def test_sides_are_compared_over_the_batches_that_all_ran(per_batch):
    data, results = per_batch
    runs = [side("thalweg", results), side("spark-memory", results[:2])]
    assert join._same_results(SMALL, data, runs) == sum(results[:2])


def test_a_result_too_few_is_told_loudly(per_batch):
    data, results = per_batch
    with pytest.raises(join.ResultsDifferError, match=r"small: thalweg gave .* DuckDB"):
        join._same_results(SMALL, data, [side("thalweg", [*results[:2], results[2] - 1])])


def test_other_results_of_the_same_number_are_told_loudly(per_batch):
    data, results = per_batch
    other = side("spark-memory", results)
    other.batches[1]["checksum"] += 1
    with pytest.raises(join.ResultsDifferError, match="checksum"):
        join._same_results(SMALL, data, [side("thalweg", results), other])


def test_the_ratio_is_to_the_best_cascade_and_everything_is_written(tmp_path):
    kernel = join.Run("kernel", 1_000, 0.1, 50.0)
    runs = [
        side("thalweg", [1, 1], 1.0),
        side("spark-memory", [1, 1], 10.0),
        side("spark-rocksdb-4", [1, 1], 5.0),
    ]
    comparison = join.Comparison(SMALL, [*runs, kernel], 2, ["spark-rocksdb-2"])
    told = comparison.to_json()
    assert told["ratio_to_best_spark"] == 5.0
    assert told["kernel_tuples_per_s"] == 10_000.0
    assert set(told["runs"][0]) == {"name", "rows", "seconds", "rows_per_s", "peak_rss_mb"}
    paths = report.write(comparison, tmp_path)
    assert [path.name for path in paths] == ["small.md", "small.json", "small.csv", "small.png"]
    assert "Stopped at the time limit: spark-rocksdb-2" in paths[0].read_text()
    assert json.loads(paths[1].read_text()) == told
    assert paths[3].stat().st_size > 1_000


def test_a_task_survives_the_way_to_its_process(tmp_path):
    task = Task("thalweg", SMALL, tmp_path / "data", tmp_path)
    assert Task.load(task.save()) == task


def test_the_cost_of_a_batch_is_the_median_of_each_phase():
    def one(ms):
        return {
            "rows": 300,
            "duration_ms": {"addBatch": ms, "walCommit": 10, "triggerExecution": ms + 15},
            "state": [{"allUpdatesTimeMs": 1, "allRemovalsTimeMs": 2, "commitTimeMs": ms // 10}] * 2,
        }

    cost = batch.cost([one(100), one(300), one(200)])
    assert cost.parts_ms == {"walCommit": 10.0, "addBatch": 200.0}
    assert (cost.total_ms, cost.rest_ms, cost.state_ms["commitTimeMs"]) == (215.0, 5.0, 40.0)
    assert cost.rows()[0][0] == "write the offsets to the log (walCommit)"


def test_peak_memory_covers_the_children():
    child = "x = bytearray(150_000_000); import time; time.sleep(1.5)"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    process = subprocess.Popen([sys.executable, "-c", parent])
    with PeakMemory(process.pid, interval_s=0.05) as memory:
        process.wait()
    assert 150 < memory.peak_mb < 300


def test_the_commands_say_what_they_take():
    from typer.testing import CliRunner

    told = CliRunner().invoke(app, ["join", "--help"], env={"COLUMNS": "200"}).output
    assert "--workload" in told
    assert "two-attributes" in told


@pytest.mark.long
def test_a_side_in_its_own_process(tmp_path):
    comparison = join.compare(SMALL, tmp_path, ["spark-memory"])
    assert comparison.results == truth.count(SMALL, tmp_path / "small-300", 2)
    assert comparison.runs[0].rows == 300
    assert comparison.runs[0].peak_rss_mb > 100
    assert [path.name for path in tmp_path.iterdir()] == ["small-300"]


@pytest.mark.long
def test_a_side_over_the_time_limit_is_stopped(tmp_path):
    comparison = join.compare(SMALL, tmp_path, ["spark-memory"], limit_s=2)
    assert comparison.unfinished == ["spark-memory"]
    assert comparison.results is None
