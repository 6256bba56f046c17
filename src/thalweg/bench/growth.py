"""The table and the plot of the planners' benchmark."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from thalweg.bench.planners import NODES, STREAMS, Measured, Point, Report
from thalweg.bench.report import markdown

COLUMNS = ("planner", "problem", "limit", "planning", "with statistics and price", "peak memory", "reached")
TEXT = """\
Planning is the call of the planner alone: the network is built before, its paths and the rates of joins \
are found within. With statistics and price it is all that `thalweg plan` does. Of 300 queries, both are \
the deploying of all, one after another. The median of some repeats, each from nothing, after one small \
plan; one process for each row, whose peak memory includes the interpreter, the libraries and the catalog. \
Networks are random with an average degree of 4; that of 128 nodes is a transit-stub network.
"""


def rows(measured: Sequence[Measured]) -> list[tuple[str, ...]]:
    """The cells of the table."""
    return [
        (
            m.planner,
            m.what,
            seconds(m.limit_s) + (f", {m.limit_mb:,.0f} MB" if m.limit_mb else ""),
            seconds(m.seconds),
            seconds(m.whole_s),
            f"{m.peak_mb:,.0f} MB",
            "yes" if m.reached else "no",
        )
        for m in measured
    ]


def seconds(value: float) -> str:
    """A time, in milliseconds where it is short.

    >>> seconds(0.0123), seconds(5), seconds(61.26)
    ('12.3 ms', '5 s', '61.3 s')
    """
    return f"{value * 1e3:,.3g} ms" if value < 1 else f"{value:,.3g} s"


def write(report: Report, out: Path, name: str = "planners") -> list[Path]:
    """Writes NAME.md, NAME.json and NAME.png."""
    out.mkdir(parents=True, exist_ok=True)
    paths = [out / f"{name}.{kind}" for kind in ("md", "json", "png")]
    skipped = "".join(f"\n- {line}" for line in report.skipped)
    text = f"{markdown(COLUMNS, rows(report.measured))}\n\n{TEXT}"
    paths[0].write_text(text + (f"\nNot measured:\n{skipped}\n" if skipped else ""))
    paths[1].write_text(json.dumps(report.to_json(), indent=2) + "\n")
    plot(report.growth, paths[2])
    return paths


def plot(points: Sequence[Point], path: Path) -> None:
    """Planning time against the number of streams, and against the number of nodes."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 5.6), layout="constrained")
    titles = {
        "streams": f"streams, all equal in one attribute, on {NODES} nodes",
        "nodes": f"nodes, with {STREAMS} streams",
    }
    axes = figure.subplots(1, len(titles), sharey=True)
    names = list(dict.fromkeys(p.planner for p in points))
    for each, (by, title) in zip(axes, titles.items(), strict=True):
        for nth, name in enumerate(names):
            line = sorted((p.size, p.seconds) for p in points if (p.planner, p.by) == (name, by))
            each.plot(*zip(*line, strict=True) if line else ([], []), label=name, **_style(nth))
        each.set_xscale("log", base=2)
        each.set_yscale("log")
        each.set_xlabel(title)
        each.xaxis.set_major_formatter("{x:,.0f}")
        each.grid(alpha=0.3)
        each.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("seconds of planning")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right upper", frameon=False, fontsize=8)
    figure.savefig(path, dpi=120)


def _style(nth: int) -> dict[str, Any]:
    colours = ("#1b6ca8", "#e09f3e", "#2a9d8f", "#c1121f", "#8e6bb0", "#7f5539", "#4a4e69", "#80b918")
    return {
        "color": colours[nth % len(colours)],
        "linestyle": ("-", "--", ":")[nth // len(colours) % 3],
        "marker": "osD^v"[nth % 5],
        "markersize": 3.5,
        "linewidth": 1.3,
    }
