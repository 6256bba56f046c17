"""Fills three topics with the orders, payments and customers of a shop, or shows what a topic holds."""

from __future__ import annotations

import argparse
import contextlib
import json
import random
from collections.abc import Iterator
from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewTopic
from kafka.errors import TopicAlreadyExistsError

TOPICS = ("orders", "payments", "customers", "paid")
PARTITIONS = 3
CUSTOMERS = 50
TIERS = ("basic", "silver", "gold")
BEGIN_MS = 1_790_000_000_000

Record = tuple[str, int | None, dict[str, Any]]
"""A topic, the key of a record, and its value."""


def records(count: int, seed: int = 1) -> Iterator[Record]:
    """So many orders, ten a second, and what belongs to them, in order of time."""
    rng = random.Random(seed)
    found: list[Record] = []
    for customer in range(CUSTOMERS):
        row = {"ts": BEGIN_MS, "version": customer, "customer": customer, "tier": TIERS[0]}
        found.append(("customers", customer, row))
    for order in range(count):
        at = BEGIN_MS + 1000 + 100 * order
        customer = rng.randrange(CUSTOMERS)
        row = {"ts": at, "id": order, "customer": customer, "amount": round(rng.uniform(1, 500), 2)}
        found.append(("orders", order, row))
        if rng.random() < 0.9:  # most are paid, some of them too late
            paid = at + round(rng.expovariate(1 / 40_000))
            method = rng.choice(("card", "transfer", "cash"))
            found.append(("payments", order, {"ts": paid, "method": method}))
        if rng.random() < 0.1:
            row = {"ts": at, "version": CUSTOMERS + order, "customer": customer, "tier": rng.choice(TIERS)}
            found.append(("customers", customer, row))
    yield from sorted(found, key=lambda record: record[2]["ts"])


def create(servers: str) -> None:
    """The topics, where they are missing."""
    admin = KafkaAdminClient(bootstrap_servers=servers)
    for topic in TOPICS:
        with contextlib.suppress(TopicAlreadyExistsError):
            admin.create_topics([NewTopic(topic, PARTITIONS, 1)])
    admin.close()


def fill(servers: str, count: int) -> int:
    """Send all records; how many they are."""
    producer = KafkaProducer(
        bootstrap_servers=servers,
        key_serializer=lambda key: str(key).encode(),
        value_serializer=lambda value: json.dumps(value).encode(),
    )
    sent = 0
    for topic, key, value in records(count):
        producer.send(topic, value, key)
        sent += 1
    producer.flush()
    producer.close()
    return sent


def read(servers: str, topic: str) -> list[dict[str, Any]]:
    """The values that a topic holds."""
    consumer = KafkaConsumer(bootstrap_servers=servers, enable_auto_commit=False)
    parts = [TopicPartition(topic, n) for n in range(PARTITIONS)]
    consumer.assign(parts)
    consumer.seek_to_beginning(*parts)
    ends = consumer.end_offsets(parts)
    found: list[dict[str, Any]] = []
    while any(consumer.position(part) < ends[part] for part in parts):
        for batch in consumer.poll(1000).values():
            found += [json.loads(record.value) for record in batch]
    consumer.close()
    return found


def main(arguments: list[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--servers", default="127.0.0.1:9092", help="the brokers; default: %(default)s")
    parser.add_argument("--orders", type=int, default=10_000, help="how many orders; default: %(default)s")
    parser.add_argument("--show", metavar="TOPIC", help="print the values of a topic instead")
    given = parser.parse_args(arguments)
    if given.show:
        for value in read(given.servers, given.show):
            print(json.dumps(value))
        return
    create(given.servers)
    print(f"{fill(given.servers, given.orders):,} records")


if __name__ == "__main__":
    main()
