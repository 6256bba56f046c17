"""Whether a combination of tuples has come out before, told from ticks (MJoin, section 2.6, made exact).

The operator's ticks number what happens to it: pushes, probes, visits. A tuple is in memory from the tick of
its arrival until just before that of its departure; one that never was has both at the same tick. A result
came out if and only if there was *one* moment at which all its members were together:

    its last member arrived                all were in memory
    a probe of one input's disk part       that member was on disk, all others were in memory
    the whole partition was visited        all had arrived; so it is with all that came before it left memory

The paper asks this of each pair. Pairs may have met at different moments while the whole never did.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np


class Probe(NamedTuple):
    """The disk part of an input has probed the memory of the others."""

    tick: int
    input: int


def propagated(
    arrival: Sequence[np.ndarray], departure: Sequence[np.ndarray], settled: int, probes: Iterable[Probe]
) -> np.ndarray:
    """Which combinations have come out, from one array an input of their members' ticks.

    All combinations that were complete before the tick `settled` have; `probes` are those since then.

    >>> ticks = lambda *values: [np.array([v]) for v in values]
    >>> propagated(ticks(1, 5, 11), ticks(4, 12, 20), 0, [Probe(10, 0), Probe(15, 0)])
    array([False])
    >>> propagated(ticks(1, 5, 11), ticks(4, 12, 20), 0, [Probe(11, 0)])
    array([ True])
    """
    last = np.maximum.reduce(list(arrival))
    done: np.ndarray = (last < settled) | (last < np.minimum.reduce(list(departure)))
    for tick, i in probes:
        leaves = np.minimum.reduce([d for j, d in enumerate(departure) if j != i])
        done |= (last <= tick) & (departure[i] <= tick) & (tick < leaves)
    return done
