"""The outcome of an experiment: the paper's claims beside the measurements, a table and curves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

Tell = Callable[[str], None]
"""Receives the progress of an experiment."""


@dataclass(frozen=True)
class Claim:
    """A claim of the paper, the measurement, and whether the claim holds.

    `why` is the reason if it does not hold; `note` is a remark in any case.
    """

    text: str
    measured: str
    holds: bool
    why: str = ""
    note: str = ""

    @property
    def remark(self) -> str:
        return " ".join(filter(None, (self.note, "" if self.holds else self.why)))

    def to_json(self) -> dict[str, Any]:
        return {"claim": self.text, "measured": self.measured, "holds": self.holds, "why": self.remark}


@dataclass(frozen=True)
class Curve:
    """How many results a plan had handed out over time, or what else the panel's axes say.

    `spread` is the standard deviation over the seeds, where there are several.
    """

    plan: str
    x: np.ndarray
    results: np.ndarray
    spread: np.ndarray | None = None


@dataclass(frozen=True)
class Panel:
    """One diagram: curves over the same axis, with marks at some places; `marked` is their meaning.

    `log` has the axes that are logarithmic: x, y, or both.
    """

    title: str
    x_label: str
    curves: tuple[Curve, ...]
    marks: tuple[float, ...] = ()
    marked: str = ""
    y_label: str = "results"
    log: str = ""


@dataclass(frozen=True)
class Bars:
    """One diagram: a bar for each plan."""

    title: str
    x_label: str
    values: dict[str, float]


@dataclass(frozen=True)
class Outcome:
    """The outcome of one experiment; `setting` describes it and names its differences from the paper's."""

    name: str
    title: str
    setting: tuple[str, ...]
    claims: tuple[Claim, ...]
    header: tuple[str, ...]
    rows: tuple[tuple[str | int | float, ...], ...]
    panels: tuple[Panel | Bars, ...] = field(default=(), repr=False)

    def at_scale(self, scale: float) -> Outcome:
        """The same, saying that it is of so much of the size."""
        told = "What is said of the paper is of its whole size; verdicts may differ here."
        return replace(self, title=f"{self.title}, at {scale:g} of the size", setting=(told, *self.setting))

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "title": self.title,
            "setting": list(self.setting),
            "claims": [claim.to_json() for claim in self.claims],
            "plans": [dict(zip(self.header, row, strict=True)) for row in self.rows],
        }


def thinned(plan: str, x: np.ndarray, results: np.ndarray, points: int = 400) -> Curve:
    """A curve with as many points as a picture can show, the last one among them."""
    kept = np.unique(np.linspace(0, len(x) - 1, min(points, len(x))).astype(np.int64))
    return Curve(plan, x[kept], results[kept])


def when(x: np.ndarray, results: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """When these shares of all results had been handed out.

    >>> when(np.array([1.0, 2.0, 3.0]), np.array([0, 50, 100]), np.array([0.1, 0.5, 1])).tolist()
    [2.0, 2.0, 3.0]
    """
    # A share that is whole but for rounding must not ask for the result after the last.
    return np.asarray(x[np.searchsorted(results, np.floor(shares * results[-1] + 1e-6))])
