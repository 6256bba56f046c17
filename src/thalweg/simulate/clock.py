"""A simulated clock: what is to be done, in the order of its moments."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable


class Clock:
    """Moments are whole microseconds. At one moment, things are done in the order in which they were planned.

    >>> clock, said = Clock(), []
    >>> clock.at(5, lambda: said.append((clock.now, "second")))
    >>> clock.at(2, lambda: clock.at(5, lambda: said.append((clock.now, "third"))))
    >>> clock.run()
    >>> said
    [(5, 'second'), (5, 'third')]
    """

    def __init__(self) -> None:
        self.now = 0
        self._waiting: list[tuple[int, int, Callable[[], None]]] = []
        self._numbers = itertools.count()

    def at(self, when: int, what: Callable[[], None]) -> None:
        """Plan something for a moment that is not past."""
        heapq.heappush(self._waiting, (max(when, self.now), next(self._numbers), what))

    def run(self) -> None:
        """Do everything that is planned, and what it plans, until nothing is left."""
        while self._waiting:
            self.now, _, what = heapq.heappop(self._waiting)
            what()
