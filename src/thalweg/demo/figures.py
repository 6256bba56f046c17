"""What a demonstration has shown, read from the files that it left."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from thalweg.demo.packets import QUERY, ROUTERS


@dataclass(frozen=True)
class Latency:
    """Seconds from the moment a result's last packet was handed on until the result could be read."""

    p50: float
    p95: float
    greatest: float

    @classmethod
    def of(cls, seconds: np.ndarray) -> Latency | None:
        """The latency of many results; None if there is none."""
        if len(seconds) == 0:
            return None
        middle, most, all_of_them = np.quantile(seconds, [0.5, 0.95, 1.0])
        return cls(float(middle), float(most), float(all_of_them))


@dataclass(frozen=True)
class Figures:
    """What came in, what came out, how fast, and whether it was right."""

    rows_in: Mapping[str, int]
    late: int
    results: int
    batches: int
    seconds: float
    latency: Latency | None
    verified: bool
    expected: int
    arrived: np.ndarray = field(repr=False)
    """When each packet was handed on, in seconds since the replay began."""
    published: np.ndarray = field(repr=False)
    """When each result could be read, likewise."""
    delays: np.ndarray = field(repr=False)
    """The latency of each result that was complete after the replay began."""

    @property
    def rows_per_s(self) -> float:
        return sum(self.rows_in.values()) / self.seconds if self.seconds else 0.0

    def to_json(self) -> dict[str, Any]:
        latency = self.latency
        return {
            "input_rows": dict(self.rows_in),
            "late_rows": self.late,
            "results": self.results,
            "batches": self.batches,
            "seconds": round(self.seconds, 3),
            "rows_per_s": round(self.rows_per_s, 1),
            "latency_s": None
            if latency is None
            else {
                "p50": round(latency.p50, 3),
                "p95": round(latency.p95, 3),
                "max": round(latency.greatest, 3),
            },
            "verified": self.verified,
        }


def read_figures(home: Path, metrics: Mapping[str, Any], verdict: Mapping[str, Any], begun: float) -> Figures:
    """The figures of a demonstration in `home` whose replay began at this time."""
    arrived = np.concatenate(
        [in_seconds(pq.read_table(home / "packets" / router, columns=["sent"])["sent"]) for router in ROUTERS]
    )
    sent, published = _results(home / "run" / "results" / QUERY)
    # Results of the first portion alone measure how long Spark takes to start, not how long a result takes.
    warm = sent > begun
    delays = published[warm] - sent[warm]
    end = float(published.max()) if len(published) else float(arrived.max())
    return Figures(
        rows_in=metrics["input_rows"],
        late=sum(metrics["late_rows"].values()),
        results=metrics["output_rows"][QUERY],
        batches=metrics["batches"],
        seconds=end - begun,
        latency=Latency.of(delays),
        verified=bool(verdict["same"]),
        expected=int(verdict["expected"]),
        arrived=arrived - begun,
        published=published - begun,
        delays=delays,
    )


def _results(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """For each result, when its last packet was handed on and when its file was there to be read."""
    sent, published = [np.empty(0)], [np.empty(0)]
    for file in sorted(folder.glob("*.parquet")):
        moments = in_seconds(pq.read_table(file, columns=["sent"])["sent"])
        status = file.stat()
        # A file is written, then moved to where readers look; moving it changes the later of the two.
        sent.append(moments)
        published.append(np.full(len(moments), max(status.st_mtime, status.st_ctime)))
    return np.concatenate(sent), np.concatenate(published)


def in_seconds(moments: pa.ChunkedArray) -> np.ndarray:
    """Times as seconds since 1970."""
    return np.asarray(moments.cast(pa.timestamp("us", tz="UTC")).cast(pa.int64())) / 1e6
