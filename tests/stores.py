"""An object store for tests: moto's S3 server on loopback, in a process of its own."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.request import urlopen

import pytest

from tests.spark.cluster import HOST, free_port
from thalweg.storage import RemotePath, location

_SERVER = """
import sys, time
from moto.server import ThreadedMotoServer
ThreadedMotoServer(ip_address=sys.argv[1], port=int(sys.argv[2]), verbose=False).start()
time.sleep(float(sys.argv[3]))
"""


@contextmanager
def store(seconds: float = 3600.0) -> Iterator[RemotePath]:
    """A bucket, for this process and all that it starts; the server ends by itself after so long."""
    address = f"http://{HOST}:{(port := free_port())}"
    server = subprocess.Popen(
        [sys.executable, "-c", _SERVER, HOST, str(port), str(seconds)], stderr=subprocess.DEVNULL
    )
    settings = {
        "AWS_ENDPOINT_URL": address,
        "AWS_ACCESS_KEY_ID": "AKIATESTS",
        "AWS_SECRET_ACCESS_KEY": "only-for-tests",
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    try:
        deadline = time.monotonic() + 120
        while True:
            try:
                urlopen(f"{address}/moto-api/data.json").close()
                break
            except OSError:
                assert server.poll() is None and time.monotonic() < deadline
                time.sleep(0.1)
        with pytest.MonkeyPatch.context() as patch:
            for name, value in settings.items():
                patch.setenv(name, value)
            made = location("s3a://thalweg-tests")
            assert isinstance(made, RemotePath)
            made._store.mkdir(made.key)
            yield made
    finally:
        server.kill()
        server.wait()
