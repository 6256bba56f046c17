"""Draws a demo: the traffic between sites with each plan, the course of the live run, and the second act."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq

from thalweg.catalog.load import load
from thalweg.demo.figures import LIVE, Figures, in_seconds
from thalweg.demo.packets import QUERY, ROUTERS, SHIFTS
from thalweg.demo.shift import Shift
from thalweg.report.flow import drawing
from thalweg.report.map import together

_COLOURS = ("#1b6ca8", "#2a9d8f", "#e09f3e")
_RESULT = "#c1121f"
_STAYS = "#9aa5b1"
_BELOW = 3.2  # inches for what is drawn below the networks
_SECOND = 2.9  # and below that
_LEFT, _BETWEEN, _RIGHT = 0.8, 0.7, 0.3
_SHOWN = 3  # windows before and after the result in the middle
_STEP, _LAYERS = 0.07, 11


def draw(home: Path, figures: Figures, shift: Shift, window_s: float, path: Path) -> None:
    """Draws the demo in `home`. The packets of its first act are alive for `window_s`."""
    catalog = load(home / "catalog.yaml")
    networks = [drawing(ran.flow, catalog) for ran in (figures.live, figures.central)]
    figure = together(networks, below=_BELOW + _SECOND)
    wide, high = figure.get_size_inches()
    inner = (wide - _LEFT - 2 * _BETWEEN - _RIGHT) / 4
    left = _LEFT
    for panel, width in (("lanes", 2 * inner), ("flow", inner), ("delay", inner)):
        axes = figure.add_axes((left / wide, (_SECOND + 0.55) / high, width / wide, (_BELOW - 1.0) / high))
        if panel == "lanes":
            _lanes(axes, home, window_s)
        else:
            (_flow if panel == "flow" else _delay)(axes, figures)
        axes.spines[["top", "right"]].set_visible(False)
        left += width + _BETWEEN
    axes = figure.add_axes(
        (_LEFT / wide, 0.55 / high, (wide - _LEFT - _RIGHT) / wide, (_SECOND - 1.0) / high)
    )
    _shift(axes, shift)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=100)


def _lanes(axes: Any, home: Path, window_s: float) -> None:
    """The packets to one address as bars over their lifetime, with the times of the results."""
    results = pq.read_table(home / LIVE / "results" / QUERY, columns=["dest", "result_time"])
    if not results.num_rows:
        axes.set_title("no results", loc="left", fontsize=9)
        return
    chosen = min(results["dest"].to_pylist())
    moments = np.sort(in_seconds(results.filter(pc.equal(results["dest"], chosen))["result_time"]))
    begin = float(moments[len(moments) // 2])
    for lane, router in enumerate(ROUTERS):
        table = pq.read_table(home / "packets" / router, columns=["ts"], filters=[("dest", "==", chosen)])
        starts = np.sort(in_seconds(table["ts"])) - begin
        starts = starts[np.abs(starts) <= (_SHOWN + 1) * window_s]
        # Bars of packets that are alive at the same time are stacked.
        heights = len(ROUTERS) - 1 - lane + _STEP * (np.arange(len(starts)) % _LAYERS - _LAYERS // 2)
        axes.barh(heights, window_s, left=starts, height=0.8 * _STEP, color=_COLOURS[lane], alpha=0.8)
    for moment in moments - begin:
        axes.axvline(moment, color=_RESULT, linewidth=1)
    axes.set_yticks(range(len(ROUTERS)), reversed(ROUTERS))
    axes.set_xlim(-_SHOWN * window_s, _SHOWN * window_s)
    axes.set_xlabel("seconds of event time")
    axes.set_title(
        f"packets to {chosen}, each alive for {window_s:g} s; red: a result, three packets alive together",
        loc="left",
        fontsize=9,
    )


def _flow(axes: Any, figures: Figures) -> None:
    last = max(1, int(np.ceil(figures.published.max(initial=1.0))))
    edges = np.arange(0, last + 1)
    for moments, label, colour in (
        (figures.arrived, "packets in", _COLOURS[0]),
        (figures.published, "results out", _RESULT),
    ):
        counts, _ = np.histogram(moments, edges)
        axes.step(edges[:-1], counts, where="post", label=label, color=colour)
    axes.set_xlabel("seconds since the replay began")
    axes.set_title("packets in and results out, in each second", loc="left", fontsize=9)
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False, fontsize=8)


def _delay(axes: Any, figures: Figures) -> None:
    if figures.latency is None:
        axes.set_title("no results", loc="left", fontsize=9)
        return
    axes.hist(figures.delays, bins=40, color="#9aa5b1")
    for value in (figures.latency.p50, figures.latency.p95):
        axes.axvline(value, color="black", linewidth=1)
    axes.set_xlabel("seconds from arrival to result")
    shown = f"p50 {figures.latency.p50:.1f} s, p95 {figures.latency.p95:.1f} s"
    axes.set_title(f"latency of results: {shown}", loc="left", fontsize=9)


def _shift(axes: Any, shift: Shift) -> None:
    """The bytes between sites in each second of the second act, with the shift and the changes of plan."""
    traffic = shift.traffic
    edges, most = np.arange(0.0, traffic.seconds + 1), 0.0
    for course, label, colour in (
        (shift.staying_course, "the plan stays", _STAYS),
        (shift.adapting_course, "the plan adapts", _COLOURS[0]),
    ):
        sent = np.diff(np.interp(edges, course.seconds, course.sent)) / 1000
        axes.stairs(sent, edges, label=label, color=colour, linewidth=1.5, baseline=None)
        most = max(most, sent.max())
    marks = [(traffic.shift_s, "traffic shifts", _RESULT)]
    for change in shift.changes:
        if change.decided_s < traffic.seconds:
            begin, end = change.decided_s, change.in_force_s or change.decided_s
            axes.axvspan(begin, end, color=_COLOURS[2], alpha=0.25, linewidth=0)
            marks.append((begin, f"plan changes: {change.reason}", _COLOURS[2]))
    for row, (at, text, colour) in enumerate(marks):
        axes.axvline(at, color=colour, linewidth=1)
        right = at > 0.7 * traffic.seconds
        axes.text(
            at, 1.0 - 0.1 * row, f"{text} " if right else f" {text}", fontsize=8, va="top",
            ha="right" if right else "left", transform=axes.get_xaxis_transform(),
        )  # fmt: skip
    axes.set_xlim(0, traffic.seconds)
    axes.set_ylim(0, most * (1.1 + 0.12 * len(marks)) or 1.0)  # the texts are above the curves
    axes.set_xlabel("seconds of the second replay")
    axes.set_title(
        f"second act, traffic shifts from {SHIFTS[0]} to {SHIFTS[1]}: kB between sites in each second",
        loc="left",
        fontsize=9,
    )
    axes.legend(frameon=False, fontsize=8, loc="upper left")
