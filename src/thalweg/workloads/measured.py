"""A network of measured round-trip times: those between RIPE Atlas anchors, as NOVA has published them.

The files are not part of Thalweg; docs/reproduce.md says how to get them. The first line has the numbers of
the sites, and each further line one site's round-trip times to all of them, in milliseconds.
"""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from thalweg.catalog.model import Link, Links
from thalweg.cost.keys import Floats
from thalweg.errors import UserError

SHORTEST_MS = 0.5
"""Times are whole milliseconds; 0 between two sites is one that was rounded down."""

MANY = 0.02
"""The share of all pairs; of the anchors, three are far beyond it, and no other is near."""


@dataclass(frozen=True, eq=False)
class Times:
    """The round-trip times between some sites, in milliseconds."""

    rtt_ms: Floats

    @property
    def shortcuts(self) -> npt.NDArray[np.bool_]:
        """The sites whose times can't be right: over them, many pairs are twice as near as they are."""
        half, every = self.rtt_ms / 2, self.rtt_ms
        shares = [float((every[:, k, None] + every[k] < half).mean()) for k in range(len(every))]
        return np.array(shares) > MANY

    def without(self, sites: npt.NDArray[np.bool_]) -> Times:
        """The times between all others."""
        return Times(self.rtt_ms[np.ix_(~sites, ~sites)])

    def some(self, number: int, seed: int) -> Times:
        """Those between so many of the sites, at random; all of them where there are no more."""
        every = len(self.rtt_ms)
        if number >= every:
            return self
        chosen = np.sort(np.random.default_rng(seed).choice(every, number, replace=False))
        return Times(self.rtt_ms[np.ix_(chosen, chosen)])

    def links(self) -> Links:
        """A link from each site to each other one, n0, n1 and so on, with half of the time as its latency."""
        known = {float(ms): Link(latency_ms=float(ms) / 2) for ms in np.unique(self.rtt_ms)}
        rows = self.rtt_ms.tolist()
        return Links(
            default=None,
            pairs={
                (f"n{a}", f"n{b}"): known[ms]
                for a, row in enumerate(rows)
                for b, ms in enumerate(row)
                if a != b
            },
        )


def read(path: Path) -> Times:
    """The times of a file, which may be packed by gzip."""
    try:
        whole = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        lines = whole.decode().split()
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise UserError(f"the round-trip times can't be read: {error}", where=str(path)) from error
    count = len(lines[0].split(",")) if lines else 0
    if count < 2 or len(lines) != count + 1:
        raise UserError(
            f"the file has {len(lines)} lines, and the first names {count} sites",
            where=str(path),
            remedy="a first line of sites, and for each site a line of its times to all of them",
        )
    rows = []
    for number, line in enumerate(lines[1:], start=2):
        try:
            row = [float(ms) for ms in line.split(",")]
        except ValueError:
            row = []
        if len(row) != count or not all(0 <= ms < float("inf") for ms in row):
            raise UserError(f"no line of {count} times in milliseconds", where=f"{path}, line {number}")
        rows.append(row)
    found = np.maximum(np.array(rows), SHORTEST_MS)
    np.fill_diagonal(found, 0.0)
    return Times(found)
