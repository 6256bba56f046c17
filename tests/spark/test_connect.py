"""`thalweg.join` and `thalweg.sql` on a Spark Connect session, which must be the only one of its process."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from itertools import chain, pairwise
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.conftest import environment

from .connect_cases import LONG, SQL, feeds_of
from .feed import Feed, expected, multiset, written
from .remote import CONNECT, VARIABLE

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
KILLS = int(os.environ.get("KILLS", "3"))


def on_connect(*what: object, within: float = 600) -> None:
    """Run pytest, whose tests have a Connect session."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-x", "-p", "no:cacheprovider", *map(str, what)],
        cwd=ROOT,
        env={**environment(), VARIABLE: CONNECT},
        capture_output=True,
        text=True,
        timeout=within,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout


def test_a_join_goes_on_where_it_stopped():
    on_connect(HERE / "connect_cases.py")


def batches_of(feeds: dict[str, Feed], checkpoint: Path) -> dict[str, Feed]:
    """The streams in the batches that Spark made of them; what is late follows from these.

    A source that was killed after it had noted a file, and before the query had, takes the next file as well.
    """
    batches = sorted((checkpoint / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
    ends = [[json.loads(line)["logOffset"] for line in path.read_text().splitlines()[2:]] for path in batches]
    made = {}
    for n, own in enumerate(zip(*ends, strict=True)):
        name = re.search(r"/(\w+)/00000", (checkpoint / "sources" / str(n) / "0").read_text())[1]
        parts = (feeds[name].batches[begin + 1 : end + 1] for begin, end in pairwise((-1, *own)))
        made[name] = replace(feeds[name], batches=[list(chain.from_iterable(part)) for part in parts])
        assert len(made[name].rows) == len(feeds[name].rows)
    return made


@pytest.mark.long
def test_killed_at_any_moment_each_result_is_there_once(tmp_path):
    """The program and its server, which end together."""
    rng = random.Random(os.environ.get("SEED", "1"))
    feeds = feeds_of(*LONG)
    written(feeds, tmp_path)

    def batches() -> int:
        return len([*(tmp_path / "checkpoint" / "commits").glob("[0-9]*")])

    def start() -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "tests.spark.connect_cases", str(tmp_path)]
        return subprocess.Popen(command, cwd=ROOT, env=environment(), start_new_session=True)

    for _ in range(KILLS):
        until = batches() + rng.randint(1, 3)
        process = start()
        while process.poll() is None and batches() < until:
            time.sleep(0.05)
        time.sleep(rng.uniform(0, 1))
        assert process.poll() is None, "nothing is left to be killed"
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert start().wait(600) == 0
    found = multiset(pq.read_table(tmp_path / "all.parquet"))
    assert found == expected(SQL, batches_of(feeds, tmp_path / "checkpoint"))


@pytest.mark.long
@pytest.mark.parametrize("module", ["test_api", "test_sql", "test_tables", "test_after"])
def test_all_that_works_on_a_classic_session(module):
    on_connect(HERE / f"{module}.py", "-m", "not long", within=3000)
