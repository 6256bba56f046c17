"""The comparison is fair: Spark's cascade, in every configuration, gives exactly the results of the rule."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import functions as fn

from thalweg.bench import cascade, truth
from thalweg.bench.data import Workload, generate
from thalweg.bench.drain import drain, read_streams

# A clock of whole seconds puts many pairs exactly a window apart; short batches let state expire meanwhile.
COARSE = {
    "keys": 50,
    "rate": 5.0,
    "tick_us": 1_000_000,
    "lateness_us": 2_000_000,
    "tuples_per_stream": 200,
}
THREE = Workload("three", rows_per_batch=150, **COARSE)
FIVE = Workload("five", streams=5, rows_per_batch=250, **COARSE)
TWO_ATTRIBUTES = Workload("two-attributes", rows_per_batch=150, two_attributes=True, **COARSE)
HOT = Workload(
    "hot",
    hot_fraction=1 / 3,
    keys=50,
    window_us=1_000,
    lateness_us=10_000,
    rate=5_200,
    tick_us=1,
    tuples_per_stream=300,
    rows_per_batch=300,
)

QUICK = [(THREE, name) for name in cascade.CONFIGURATIONS]
LONG = [
    (spec, name)
    for spec in (THREE, FIVE, TWO_ATTRIBUTES, HOT)
    for name in cascade.CONFIGURATIONS
    if (spec, name) not in QUICK
]


def joined(spark, spec, name, data):
    for key, value in cascade.CONFIGURATIONS[name].items():
        spark.conf.set(key, value)
    return cascade.cascade(
        read_streams(spark, data, spec.aliases),
        spec.equalities,
        within_us=spec.window_us,
        lateness_us=spec.lateness_us,
        output=spec.output,
    )


@pytest.fixture
def configured(spark):
    """The shared session, with what the configurations set put back afterwards."""
    keys = {key for settings in cascade.CONFIGURATIONS.values() for key in settings}
    before = {key: spark.conf.get(key, None) for key in keys | {"spark.sql.shuffle.partitions"}}
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    yield spark
    for key, value in before.items():
        spark.conf.unset(key) if value is None else spark.conf.set(key, value)


def check(spark, tmp_path: Path, spec: Workload, name: str) -> None:
    data = generate(spec, tmp_path)
    found: dict[int, list[tuple]] = {}
    results = joined(spark, spec, name, data)
    plain = [fn.unix_micros(c).alias(c) if c.endswith("_ts") else fn.col(c) for c in spec.output]

    def keep(frame, batch):
        found[batch] = [tuple(row) for row in frame.collect()]

    query = (
        results.select(*plain)
        .writeStream.foreachBatch(keep)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    rows_in = sum(source["numInputRows"] for p in query.recentProgress for source in p["sources"])
    assert rows_in == spec.streams * spec.tuples_per_stream
    expected = truth.rows(spec, data)
    assert len(expected) > 100
    assert sorted(row for batch in found.values() for row in batch) == expected
    # Every result comes in the batch of its last tuple, so prefixes of runs can be compared.
    for batch in range(spec.batches):
        so_far = sorted(row for number, rows in found.items() if number <= batch for row in rows)
        assert so_far == truth.rows(spec, data, batch + 1)


@pytest.mark.parametrize(("spec", "name"), QUICK, ids=lambda value: getattr(value, "name", value))
def test_the_cascade_gives_the_results_of_the_rule(configured, tmp_path, spec, name):
    check(configured, tmp_path, spec, name)


@pytest.mark.long
@pytest.mark.parametrize(("spec", "name"), LONG, ids=lambda value: getattr(value, "name", value))
def test_the_cascade_gives_the_results_of_the_rule_for_all_workloads(configured, tmp_path, spec, name):
    check(configured, tmp_path, spec, name)


def test_state_is_bounded_and_the_checksum_is_the_multisets(configured, tmp_path):
    data = generate(THREE, tmp_path)
    batches = drain(joined(configured, THREE, "spark-memory", data), THREE.output, tmp_path / "checkpoint")
    assert [batch.rows for batch in batches if batch.rows] == [150] * THREE.batches
    assert sum(batch.results for batch in batches) == truth.count(THREE, data)
    held = [sum(operator["numRowsTotal"] for operator in batch.state) for batch in batches]
    assert held[-1] < THREE.streams * THREE.tuples_per_stream
    # The same results, computed at once and in another order.
    static = {alias: configured.read.parquet(str(data / alias)) for alias in "abc"}
    a, b, c = (
        frame.select(*(fn.col(n).alias(f"{x}_{n}") for n in frame.columns)) for x, frame in static.items()
    )
    rule = "unix_micros(greatest(a_ts, b_ts, c_ts)) - unix_micros(least(a_ts, b_ts, c_ts)) <= 10000000"
    whole = c.join(b, fn.expr("b_k = c_k")).join(a, fn.expr("a_k = b_k")).where(rule)
    hashes = [row[0] % 2**64 for row in whole.select(fn.xxhash64(*THREE.output)).collect()]
    assert sum(batch.checksum for batch in batches) == sum(hashes)
