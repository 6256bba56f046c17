"""A Kafka broker on this machine, and topics on it."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from thalweg.bench import broker

SCRIPT = Path(__file__).parents[2] / broker.SCRIPT
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
        broker.create(self.servers, [topic], partitions)

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

    def admin(self) -> AbstractContextManager[Any]:
        return broker.admin(self.servers)


@contextmanager
def running(folder: Path) -> Iterator[Broker]:
    """A broker for as long as it is needed."""
    with broker.running(folder, SCRIPT) as servers:
        started = Broker(servers)
        try:
            yield started
        finally:
            started.producer.close()
