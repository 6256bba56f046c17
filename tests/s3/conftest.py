"""One S3 server for all tests here, and a Spark that has Hadoop's S3A. `make test-s3` runs them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
JARS = ROOT / ".s3" / "jars"


def pytest_ignore_collect(collection_path, config):
    """Without `-m s3` there is no S3A, and nothing here is even read."""
    return None if "s3" in config.option.markexpr else True


@pytest.fixture(scope="session", autouse=True)
def packages():
    """Spark starts with S3A, in this process and in those that tests start."""
    subprocess.run([ROOT / "tools" / "jars.sh", ROOT / "tools" / "s3.xml", JARS], check=True)
    jars = ",".join(map(str, sorted(JARS.glob("*.jar"))))
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(os.environ, "PYSPARK_SUBMIT_ARGS", f"--jars {jars} pyspark-shell")
        yield
