"""Makes the packets that three routers see, as parquet files.

They are those of the demonstration, `thalweg demo`: where they go is drawn by lot in `thalweg.demo.packets`.
Here they have a fixed date, and are all there from the start.
"""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from thalweg.demo.packets import PACKETS_PER_S, destinations, sizes

HERE = Path(__file__).resolve().parent
BEGIN_US = 1_767_225_600_000_000  # 1 January 2026, UTC
FILE_S = 5
ON_ITS_WAY_US = 300_000
DETOUR, DETOUR_US = 1 / 2_000, 20_000_000  # so many packets are handed on so much later

SCHEMA = pa.schema([("ts", pa.timestamp("us", tz="UTC")), ("dest", pa.string()), ("size", pa.int64())])


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
        count = rng.poisson(PACKETS_PER_S[router] * self.seconds)
        dest = destinations(rng, router, count)
        ts = BEGIN_US + rng.integers(0, self.seconds * 1_000_000, count)
        handed_on = ts + rng.integers(0, ON_ITS_WAY_US, count)
        handed_on[rng.random(count) < DETOUR] += DETOUR_US
        columns = {
            "ts": pa.array(ts).cast(SCHEMA.field("ts").type),
            "dest": dest,
            "size": sizes(rng, count),
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
