"""Runs over topics that are killed at any moment: each result is there exactly once."""

from __future__ import annotations

import os
import random
import time
from contextlib import suppress

import psutil
import pytest

from tests.kafka.place import GIVEN, metrics, rows, verified, write
from tests.spark.test_kill import below

pytestmark = pytest.mark.kafka

KILLS = int(os.environ.get("KILLS", "3"))
COUNT = 40 * (KILLS + 4)


def killed(start, root, batches, delay, rng):
    """Start the run, and kill its driver, its JVM or a worker a moment after so many more batches."""
    before = metrics(root).get("batches", 0)
    process = start("run", *GIVEN, "--once", cwd=root)
    try:
        while process.poll() is None and metrics(root).get("batches", 0) < before + batches:
            time.sleep(0.02)
        time.sleep(delay)
        jvm, workers = below(process)
        victims = [process, *([jvm] if jvm else []), *workers[:1]]
        if process.poll() is None:
            with suppress(psutil.NoSuchProcess):
                rng.choice(victims).kill()
        process.communicate()
    finally:
        for child in below(process)[1]:
            with suppress(psutil.Error):
                child.kill()


def test_killed_at_any_moment_each_result_is_there_once(broker, start, thalweg, tmp_path):
    rng = random.Random(os.environ.get("SEED", "1"))
    topics = {name: broker.topic(name) for name in "abc"}
    for seed, topic in enumerate(topics.values()):
        broker.send(topic, rows(seed, COUNT))
    write(tmp_path, broker.servers, topics, sites=3, more=", maxOffsetsPerTrigger: 20")
    for _ in range(KILLS):
        killed(start, tmp_path, rng.randrange(3), rng.uniform(0, 1.5), rng)
    code, _, err = thalweg("run", *GIVEN, "--once", cwd=tmp_path)
    assert code == 0, err
    assert metrics(tmp_path)["complete"]
    assert metrics(tmp_path)["input_rows"] == dict.fromkeys("abc", COUNT)
    verified(thalweg, tmp_path)
