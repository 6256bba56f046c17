"""Whatever is killed at whatever moment: started again until it is done, a run has each result once."""

from __future__ import annotations

import json
import random
import subprocess
import time
from contextlib import suppress

import psutil
import pytest

from .feed import SECOND, Feed, catalog_yaml, expected, place_of, results_of, written
from .test_run import one_message

BATCHES = 12
RUN = ("run", "q.sql", "--catalog", "catalog.yaml", "--out", "out", "--once", "--json")
RANGES = """SELECT a.id AS x, b.id AS y, c.id AS z, result_time
FROM a [RANGE 6 SECONDS], b [RANGE 4 SECONDS], c [RANGE 6 SECONDS] WHERE a.k = b.k AND b.j = c.j
"""
LITTLE_MEMORY = ("--memory-budget", "1kB", "--spill-delay", "5 seconds")
ROWS = """SELECT a.id AS x, b.id AS y, c.id AS z, result_time
FROM a [ROWS 5], b [RANGE 4 SECONDS SLIDE 3 SECONDS], c [RANGE 6 SECONDS] WHERE a.k = b.k AND b.k = c.k
"""


def make(root, sql, seed=0):
    """A place with three streams of a dozen files, and what the query must give."""
    rng = random.Random(seed)
    columns = {"ts": "timestamp", "k": "int", "j": "int", "id": "bigint"}
    feeds = {}
    for name in "abc":
        batches = [
            [
                {
                    "ts": (4 * n + rng.randrange(8) - 25 * (rng.random() < 0.1)) * SECOND,
                    "k": rng.randrange(5),
                    "j": rng.randrange(5),
                    "id": 10 * n + i,
                }
                for i in range(10)
            ]
            for n in range(BATCHES)
        ]
        feeds[name] = Feed(columns, batches, lateness=6 * SECOND, order=("id",))
    written(feeds, root / "data")
    (root / "catalog.yaml").write_text(catalog_yaml(feeds))
    (root / "q.sql").write_text(sql)
    wanted = expected(sql, feeds)
    assert wanted
    return feeds, wanted


def below(process):
    """The JVM of a run and its Python workers, all of them children of the run's own process."""
    jvm, workers = None, []
    with suppress(psutil.Error):
        for child in psutil.Process(process.pid).children(recursive=True):
            with suppress(psutil.Error):
                if child.name() == "java":
                    jvm = child
                elif "python" in child.name():
                    workers.append(child)
    return jvm, workers


def kill(process, what, rng):
    """Kill one process of a run; False when there is none such yet."""
    jvm, workers = below(process)
    if what == "driver":
        process.kill()
        return True
    victims = [jvm] if what == "jvm" and jvm is not None else workers if what == "worker" else []
    if not victims:
        return False
    with suppress(psutil.NoSuchProcess):
        rng.choice(victims).kill()
    return True


def batches_of(root, out="out"):
    try:
        return json.loads((place_of(out, root) / "metrics.json").read_text())["batches"]
    except (OSError, ValueError):
        return 0


def disturbed(root, start, what, at, delay, rng, more=()):
    """Start the run and kill a part of it a moment after so many batches; the exit status."""
    process = start(*RUN, *more, cwd=root)
    try:
        deadline = time.monotonic() + 240
        while process.poll() is None and batches_of(root) < at and time.monotonic() < deadline:
            time.sleep(0.02)
        time.sleep(delay)
        while process.poll() is None and time.monotonic() < deadline:
            if kill(process, what, rng):
                break
            time.sleep(0.02)
        try:
            _, err = process.communicate(timeout=240)
        except subprocess.TimeoutExpired:
            pytest.fail(f"hangs after the {what} was killed")
    finally:
        jvm, workers = below(process)
        process.kill()
        process.wait()
        for child in (jvm, *workers):
            with suppress(psutil.Error, AttributeError):
                child.kill()
    if what == "jvm" and process.returncode:
        assert "Spark has ended unexpectedly; the same command continues" in one_message(err)
    return process.returncode


def finish(root, command, feeds, wanted, more=()):
    for _ in range(3):
        code, out, err = command(*RUN, *more, cwd=root)
        if code == 0:
            break
    assert code == 0, err
    metrics = json.loads(out)
    assert metrics["complete"] is True
    assert results_of(root / "out") == wanted
    assert metrics["input_rows"] == {n: len(f.rows) for n, f in feeds.items()}
    assert metrics["late_rows"] == {n: len(f.split()[1]) for n, f in feeds.items()}
    assert metrics["output_rows"] == {"q": sum(wanted.values())}
    code, out, err = command(
        "verify", "q.sql", "--catalog", "catalog.yaml", "--out", "out", "--json", cwd=root
    )
    assert code == 0, err
    assert json.loads(out)["same"] is True


def check(root, start, command, sql, kills, seed, more=()):
    rng = random.Random(seed)
    feeds, wanted = make(root, sql, seed)
    statuses = []
    for what in kills:
        at = min(batches_of(root) + rng.randrange(1, 4), BATCHES - 1)
        statuses.append(disturbed(root, start, what, at, rng.random() * 1.5, rng, more))
        assert batches_of(root) < BATCHES + 2
    assert any(statuses)  # at least one of them did end a run
    finish(root, command, feeds, wanted, more)


def test_killed_twice(tmp_path, start, command):
    check(tmp_path, start, command, RANGES, ("jvm", "driver"), seed=1)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2))
def test_killed_many_times(tmp_path, start, command, seed):
    rng = random.Random(seed)
    # A run may survive the death of a worker that is idle, and is then complete before anything else dies.
    kills = [rng.choice(("driver", "jvm")), *(rng.choice(("driver", "jvm", "worker")) for _ in range(3))]
    check(tmp_path, start, command, (RANGES, ROWS)[seed % 2], kills, seed)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2))
def test_killed_with_windows_on_disk(tmp_path, start, command, seed):
    rng = random.Random(seed)
    kills = [rng.choice(("driver", "jvm")), *(rng.choice(("driver", "jvm", "worker")) for _ in range(2))]
    check(tmp_path, start, command, RANGES, kills, seed, LITTLE_MEMORY)
    assert not (tmp_path / "out" / "_thalweg" / "spill").exists()


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2))
def test_killed_before_the_first_batch(tmp_path, start, command, seed):
    rng = random.Random(seed)
    feeds, wanted = make(tmp_path, RANGES, seed)
    for what in ("driver", "jvm", "driver"):
        disturbed(tmp_path, start, what, 0, rng.random() * 8, rng)
    finish(tmp_path, command, feeds, wanted)
