"""A Kafka broker on this machine, and topics on it."""

from __future__ import annotations

import json
import socket
import subprocess
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewTopic
from kafka.errors import KafkaError

SCRIPT = Path(__file__).parents[2] / "tools" / "kafka" / "broker.sh"
PARTITIONS = 3


@dataclass
class Broker:
    """A broker that runs, and a producer for its topics."""

    servers: str
    producer: Any = field(init=False)

    def __post_init__(self) -> None:
        self.producer = KafkaProducer(bootstrap_servers=self.servers, reconnect_backoff_max_ms=500)

    def topic(self, name: str = "t", partitions: int = PARTITIONS) -> str:
        """A new topic; its name is its own."""
        made = f"{name}-{uuid.uuid4().hex[:8]}"
        self.create(made, partitions)
        return made

    def create(self, topic: str, partitions: int = PARTITIONS) -> None:
        with self.admin() as admin:
            admin.create_topics([NewTopic(topic, partitions, 1)])

    def delete(self, topic: str) -> None:
        with self.admin() as admin:
            admin.delete_topics([topic])
            while topic in admin.list_topics():
                time.sleep(0.1)

    def trim(self, topic: str, partition: int, before: int) -> None:
        """Take all records before an offset away, as a broker does with old ones."""
        with self.admin() as admin:
            admin.delete_records({TopicPartition(topic, partition): before})

    def send(self, topic: str, rows: Iterable[Mapping[str, Any] | bytes | None], **more: Any) -> None:
        """Records of JSON, or of bytes as they are; spread over the partitions in turn."""
        for n, row in enumerate(rows):
            value = json.dumps(row).encode() if isinstance(row, Mapping) else row
            self.producer.send(topic, value, **{"partition": n % PARTITIONS, **more})
        self.producer.flush()

    def records(self, topic: str) -> list[Any]:
        """All records that a topic holds."""
        consumer = KafkaConsumer(bootstrap_servers=self.servers, enable_auto_commit=False)
        try:
            parts = [TopicPartition(topic, p) for p in sorted(consumer.partitions_for_topic(topic) or ())]
            consumer.assign(parts)
            ends = consumer.end_offsets(parts)
            consumer.seek_to_beginning(*parts)
            found: list[Any] = []
            while any(consumer.position(p) < ends[p] for p in parts):
                found += [r for rows in consumer.poll(1000).values() for r in rows]
            return found
        finally:
            consumer.close()

    @contextmanager
    def admin(self) -> Iterator[Any]:
        client = KafkaAdminClient(bootstrap_servers=self.servers)
        try:
            yield client
        finally:
            client.close()


@contextmanager
def running(folder: Path) -> Iterator[Broker]:
    """A broker for as long as it is needed."""
    port = _free_port()
    with (folder / "broker.log").open("wb") as log:
        process = subprocess.Popen(
            [SCRIPT, "run", str(port), folder], stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
    try:
        broker = _answers(f"127.0.0.1:{port}", process, folder / "broker.log")
        try:
            yield broker
        finally:
            broker.producer.close()
    finally:
        process.kill()  # it need not tidy up: its folder goes
        process.wait()


def _answers(servers: str, process: subprocess.Popen[bytes], log: Path) -> Broker:
    """The broker, once it answers."""
    while process.poll() is None:
        try:
            broker = Broker(servers)
            with broker.admin() as admin:
                admin.list_topics()
            return broker
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
