"""Measurements of several plans at several points over several seeds: their means and their spread."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from thalweg.reproduce.outcome import Curve, Panel


@dataclass
class Samples:
    """What was measured of each plan at each point, once for each seed.

    >>> some = Samples()
    >>> for seed, cost in enumerate((10.0, 14.0)):
    ...     some.add("a", 1, cost), some.add("b", 1, cost / 2)
    (None, None)
    (None, None)
    >>> some.mean("a", 1), some.ratio("a", "b", 1), some.less("b", "a")
    (12.0, 2.0, 0.5)
    """

    values: dict[str, dict[float, list[float]]] = field(default_factory=dict)

    def add(self, plan: str, x: float, value: float) -> None:
        self.values.setdefault(plan, {}).setdefault(x, []).append(value)

    @property
    def plans(self) -> tuple[str, ...]:
        return tuple(self.values)

    @property
    def seeds(self) -> int:
        """The most measurements of any point."""
        return max(len(some) for by_x in self.values.values() for some in by_x.values())

    def points(self, plan: str) -> list[float]:
        return sorted(self.values[plan])

    def mean(self, plan: str, x: float) -> float:
        return float(np.mean(self.values[plan][x]))

    def spread(self, plan: str, x: float) -> float:
        """The standard deviation over the seeds."""
        return float(np.std(self.values[plan][x]))

    def ratio(self, plan: str, other: str, x: float) -> float:
        """The mean of one plan by that of another."""
        return self.mean(plan, x) / self.mean(other, x)

    def worst(self, plan: str, other: str) -> float:
        """The greatest ratio of means over all points that both have."""
        return max(self.ratio(plan, other, x) for x in self.values[plan] if x in self.values[other])

    def overall(self, plan: str, points: Iterable[float] | None = None) -> float:
        """The mean of the means at some points, or at all."""
        return float(np.mean([self.mean(plan, x) for x in points or self.points(plan)]))

    def less(self, plan: str, other: str) -> float:
        """By which share one plan is below another, over all points together."""
        return 1 - self.overall(plan) / self.overall(other)

    def curve(self, plan: str, name: str = "") -> Curve:
        x = self.points(plan)
        means, spread = ([f(plan, one) for one in x] for f in (self.mean, self.spread))
        deviation = np.array(spread) if self.seeds > 1 else None
        return Curve(name or plan, np.array(x), np.array(means), deviation)

    def panel(
        self, title: str, x_label: str, y_label: str, log: str = "", plans: Sequence[str] = ()
    ) -> Panel:
        curves = tuple(self.curve(plan) for plan in plans or self.plans)
        return Panel(title, x_label, curves, y_label=y_label, log=log)

    def rows(self, first: Sequence[str] = ()) -> list[tuple[str | int | float, ...]]:
        """A row for each plan and point: what comes first, the plan, the point, mean, spread, seeds."""
        return [
            (*first, plan, x, self.mean(plan, x), self.spread(plan, x), len(self.values[plan][x]))
            for plan in self.values
            for x in self.points(plan)
        ]


def scaled(number: int, scale: float, least: int = 1) -> int:
    """So many, or a part of them."""
    return max(least, round(number * scale))
