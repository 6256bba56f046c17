"""How often each value of a join attribute occurs (pmjoin 4): uniform, normal, Zipf, self-similar.

A distribution is an array of shares over the values 1 to N, in their order. In a *contiguous hot spot* the
frequent values lie side by side, as the distributions have them; in a *random* one they are spread over the
range, by one permutation of the values for all streams.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from thalweg.cost.keys import Floats

CONTIGUOUS, RANDOM = "CHS", "RHS"
HOT_SPOTS = (CONTIGUOUS, RANDOM)
SAME, DIFFERENT = "SD", "DD"
SITES = (SAME, DIFFERENT)

ZIPF = (0.1, 1.5)
SELF_SIMILAR = (0.1, 0.9)
ALIKE_ZIPF = (0.1, 0.3)
"""The skew of the streams that have similar distributions (pmjoin 4.1)."""
DEVIATION = (0.05, 0.3)
"""The standard deviations of normal distributions, as shares of the range; pmjoin only says "varied"."""


def uniform(count: int) -> Floats:
    """All values alike."""
    return np.full(count, 1 / count)


def normal(count: int, deviation: float) -> Floats:
    """The value in the middle is the mean; the deviation is a share of the range."""
    distance = (np.arange(1, count + 1) - (count + 1) / 2) / (deviation * count)
    return _shares(np.exp(-(distance**2) / 2))


def zipf(count: int, skew: float) -> Floats:
    """The i-th value has a share in proportion to 1 / i^skew.

    >>> [round(float(share), 3) for share in zipf(3, 1.0)]
    [0.545, 0.273, 0.182]
    """
    return _shares(np.arange(1.0, count + 1) ** -skew)


def self_similar(count: int, h: float) -> Floats:
    """The first h N values have 1 - h of the weight, of these the first h N again 1 - h, and so on.

    >>> round(float(self_similar(100, 0.2)[:20].sum()), 3), round(float(self_similar(100, 0.9)[:90].sum()), 3)
    (0.8, 0.1)
    """
    ends = np.linspace(0, 1, count + 1) ** (np.log(1 - h) / np.log(h))
    return np.diff(ends)


def any_of_them(count: int, rng: np.random.Generator) -> Floats:
    """One of the four at random, with a skew at random."""
    kinds: tuple[Callable[[], Floats], ...] = (
        lambda: uniform(count),
        lambda: normal(count, rng.uniform(*DEVIATION)),
        lambda: zipf(count, rng.uniform(*ZIPF)),
        lambda: self_similar(count, rng.uniform(*SELF_SIMILAR)),
    )
    return kinds[rng.integers(len(kinds))]()


def distributions(
    streams: int, count: int, rng: np.random.Generator, *, sites: str = DIFFERENT, hot_spot: str = CONTIGUOUS
) -> Floats:
    """A row of shares for each stream.

    Streams are similar (SD: Zipf with skews of 0.1 to 0.3) or different (DD: any distribution each).
    """
    if sites == SAME:
        rows = [zipf(count, rng.uniform(*ALIKE_ZIPF)) for _ in range(streams)]
    else:
        rows = [any_of_them(count, rng) for _ in range(streams)]
    made = np.array(rows)
    return made[:, rng.permutation(count)] if hot_spot == RANDOM else made


def drawn(shares: Floats, size: int, rng: np.random.Generator) -> np.ndarray:
    """Values at random, from 1 on, as often as the shares say."""
    ends = np.cumsum(shares)
    return np.searchsorted(ends / ends[-1], rng.random(size), side="right") + 1


def _shares(weights: np.ndarray) -> Floats:
    return np.asarray(weights / weights.sum(), dtype=np.float64)
