"""Where everything in a picture of a plan goes: sites on a map, arrows between them, labels beside these.

Lengths are in inches, so that texts can be measured and placed before anything is drawn. Sites lie as far
apart as their latencies say and are then pushed off each other until their lists do not overlap and there is
room between them for labels. A label never lies over a box or another label: one that finds no place on its
arrow stands aside, and a thin line leads to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from thalweg.catalog.model import Catalog
from thalweg.cost.keys import Floats
from thalweg.cost.network import Network
from thalweg.cost.objectives import MODELS
from thalweg.report.texts import Line, Shipped

LIST_FONT, LABEL_FONT = 8.0, 7.0
LINE = 1.32
"""From one line of text to the next, in font sizes."""
_MARGIN = np.array([1.7, 0.8])  # between lists: room for an arrow with its label
_BENDS = (0.14, -0.14, 0.3, -0.3, 0.5, -0.5, 0.8, -0.8)
_PLACES = (0.5, 0.42, 0.58, 0.34, 0.66, 0.26, 0.74, 0.18, 0.82)
_ASIDE = ((0, 0), (0, 1), (0, -1), (1, 0), (-1, 0))
_AROUND = np.array([0.5, 0.35])  # beside labels, and above and below them
_GAP = 0.02  # between labels
_POINTS = 61


@dataclass(eq=False)
class Box:
    """A site on the map: its name and its operators; without a name, a dot."""

    site: str
    lines: tuple[Line, ...]
    named: bool
    centre: Floats = field(default_factory=lambda: np.zeros(2))
    measure: Callable[..., float] | None = None

    @cached_property
    def half(self) -> Floats:
        """Half its width and height."""
        if not self.named:
            return np.array([0.06, 0.06])
        measure = self.measure or text_width
        widths = [measure(one.text, LIST_FONT) for one in self.lines]
        wide = max([measure(self.site, LIST_FONT + 1, bold=True), *widths])
        return np.array([wide + 0.24, (1.2 + len(self.lines)) * LIST_FONT * LINE / 72 + 0.14]) / 2

    def has(self, points: Floats, margin: float = 0.0) -> Any:
        """Which of some points lie within it."""
        return (np.abs(points - self.centre) <= self.half + margin).all(axis=-1)


@dataclass(eq=False)
class Arrow:
    """A shipment's way over the map, as a curve of many points, and its label.

    `lead` is where a line from the label meets the arrow, if the label stands aside.
    """

    shipped: Shipped
    curve: Floats
    at: Floats | None = None
    lead: Floats | None = None
    measure: Callable[..., float] | None = None

    @cached_property
    def half(self) -> Floats:
        """Half the width and height of its label."""
        return label_size(self.shipped, self.measure) / 2


def label_size(shipped: Shipped, measure: Callable[..., float] | None = None) -> Floats:
    """Width and height of a shipment's label."""
    wide = max((measure or text_width)(text, LABEL_FONT) for text in shipped.label)
    return np.array([wide + 0.12, len(shipped.label) * LABEL_FONT * LINE / 72 + 0.06])


@lru_cache(maxsize=1024)
def text_width(text: str, size: float, *, bold: bool = False) -> float:
    """How wide a line of text is."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextPath

    if not text:
        return 0.0
    properties = FontProperties(weight="bold" if bold else "normal")
    return float(TextPath((0, 0), text, size=size, prop=properties).get_extents().width) / 72


def positions(sites: Sequence[str], catalog: Catalog) -> Floats:
    """Where sites lie: by classical scaling of their latencies, or on a circle where these are all equal."""
    n = len(sites)
    network = Network.of(catalog, MODELS["usage"])  # a path's length is its latency
    apart = network.among([network.number[s] for s in sites], 1.0)
    known = np.isfinite(apart)
    apart = np.where(known, apart, 1.5 * apart[known].max(initial=0.0))
    apart = (apart + apart.T) / 2
    away = apart[~np.eye(n, dtype=bool)]
    if n < 3 or np.ptp(away) <= 1e-9 * away.max():
        angles = np.pi * (0.5 + 2 * np.arange(n) / n) if n > 2 else np.pi * np.arange(n)
        return np.stack((-np.cos(angles), np.sin(angles)), axis=1)
    centring = np.eye(n) - 1 / n
    values, vectors = np.linalg.eigh(-0.5 * centring @ apart**2 @ centring)
    found: Floats = vectors[:, [-1, -2]] * np.sqrt(np.maximum(values[[-1, -2]], 0.0))
    # An eigenvector's sign means nothing: fix it, so that a map looks the same everywhere.
    found = found * np.where(found[np.abs(found).argmax(axis=0), [0, 1]] < 0, -1.0, 1.0)
    return np.asarray(found / np.abs(found).max(), dtype=np.float64)


def room(
    shipped: Iterable[Shipped], measure: Callable[..., float] | None = None
) -> dict[frozenset[str], Floats]:
    """The space that the labels of all that goes between two sites take."""
    found: dict[frozenset[str], Floats] = {}
    for one in shipped:
        size, ends = label_size(one, measure), frozenset((one.source, one.target))
        before = found.get(ends, np.zeros(2))
        found[ends] = np.array([max(before[0], size[0]), before[1] + size[1]])
    return found


def place(
    boxes: Sequence[Box], catalog: Catalog, labels: Mapping[frozenset[str], Floats] | None = None
) -> None:
    """Puts the boxes on the map, pushed off each other along the axis that takes the least.

    Between the boxes of two sites there is room for their `labels`.
    """
    n = len(boxes)
    half = np.array([b.half for b in boxes])
    spread = 1.0 + 0.6 * np.sqrt(n)
    found = positions([b.site for b in boxes], catalog) * [1.5 * spread, spread]
    found = found + 1e-6 * np.arange(n)[:, None]  # no two at the same place
    margin = np.full((n, n, 2), min(1.0, 4 / np.sqrt(n)) * _MARGIN)
    number = {b.site: i for i, b in enumerate(boxes)}
    for ends, size in (labels or {}).items():
        at = [number[s] for s in ends if s in number]
        if len(at) == 2:
            margin[at, at[::-1]] = np.maximum(margin[at[0], at[1]], size + _AROUND)
    for _ in range(500):
        gap = found[:, None, :] - found[None, :, :]
        over = half[:, None, :] + half[None, :, :] + margin - np.abs(gap)
        clash = (over > 1e-3).all(axis=2) & ~np.eye(n, dtype=bool)
        if not clash.any():
            break
        by_x = over[:, :, 0] / 1.5 < over[:, :, 1]
        along = np.stack((by_x, ~by_x), axis=2) & clash[:, :, None]
        found = found + 0.3 * np.where(along, over * np.sign(gap), 0.0).sum(axis=1)
    for box, centre in zip(boxes, found, strict=True):
        box.centre = centre


def route(
    shipped: Iterable[Shipped], boxes: dict[str, Box], measure: Callable[..., float] | None = None
) -> list[Arrow]:
    """An arrow for each shipment, bent so that it keeps off other sites and arrows, the widest first."""
    arrows: list[Arrow] = []
    for one in sorted(shipped, key=lambda s: -s.size):
        ends = boxes[one.source], boxes[one.target]
        others = [b for b in boxes.values() if b not in ends]
        curves = [_curve(*ends, bend) for bend in _BENDS]
        costs = [
            3 * sum(int(b.has(c, 0.08).sum()) for b in others)
            + sum(_near(c, a.curve) for a in arrows)
            + 8 * abs(bend)
            for c, bend in zip(curves, _BENDS, strict=True)
        ]
        arrows.append(Arrow(one, curves[int(np.argmin(costs))], measure=measure))
    return arrows


def label(arrows: Sequence[Arrow], boxes: Iterable[Box]) -> None:
    """Puts each arrow's label on it, or beside it, where it crosses the fewest others and covers nothing."""
    taken = [(b.centre, b.half) for b in boxes]
    for arrow in arrows:
        others = [a.curve for a in arrows if a is not arrow]
        best, least = None, np.inf
        for rank, part in enumerate(_PLACES):
            on = arrow.curve[round(part * (_POINTS - 1))]
            for aside in _ASIDE:
                at = on + np.array(aside) * (arrow.half + 0.06)
                if not _free(at, arrow.half, taken):
                    continue
                crossed = sum(int((np.abs(c - at) <= arrow.half).all(axis=1).sum()) for c in others)
                cost = 0.05 * crossed + 0.02 * rank + 0.06 * float(np.abs(aside).sum())
                if cost < least:
                    best, least = at, cost
        if best is None:
            best = _aside(arrow, taken)
            arrow.lead = arrow.curve[_POINTS // 2]
        arrow.at = best
        taken.append((best, arrow.half))


def _aside(arrow: Arrow, taken: Sequence[tuple[Floats, Floats]]) -> Floats:
    """The free place that is nearest to the middle of an arrow: round and round, further and further out."""
    middle = arrow.curve[_POINTS // 2]
    for far in np.arange(0.2, 1e3, 0.15):
        for angle in np.linspace(0, 2 * np.pi, 24, endpoint=False):
            at: Floats = middle + far * np.array([np.cos(angle), np.sin(angle)])
            if _free(at, arrow.half, taken):
                return at
    raise AssertionError("a sheet without an end has room")


def _free(at: Floats, half: Floats, taken: Sequence[tuple[Floats, Floats]]) -> bool:
    """Whether a rectangle there lies over none of the others."""
    return all((np.abs(at - centre) >= half + other + _GAP).any() for centre, other in taken)


def bounds(boxes: Iterable[Box], arrows: Iterable[Arrow]) -> tuple[Floats, Floats]:
    """The corners of all: the lower left one, and the upper right one."""
    corners = [b.centre + s * b.half for b in boxes for s in (-1, 1)]
    for arrow in arrows:
        corners += [*arrow.curve]
        if arrow.at is not None:
            corners += [arrow.at + s * arrow.half for s in (-1, 1)]
    points = np.array(corners)
    return points.min(axis=0), points.max(axis=0)


def _curve(source: Box, target: Box, bend: float) -> Floats:
    """A bent line from the edge of one box to the edge of another."""
    a, b = source.centre, target.centre
    middle = (a + b) / 2 + bend * np.array([b[1] - a[1], a[0] - b[0]])
    t = np.linspace(0, 1, 400)[:, None]
    points = (1 - t) ** 2 * a + 2 * t * (1 - t) * middle + t**2 * b
    outside = np.flatnonzero(~source.has(points, 0.03) & ~target.has(points, 0.03))
    if len(outside) < 2:
        return np.linspace(a, b, _POINTS)
    shown = points[outside[0] : outside[-1] + 1]
    picked: Floats = shown[np.linspace(0, len(shown) - 1, _POINTS).round().astype(int)]
    return picked


def _near(curve: Floats, other: Floats) -> int:
    """How many points of a curve lie on another."""
    return int((np.linalg.norm(curve[:, None] - other[None], axis=2).min(axis=1) < 0.15).sum())
