"""Makes the packets that three routers see, as parquet files.

Behind each router is a network of twelve hosts. Most packets that a router sees go to hosts of its own
network, some to more than others; few go to the hosts behind the other two, and few to the rest of the world,
where no address is known by name. So what is popular at one router is rare at the others, as in example 1 of
the PMJoin paper.
"""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

HERE = Path(__file__).resolve().parent
PACKETS_PER_S = {"router1": 400.0, "router2": 300.0, "router3": 250.0}
HOSTS = 12
OWN, OTHER = 0.94, 0.02  # the share of a router's own network, and of each other one; the rest goes elsewhere
ELSEWHERE = 2_000  # addresses
BEGIN_US = 1_767_225_600_000_000  # 1 January 2026, UTC
FILE_S = 5
ON_ITS_WAY_US = 300_000
DETOUR, DETOUR_US = 1 / 2_000, 20_000_000  # so many packets are handed on so much later

SCHEMA = pa.schema([("ts", pa.timestamp("us", tz="UTC")), ("dest", pa.string()), ("size", pa.int64())])


def rates(router: str) -> dict[str, float]:
    """Packets a second that a router sees for each host, by address.

    >>> seen = rates("router1")
    >>> round(seen["10.1.0.1"], 3), round(seen["10.2.0.1"], 3), round(sum(seen.values()))
    (76.519, 0.367, 392)
    """
    zipf = np.arange(1, HOSTS + 1) ** -0.6
    zipf /= zipf.sum()
    found: dict[str, float] = {}
    for n, network in enumerate(PACKETS_PER_S, 1):
        # Seen from outside, the hosts that are most popular inside are the least.
        shares = OWN * zipf if network == router else OTHER * zipf[::-1]
        found |= {f"10.{n}.0.{h}": float(s) * PACKETS_PER_S[router] for h, s in enumerate(shares, 1)}
    return found


@dataclass(frozen=True)
class Traffic:
    """The packets of some seconds at all routers; the same for the same seed."""

    seconds: int = 60
    seed: int = 7

    def __post_init__(self) -> None:
        if self.seconds < 1:
            raise ValueError("there is no traffic in less than a second")

    def packets(self, router: str) -> tuple[pa.Table, np.ndarray]:
        """A router's packets in the order in which they are handed on, and when that is, in microseconds."""
        rng = np.random.default_rng([self.seed, *router.encode()])
        known = rates(router)
        count = rng.poisson(PACKETS_PER_S[router] * self.seconds)
        shares = np.array([*known.values(), 0.0]) / PACKETS_PER_S[router]
        shares[-1] = 1 - shares.sum()
        which = rng.choice(len(shares), count, p=shares)
        away = rng.integers(0, ELSEWHERE, count)
        names = [*known, *(f"10.9.{a >> 8}.{a & 255}" for a in range(ELSEWHERE))]
        dest = np.where(which < len(known), which, len(known) + away)
        ts = BEGIN_US + rng.integers(0, self.seconds * 1_000_000, count)
        handed_on = ts + rng.integers(0, ON_ITS_WAY_US, count)
        handed_on[rng.random(count) < DETOUR] += DETOUR_US
        columns = {
            "ts": pa.array(ts).cast(SCHEMA.field("ts").type),
            "dest": pa.array(names).take(pa.array(dest)),
            "size": pa.array(rng.integers(64, 1500, count)),
        }
        order = np.argsort(handed_on, kind="stable")
        return pa.table(columns, schema=SCHEMA).take(pa.array(order)), handed_on[order]

    def write(self, out: Path) -> dict[str, int]:
        """Writes a file for every five seconds of each router; gives the number of packets of each."""
        return {router: self._write(router, out / router) for router in PACKETS_PER_S}

    def _write(self, router: str, folder: Path) -> int:
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.glob("part-*.parquet"):
            old.unlink()
        packets, handed_on = self.packets(router)
        files = -(-self.seconds // FILE_S)
        part = np.minimum((handed_on - BEGIN_US) // (FILE_S * 1_000_000), files - 1)
        for n in range(files):
            path = folder / f"part-{n:04}.parquet"
            pq.write_table(packets.filter(pa.array(part == n)), path)
            moment = BEGIN_US / 1e6 + (n + 1) * FILE_S
            os.utime(path, (moment, moment))  # Spark reads files in the order of their times
        return int(packets.num_rows)


def main(arguments: list[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(description="Make the packets of the routers' example.")
    parser.add_argument("--out", type=Path, default=HERE / "data", help="the folder to write to")
    parser.add_argument("--seconds", type=int, default=Traffic.seconds, help="how much time to cover")
    parser.add_argument("--seed", type=int, default=Traffic.seed, help="of what is drawn by lot")
    given = parser.parse_args(arguments)
    try:
        traffic = Traffic(given.seconds, given.seed)
    except ValueError as error:
        parser.error(str(error))
    for router, count in traffic.write(given.out).items():
        print(f"{router:10}{count:>9,} packets")


if __name__ == "__main__":
    main()
