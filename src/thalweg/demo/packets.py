"""Random packets at three routers, with their catalog and query.

Behind each router is a network of twelve hosts. A router sends most packets to hosts of its own network, with
skewed popularity. A few go to the networks of the other routers, and a few to addresses elsewhere. So hosts
that are popular at one router are rare at the others, as in example 1 of the PMJoin paper. The query finds
packets to the same host that passed all three routers within a short time.

The traffic can shift: packets to the network of one router then take the way through another. The catalog has
no rates. They are measured from the packets that the routers have sent before a run begins.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

PACKETS_PER_S = {"router1": 400.0, "router2": 300.0, "router3": 250.0}
ROUTERS = tuple(PACKETS_PER_S)
SHIFTS = ("router1", "router3")
"""Packets to the network of the first router shift to the second, which exchanges them for its few."""
QUERY = "routers"
HOSTS = 12
OWN, OTHER = (
    0.94,
    0.02,
)  # shares of the router's own network and of each other network; the rest goes elsewhere
ELSEWHERE = 2_000  # addresses
WINDOW_MS = 500  # the lifetime of a packet at PACKETS_PER_S
EARLIER = 9
"""Files that each router has written before a run begins."""

LATENESS_S = 1
_LATE_EVERY = 10  # one file in so many has late packets
_LATE_PACKETS = 3  # in such a file
_LATE_BY_US = 60_000_000  # a detour of a minute
_ON_ITS_WAY_US = 300_000
_AT_ONCE = _LATE_EVERY - 1  # files a batch reads at most, so that late packets come in a later batch

SCHEMA = pa.schema(
    [
        ("ts", pa.timestamp("us", tz="UTC")),
        ("dest", pa.string()),
        ("size", pa.int64()),
        ("sent", pa.timestamp("us", tz="UTC")),
    ]
)


def rates(router: str, *, shifted: bool = False) -> dict[str, float]:
    """Packets per second at a router, by destination address.

    >>> seen = rates("router1")
    >>> round(seen["10.1.0.1"], 3), round(seen["10.2.0.1"], 3), round(sum(seen.values()))
    (76.519, 0.367, 392)
    >>> round(rates("router3", shifted=True)["10.1.0.1"], 3)
    76.519
    """
    zipf = np.arange(1, HOSTS + 1) ** -0.6
    zipf /= zipf.sum()
    found: dict[str, float] = {}
    for n, network in enumerate(ROUTERS, 1):
        seen_at = router
        if shifted and network == SHIFTS[0] and router in SHIFTS:
            seen_at = SHIFTS[1 - SHIFTS.index(router)]
        # The hosts most popular inside a network are the least popular outside.
        shares = OWN * zipf if network == seen_at else OTHER * zipf[::-1]
        found |= {f"10.{n}.0.{h}": float(s) * PACKETS_PER_S[seen_at] for h, s in enumerate(shares, 1)}
    return found


def elsewhere(router: str) -> float:
    """Packets per second at a router to addresses in no network of the three."""
    return (1 - OWN - (len(ROUTERS) - 1) * OTHER) * PACKETS_PER_S[router]


def destinations(rng: np.random.Generator, router: str, count: int, *, shifted: bool = False) -> pa.Array:
    """Random destinations of a router's packets."""
    known = rates(router, shifted=shifted)
    shares = np.array([*known.values(), elsewhere(router)])
    which = rng.choice(len(shares), count, p=shares / shares.sum())
    away = rng.integers(0, ELSEWHERE, count)
    names = [*known, *(f"10.9.{a >> 8}.{a & 255}" for a in range(ELSEWHERE))]
    return pa.array(names).take(pa.array(np.where(which < len(known), which, len(known) + away)))


def sizes(rng: np.random.Generator, count: int) -> pa.Array:
    """Random packet sizes."""
    return pa.array(rng.integers(64, 1500, count))


@dataclass(frozen=True)
class Traffic:
    """The amount of traffic and how it is cut into files. `rate` is that of the busiest router.

    The files of the first `warm_up_s` seconds are joined like all others, but their results are not timed:
    the JVM compiles its code meanwhile. With a `speed`, more time passes for the packets than for those who
    watch. After `shift_s` seconds the traffic shifts. A batch reads at most `at_once` files of a router.
    """

    rate: int = 2_000
    seconds: float = 10.0
    interval_s: float = 0.5
    seed: int = 7
    warm_up_s: float = 0.0
    speed: float = 1.0
    shift_s: float = math.inf
    at_once: int = _AT_ONCE

    def __post_init__(self) -> None:
        if self.rate < 10 or self.seconds <= 0 or self.interval_s <= 0:
            raise ValueError(f"rate must be at least 10, seconds and interval_s positive: {self}")

    @property
    def files(self) -> int:
        """The number of files that each router writes, after the earlier ones and those to warm up."""
        return max(1, round(self.seconds / self.interval_s))

    @property
    def warm_up_files(self) -> int:
        """The number of further files that each router writes before results are timed."""
        return round(self.warm_up_s / self.interval_s)

    @property
    def last_file(self) -> int:
        return EARLIER + self.warm_up_files + self.files - 1

    @property
    def faster(self) -> float:
        """The speed-up over PACKETS_PER_S, as the packets see it."""
        return self.rate / self.speed / max(PACKETS_PER_S.values())

    @property
    def window_ms(self) -> int:
        """The window. It shrinks as the rate grows, which keeps the number of results per packet constant."""
        return max(1, round(WINDOW_MS / self.faster))

    def shifted(self, number: int) -> bool:
        """Whether a file is of the time after the shift."""
        return (number - EARLIER) * self.interval_s >= self.shift_s

    def count(self, router: str, number: int) -> int:
        """The number of packets in a file of a router."""
        per_s = sum(rates(router, shifted=self.shifted(number)).values()) + elsewhere(router)
        return max(1, round(per_s * self.faster * self._span_s))

    @property
    def _span_s(self) -> float:
        """The time that a file covers."""
        return self.interval_s * self.speed

    def time_us(self, number: int, origin_us: int) -> int:
        """When the packets of a file end, if those after the earlier ones begin at `origin_us`."""
        return origin_us + round((number + 1 - EARLIER) * self._span_s * 1e6)

    def seconds_of(self, packets: np.ndarray) -> np.ndarray:
        """The second of the replay at which so many packets of all routers had been sent."""
        files = range(self.last_file + 1)
        sent = np.cumsum([0] + [sum(self.count(router, n) for router in ROUTERS) for n in files])
        ends = (np.arange(len(sent)) - EARLIER) * self.interval_s
        # At last there is one packet more of each router.
        sent, ends = np.append(sent, sent[-1] + len(ROUTERS)), np.append(ends, ends[-1] + self.silence_s)
        return np.asarray(np.interp(packets, sent, ends))

    def portion(self, router: str, number: int, now_us: int, sent_us: int) -> pa.Table:
        """One file of a router: the packets of the interval before a time, slightly out of order."""
        rng = np.random.default_rng([self.seed, number, *router.encode()])
        count = self.count(router, number)
        ts = now_us - rng.integers(0, round(self._span_s * 1e6), count)
        ts -= rng.integers(0, _ON_ITS_WAY_US, count)
        if number % _LATE_EVERY == _LATE_EVERY - 1:
            ts[:_LATE_PACKETS] -= _LATE_BY_US
        dest = destinations(rng, router, count, shifted=self.shifted(number))
        return _table(ts, dest, sizes(rng, count), sent_us)

    @property
    def silence_s(self) -> float:
        """A pause after which the next packet shows that all earlier ones arrived and expired."""
        return (LATENESS_S + (self.window_ms + 500) / 1000) / self.speed

    def last(self, router: str, now_us: int, sent_us: int) -> pa.Table:
        """The packet after the pause, to an address that no other router sees."""
        dest = pa.array([f"10.8.0.{1 + ROUTERS.index(router)}"])
        return _table(np.array([now_us]), dest, pa.array([64]), sent_us)

    def catalog(self) -> str:
        """The catalog as YAML, with each router at its own site. Paths are relative to the catalog."""
        streams = "".join(
            f"  {name}:\n"
            f"    site: site{n}\n"
            "    time: ts\n"
            f"    lateness: {LATENESS_S} second\n"
            "    schema: {ts: timestamp, dest: string, size: long, sent: timestamp}\n"
            "    source:\n"
            "      format: parquet\n"
            f"      options: {{path: packets/{name}, maxFilesPerTrigger: {self.at_once}}}\n"
            for n, name in enumerate(ROUTERS, 1)
        )
        return (
            "sites: {site1: {}, site2: {}, site3: {}}\n"
            "links:\n"
            "  pairs:\n"
            "    - {between: [site1, site2], latency_ms: 20, mbps: 50, usd_per_gb: 0.02}\n"
            "    - {between: [site2, site3], latency_ms: 30, mbps: 20, usd_per_gb: 0.05}\n"
            "    - {between: [site1, site3], latency_ms: 45, mbps: 20, usd_per_gb: 0.09}\n"
            f"streams:\n{streams}"
        )

    def query(self) -> str:
        """The query. `sent` is the time at which a result's last packet was sent."""
        window = f"[RANGE {self.window_ms} MILLISECONDS]"
        return (
            "SELECT a.dest, a.size + b.size + c.size AS bytes,\n"
            "       greatest(a.sent, b.sent, c.sent) AS sent, result_time\n"
            f"FROM router1 {window} a, router2 {window} b, router3 {window} c\n"
            "WHERE a.dest = b.dest AND b.dest = c.dest\n"
        )


def _table(ts: np.ndarray, dest: pa.Array, size: pa.Array, sent_us: int) -> pa.Table:
    columns = {
        "ts": pa.array(ts, pa.int64()).cast(SCHEMA.field("ts").type),
        "dest": dest,
        "size": size,
        "sent": pa.array(np.full(len(ts), sent_us)).cast(SCHEMA.field("sent").type),
    }
    return pa.table(columns, schema=SCHEMA)
