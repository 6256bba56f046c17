"""A run moves from plan to plan while its streams flow on, and is killed: the results are those of DuckDB."""

from __future__ import annotations

import json
import random
import time

import psutil
import pytest

from .feed import SECOND, expected, results_of
from .places import STAR
from .switching import POINTS, Switching
from .test_kill import batches_of, below, kill
from .test_switch import PLANS, complete, finished, started, switched

PHASE = 20 * SECOND
"""Of event time from one change to the next: the windows of each plan have tuples of the one before."""


def moving(root, kinds, **more):
    made, arguments = switched(root, kinds, apart=PHASE, **more)
    return made, (*arguments, "--adapt", "central")


def check(made, metrics):
    """All results once, all rows counted; the moves that began."""
    assert metrics["complete"] is True
    assert metrics["input_rows"] == {n: len(f.rows) for n, f in made.feeds.items()}
    assert metrics["late_rows"] == {n: len(f.split()[1]) for n, f in made.feeds.items()}
    wanted, found = expected(STAR, made.feeds), results_of(made.root / "out", "q")
    assert sum(wanted.values()) > 100
    assert found == wanted, f"missing {len(wanted - found)}, extra {len(found - wanted)}"
    changes = json.loads((made.root / "changes.json").read_text())
    folder = made.root / "out" / "_thalweg" / "programs"
    for batch in changes:
        program = json.loads((folder / f"{int(batch) + 1:09d}.json").read_text())["program"]
        assert program["starting"] or program["leaving"] == []


def test_back_and_forth(tmp_path, thalweg, monkeypatch):
    made, arguments = moving(tmp_path, ("tree", "linear", "partitioned", "tree"), each=5)
    monkeypatch.setattr("thalweg.spark.run._Run", Switching)
    monkeypatch.setattr("tests.spark.switching.JITTER_S", 0.0)  # so that each move is done before the next
    code, out, err = thalweg(*arguments, cwd=tmp_path)
    assert (code, err) == (0, ""), err
    check(made, json.loads(out))
    steps = [
        json.loads(p.read_text())["program"]
        for p in sorted((tmp_path / "out" / "_thalweg" / "programs").glob("[0-9]" * 9 + ".json"))
    ]
    begun = {name.split(":")[0] for s in steps for name in s["starting"]}
    assert len(begun) == 3
    gone = {name.split(":")[0] for s in steps for name in s["ending"]}
    assert len(gone & {"q.join1", "q.join2", *begun}) >= 2  # they were completed, not given up


EVERY = ("tree", "linear", "partitioned", "one-site")


@pytest.mark.long
@pytest.mark.parametrize("point", POINTS)
def test_killed_at_each_point_of_a_move(tmp_path, point):
    made, arguments = moving(
        tmp_path, EVERY, each=1 + 3 * (POINTS.index(point) % 2), seed=POINTS.index(point)
    )
    changes = json.loads((tmp_path / "changes.json").read_text())
    for batch in changes:
        (tmp_path / "die").write_text(f"{batch} {point}")
        assert finished(started(arguments, tmp_path)) == -9, (tmp_path / "errors").read_text()
        assert not (tmp_path / "die").exists()
    check(made, complete(arguments, tmp_path))


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2))
def test_killed_at_any_moment(tmp_path, seed):
    rng = random.Random(seed)
    kinds = ["tree", *(rng.choice(list(PLANS)) for _ in range(5))]
    made, arguments = moving(tmp_path, kinds, each=rng.choice([2, 4]), seed=10 + seed)
    for what in (rng.choice(("driver", "jvm", "worker")) for _ in range(4)):
        process = started(arguments, tmp_path)
        goal = batches_of(tmp_path) + rng.randrange(1, 6)
        while process.poll() is None and batches_of(tmp_path) < goal:
            time.sleep(0.02)
        time.sleep(rng.random())
        while process.poll() is None and not kill(process, what, rng):
            time.sleep(0.02)
        jvm, workers = below(process)
        finished(process)
        psutil.wait_procs([p for p in (jvm, *workers) if p is not None])
    check(made, complete(arguments, tmp_path))
