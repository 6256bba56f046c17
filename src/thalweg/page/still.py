"""How a run is at a moment, as a piece of HTML without scripts: for notebooks.

It takes its colours from the page that it is in, light or dark.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from math import sqrt
from typing import Any

from thalweg.page.map import laid_out
from thalweg.page.reading import Seen
from thalweg.page.state import state
from thalweg.report.texts import volume

_STYLE = """
.thalweg { font: 13px/1.45 system-ui, sans-serif; font-variant-numeric: tabular-nums; max-width: 60em; }
.thalweg .facts { display: flex; flex-wrap: wrap; gap: .3em 2.2em; margin: .5em 0; }
.thalweg .facts div span { display: block; opacity: .65; font-size: 85%; }
.thalweg .facts b { font-size: 115%; }
.thalweg .bad { color: #c62f2f; }
.thalweg svg { display: block; max-width: 100%; height: auto; font-family: inherit; }
.thalweg svg text { fill: currentColor; font-size: 8px; }
.thalweg svg .name { font-weight: 700; font-size: 9px; }
.thalweg svg .rate { font-weight: 600; font-size: 7.6px; paint-order: stroke; stroke-width: 2.6px; }
.thalweg svg .rate { stroke: var(--jp-layout-color0, Canvas); stroke-linejoin: round; }
.thalweg svg rect { fill: none; stroke: currentColor; stroke-opacity: .4; }
.thalweg svg path { fill: none; stroke: #4f97c9; }
.thalweg svg marker path { fill: #4f97c9; stroke: none; }
"""
_SCALE = 1.5
"""Pixels of the map in a point."""
_TROUBLES = 3


def html(seen: Seen, now: float, going: str, begun: float, page: str | None = None, error: str = "") -> str:
    """A run by what its folder tells, and how it is `going` by who began it; `page` is its live page.

    What an earlier run has left in the folder is not shown, unless that was complete.
    """
    over = going not in ("starting", "running")
    fresh = seen if seen.status.started >= begun or going == "complete" else Seen(seen.name)
    told = state(fresh, now)
    head = f"<b>{escape(seen.name)}</b> {escape(going)}"
    if page is not None:
        head += f' · <a href="{escape(page)}/" target="_blank">live page</a>'
    parts = [f"<div>{head}</div>"]
    if error:
        parts.append(f'<div class="bad">{escape(error)}</div>')
    if told["run"]["batches"]:
        parts.append(_facts(told))
        if told["links"]:
            parts.append(_map(laid_out(fresh), told["links"], over=over))
        parts += [f"<div>{escape(t['text'])}</div>" for t in _troubles(told["trouble"], error)]
    return f'<div class="thalweg"><style>{_STYLE}</style>{"".join(parts)}</div>'


def _troubles(found: Iterable[Mapping[str, Any]], error: str) -> list[Mapping[str, Any]]:
    """The worst; an error that is told already is left out."""
    return [t for t in found if t["level"] != "note" and not (error and t["level"] == "error")][:_TROUBLES]


def _facts(told: Mapping[str, Any]) -> str:
    totals = told["totals"]
    facts = [
        ("rows read", f"{totals['rows']:,}", f"{totals['rows_per_s']:,.0f} a second"),
        ("results", f"{totals['results']:,}", f"{totals['results_per_s']:,.0f} a second"),
        ("late", f"{totals['late']:,}", ""),
        ("batches", f"{told['run']['batches']:,}", f"the last took {totals['batch_s']:.1f} s"),
    ]
    if told["links"]:
        central = totals["central_bytes"]
        against = f"payload {volume(totals['payload_bytes'])}, central plan {volume(central)}"
        facts.append(("between sites", volume(totals["bytes"]), against))
    if totals["p50_s"] is not None and not told["run"]["once"]:
        facts.append(("latency, p50", f"{totals['p50_s']:.2f} s", f"p95 {totals['p95_s']:.2f} s"))
    plan = told["plan"]
    if plan is not None:
        changed = sum(one["outcome"] == "done" for one in plan["changes"])
        facts.append(("plan", plan["planner"], f"{changed} changes" if changed else ""))
    cells = (
        f"<div><span>{escape(name)}</span><b>{escape(value)}</b><span>{escape(more)}</span></div>"
        for name, value, more in facts
    )
    return f'<div class="facts">{"".join(cells)}</div>'


def _map(laid: Mapping[str, Any], links: Sequence[Mapping[str, Any]], *, over: bool) -> str:
    """Sites with their operators, and between them what flows now; once the run is over, what has flowed."""
    part = "bytes" if over else "bytes_per_s"
    flows = {(link["from"], link["to"]): float(link[part]) for link in links}
    most = max(1.0, *flows.values())
    drawn = [_head()]
    labels = []
    for link in laid["links"]:
        size = flows.get((link["from"], link["to"]), 0.0)
        width = 0.8 + 3.4 * sqrt(size / most)
        faint = "" if size else ' opacity="0.45"'
        shaft = f'<path d="{_path(link["path"])}" stroke-width="{width:.1f}"{faint}'
        drawn.append(f'{shaft} marker-end="url(#thalweg-head)"/>')
        if link["label"]:
            x, y = link["label"]
            said = volume(round(size)) + ("" if over else "/s")
            labels.append(f'<text class="rate" text-anchor="middle" x="{x}" y="{y}">{escape(said)}</text>')
    for site in laid["sites"]:
        (x, y), (wide, high) = site["corner"], site["size"]
        drawn.append(f'<rect x="{x}" y="{y}" width="{wide}" height="{high}" rx="5"/>')
        drawn.append(f'<text class="name" x="{x + 8}" y="{y + 13}">{escape(site["name"])}</text>')
        for n, line in enumerate(site["lines"]):
            drawn.append(f'<text x="{x + 8}" y="{y + 24 + n * 10.6:.1f}">{escape(line["text"])}</text>')
    wide, high = laid["width"] or 1, laid["height"] or 1
    frame = f'width="{_SCALE * wide:.0f}" height="{_SCALE * high:.0f}" viewBox="0 0 {wide} {high}"'
    said = ", ".join(f"{a} to {b} {volume(size)}" for (a, b), size in flows.items())
    return f'<svg {frame} role="img" aria-label="{escape(said)}">{"".join(drawn)}{"".join(labels)}</svg>'


def _head() -> str:
    return (
        '<defs><marker id="thalweg-head" viewBox="0 0 10 10" refX="1" refY="5" markerWidth="9" '
        'markerHeight="9" orient="auto" markerUnits="userSpaceOnUse"><path d="M0 0.5 L10 5 L0 9.5 Z"/>'
        "</marker></defs>"
    )


def _path(points: Sequence[Sequence[float]]) -> str:
    """A smooth line through some points.

    >>> _path([(0, 0), (2, 2), (4, 0)])
    'M0 0 Q2 2 3.0 1.0 L4 0'
    """
    (x, y), *rest = points
    drawn = [f"M{x} {y}"]
    for (x, y), after in zip(rest, [*rest[1:], None], strict=True):
        if after is None:
            drawn.append(f"L{x} {y}")
        else:
            drawn.append(f"Q{x} {y} {(x + after[0]) / 2} {(y + after[1]) / 2}")
    return " ".join(drawn)
