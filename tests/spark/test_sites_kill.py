"""A run across sites, whatever is killed at whatever moment, also while parcels are on their way."""

from __future__ import annotations

import json
import random
import subprocess
import time
from contextlib import suppress

import psutil
import pytest

from thalweg.storage import scheme_of

from .feed import place_of
from .places import CHAIN, GROUPS, OUTER, STAR, check_complete, place, unread
from .test_kill import batches_of, below, kill

JITTER = ("--jitter", 1)
KINDS = ("tree", "linear", "partitioned", "outer", "groups")


def made_for(kind, root, seed, out="out"):
    """A place, and the arguments of its run."""
    sql = {"partitioned": STAR, "outer": OUTER, "groups": GROUPS}.get(kind, CHAIN)
    made = place(root, sql, seed=seed, skewed=kind == "partitioned")
    chosen = {
        "tree": ("--planner", "optimal"),
        "linear": ("--plan", made.by_sequences("plan.json", seed=seed)) if kind == "linear" else (),
        "partitioned": ("--planner", "pmjoin"),
        "outer": ("--planner", "optimal"),
        "groups": ("--planner", "optimal"),
    }[kind]
    return made, made.run(*chosen, *JITTER, out=out)


def disturbed(root, start, arguments, what, at, flying, rng, out="out"):
    """Start the run and kill a part of it a moment after so many batches.

    `flying`: only when something is on its way. Gives the exit status and how many files were on their way.
    """
    process = start(*arguments, cwd=root)
    flew, pause = 0, 0.3 if scheme_of(out) else 0.01  # looking into a store is work for the store
    try:
        deadline = time.monotonic() + 300
        while process.poll() is None and batches_of(root, out) < at and time.monotonic() < deadline:
            time.sleep(pause)
        time.sleep(rng.random())
        while process.poll() is None and time.monotonic() < deadline:
            with suppress(OSError):
                flew = len(unread(place_of(out, root)))
            if (flew or not flying) and kill(process, what, rng):
                break
            time.sleep(pause)
        try:
            process.communicate(timeout=300)
        except subprocess.TimeoutExpired:
            pytest.fail(f"hangs after the {what} was killed")
    finally:
        jvm, workers = below(process)
        process.kill()
        process.wait()
        for child in (jvm, *workers):
            with suppress(psutil.Error, AttributeError):
                child.kill()
    return process.returncode, flew


def check(root, start, command, kind, kills, seed, out="out"):
    rng = random.Random(seed)
    made, arguments = made_for(kind, root, seed, out)
    seen = []
    for n, what in enumerate(kills):
        at = batches_of(root, out) + rng.randrange(1, 5)
        seen.append(disturbed(root, start, arguments, what, at, n % 2 == 0, rng, out))
        if seen[-1][0] == 0:  # it has survived the death of an idle worker, and gone on to the end
            break
    assert any(status for status, _ in seen)
    assert any(flew for _, flew in seen)
    for _ in range(3):
        code, said, err = command(*arguments, cwd=root)
        if code == 0:
            break
    assert code == 0, err
    check_complete(made, json.loads(said), command, out)


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_killed_once_each(tmp_path, start, command, kind):
    check(tmp_path, start, command, kind, ("driver", "jvm", "worker"), seed=KINDS.index(kind))


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_killed_again_and_again(tmp_path, start, command, kind):
    rng = random.Random(1)
    kills = [rng.choice(("driver", "jvm")), *(rng.choice(("driver", "jvm", "worker")) for _ in range(4))]
    check(tmp_path, start, command, kind, kills, 101)


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_killed_at_the_end(tmp_path, start, command, kind):
    """When the streams have ended, and what is left of their windows is on its way."""
    rng = random.Random(KINDS.index(kind))
    made, arguments = made_for(kind, tmp_path, seed=7)
    process = start(*arguments, cwd=tmp_path)
    try:
        ended = tmp_path / "out" / "_thalweg" / "exchange" / "control"
        deadline = time.monotonic() + 300
        while process.poll() is None and time.monotonic() < deadline:
            if ended.exists() and any(ended.glob("*.parcels")):
                break
            time.sleep(0.02)
        time.sleep(rng.random() * 3)
        process.kill()
        process.communicate()
    finally:
        process.kill()
        process.wait()
    code, out, err = command(*arguments, cwd=tmp_path)
    assert code == 0, err
    check_complete(made, json.loads(out), command)
