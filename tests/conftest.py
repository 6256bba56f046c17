"""What tests of all parts share: one Spark session, and the command line in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest


@pytest.fixture(scope="session", autouse=True)
def operations(tmp_path_factory):
    """Prices of a join's operations that are the same on every machine, and nothing in the user's home."""
    seconds = {
        **{"hash": 3e-8, "move": 5e-9, "compare": 5e-9, "probe": 2e-8, "found": 1e-9},
        **{"copy": 1e-9, "take": 1e-9, "far": 6e-9, "grow": 1e-9, "call": 1.5e-5, "between": 0.0},
    }
    path = tmp_path_factory.mktemp("operations") / "operations.json"
    path.write_text(json.dumps({"version": 2, "seconds": seconds}))
    before = os.environ.get("THALWEG_OPERATIONS")
    os.environ["THALWEG_OPERATIONS"] = str(path)
    yield path
    if before is None:
        del os.environ["THALWEG_OPERATIONS"]
    else:
        os.environ["THALWEG_OPERATIONS"] = before


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    """The one Spark session of this process."""
    from tests.spark import remote
    from thalweg.spark.session import session

    warehouse = tmp_path_factory.mktemp("warehouse")
    conf = {"spark.driver.memory": "2g", "spark.sql.warehouse.dir": warehouse.as_uri()}
    started = remote.session(**conf) if remote.wanted() else session("local[2]", **conf)
    yield started
    started.stop()


@pytest.fixture(scope="session")
def command():
    """Runs `thalweg` in a process of its own: (exit status, standard output, standard error).

    `within` is a command that runs the one after it.
    """

    def run(
        *arguments: object, cwd: Path | None = None, timeout: float = 300, within: Sequence[str] = ()
    ) -> tuple[int, str, str]:
        done = subprocess.run(
            [*within, sys.executable, "-m", "thalweg", *map(str, arguments)],
            cwd=cwd,
            env=environment(),
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        return done.returncode, done.stdout, done.stderr

    return run


@pytest.fixture(scope="session")
def start():
    """Starts `thalweg` and leaves it running."""

    def run(*arguments: object, cwd: Path | None = None) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "thalweg", *map(str, arguments)],
            cwd=cwd,
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    return run


def environment() -> dict[str, str]:
    """The environment of a command: two cores, whatever the machine has, and no settings of the caller's."""
    names = {"PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"}
    # A Connect session of this process has set these.
    names |= {"SPARK_CONNECT_MODE_ENABLED", "SPARK_LOCAL_REMOTE", "SPARK_REMOTE"}
    own = {k: v for k, v in os.environ.items() if k not in names}
    return {**own, "SPARK_MASTER": "local[2]", "THALWEG_DEBUG": "0"}


@pytest.fixture(scope="session")
def bucket():
    """A bucket in an object store on loopback."""
    from tests.stores import store

    with store() as made:
        yield made
