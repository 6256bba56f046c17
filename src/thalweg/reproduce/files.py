"""The files of an experiment: NAME.csv and NAME.png."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np

from thalweg import report
from thalweg.errors import UserError
from thalweg.reproduce.outcome import Bars, Outcome, Panel

_COLOURS = ("#1b6ca8", "#e09f3e", "#2a9d8f", "#c1121f", "#8e6bb0", "#7f5539")
_FEW_POINTS = 20
_WHOLE_FROM = 10  # an axis that goes so far has whole numbers


def write(outcome: Outcome, out: Path) -> list[Path]:
    """Writes the measurements as CSV and as a picture."""
    table, picture = out / f"{outcome.name}.csv", out / f"{outcome.name}.png"
    try:
        out.mkdir(parents=True, exist_ok=True)
        with table.open("w", newline="") as file:
            csv.writer(file).writerows(_lines(outcome))
    except OSError as error:
        raise UserError(f"the figures can't be written: {error.strerror}", where=str(out)) from error
    _draw(outcome, picture)
    return [table, picture]


def _lines(outcome: Outcome) -> list[tuple[Any, ...]]:
    """The curves where there are any, else the table."""
    curves = [(p, c) for p in outcome.panels if isinstance(p, Panel) for c in p.curves]
    if not curves:
        return [outcome.header, *outcome.rows]
    spread = any(c.spread is not None for _, c in curves)
    lines: list[tuple[Any, ...]] = [("panel", "plan", "time", "unit", curves[0][0].y_label)]
    if spread:
        lines = [("panel", "plan", "x", "unit", curves[0][0].y_label, "standard deviation")]
    for panel, curve in curves:
        deviations = np.zeros(len(curve.x)) if curve.spread is None else curve.spread
        lines += [
            (
                panel.title,
                curve.plan,
                f"{x:.6g}",
                panel.x_label,
                _number(y),
                *([_number(d)] if spread else []),
            )
            for x, y, d in zip(curve.x, curve.results, deviations, strict=True)
        ]
    return lines


def _number(value: float) -> int | str:
    return int(value) if value == int(value) else f"{value:.6g}"


def _draw(outcome: Outcome, path: Path) -> None:
    from matplotlib.figure import Figure

    wide = max(1, len(outcome.panels))
    figure = Figure(figsize=(1.5 + 5.5 * wide, 4.4), layout="constrained")
    figure.suptitle(f"{outcome.name}: {outcome.title}", fontsize=10, x=0.01, ha="left")
    for axes, panel in zip(figure.subplots(1, wide, squeeze=False)[0], outcome.panels, strict=True):
        _bars(axes, panel) if isinstance(panel, Bars) else _curves(axes, panel)
        axes.set_title(panel.title, fontsize=9, loc="left")
        axes.set_xlabel(panel.x_label, fontsize=9)
        axes.spines[["top", "right"]].set_visible(False)
    report.save(figure, path)


def _curves(axes: Any, panel: Panel) -> None:
    for nth, curve in enumerate(panel.curves):
        # Each round of the colours has other styles: as many curves as both together are told apart.
        style = ("-", "--", ":")[(nth + nth // len(_COLOURS)) % 3]
        colour = _COLOURS[nth % len(_COLOURS)]
        few = len(curve.x) <= _FEW_POINTS
        axes.plot(
            *(curve.x, curve.results, style), label=curve.plan, color=colour, linewidth=1.4,
            marker="o" if few else "", markersize=3,
        )  # fmt: skip
        if curve.spread is not None:
            low, high = curve.results - curve.spread, curve.results + curve.spread
            axes.fill_between(curve.x, np.maximum(low, 0.0), high, color=colour, alpha=0.12, linewidth=0)
    for axis in panel.log:
        getattr(axes, f"set_{axis}scale")("log")
    for nth, mark in enumerate(panel.marks):
        label = panel.marked if nth == 0 else None
        axes.axvline(mark, color="#9aa5b1", linewidth=0.8, linestyle=":", label=label)
    axes.set_ylabel(panel.y_label, fontsize=9)
    if "y" not in panel.log and max(curve.results.max() for curve in panel.curves) >= _WHOLE_FROM:
        axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, fontsize=8)


def _bars(axes: Any, panel: Bars) -> None:
    names = list(panel.values)[::-1]
    drawn = axes.barh(names, [panel.values[name] for name in names], color=_COLOURS[0], height=0.6)
    axes.bar_label(drawn, fmt="{:,.0f}", padding=4, fontsize=8)
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.tick_params(labelsize=8)
    axes.locator_params(axis="x", nbins=4)
    axes.margins(x=0.25)
