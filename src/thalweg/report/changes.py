"""The picture of a run's history: what its plan cost over time, and where it changed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from thalweg import report
from thalweg.adapt.history import Record

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_FIRST, _BEST, _TAKEN = "#d98880", "#a8d5ba", "#34495e"


def draw(records: Sequence[Record], unit: str, path: Path) -> None:
    """Writes the picture as SVG or PNG, by the file's suffix."""
    report.check_path(path)
    report.save(figure(records, unit), path)


def figure(records: Sequence[Record], unit: str) -> Figure:
    """Costs at each decision: of the plan in force, of the first plan, of the best plan for the moment."""
    from matplotlib.figure import Figure

    made = Figure(figsize=(9, 4), layout="constrained")
    axes = made.subplots()
    axes.set_title("what the plan costs, and where it changes", loc="left", fontsize=11)
    axes.set_xlabel("seconds of the run")
    axes.set_ylabel(unit)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.3)
    if not records:
        axes.text(0.5, 0.5, "nothing was considered", transform=axes.transAxes, ha="center")
        return made
    begun = records[0].at
    seconds = [r.at - begun for r in records]
    best = [min(r.cost_before, r.cost_after) for r in records]
    axes.step(seconds, [r.first_cost for r in records], where="post", color=_FIRST, label="the first plan")
    axes.step(seconds, best, where="post", color=_BEST, linewidth=4, label="the best plan for the moment")
    axes.step(*_in_force(records, begun), where="post", color=_TAKEN, label="the plan in force")
    for record in records:
        if record.outcome in ("done", "undone"):
            axes.axvline(record.at - begun, color="#7f8c8d", linestyle=":", linewidth=1)
            axes.annotate(
                record.outcome, (record.at - begun, 1), xycoords=("data", "axes fraction"), fontsize=8
            )
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False)
    return made


def _in_force(records: Sequence[Record], begun: float) -> tuple[list[float], list[float]]:
    """The cost of the plan in force, before and after each decision."""
    times, costs = [], []
    for record in records:
        at = record.at - begun
        times += [at, at + (record.seconds if record.outcome == "done" else 0.0)]
        costs += [record.cost_before, record.cost_after if record.outcome == "done" else record.cost_before]
    return times, costs
