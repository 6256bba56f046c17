"""A plan as a picture: sites as a map, operators listed at them, streams as arrows as wide as their bytes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from thalweg import report
from thalweg.catalog.model import Catalog
from thalweg.cost.keys import Floats
from thalweg.cost.objectives import MODELS
from thalweg.plan.document import Plan
from thalweg.report.layout import (
    LABEL_FONT,
    LINE,
    LIST_FONT,
    Arrow,
    Box,
    bounds,
    label,
    place,
    room,
    route,
    text_width,
)
from thalweg.report.texts import MOST_COLOURS, Line, Shipped, amount, lines_of, number, shipped_by

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
_BAR = 0.22  # from one bar to the next

Title = tuple[str, str | None]
"""A line of the title, and the colour of the arrows that it is about."""


def draw(plan: Plan, catalog: Catalog, path: Path) -> None:
    """Writes the picture of all queries of a plan as SVG or PNG, by the file's suffix."""
    report.check_path(path)
    report.save(figure(plan, catalog), path)


def figure(plan: Plan, catalog: Catalog) -> Figure:
    """The picture of all queries of a plan."""
    return together([laid_out(plan, catalog, shipped_by(plan), lines_of(plan), _titles(plan), amount)])


def laid_out(
    plan: Plan,
    catalog: Catalog,
    shipped: Sequence[Shipped],
    lines: Mapping[str, Sequence[Line]],
    titles: Sequence[Title],
    said: Callable[[float], str],
    bars: Sequence[tuple[str, float]] = (),
) -> Drawing:
    """A drawing of the shipments between the sites of a plan; `said` formats an amount."""
    sites = _sites(plan, catalog, shipped)
    boxes = {s: Box(s, tuple(lines.get(s, ())), s in lines or len(sites) <= FEW_SITES) for s in sites}
    drawn = [s for s in shipped if s.source in boxes and s.target in boxes]
    labelled = len(drawn) <= MOST_LABELS
    place(list(boxes.values()), catalog, room(drawn) if labelled else None)
    arrows = route(drawn, boxes)
    if labelled:
        label(arrows, boxes.values())
    left_out = len({s for q in plan.queries for s in q.deployment.sites} - boxes.keys())
    return Drawing(catalog, boxes, arrows, left_out, tuple(titles), said, tuple(bars))


def together(drawings: Sequence[Drawing], below: float = 0.0) -> Figure:
    """Drawings side by side, with arrows and bars to the same scale, and room for more below them."""
    from matplotlib.figure import Figure

    sizes = np.array([d.size for d in drawings])
    wide, high = float(sizes[:, 0].sum()), float(sizes[:, 1].max()) + below
    made = Figure(figsize=(wide, high))
    most = max((a.shipped.size for d in drawings for a in d.arrows), default=0.0)
    longest = max((length for d in drawings for _, length in d.bars), default=0.0)
    scale = min(d.room for d in drawings) / longest if longest else 0.0
    left = 0.0
    for drawing, (width, height) in zip(drawings, sizes, strict=True):
        axes = made.add_axes((left / wide, (high - height) / high, width / wide, height / high))
        axes.set_axis_off()
        drawing.on(axes, most, scale)
        left += width
    return made


def _sites(plan: Plan, catalog: Catalog, shipped: Sequence[Shipped]) -> list[str]:
    """The sites to draw: those that take part, and the others too where all are few."""
    traffic = dict.fromkeys((s for q in plan.queries for s in q.deployment.sites), 0.0)
    for one in shipped:
        traffic[one.source] += one.size
        traffic[one.target] += one.size
    if len(catalog.sites) <= MOST_SITES // 2:
        return list(catalog.sites)
    busiest = set(sorted(traffic, key=lambda s: -traffic[s])[:MOST_SITES])
    return [s for s in catalog.sites if s in busiest]


def _titles(plan: Plan) -> list[Title]:
    """The legend: a line for each query, with the colour of its arrows, and the total."""
    unit = MODELS[plan.objective].unit
    queries = plan.queries
    if len(queries) == 1:
        (one,) = queries
        return [(f"{one.query}: planner {one.planner}, {number(one.cost)} {unit}", None)]
    titles: list[Title] = [
        (f"{len(queries)} queries: planner {plan.planner}, {number(plan.total)} {unit}", None)
    ]
    if len(queries) <= MOST_COLOURS:
        titles += [
            (f"{q.query}: adds {number(q.marginal_cost)}", _COLOURS[n % len(_COLOURS)])
            for n, q in enumerate(queries)
        ]
    return titles


@dataclass(eq=False)
class Drawing:
    """A layout, ready to be drawn on a figure. `bars` are labelled sums to compare."""

    catalog: Catalog
    boxes: dict[str, Box]
    arrows: Sequence[Arrow]
    left_out: int
    titles: Sequence[Title]
    said: Callable[[float], str]
    bars: Sequence[tuple[str, float]] = ()

    @cached_property
    def _corners(self) -> tuple[Floats, Floats]:
        """The lower left corner, and the size of all."""
        low, high = bounds(self.boxes.values(), self.arrows)
        wide = max(high[0] - low[0], *(text_width(t, _TITLE_FONT, bold=True) for t, _ in self.titles), 4.0)
        low[0] -= (wide - (high[0] - low[0])) / 2
        top = len(self.titles) * _TITLE_FONT * 1.5 / 72 + 0.12
        bottom = (0.35 if self.arrows else 0.0) + _BAR * len(self.bars)
        size = np.array([wide, high[1] - low[1] + top + bottom]) + 2 * _EDGE
        return low - [_EDGE, _EDGE + bottom], size

    @property
    def size(self) -> Floats:
        """Width and height, in inches."""
        return self._corners[1]

    @property
    def room(self) -> float:
        """How long a bar can be, in inches, with its text beside it."""
        widest = max((text_width(self._bar_text(*bar), LIST_FONT) for bar in self.bars), default=0.0)
        return float(self.size[0] - 2 * _EDGE - widest - 0.15)

    def on(self, axes: Any, most: float, scale: float) -> None:
        """Puts it on axes of its size; the widest arrow is for `most`, bars have `scale` inches a byte."""
        corner, size = self._corners
        axes.set_xlim(corner[0], corner[0] + size[0])
        axes.set_ylim(corner[1], corner[1] + size[1])
        self._links(axes)
        for arrow in self.arrows:
            _arrow(axes, arrow, _width(arrow.shipped.size, most))
        for box in self.boxes.values():
            _box(axes, box)
        for row, (text, colour) in enumerate(self.titles):
            y = corner[1] + size[1] - _EDGE - row * _TITLE_FONT * 1.5 / 72
            if colour:
                axes.plot([corner[0] + _EDGE + 0.05], [y - 0.07], marker="s", markersize=7, color=colour)
            x = corner[0] + _EDGE + (0.18 if colour else 0)
            axes.text(x, y, text, fontsize=_TITLE_FONT, va="top", fontweight="normal" if row else "bold")
        self._bars(axes, corner + _EDGE + [0.0, 0.35 if self.arrows else 0.0], scale)
        if self.arrows:
            self._legend(axes, corner + _EDGE + [0.0, 0.05], most)

    def _bar_text(self, what: str, size: float) -> str:
        return f"{what}: {self.said(size)}"

    def _bars(self, axes: Any, at: Floats, scale: float) -> None:
        """The sums as bars under each other, the first on top."""
        from matplotlib.patches import Rectangle

        for row, bar in enumerate(self.bars):
            y = at[1] + _BAR * (len(self.bars) - 1 - row)
            width = max(scale * bar[1], 0.01)
            colour = _COLOURS[0] if row == 0 else "#b5bcc4"
            axes.add_patch(Rectangle((at[0], y), width, 0.7 * _BAR, facecolor=colour, edgecolor="none"))
            x = at[0] + width + 0.08
            axes.text(x, y + 0.35 * _BAR, self._bar_text(*bar), fontsize=LIST_FONT, va="center")

    def _links(self, axes: Any) -> None:
        """The links themselves, faintly, where the catalog names all of them."""
        if self.catalog.links.default is not None:
            return
        for a, b in {tuple(sorted(pair)) for pair in self.catalog.links.pairs}:
            if a in self.boxes and b in self.boxes:
                ends = np.array([self.boxes[a].centre, self.boxes[b].centre])
                axes.plot(*ends.T, color="#dddddd", linewidth=1, linestyle=(0, (3, 3)), zorder=1)

    def _legend(self, axes: Any, at: Floats, most: float) -> None:
        """How wide an arrow of so many bytes is."""
        from matplotlib.patches import Rectangle

        x = float(at[0])
        for size in _round(most):
            width = _width(size, most)
            axes.add_patch(
                Rectangle((x, at[1] - width / 2), 0.35, width, facecolor="#b5bcc4", edgecolor="none")
            )
            axes.text(x + 0.42, at[1], self.said(size), fontsize=LABEL_FONT, va="center", color="#555555")
            x += 0.42 + text_width(self.said(size), LABEL_FONT) + 0.25
        if self.left_out:
            axes.text(x, at[1], f"{self.left_out} sites are not drawn", fontsize=LABEL_FONT, va="center")


def _width(size: float, most: float) -> float:
    """Grows with the root of the bytes, so that small streams can still be seen."""
    return float(_LEAST + (_MOST - _LEAST) * np.sqrt(size / most)) if most else _LEAST


def _arrow(axes: Any, arrow: Arrow, width: float) -> None:
    from matplotlib.patches import Polygon

    colour = _COLOURS[arrow.shipped.query % len(_COLOURS)]
    outline = _outline(arrow.curve, width)
    # A white rim, outside the arrow, keeps it apart from the wider ones that it crosses.
    axes.add_patch(Polygon(outline, facecolor="white", edgecolor="white", linewidth=1.8, zorder=2))
    axes.add_patch(Polygon(outline, facecolor=colour, edgecolor="none", zorder=2))
    if arrow.at is not None and arrow.lead is not None:
        ends = np.array([arrow.at, arrow.lead])
        axes.plot(*ends.T, color="#888888", linewidth=0.6, zorder=2)
    if arrow.at is not None:
        axes.text(
            *arrow.at, "\n".join(arrow.shipped.label), fontsize=LABEL_FONT, ha="center", va="center",
            linespacing=LINE, color="#222222", zorder=5,
            bbox={"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none", "alpha": 0.85},
        )  # fmt: skip


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
