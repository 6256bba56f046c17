"""When the tuples of a stream arrive."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Times = npt.NDArray[np.int64]


def poisson(rng: np.random.Generator, rate: float, low_us: int, high_us: int) -> Times:
    """Arrivals at a rate of tuples a second from one moment to another, in microseconds and in order.

    >>> found = poisson(np.random.default_rng(1), 100.0, 0, 10_000_000)
    >>> len(found), bool((np.diff(found) >= 0).all())
    (1001, True)
    """
    count = rng.poisson(rate * (high_us - low_us) / 1e6)
    return np.sort(rng.integers(low_us, high_us, count)) if high_us > low_us else np.zeros(0, np.int64)


def steady(rng: np.random.Generator, rate: float, low_us: int, high_us: int) -> Times:
    """Arrivals that are equally far apart; the first comes at random within that distance.

    >>> steady(np.random.default_rng(1), 2.0, 0, 1_500_000).tolist()
    [255910, 755910, 1255910]
    """
    if rate <= 0:
        return np.zeros(0, np.int64)
    apart = 1e6 / rate
    found: Times = np.arange(low_us + rng.random() * apart, high_us, apart).astype(np.int64)
    return found


def apart(times: Times) -> Times:
    """The same times, moved so that no two are the same.

    >>> apart(np.array([5, 5, 5, 9])).tolist()
    [5, 6, 7, 9]
    """
    place = np.arange(len(times))
    found: Times = np.maximum.accumulate(times - place) + place
    return found
