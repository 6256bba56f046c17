"""One broker for all tests here, and a Spark that has its packages. `make test-kafka` runs them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.kafka.broker import SCRIPT, running
from tests.spark.conftest import thalweg

__all__ = ["thalweg"]


def pytest_ignore_collect(collection_path, config):
    """Without `-m kafka` there is no broker, and nothing here is even read."""
    return None if "kafka" in config.option.markexpr else True


@pytest.fixture(scope="session", autouse=True)
def packages():
    """Spark starts with its packages, in this process and in those that tests start."""
    done = subprocess.run([SCRIPT, "spark"], stdout=subprocess.PIPE, text=True, check=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(os.environ, "PYSPARK_SUBMIT_ARGS", done.stdout.strip())
        yield


@pytest.fixture(scope="session")
def spark(packages, tmp_path_factory):
    """The one Spark session of this process, with the packages."""
    from thalweg.spark.session import session

    warehouse = tmp_path_factory.mktemp("warehouse")
    started = session(
        "local[2]", **{"spark.driver.memory": "2g", "spark.sql.warehouse.dir": warehouse.as_uri()}
    )
    yield started
    started.stop()


@pytest.fixture(scope="session")
def broker(tmp_path_factory):
    with running(Path(tmp_path_factory.mktemp("broker"))) as started:
        yield started
