"""Packets at three routers, made up on the spot, and the catalog and query over them.

The question is that of the semijoin paper's example 1: which packets with the same destination passed all
three routers within the same time?
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

ROUTERS = ("router1", "router2", "router3")
QUERY = "routers"
_LATE_EVERY = 10  # every so many files of a router ...
_LATE_PACKETS = 3  # ... there are packets ...
_LATE_BY_US = 60_000_000  # ... that took a detour of a minute
_JITTER_US = 300_000

SCHEMA = pa.schema(
    [
        ("ts", pa.timestamp("us", tz="UTC")),
        ("dest", pa.string()),
        ("size", pa.int64()),
        ("sent", pa.timestamp("us", tz="UTC")),
    ]
)


@dataclass(frozen=True)
class Traffic:
    """How much passes each router, and in what portions it is handed on."""

    rate: int = 5_000
    seconds: float = 15.0
    interval_s: float = 0.5
    window_s: int = 5
    seed: int = 7

    def __post_init__(self) -> None:
        if self.rate < 10 or self.seconds <= 0 or self.interval_s <= 0:
            raise ValueError(f"no traffic to speak of: {self}")

    @property
    def files(self) -> int:
        """How many files each router hands on."""
        return max(1, round(self.seconds / self.interval_s))

    @property
    def addresses(self) -> int:
        """As many as a window holds packets: that gives about one result a packet."""
        return self.rate * self.window_s

    def portion(self, router: int, number: int, now_us: int) -> pa.Table:
        """What a router hands on at this moment: the packets of the last interval, not quite in order."""
        rng = np.random.default_rng([self.seed, router, number])
        span = round(self.interval_s * 1e6)
        count = max(1, round(self.rate * self.interval_s))
        ts = now_us - rng.integers(0, span, count) - rng.integers(0, _JITTER_US, count)
        if number % _LATE_EVERY == _LATE_EVERY - 1:
            ts[:_LATE_PACKETS] -= _LATE_BY_US
        columns = {
            "ts": pa.array(ts, pa.int64()).cast(SCHEMA.field("ts").type),
            "dest": _address_names(rng.integers(0, self.addresses, count)),
            "size": pa.array(rng.integers(64, 1500, count)),
            "sent": pa.array(np.full(count, now_us)).cast(SCHEMA.field("sent").type),
        }
        return pa.table(columns, schema=SCHEMA)

    def catalog(self) -> str:
        """The catalog's YAML; paths are relative to it."""
        streams = "".join(
            f"  {name}:\n"
            "    site: here\n"
            "    time: ts\n"
            "    lateness: 10 seconds\n"
            "    schema: {ts: timestamp, dest: string, size: long, sent: timestamp}\n"
            f"    source: {{format: parquet, options: {{path: packets/{name}}}}}\n"
            f"    stats: {{rate: {self.rate}, distinct: {{dest: {self.addresses}}}}}\n"
            for name in ROUTERS
        )
        return f"sites: {{here: {{}}}}\nstreams:\n{streams}"

    def query(self) -> str:
        """The query: `sent` is when the last of a result's packets was handed on."""
        window = f"[RANGE {self.window_s} SECONDS]"
        return (
            "SELECT a.dest, a.ts AS ts1, b.ts AS ts2, c.ts AS ts3, a.size + b.size + c.size AS bytes,\n"
            "       greatest(a.sent, b.sent, c.sent) AS sent, result_time\n"
            f"FROM router1 {window} a, router2 {window} b, router3 {window} c\n"
            "WHERE a.dest = b.dest AND b.dest = c.dest\n"
        )


def _address_names(numbers: np.ndarray) -> pa.Array:
    """Addresses of the private network 10.0.0.0/8.

    >>> _address_names(np.array([0, 258])).to_pylist()
    ['10.0.0.0', '10.0.1.2']
    """
    return pa.array([f"10.{n >> 16 & 255}.{n >> 8 & 255}.{n & 255}" for n in numbers.tolist()])
