"""The picture of a simulation: its cost over time, and the traffic between sites."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from thalweg import report
from thalweg.plan.options import Shipped

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LINE, _BAR, _MARK = "#1b6ca8", "#2a9d8f", "#9aa5b1"
_MOST = 20
"""Ways beyond which only the busiest are drawn."""


class Simulation(Protocol):
    """What is drawn of a simulation."""

    @property
    def unit(self) -> str: ...
    @property
    def cost(self) -> Sequence[tuple[int, float]]: ...
    @property
    def shipped(self) -> Sequence[Shipped]: ...


def draw(found: Simulation, marks: Sequence[float], path: Path) -> None:
    """Writes the picture as SVG or PNG; `marks` are the seconds at which streams change."""
    report.check_path(path)
    report.save(figure(found, marks), path)


def figure(found: Simulation, marks: Sequence[float]) -> Figure:
    """Cost by second, and payload by way."""
    from matplotlib.figure import Figure

    ways = sorted(found.shipped, key=lambda s: -s.payload_bytes)[:_MOST]
    made = Figure(figsize=(11, max(3.6, 0.3 * len(ways) + 1.2)), layout="constrained")
    left, right = made.subplots(1, 2, width_ratios=(2, 1))
    seconds, costs = zip(*found.cost, strict=True) if found.cost else ((), ())
    left.step(seconds, costs, where="post", color=_LINE, linewidth=1.4)
    for n, mark in enumerate(marks):
        left.axvline(mark, color=_MARK, linestyle=":", linewidth=1, label=None if n else "a stream changes")
    if marks:
        left.legend(frameon=False, fontsize=8)
    left.set_title("cost over time", loc="left", fontsize=10)
    left.set_xlabel("seconds")
    left.set_ylabel(found.unit)
    left.set_ylim(bottom=0)
    left.grid(alpha=0.3)
    names = [f"{w.source} to {w.target}" for w in reversed(ways)]
    right.barh(names, [w.payload_bytes for w in reversed(ways)], color=_BAR, height=0.6)
    right.set_title("payload between sites, bytes", loc="left", fontsize=10)
    right.tick_params(labelsize=8)
    right.xaxis.set_major_formatter("{x:,.0f}")
    right.locator_params(axis="x", nbins=4)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    return made
