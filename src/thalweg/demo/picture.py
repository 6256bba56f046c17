"""Draws what happened: one address at three routers, the traffic over time, and how long results took."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from thalweg.demo.figures import Figures, in_seconds
from thalweg.demo.packets import QUERY, ROUTERS

_COLOURS = ("#1b6ca8", "#2a9d8f", "#e09f3e")
_RESULT = "#c1121f"
_FEW, _SOME = 2, 5  # results of the address that is shown: enough to see, few enough to tell apart


def draw(home: Path, figures: Figures, window_s: float, path: Path) -> None:
    """Write the picture of the demonstration in `home`, whose packets are alive for `window_s`."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 5.6), layout="constrained")
    axes = figure.subplot_mosaic([["lanes", "lanes"], ["flow", "delay"]])
    _lanes(axes["lanes"], home, window_s)
    _flow(axes["flow"], figures)
    _delay(axes["delay"], figures)
    for each in axes.values():
        each.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=110)


def _lanes(axes: Any, home: Path, window_s: float) -> None:
    """The packets to one address as bars as long as they are alive, and the moments of its results."""
    results = pq.read_table(home / "run" / "results" / QUERY, columns=["dest", "result_time"])
    chosen = _choose(results)
    if chosen is None:
        axes.set_title("no results", loc="left", fontsize=9)
        return
    moments = in_seconds(results.filter(pc.equal(results["dest"], chosen))["result_time"])
    begin = float(moments.min())
    for lane, router in enumerate(ROUTERS):
        table = pq.read_table(home / "packets" / router, columns=["ts"], filters=[("dest", "==", chosen)])
        starts = np.sort(in_seconds(table["ts"])) - begin
        # Bars of packets that are alive at the same moment lie above each other.
        heights = len(ROUTERS) - 1 - lane + 0.2 * (np.arange(len(starts)) % 3 - 1)
        axes.barh(heights, window_s, left=starts, height=0.16, color=_COLOURS[lane], alpha=0.8)
    for moment in moments - begin:
        axes.axvline(moment, color=_RESULT, linewidth=1)
    axes.set_yticks(range(len(ROUTERS)), reversed(ROUTERS))
    axes.set_xlim(-2 * window_s, float(moments.max()) - begin + 2 * window_s)
    axes.set_xlabel("seconds of event time")
    axes.set_title(
        f"packets to {chosen}, each alive for {window_s:g} s; red: one of each router, all alive: a result",
        loc="left",
        fontsize=9,
    )


def _choose(results: pa.Table) -> str | None:
    """An address with a few results, the first by name; any other if there is none such."""
    counted = results.group_by("dest").aggregate([([], "count_all")]).sort_by("dest")
    counts = np.asarray(counted["count_all"])
    fitting = np.flatnonzero((counts >= _FEW) & (counts <= _SOME))
    if len(counts) == 0:
        return None
    return str(counted["dest"][int(fitting[0]) if len(fitting) else 0].as_py())


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
    for value, label in ((figures.latency.p50, "p50"), (figures.latency.p95, "p95")):
        axes.axvline(value, color="black", linewidth=1)
        axes.annotate(
            f" {label}: {value:.2f} s", (value, 0.95), xycoords=("data", "axes fraction"), fontsize=8
        )
    axes.set_xlabel("seconds from arrival to result")
    axes.set_title("how many results took how long", loc="left", fontsize=9)
