"""A Spark Connect session for tests, in a process without another session.

With THALWEG_TEST_SESSION=connect, pytest takes it for all tests; `tests/spark/test_connect.py` runs it so.
"""

from __future__ import annotations

import os
import socket
import warnings

from pyspark.sql import SparkSession

from thalweg.spark.session import _python

VARIABLE, CONNECT = "THALWEG_TEST_SESSION", "connect"


def wanted() -> bool:
    """Whether the tests of this process are to have a Connect session."""
    return os.environ.get(VARIABLE) == CONNECT


def session(**conf: str) -> SparkSession:
    """The session of `SparkSession.builder.remote("local[2]")`, at a port that is free."""
    from pyspark.sql.connect.client import DefaultChannelBuilder

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    # A session of its own server takes the usual port; another test may have it.
    DefaultChannelBuilder.default_port = staticmethod(lambda: port)
    # As in sessions of the commands: it starts faster. Spark waits for ten seconds, however busy all are.
    os.environ.setdefault("PYSPARK_PYTHON", _python("local[2]"))
    settings = {
        "spark.connect.grpc.binding.port": str(port),
        "spark.python.daemon.module": "thalweg.spark.daemon",
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        **conf,
    }
    with warnings.catch_warnings():  # that settings of the server can't be changed once it runs
        warnings.simplefilter("ignore")
        return SparkSession.builder.remote("local[2]").config(map=settings).getOrCreate()
