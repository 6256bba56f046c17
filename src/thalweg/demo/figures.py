"""The figures of a demo, read from its output files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from thalweg.demo.packets import QUERY, ROUTERS
from thalweg.report.flow import Flow

LIVE, CENTRAL = "run", "central"
"""The folders of the two runs."""


@dataclass(frozen=True)
class Latency:
    """Seconds from sending a result's last packet until the result can be read."""

    p50: float
    p95: float
    greatest: float

    @classmethod
    def of(cls, seconds: np.ndarray) -> Latency | None:
        """The latency of some results; None without results."""
        if len(seconds) == 0:
            return None
        middle, most, all_of_them = np.quantile(seconds, [0.5, 0.95, 1.0])
        return cls(float(middle), float(most), float(all_of_them))


@dataclass(frozen=True)
class Ran:
    """The outcome of one plan: shipped volume, counts, and DuckDB's verdict."""

    flow: Flow
    late: int
    batches: int
    verified: bool
    expected: int

    @classmethod
    def read_from(cls, folder: Path, verdict: Mapping[str, Any]) -> Ran:
        metrics = json.loads((folder / "metrics.json").read_text())
        return cls(
            Flow.read_from(folder),
            sum(metrics["late_rows"].values()),
            metrics["batches"],
            bool(verdict["same"]),
            int(verdict["expected"]),
        )

    @property
    def results(self) -> int:
        return self.flow.results[QUERY]

    def to_json(self) -> dict[str, Any]:
        return {
            "planner": self.flow.planner,
            "results": self.results,
            "late_rows": self.late,
            "verified": self.verified,
            "shipped": {
                "tuples": sum(way.tuples for way in self.flow.shipped),
                "payload_bytes": self.flow.payload,
                "bytes": self.flow.bytes,
            },
        }


@dataclass(frozen=True)
class Figures:
    """Input, output, speed, shipped volume of each plan, and whether the results are correct."""

    live: Ran
    central: Ran
    seconds: float
    latency: Latency | None
    arrived: np.ndarray = field(repr=False)
    """When each packet was sent, in seconds since the replay began."""
    published: np.ndarray = field(repr=False)
    """When each result could be read, in seconds since the replay began."""
    delays: np.ndarray = field(repr=False)
    """The latency of each result completed after the replay began."""

    @property
    def rows_in(self) -> Mapping[str, int]:
        return self.live.flow.read

    @property
    def rows_per_s(self) -> float:
        return float((self.arrived >= 0).sum()) / self.seconds if self.seconds else 0.0

    @property
    def verified(self) -> bool:
        """Whether both plans gave DuckDB's results on the same packets."""
        return self.live.verified and self.central.verified and self.live.expected == self.central.expected

    @property
    def times_less(self) -> float | None:
        """All bytes that the central plan sends between sites, as a multiple of the live plan's."""
        return self.central.flow.bytes / self.live.flow.bytes if self.live.flow.bytes else None

    def to_json(self) -> dict[str, Any]:
        latency, times = self.latency, self.times_less
        return {
            "input_rows": dict(self.rows_in),
            "late_rows": self.live.late,
            "results": self.live.results,
            "batches": self.live.batches,
            "seconds": round(self.seconds, 3),
            "rows_per_s": round(self.rows_per_s, 1),
            "latency_s": None
            if latency is None
            else {
                "p50": round(latency.p50, 3),
                "p95": round(latency.p95, 3),
                "max": round(latency.greatest, 3),
            },
            "plans": [self.live.to_json(), self.central.to_json()],
            "times_less": None if times is None else round(times, 2),
            "verified": self.verified,
        }


def read_figures(home: Path, live: Ran, central: Ran, begun: float) -> Figures:
    """Reads the figures of the demo in `home`, whose replay began at `begun`."""
    arrived = np.concatenate(
        [in_seconds(pq.read_table(home / "packets" / router, columns=["sent"])["sent"]) for router in ROUTERS]
    )
    sent, published = _results(home / LIVE / "results" / QUERY)
    # Results of the first portion measure how long Spark takes to start, not the latency of a result.
    warm = sent > begun
    delays = published[warm] - sent[warm]
    end = float(published.max()) if len(published) else float(arrived.max())
    return Figures(
        live=live,
        central=central,
        seconds=end - begun,
        latency=Latency.of(delays),
        arrived=arrived - begun,
        published=published - begun,
        delays=delays,
    )


def _results(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """For each result, when its last packet was sent and when its file could be read."""
    sent, published = [np.empty(0)], [np.empty(0)]
    for file in sorted(folder.glob("*.parquet")):
        moments = in_seconds(pq.read_table(file, columns=["sent"])["sent"])
        status = file.stat()
        # A file is written, then renamed into place. Renaming updates ctime, not mtime.
        sent.append(moments)
        published.append(np.full(len(moments), max(status.st_mtime, status.st_ctime)))
    return np.concatenate(sent), np.concatenate(published)


def in_seconds(moments: pa.ChunkedArray) -> np.ndarray:
    """Times as seconds since 1970."""
    return np.asarray(moments.cast(pa.timestamp("us", tz="UTC")).cast(pa.int64())) / 1e6
