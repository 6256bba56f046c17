"""The map of a run: where its sites, their operators and the arrows between them go."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from typing import Any

import numpy as np

from thalweg.cost.keys import Floats
from thalweg.cost.price import shipments
from thalweg.page.reading import Seen
from thalweg.report import layout
from thalweg.report.texts import Line, Shipped, lines_of

MOST_SITES = 60
LISTED_SITES, LISTED_LINES = 8, 10
"""With more sites or lines than these, a site shows how many operators it has."""
HEAD = 8 / 72
"""The length of an arrow's head."""
RATE, SHARE = "9,999.9 kB/s", "100% of link"
"""The longest texts beside an arrow: their room is kept, so that nothing moves when numbers change."""


class Maps:
    """The map of the plan in force; a new one is laid out when the plan, or what goes where, changes."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}
        self._made: tuple[int, dict[str, Any]] = (-1, {})

    def number(self, seen: Seen) -> int:
        """A number that is another one when the map is."""
        return self._numbers.setdefault(_what(seen), len(self._numbers))

    def of(self, seen: Seen) -> dict[str, Any]:
        number = self.number(seen)
        if self._made[0] != number:
            self._made = number, {"number": number, **laid_out(seen)}
        return self._made[1]


def _ways(seen: Seen) -> list[tuple[str, str]]:
    """The pairs of sites between which something goes, or may go by the plan."""
    plan = () if seen.plan is None else seen.plan.queries
    drawn = {(e.source_site, e.target_site) for q in plan for e in shipments(q.deployment)}
    for name in seen.last.sent:
        source, target = name.split("-", 1)
        drawn.add((source, target))
    return sorted(drawn)


def _what(seen: Seen) -> Hashable:
    return seen.operators.change, seen.plan is None, seen.asked is None, tuple(_ways(seen))


def laid_out(seen: Seen) -> dict[str, Any]:
    """Boxes, arrows and places for labels, in points from the upper left corner."""
    if seen.asked is None or seen.plan is None:
        return {"width": 0, "height": 0, "sites": [], "links": []}
    catalog, ways = seen.asked.catalog, _ways(seen)
    used = {*seen.plan.sites, *(site for way in ways for site in way)}
    sites = [s for s in catalog.sites if len(catalog.sites) <= MOST_SITES or s in used][:MOST_SITES]
    lines = lines_of(seen.plan)
    listed = len(sites) <= LISTED_SITES and max(map(len, lines.values()), default=0) <= LISTED_LINES
    told = lines if listed else {s: _counted(seen, s) for s in sites}
    boxes = {s: layout.Box(s, tuple(told.get(s, ())), named=True, measure=_width) for s in sites}
    shipped = [Shipped(a, b, 0, 1.0, (RATE, SHARE)) for a, b in ways if {a, b} <= boxes.keys()]
    layout.place(list(boxes.values()), catalog, layout.room(shipped, _width))
    arrows = layout.route(shipped, boxes, measure=_width)
    layout.label(arrows, boxes.values())
    low, high = layout.bounds(boxes.values(), arrows)
    low, high = low - 0.15, high + 0.15

    def at(x: float, y: float) -> list[float]:
        return [round(72 * (x - low[0]), 1), round(72 * (high[1] - y), 1)]

    return {
        "width": round(72 * float(high[0] - low[0]), 1),
        "height": round(72 * float(high[1] - low[1]), 1),
        "sites": [
            {
                "name": b.site,
                "corner": at(b.centre[0] - b.half[0], b.centre[1] + b.half[1]),
                "size": [round(144 * float(h), 1) for h in b.half],
                "lines": [{"kind": one.kind, "text": one.text} for one in b.lines],
            }
            for b in boxes.values()
        ],
        "links": [
            {
                "from": a.shipped.source,
                "to": a.shipped.target,
                "path": [at(*p) for p in _shaft(a.curve)],
                "label": None if a.at is None else at(*a.at),
            }
            for a in arrows
        ],
    }


def _shaft(curve: Floats) -> Floats:
    """A few points of an arrow, without its head."""
    left = np.linalg.norm(curve - curve[-1], axis=1)
    points = curve[: max(2, int((left > HEAD).sum()))]
    picked: Floats = points[np.linspace(0, len(points) - 1, 12).round().astype(int)]
    return picked


def _counted(seen: Seen, site: str) -> list[Line]:
    """How many operators of each kind are at a site."""
    kinds = Counter(one.kind for one in seen.operators.running if one.site == site)
    return [Line(kind, f"{n} {kind}") for kind, n in kinds.most_common(3)]


def _width(text: str, size: float, *, bold: bool = False) -> float:
    """About how wide a text is in any browser's font."""
    return len(text) * size * (0.6 if bold else 0.56) / 72
