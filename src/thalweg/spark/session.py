"""The Spark session, set up as the host needs it."""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import re
import resource
import secrets
import signal
import site
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyspark
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession, is_remote

from thalweg import private
from thalweg.errors import UserError
from thalweg.processes import Process
from thalweg.spark import packages
from thalweg.spark.java import check_java, class_options
from thalweg.spark.rows import ROWS_A_BATCH

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_PARTITIONS = "spark.sql.shuffle.partitions"
_SPLITS = re.compile(r"splits=(\d+)")
_OWN_PATH, _QUIET = (Path(__file__).with_name(name) for name in ("python.sh", "quiet.sh"))
_STATE_SERVER = "org.apache.spark.sql.execution.python.streaming.TransformWithStateInPySparkStateServer"
_NO_START = "JAVA_GATEWAY_EXITED"
_IN_MEMORY = "HDFSBackedStateStoreProvider"

RUNTIME = {
    # Only the changes of a batch are written, not a snapshot; and nobody reads the number of rows.
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": "false",
    # Counted by bytes, Spark adds up the size of a batch anew with every row, which takes as long as writing
    # the rows. What bounds a batch instead is its rows: `messages.LIMIT` keeps each of them small enough.
    "spark.sql.execution.arrow.maxBytesPerBatch": str((1 << 31) - 1),
    "spark.sql.execution.arrow.maxRecordsPerBatch": str(ROWS_A_BATCH),
    # Spark has one worker daemon for each environment that it is asked for. It asks for simplified tracebacks
    # everywhere but in stateful operators; without them, one daemon serves all.
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false",
}
"""Settings that pay off in any session that runs a join; they can be changed while it runs."""

_LOCAL = {
    # The default goes through Hadoop's FileContext. Without Hadoop's native library, which PySpark does not
    # bring, that starts a `readlink` or `chmod` process for every file it touches, many a micro-batch.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}
"""Settings for one machine."""

_DEFAULTS = {
    "spark.app.name": "thalweg",
    # Over TCP, small messages between the JVM and Python wait for each other's acknowledgement, up to 40 ms.
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.python.daemon.module": "thalweg.spark.daemon",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.driver.memory": "4g",
    # A restart needs the last batch. Of each of the 100 batches that Spark keeps otherwise, its log of source
    # files can have a copy of all that it has ever read.
    "spark.sql.streaming.minBatchesToRetain": "10",
    "spark.sql.streaming.fileSource.log.cleanupDelay": "60s",
}


FILES = 1024
"""So many files may be open at least: Spark opens some hundreds, and with too few it ends without a word."""


def allow_files() -> None:
    """Let this process and those that it starts open enough files; an error where that is not allowed."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= FILES:
        return
    if hard != resource.RLIM_INFINITY and hard < FILES:
        raise UserError(
            f"a process may open {hard:,} files at once, and Spark needs {FILES:,}",
            remedy=f"raise the limit (`ulimit -n {FILES}`)",
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, hard))


def session(master: str | None = None, log: Path | None = None, **conf: str) -> SparkSession:
    """A session with everything a join needs; `conf` goes on top. What Spark has to say goes to `log`."""
    allow_files()
    # Spark would start the python3 of the PATH, which need not have our packages.
    master = master or os.environ.get("SPARK_MASTER") or "local[*]"
    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        os.environ.setdefault(name, _python(master))
    collector = "-XX:+UseSerialGC" if (os.cpu_count() or 1) <= 4 else "-XX:+UseParallelGC"
    options = " ".join([collector, *class_options()])
    local = {}
    if master.startswith("local"):
        local = dict(_LOCAL)
        if (folder := _temporary()) is not None:
            options += f" -Djava.io.tmpdir={folder}"
            local["spark.local.dir"] = str(folder)
        local["spark.driver.extraJavaOptions"] = options
    _quiet()
    settings = _DEFAULTS | local | {_PROVIDER: ROCKSDB} | RUNTIME | conf
    builder = SparkSession.builder.master(master)
    for key, value in settings.items():
        builder = builder.config(key, value)
    wanted = settings.get("spark.jars.packages")
    with _read_back(log) if wanted else _said_to(log) as said:
        try:
            with _own_interrupt():
                SparkContext.getOrCreate(SparkConf().setMaster(master).setAll(list(settings.items())))
        except PySparkRuntimeError:
            check_java()
            if wanted and said is not None:
                packages.check_had(wanted, said())
            raise
        spark = builder.getOrCreate()
    if not _debugging():
        # It would print a traceback for every connection of a JVM that is gone.
        spark.sparkContext._accumulatorServer.handle_error = lambda *_: None  # type: ignore[method-assign]
    if "spark.sql.shuffle.partitions" not in conf:
        spark.conf.set("spark.sql.shuffle.partitions", str(spark.sparkContext.defaultParallelism))
    if local:
        # A checksum beside every file means two `chmod` processes a file instead of one, since Hadoop's
        # native library is missing; the file systems and formats of today keep checksums of their own.
        jvm, hadoop = spark.sparkContext._jvm, spark._jsc.hadoopConfiguration()
        assert jvm is not None
        jvm.org.apache.hadoop.fs.FileSystem.getLocal(hadoop).setWriteChecksum(False)
    spark.sparkContext.setLogLevel(os.environ.get("THALWEG_SPARK_LOG", "ERROR"))
    return spark


@functools.cache
def _temporary() -> Path | None:
    """The folder of Spark's temporary files and sockets; a killed process leaves them to the next one.

    None where its path can't be given to Java, or leaves no room for the name of a socket.
    """
    parent, own = Path(tempfile.gettempdir()), Process.of(os.getpid())
    private.remove_left(parent)
    folder = private.path(parent, secrets.token_hex(8))
    if own is None or " " in str(folder) or len(str(folder)) > 60 or not private.make(folder, own):
        return None
    private.remove_at_exit(folder)
    return folder


def _python(master: str) -> str:
    """The Python of Spark's workers: this one, locally by way of `python.sh`."""
    found = str(Path(pyspark.__file__).parent.parent)
    usual = [*site.getsitepackages(), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    if not master.startswith("local") or found not in usual or not _runs(_OWN_PATH, _QUIET):
        return sys.executable
    os.environ["THALWEG_PYTHON"] = sys.executable
    return str(_OWN_PATH)


def _runs(*scripts: Path) -> bool:
    return all(os.access(script, os.X_OK) for script in scripts)


@contextlib.contextmanager
def quiet_workers(spark: SparkSession) -> Iterator[None]:
    """Stateful operators that are made meanwhile run without Spark's own lines about their workers.

    These would go to the standard error of a session of the user's. The Python of the workers stays what it
    is, and so does all that the user has set; THALWEG_SPARK_LOG asks for the lines. The server of a
    Connect session writes them to its own output, where nothing can be done about them from here.
    """
    if is_remote():
        yield
        return
    context = spark.sparkContext
    python, environment = context.pythonExec, context.environment
    done = python == str(_OWN_PATH) or "THALWEG_SPARK_LOG" in os.environ
    if done or not str(context.master).startswith("local") or not _runs(_QUIET):
        yield
        return
    _quiet_state_server(spark)
    context.pythonExec, context.environment = str(_QUIET), {**environment, "THALWEG_PYTHON": python}
    try:
        yield
    finally:
        context.pythonExec, context.environment = python, environment


def _quiet_state_server(spark: SparkSession) -> None:
    """It warns of each entry of the state that is not there yet. A level that the user has set stays."""
    jvm: Any = spark.sparkContext._jvm
    log4j = jvm.org.apache.logging.log4j
    settings = log4j.LogManager.getContext(False).getConfiguration().getLoggerConfig(_STATE_SERVER)
    if not settings.getName():  # the one for all
        log4j.core.config.Configurator.setLevel(_STATE_SERVER, log4j.Level.ERROR)


@contextlib.contextmanager
def _read_back(log: Path | None) -> Iterator[Callable[[], str]]:
    """The same as `_said_to`, and a way to read what the JVM has said."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "log" if log is None or log == Path(os.devnull) else log
        before = file.stat().st_size if file.exists() else 0
        with _said_to(file):
            yield lambda: file.read_bytes()[before:].decode(errors="replace")


@contextlib.contextmanager
def _said_to(log: Path | None) -> Iterator[None]:
    """A JVM that starts meanwhile writes its standard error to the file, for as long as it lives."""
    if log is None:
        yield
        return
    kept = os.dup(2)
    with log.open("ab") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _quiet() -> None:
    """PySpark logs every error that it also raises, as pages of JSON; the commands say it in a line.

    Py4J uses the root logger, which makes itself a handler for standard error if it has none.
    """
    if not _debugging():
        if not logging.root.handlers:
            logging.root.addHandler(logging.NullHandler())
        for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
            PySparkLogger.getLogger(name).setLevel(logging.CRITICAL + 1)


def _debugging() -> bool:
    return os.environ.get("THALWEG_DEBUG") == "1"


@contextlib.contextmanager
def _own_interrupt() -> Iterator[None]:
    """Who handles Ctrl-C now does so afterwards; a context that starts would take it over."""
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if before is not None and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, before)


def has_ended(error: Exception) -> bool:
    """Whether Spark's JVM is gone, by an error of a call to it."""
    process = getattr(SparkContext._gateway, "proc", None)
    ended = process is not None and process.poll() is not None
    # Py4J raises this class itself, without Java's trace, where a call got no answer.
    unanswered = type(error) is Py4JError and "Trace:" not in str(error)
    lost = unanswered or isinstance(error, ConnectionError | Py4JNetworkError)
    return ended or lost or _NO_START in str(error)


def stop(spark: SparkSession) -> None:
    """End a session of ours. The caller reports a lost JVM."""
    with warnings.catch_warnings(action="ignore", category=RuntimeWarning):
        spark.stop()


def end_java() -> None:
    """End the JVM that this process has started, and wait until it is gone; no session is possible then."""
    gateway = SparkContext._gateway
    process = getattr(gateway, "proc", None)
    if gateway is not None and process is not None:
        gateway.shutdown()
        process.stdin.close()
        process.wait()


def has_lasting_server() -> bool:
    """Whether the session's queries run in a server of Spark Connect that goes on when this process ends."""
    return is_remote() and "SPARK_LOCAL_REMOTE" not in os.environ


def prepare(spark: SparkSession) -> None:
    """Make a session of the user's fit for a streaming join, or say what stands in the way."""
    provider = str(spark.conf.get(_PROVIDER, ""))
    if provider and provider != ROCKSDB and not provider.endswith(_IN_MEMORY):
        raise UserError(
            f"the state store {provider} can't hold a join's state",
            remedy=f"set {_PROVIDER} to {ROCKSDB}",
        )
    spark.conf.set(_PROVIDER, ROCKSDB)
    for key, value in RUNTIME.items():
        spark.conf.set(key, value)
    # Spark's own are 200. For a join of few fat messages, 200 tasks a batch are waste.
    if not spark.conf.get(_PARTITIONS, None) and (cores := _parallelism(spark)) is not None:
        spark.conf.set(_PARTITIONS, cores)


def _parallelism(spark: SparkSession) -> str | None:
    """How many tasks run at once, as Spark plans them; a Connect session has no context to ask."""
    plan = spark.sql("EXPLAIN SELECT * FROM range(1)").first()
    found = plan and _SPLITS.search(plan[0])
    return found[1] if found else None
