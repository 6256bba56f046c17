"""How many results the first phase gives when part of the tuples is on disk, by flushing policy.

MJoin, section 2.5: k streams with equal rates and selectivities, and at any time a fraction f of all tuples
that have arrived is in memory. A new tuple then meets f^(k-1) of its partners when tuples are flushed at
random, and f when partitions are, f being the chance that its own partition is in memory. The ratio is
f^(2-k). So the memory grows with what has arrived: after each batch it is brought to the fraction f.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from thalweg.kernel.nway import Delta, InputSpec
from thalweg.kernel.spill_files import SpillFolder
from thalweg.kernel.window import NEVER
from thalweg.reproduce.overflow_join.budget import fixed_bytes
from thalweg.reproduce.overflow_join.join import OverflowJoin, Policy

_WARM = 0.2  # the part of the tuples that arrive before memory is short
_BATCHES = 250  # of the rest: a batch is in memory as a whole while it is joined, so it must be small
_PARTITIONS = 128  # memory holds less than the fraction by a half of one, on average


@dataclass(frozen=True)
class Flushing:
    """The counts for one number of streams and one fraction."""

    streams: int
    fraction: float
    coordinated: int
    random: int

    @property
    def ratio(self) -> float:
        return self.coordinated / max(1, self.random)

    @property
    def expected(self) -> float:
        """Section 2.5's ratio."""
        return float(self.fraction ** (2 - self.streams))


def measure(
    streams: int, fraction: float, tuples: int = 12_000, keys: int = 3_000, seed: int = 0
) -> Flushing:
    """First-phase results by both policies on the same streams, from when memory is short."""
    rng = np.random.default_rng(seed)
    arrivals = [rng.integers(0, keys, tuples) for _ in range(streams)]
    coordinated = _first_phase("coordinated", arrivals, fraction, seed)
    return Flushing(streams, fraction, coordinated, _first_phase("random", arrivals, fraction, seed))


def _first_phase(policy: Policy, arrivals: list[np.ndarray], fraction: float, seed: int) -> int:
    inputs = [InputSpec(str(i), (("id", pa.int64()),), NEVER) for i in range(len(arrivals))]
    # Where a tuple lies on disk has no effect on the first phase: random flushing needs no partitions.
    partitions = _PARTITIONS if policy == "coordinated" else 1
    with tempfile.TemporaryDirectory() as folder:
        spill = SpillFolder(Path(folder))
        join = OverflowJoin(inputs, spill, budget=NEVER, policy=policy, partitions=partitions, seed=seed)
        each = fixed_bytes(join.inputs[0]) * len(inputs)
        tuples = len(arrivals[0])
        cuts = np.linspace(_WARM * tuples, tuples, _BATCHES + 1).astype(int).tolist()
        before = 0
        for lo, hi in zip([0, *cuts], cuts, strict=False):
            moments = np.arange(lo, hi)
            ids = pa.array(moments)
            for _ in join.push([Delta(keys[lo:hi], moments, None, (ids,)) for keys in arrivals]):
                pass
            join.shrink(int(fraction * hi * each))
            before = before or join.counters.phases[0]
        return join.counters.phases[0] - before
