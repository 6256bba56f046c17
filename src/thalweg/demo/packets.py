"""Random packets at three routers, with their catalog and query.

Behind each router is a network of twelve hosts. A router sends most packets to hosts of its own network, with
skewed popularity. A few go to the networks of the other routers, and a few to addresses elsewhere that the
catalog does not list. So hosts that are popular at one router are rare at the others, as in example 1 of the
PMJoin paper. The query finds packets to the same host that passed all three routers within a short time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

PACKETS_PER_S = {"router1": 400.0, "router2": 300.0, "router3": 250.0}
ROUTERS = tuple(PACKETS_PER_S)
QUERY = "routers"
HOSTS = 12
OWN, OTHER = (
    0.94,
    0.02,
)  # shares of the router's own network and of each other network; the rest goes elsewhere
ELSEWHERE = 2_000  # addresses
WINDOW_MS = 500  # the lifetime of a packet at PACKETS_PER_S

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


def rates(router: str) -> dict[str, float]:
    """Packets per second at a router, by destination address.

    >>> seen = rates("router1")
    >>> round(seen["10.1.0.1"], 3), round(seen["10.2.0.1"], 3), round(sum(seen.values()))
    (76.519, 0.367, 392)
    """
    zipf = np.arange(1, HOSTS + 1) ** -0.6
    zipf /= zipf.sum()
    found: dict[str, float] = {}
    for n, network in enumerate(ROUTERS, 1):
        # The hosts most popular inside a network are the least popular outside.
        shares = OWN * zipf if network == router else OTHER * zipf[::-1]
        found |= {f"10.{n}.0.{h}": float(s) * PACKETS_PER_S[router] for h, s in enumerate(shares, 1)}
    return found


def destinations(rng: np.random.Generator, router: str, count: int) -> pa.Array:
    """Random destinations of a router's packets."""
    known = rates(router)
    shares = np.array([*known.values(), 0.0]) / PACKETS_PER_S[router]
    shares[-1] = 1 - shares.sum()
    which = rng.choice(len(shares), count, p=shares)
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
    the JVM compiles its code meanwhile.
    """

    rate: int = 2_000
    seconds: float = 10.0
    interval_s: float = 0.5
    seed: int = 7
    warm_up_s: float = 0.0

    def __post_init__(self) -> None:
        if self.rate < 10 or self.seconds <= 0 or self.interval_s <= 0:
            raise ValueError(f"rate must be at least 10, seconds and interval_s positive: {self}")

    @property
    def files(self) -> int:
        """The number of files that each router writes."""
        return max(1, round(self.seconds / self.interval_s))

    @property
    def warm_up_files(self) -> int:
        """The number of further files that each router writes before results are timed."""
        return round(self.warm_up_s / self.interval_s)

    @property
    def faster(self) -> float:
        """The speed-up over PACKETS_PER_S."""
        return self.rate / max(PACKETS_PER_S.values())

    @property
    def window_ms(self) -> int:
        """The window. It shrinks as the rate grows, which keeps the number of results per packet constant."""
        return max(1, round(WINDOW_MS / self.faster))

    def count(self, router: str) -> int:
        """The number of packets in each file of a router."""
        return max(1, round(PACKETS_PER_S[router] * self.faster * self.interval_s))

    def portion(self, router: str, number: int, now_us: int) -> pa.Table:
        """One file of a router: the packets of the last interval, slightly out of order."""
        rng = np.random.default_rng([self.seed, number, *router.encode()])
        count = self.count(router)
        ts = now_us - rng.integers(0, round(self.interval_s * 1e6), count)
        ts -= rng.integers(0, _ON_ITS_WAY_US, count)
        if number % _LATE_EVERY == _LATE_EVERY - 1:
            ts[:_LATE_PACKETS] -= _LATE_BY_US
        return _table(ts, destinations(rng, router, count), sizes(rng, count), now_us)

    @property
    def silence_s(self) -> float:
        """A pause after which the next packet shows that all earlier ones arrived and expired."""
        return LATENESS_S + (self.window_ms + 500) / 1000

    def last(self, router: str, now_us: int) -> pa.Table:
        """The packet after the pause, to an address that no other router sees."""
        dest = pa.array([f"10.8.0.{1 + ROUTERS.index(router)}"])
        return _table(np.array([now_us]), dest, pa.array([64]), now_us)

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
            f"      options: {{path: packets/{name}, maxFilesPerTrigger: {_AT_ONCE}}}\n"
            "    stats:\n"
            f"      rate: {PACKETS_PER_S[name] * self.faster:g}\n"
            "      widths: {dest: 8}\n"
            f"      distinct: {{dest: {len(ROUTERS) * HOSTS + ELSEWHERE}}}\n"
            "      rates:\n"
            "        dest:\n"
            + "".join(f"          {host}: {rate * self.faster:.4g}\n" for host, rate in rates(name).items())
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


def _table(ts: np.ndarray, dest: pa.Array, size: pa.Array, now_us: int) -> pa.Table:
    columns = {
        "ts": pa.array(ts, pa.int64()).cast(SCHEMA.field("ts").type),
        "dest": dest,
        "size": size,
        "sent": pa.array(np.full(len(ts), now_us)).cast(SCHEMA.field("sent").type),
    }
    return pa.table(columns, schema=SCHEMA)
