"""A Kafka broker on this machine, which tools/kafka/broker.sh starts."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from thalweg.errors import UserError

SCRIPT = Path("tools") / "kafka" / "broker.sh"


@contextmanager
def running(folder: Path, script: Path = SCRIPT) -> Iterator[str]:
    """A broker for as long as it is needed, by its address. Its data are in the folder."""
    port = _free_port()
    log = folder / "broker.log"
    with log.open("wb") as said:
        process = subprocess.Popen(
            [script.absolute(), "run", str(port), folder], stdin=subprocess.DEVNULL, stdout=said, stderr=said
        )
    try:
        _wait(f"127.0.0.1:{port}", process, log)
        yield f"127.0.0.1:{port}"
    finally:
        process.kill()  # it need not tidy up: its folder goes
        process.wait()


def spark_arguments(script: Path = SCRIPT) -> str:
    """What PYSPARK_SUBMIT_ARGS must be for Spark to have its packages for Kafka.

    A UserError says what is missing for a broker.
    """
    if find_spec("kafka") is None:
        raise UserError("Python's client of Kafka is missing", remedy="pip install kafka-python")
    try:
        done = subprocess.run([script.absolute(), "spark"], capture_output=True, text=True, check=False)
    except OSError as error:
        raise UserError(
            f"can't be started: {error.strerror}",
            where=str(script),
            remedy="run this in a checkout of Thalweg",
        ) from None
    if done.returncode:
        raise UserError((done.stderr.strip() or "has failed").splitlines()[-1], where=str(script))
    return done.stdout.strip()


@contextmanager
def admin(servers: str) -> Iterator[Any]:
    """A client that makes and removes topics."""
    from kafka import KafkaAdminClient

    client = KafkaAdminClient(bootstrap_servers=servers)
    try:
        yield client
    finally:
        client.close()


def create(servers: str, topics: Iterable[str], partitions: int) -> None:
    """Make topics."""
    from kafka.admin import NewTopic

    with admin(servers) as client:
        client.create_topics([NewTopic(topic, partitions, 1) for topic in topics])


def count(servers: str, topic: str) -> int:
    """The records of a topic of which none has been removed."""
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(bootstrap_servers=servers, enable_auto_commit=False)
    try:
        parts = [TopicPartition(topic, p) for p in consumer.partitions_for_topic(topic) or ()]
        return sum(consumer.end_offsets(parts).values())
    finally:
        consumer.close()


def _wait(servers: str, process: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until the broker answers."""
    from kafka.errors import KafkaError

    while process.poll() is None:
        try:
            with admin(servers) as client:
                client.list_topics()
            return
        except (KafkaError, OSError):
            time.sleep(0.2)
    raise RuntimeError(f"the broker has ended: {log.read_text()[-2000:]}")


def _free_port() -> int:
    """A port that is free, as the one after it, which the broker's controller takes."""
    while True:
        with socket.socket() as one, socket.socket() as next_one:
            one.bind(("127.0.0.1", 0))
            port: int = one.getsockname()[1]
            try:
                next_one.bind(("127.0.0.1", port + 1))
            except OSError:
                continue
            return port
