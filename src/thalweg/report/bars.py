"""The bar chart of a comparison: a bar for each planner, by family."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from thalweg import report
from thalweg.planners.compare import Compared, Comparison
from thalweg.report.texts import number

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_COLOURS = ("#9cc3e4", "#a8d5ba", "#f2c894", "#c9b8e0", "#d5d8dc")
_BEST = "#34495e"
_WIDE = 100.0
"""Costs that differ by more than this factor need a logarithmic scale."""


def draw(comparison: Comparison, path: Path) -> None:
    """Writes the chart as SVG or PNG, by the file's suffix."""
    report.check_path(path)
    report.save(figure(comparison), path)


def figure(comparison: Comparison) -> Figure:
    """The chart: the best of a family is marked across all bars of the family."""
    from matplotlib.figure import Figure

    families = comparison.families
    rows = sum(len(members) for members in families.values()) + len(families)
    made = Figure(figsize=(9, 1.6 + 0.34 * max(rows, 1)), layout="constrained")
    axes = made.subplots()
    title = f"{', '.join(comparison.queries)}: what each planner comes to"
    axes.set_title(title, loc="left", fontsize=11)
    costs = [p.cost for p in comparison.planners]
    wide = _scale(axes, costs)
    axes.set_xlabel(comparison.unit + (" (log scale)" if wide else ""))
    ticks: list[tuple[float, str]] = []
    y = 0.0
    for nth, (family, members) in enumerate(families.items()):
        axes.annotate(
            family, (0, y), xycoords=("axes fraction", "data"), xytext=(4, 0), textcoords="offset points",
            va="center", fontsize=9, fontweight="bold", color="#555555",
        )  # fmt: skip
        colour = _COLOURS[nth % len(_COLOURS)]
        for place, planner in enumerate(members, 1):
            _bar(axes, y + place, planner, colour)
            ticks.append((y + place, planner.name + _chose(planner)))
        least = members[0].cost
        if least > 0:
            axes.plot(
                [least, least], [y + 0.5, y + len(members) + 0.5], color=_BEST, linewidth=1.2, linestyle=":"
            )
        y += len(members) + 1
    axes.set_yticks([t for t, _ in ticks], [name for _, name in ticks], fontsize=9)
    axes.set_ylim(y - 0.2, -0.6)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    return made


def _scale(axes: Any, costs: list[float]) -> bool:
    """Sets the scale of the costs, with room for the labels; whether it is logarithmic."""
    positive = [c for c in costs if c > 0]
    if not positive:
        axes.set_xlim(0, 1)
        return False
    low, high = min(positive), max(positive)
    if high / low <= _WIDE:
        axes.set_xlim(0, high * 1.3)
        return False
    axes.set_xscale("log")
    axes.set_xlim(low / 3, high * (high / low) ** 0.3)
    return True


def _bar(axes: Any, y: float, planner: Compared, colour: str) -> None:
    best = planner.distance_percent == 0
    start = axes.get_xlim()[0]
    axes.barh(
        y, max(planner.cost - start, 0.0), left=start, height=0.72, color=colour,
        edgecolor=_BEST if best else "none", linewidth=1.2,
    )  # fmt: skip
    axes.annotate(
        f"{number(planner.cost)}{_beside(planner)}", (max(planner.cost, start), y), xytext=(5, 0),
        textcoords="offset points", va="center", fontsize=8, fontweight="bold" if best else "normal",
    )  # fmt: skip


def _beside(planner: Compared) -> str:
    if not planner.distance_percent:
        return "  best" if planner.distance_percent == 0 else ""
    return f"  +{planner.distance_percent:,.3g} %"


def _chose(planner: Compared) -> str:
    return f" ({', '.join(planner.chose)})" if planner.chose else ""
