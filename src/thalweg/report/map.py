"""A plan as a picture: sites as a map, operators listed at them, streams as arrows as wide as their bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from thalweg import report
from thalweg.catalog.model import Catalog
from thalweg.cost.keys import Floats
from thalweg.cost.price import MODELS
from thalweg.plan.document import Plan
from thalweg.report.layout import LABEL_FONT, LINE, LIST_FONT, Arrow, Box, label, place, route, text_width
from thalweg.report.texts import MOST_COLOURS, Shipped, amount, lines_of, number, shipped_by

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_SITES = 60
"""Sites beyond these, those with the least traffic, are left out."""
FEW_SITES = 12
"""Up to so many sites, those without operators have names too."""
MOST_LABELS = 24
"""With more arrows than these, none has a label."""

_COLOURS = ("#8dbbe0", "#f0b98a", "#9fd3b4", "#cdb0dc", "#eba7a7", "#c3cd9a", "#94d2d6", "#d8c1a0")
_KINDS = {"source": "#1f618d", "sink": "#922b21", "join": "#1e6e43", "step": "#1e6e43"}
_LEAST, _MOST = 0.015, 0.14
_TITLE_FONT = 10.0
_EDGE = 0.25  # around the whole picture


def draw(plan: Plan, catalog: Catalog, path: Path) -> None:
    """Writes the picture of all queries of a plan as SVG or PNG, by the file's suffix."""
    report.check_path(path)
    report.save(figure(plan, catalog), path)


def figure(plan: Plan, catalog: Catalog) -> Figure:
    """The picture of all queries of a plan."""
    shipped = shipped_by(plan)
    lines = lines_of(plan)
    sites = _sites(plan, catalog, shipped)
    boxes = {s: Box(s, tuple(lines.get(s, ())), s in lines or len(sites) <= FEW_SITES) for s in sites}
    place(list(boxes.values()), catalog)
    arrows = route((s for s in shipped if s.source in boxes and s.target in boxes), boxes)
    if len(arrows) <= MOST_LABELS:
        label(arrows, boxes.values())
    left_out = len({s for q in plan.queries for s in q.deployment.sites} - boxes.keys())
    return _Drawing(plan, catalog, boxes, arrows, left_out).figure()


def _sites(plan: Plan, catalog: Catalog, shipped: Sequence[Shipped]) -> list[str]:
    """The sites to draw: those that take part, and the others too where all are few."""
    traffic = dict.fromkeys((s for q in plan.queries for s in q.deployment.sites), 0.0)
    for one in shipped:
        traffic[one.source] += one.bytes_per_s
        traffic[one.target] += one.bytes_per_s
    if len(catalog.sites) <= MOST_SITES // 2:
        return list(catalog.sites)
    busiest = set(sorted(traffic, key=lambda s: -traffic[s])[:MOST_SITES])
    return [s for s in catalog.sites if s in busiest]


@dataclass(eq=False)
class _Drawing:
    """What was laid out, put on a figure."""

    plan: Plan
    catalog: Catalog
    boxes: dict[str, Box]
    arrows: Sequence[Arrow]
    left_out: int

    def figure(self) -> Figure:
        from matplotlib.figure import Figure

        titles = self._titles()
        low, high = self._bounds()
        wide = max(high[0] - low[0], *(text_width(t, _TITLE_FONT, bold=True) for t, _ in titles), 4.0)
        low[0] -= (wide - (high[0] - low[0])) / 2
        top = len(titles) * _TITLE_FONT * 1.5 / 72 + 0.12
        bottom = 0.35 if self.arrows else 0.0
        size = np.array([wide, high[1] - low[1] + top + bottom]) + 2 * _EDGE
        made = Figure(figsize=tuple(size))
        axes = made.add_axes((0, 0, 1, 1))
        axes.set_axis_off()
        corner = low - [_EDGE, _EDGE + bottom]
        axes.set_xlim(corner[0], corner[0] + size[0])
        axes.set_ylim(corner[1], corner[1] + size[1])
        self._links(axes)
        for arrow in self.arrows:
            self._arrow(axes, arrow)
        for box in self.boxes.values():
            _box(axes, box)
        for row, (text, colour) in enumerate(titles):
            y = corner[1] + size[1] - _EDGE - row * _TITLE_FONT * 1.5 / 72
            if colour:
                axes.plot([corner[0] + _EDGE + 0.05], [y - 0.07], marker="s", markersize=7, color=colour)
            x = corner[0] + _EDGE + (0.18 if colour else 0)
            axes.text(x, y, text, fontsize=_TITLE_FONT, va="top", fontweight="normal" if row else "bold")
        if self.arrows:
            self._legend(axes, corner + _EDGE + [0.0, 0.05])
        return made

    def _titles(self) -> list[tuple[str, str | None]]:
        """What is drawn: a line for each query, with the colour of its arrows, and the total."""
        unit = MODELS[self.plan.objective].unit
        queries = self.plan.queries
        if len(queries) == 1:
            (one,) = queries
            return [(f"{one.query}: planner {one.planner}, {number(one.cost)} {unit}", None)]
        planners = ", ".join(dict.fromkeys(q.planner for q in queries))
        titles: list[tuple[str, str | None]] = [
            (f"{len(queries)} queries: planner {planners}, {number(self.plan.total)} {unit}", None)
        ]
        if len(queries) <= MOST_COLOURS:
            titles += [
                (f"{q.query}: adds {number(q.marginal_cost)}", _COLOURS[n % len(_COLOURS)])
                for n, q in enumerate(queries)
            ]
        return titles

    def _bounds(self) -> tuple[Floats, Floats]:
        corners = [b.centre + s * b.half for b in self.boxes.values() for s in (-1, 1)]
        corners += [a.at + s * a.half for a in self.arrows if a.at is not None for s in (-1, 1)]
        corners += [p for a in self.arrows for p in a.curve]
        points = np.array(corners)
        return points.min(axis=0), points.max(axis=0)

    def _width(self, bytes_per_s: float) -> float:
        """Grows with the root of the bytes, so that small streams can still be seen."""
        most = max(a.shipped.bytes_per_s for a in self.arrows)
        return float(_LEAST + (_MOST - _LEAST) * np.sqrt(bytes_per_s / most)) if most else _LEAST

    def _arrow(self, axes: Any, arrow: Arrow) -> None:
        from matplotlib.patches import Polygon

        colour = _COLOURS[arrow.shipped.query % len(_COLOURS)]
        outline = _outline(arrow.curve, self._width(arrow.shipped.bytes_per_s))
        # A white rim, outside the arrow, keeps it apart from the wider ones that it crosses.
        axes.add_patch(Polygon(outline, facecolor="white", edgecolor="white", linewidth=1.8, zorder=2))
        axes.add_patch(Polygon(outline, facecolor=colour, edgecolor="none", zorder=2))
        if arrow.at is not None:
            axes.text(
                *arrow.at, "\n".join(arrow.shipped.label), fontsize=LABEL_FONT, ha="center", va="center",
                linespacing=LINE, color="#222222", zorder=5,
                bbox={"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none", "alpha": 0.85},
            )  # fmt: skip

    def _links(self, axes: Any) -> None:
        """The links themselves, faintly, where the catalog names all of them."""
        if self.catalog.links.default is not None:
            return
        for a, b in {tuple(sorted(pair)) for pair in self.catalog.links.pairs}:
            if a in self.boxes and b in self.boxes:
                ends = np.array([self.boxes[a].centre, self.boxes[b].centre])
                axes.plot(*ends.T, color="#dddddd", linewidth=1, linestyle=(0, (3, 3)), zorder=1)

    def _legend(self, axes: Any, at: Floats) -> None:
        """How wide an arrow of so many bytes is."""
        from matplotlib.patches import Rectangle

        most = max(a.shipped.bytes_per_s for a in self.arrows)
        x = float(at[0])
        for size in _round(most):
            width = self._width(size)
            axes.add_patch(
                Rectangle((x, at[1] - width / 2), 0.35, width, facecolor="#b5bcc4", edgecolor="none")
            )
            axes.text(x + 0.42, at[1], amount(size), fontsize=LABEL_FONT, va="center", color="#555555")
            x += 0.42 + text_width(amount(size), LABEL_FONT) + 0.25
        if self.left_out:
            axes.text(x, at[1], f"{self.left_out} sites are not drawn", fontsize=LABEL_FONT, va="center")


def _box(axes: Any, box: Box) -> None:
    from matplotlib.patches import Circle, FancyBboxPatch

    if not box.named:
        axes.add_patch(Circle(tuple(box.centre), 0.05, facecolor="#c8cdd2", edgecolor="none", zorder=3))
        return
    corner = box.centre - box.half
    face = "#f6f8fa" if box.lines else "white"
    wide, high = 2 * box.half
    shape: dict[str, Any] = {
        "boxstyle": "round,pad=0,rounding_size=0.06",
        "edgecolor": "#9aa5b1",
        "linewidth": 0.8,
    }
    axes.add_patch(FancyBboxPatch(tuple(corner), wide, high, facecolor=face, zorder=3, **shape))
    x, y = corner[0] + 0.12, box.centre[1] + box.half[1] - 0.07
    axes.text(x, y, box.site, fontsize=LIST_FONT + 1, fontweight="bold", va="top", zorder=4)
    for row, line in enumerate(box.lines):
        down = (1.2 + row) * LIST_FONT * LINE / 72
        colour = _KINDS.get(line.kind, "#555555")
        axes.text(x, y - down, line.text, fontsize=LIST_FONT, va="top", color=colour, zorder=4)


def _outline(curve: Floats, width: float) -> Floats:
    """The outline of an arrow along a curve: a shaft of that width and a head."""
    steps = np.linalg.norm(np.diff(curve, axis=0), axis=1)
    so_far = np.concatenate(([0.0], np.cumsum(steps)))
    neck_at = max(so_far[-1] - 0.09 - 1.1 * width, 0.5 * so_far[-1])
    neck = np.array([np.interp(neck_at, so_far, curve[:, k]) for k in (0, 1)])
    shaft = np.concatenate((curve[so_far < neck_at], [neck]))
    along = np.gradient(np.concatenate((shaft, curve[-1:])), axis=0)[:-1]
    along /= np.maximum(np.linalg.norm(along, axis=1, keepdims=True), 1e-12)
    across = np.stack((-along[:, 1], along[:, 0]), axis=1)
    side = across * width / 2
    wing = across[-1] * (0.75 * width + 0.05)
    return np.concatenate((shaft + side, [neck + wing, curve[-1], neck - wing], (shaft - side)[::-1]))


def _round(most: float) -> list[float]:
    """Three amounts for a legend, in round numbers: about all, a tenth and a hundredth of the most.

    >>> _round(54.03)
    [50.0, 5.0, 0.5]
    """
    if most <= 0:
        return []
    power = 10.0 ** np.floor(np.log10(most))
    first = float(max(f for f in (1, 2, 5) if f * power <= most * (1 + 1e-9)) * power)
    return [first, first / 10, first / 100]
