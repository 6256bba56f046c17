"""A Spark cluster for tests: a standalone master and two workers, each a JVM of its own, on loopback."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyspark

HOST = "127.0.0.1"


def free_port() -> int:
    with socket.socket() as s:
        s.bind((HOST, 0))
        return s.getsockname()[1]


@contextmanager
def cluster(root: Path, hidden: Path | None = None) -> Iterator[str]:
    """The address of a master with two workers of one core each, which leave their files in `root`.

    `hidden` is a folder that the workers, as on other machines, don't see; only root can hide it.
    """
    home = Path(pyspark.__file__).parent
    env = {k: v for k, v in os.environ.items() if not k.startswith(("SPARK_", "PYSPARK_"))}
    env |= {
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": HOST,
        "SPARK_DAEMON_MEMORY": "384m",
        "SPARK_LOG_DIR": str(root / "logs"),
        "SPARK_WORKER_DIR": str(root / "work"),
        "SPARK_LOCAL_DIRS": str(root / "local"),
        "PYSPARK_PYTHON": sys.executable,
    }
    logs, started = [], []

    def start(name: str, *arguments: str, within: Sequence[str] = ()) -> Path:
        log = root / f"{name}.log"
        logs.append(log)
        with log.open("w") as out:
            started.append(
                subprocess.Popen(
                    [*within, str(home / "bin" / "spark-class"), *arguments], env=env, stdout=out, stderr=out
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
    mount = 'mount -t tmpfs none "$0" && exec "$@"'
    apart = () if hidden is None else ("unshare", "--mount", "sh", "-c", mount, str(hidden))
    try:
        port = url.rsplit(":", 1)[1]
        ui = str(free_port())
        master = start("master", f"{deploy}.master.Master", "-h", HOST, "-p", port, "--webui-port", ui)
        wait_for(master, "I have been elected leader")
        for n in range(2):
            more = ("--webui-port", str(free_port()), "-d", str(root / "work" / str(n)))
            start(
                f"worker{n}",
                f"{deploy}.worker.Worker",
                "-h",
                HOST,
                "-c",
                "1",
                "-m",
                "1200m",
                *more,
                url,
                within=apart,
            )
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
