"""The same job on a cluster: a standalone master and two workers, each a JVM of its own, on loopback."""

from __future__ import annotations

import json
import os
import random
import re
import socket
import subprocess
import sys
import time
from pathlib import Path

import pyspark
import pytest

from .feed import SECOND, Feed, catalog_yaml, expected, results_of, written

SQL = (
    "SELECT a.id AS x, b.id AS y, c.id AS z, result_time "
    "FROM a [RANGE 6 SECONDS], b [RANGE 4 SECONDS], c [RANGE 6 SECONDS] WHERE a.k = b.k AND b.k = c.k"
)
HOST = "127.0.0.1"


def free_port() -> int:
    with socket.socket() as s:
        s.bind((HOST, 0))
        return s.getsockname()[1]


@pytest.fixture
def cluster(tmp_path):
    """The address of a master with two workers of one core each."""
    home = Path(pyspark.__file__).parent
    env = {k: v for k, v in os.environ.items() if not k.startswith(("SPARK_", "PYSPARK_"))}
    env |= {
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": HOST,
        "SPARK_DAEMON_MEMORY": "384m",
        "SPARK_LOG_DIR": str(tmp_path / "logs"),
        "SPARK_WORKER_DIR": str(tmp_path / "work"),
        "SPARK_LOCAL_DIRS": str(tmp_path / "local"),
        "PYSPARK_PYTHON": sys.executable,
    }
    logs, started = [], []

    def start(name: str, *arguments: str) -> Path:
        log = tmp_path / f"{name}.log"
        logs.append(log)
        with log.open("w") as out:
            started.append(
                subprocess.Popen(
                    [str(home / "bin" / "spark-class"), *arguments], env=env, stdout=out, stderr=out
                )
            )
        return log

    def wait_for(log: Path, pattern: str, count: int = 1) -> None:
        deadline = time.monotonic() + 120
        while len(re.findall(pattern, log.read_text())) < count:
            assert time.monotonic() < deadline, log.read_text()
            assert all(p.poll() is None for p in started), "\n".join(x.read_text() for x in logs)
            time.sleep(0.1)

    url = f"spark://{HOST}:{free_port()}"
    deploy = "org.apache.spark.deploy"
    try:
        port = url.rsplit(":", 1)[1]
        ui = str(free_port())
        master = start("master", f"{deploy}.master.Master", "-h", HOST, "-p", port, "--webui-port", ui)
        wait_for(master, "I have been elected leader")
        for n in range(2):
            more = ("--webui-port", str(free_port()), "-d", str(tmp_path / "work" / str(n)))
            start(f"worker{n}", f"{deploy}.worker.Worker", "-h", HOST, "-c", "1", "-m", "1200m", *more, url)
        wait_for(master, "Registering worker", 2)
        yield url
    finally:
        for process in reversed(started):
            process.terminate()
        for process in started:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@pytest.mark.long
def test_the_same_job_on_a_cluster(tmp_path, cluster, command):
    rng = random.Random(5)
    columns = {"ts": "timestamp", "k": "int", "id": "bigint"}
    feeds = {}
    for name in "abc":
        batches = [
            [
                {
                    "ts": (4 * n + rng.randrange(8) - 25 * (rng.random() < 0.1)) * SECOND,
                    "k": rng.randrange(5),
                    "id": 20 * n + i,
                }
                for i in range(20)
            ]
            for n in range(4)
        ]
        feeds[name] = Feed(columns, batches, lateness=6 * SECOND)
    written(feeds, tmp_path / "data")
    (tmp_path / "catalog.yaml").write_text(catalog_yaml(feeds))
    (tmp_path / "q.sql").write_text(SQL)
    run = ("run", "q.sql", "--catalog", "catalog.yaml", "--out", "out", "--once", "--json")
    code, out, err = command(*run, "--master", cluster, cwd=tmp_path)
    assert code == 0, err
    metrics = json.loads(out)
    assert metrics["complete"] is True
    wanted = expected(SQL, feeds)
    assert wanted
    assert results_of(tmp_path / "out") == wanted
    assert metrics["input_rows"] == {n: len(f.rows) for n, f in feeds.items()}
    assert metrics["late_rows"] == {n: len(f.split()[1]) for n, f in feeds.items()}
    assert metrics["late_rows"]["a"]
    applications = list((tmp_path / "work").glob("*/app-*"))
    assert len(applications) == 2  # both workers ran it
