"""The state of a run as one JSON object: what the page shows, and `/api/state` gives."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict
from itertools import pairwise
from typing import Any

from thalweg.adapt.history import Record
from thalweg.cost.network import way
from thalweg.cost.objectives import MODELS
from thalweg.cost.price import shipments
from thalweg.errors import UserError
from thalweg.live.operators import Running
from thalweg.live.series import Point
from thalweg.page import trouble
from thalweg.page.reading import Seen
from thalweg.plan.deployment import Edge
from thalweg.plan.ways import ways
from thalweg.report.texts import names

CHART = 240
"""The most points of a chart."""


def state(seen: Seen, now: float) -> dict[str, Any]:
    """All that is shown of a run at a moment, in seconds since 1970."""
    before, seconds = seen.since(now)
    return {
        "run": _run(seen, now),
        "sites": _sites(seen),
        "operators": [_operator(seen, one, before, seconds, now) for one in seen.operators.running],
        "links": _links(seen, before, seconds),
        "streams": _streams(seen, before, seconds, now),
        "queries": _queries(seen, before, seconds),
        "totals": _totals(seen, before, seconds),
        "plan": _plan(seen),
        "trouble": [asdict(t) for t in trouble.found(seen, now)],
        "series": {"recent": _series(seen.recent), "whole": _series([*seen.whole, *seen.recent[-1:]])},
    }


def _run(seen: Seen, now: float) -> dict[str, Any]:
    status, last = seen.status, seen.last
    return {
        "name": seen.name,
        "state": status.state,
        "started": status.started,
        "elapsed_s": round((status.ended or now) - status.started, 1) if status.started else 0.0,
        "restarts": max(0, status.starts - 1),
        "batches": last.batch + 1,
        "last_batch": last.at if last.batch >= 0 else None,
        "now": now,
        "once": bool(seen.asked and seen.asked.once),
        "messages": [asdict(e) for e in status.events[-20:]],
    }


def _sites(seen: Seen) -> list[dict[str, Any]]:
    at: dict[str, list[str]] = defaultdict(list)
    for one in seen.operators.running:
        at[one.site].append(one.name)
    known = list(at) if seen.asked is None else list(seen.asked.catalog.sites)
    if seen.plan is not None and len(known) > 60:
        known = [s for s in known if s in seen.plan.sites]
    return [{"name": site, "operators": at.get(site, [])} for site in known]


def _rate(now: int, before: int, seconds: float) -> float:
    return round((now - before) / seconds, 3) if seconds else 0.0


def _operator(seen: Seen, one: Running, before: Point, seconds: float, now: float) -> dict[str, Any]:
    came, went, rows, memory, disk, bound = seen.last.work.get(one.name, (0, 0, 0, 0, 0, None))
    then = before.work.get(one.name, (0, 0))
    top = max(seen.last.newest.values(), default=None)
    return {
        "id": one.name,
        "name": seen.alias_of(one),
        "kind": one.kind,
        "query": one.query,
        "site": one.site,
        "state": one.state,
        "stage": one.stage,
        "buckets": one.buckets,
        "reads": [{"from": r.operator, "site": r.site, "form": r.form} for r in one.reads],
        "read_by": [
            {"to": o.name, "site": o.site}
            for o in seen.operators.running
            for r in o.reads
            if r.operator == one.name
        ],
        "windows": [
            {"of": w.name, "seconds": None if w.span is None else w.span / 1e6, "rows": w.rows}
            for w in one.windows
        ],
        "gives_results": one.gives_results,
        "tuples_in": came,
        "tuples_out": went,
        "in_per_s": _rate(came, then[0], seconds),
        "out_per_s": _rate(went, then[1], seconds),
        "window_rows": rows,
        "memory_bytes": memory,
        "disk_bytes": disk,
        "event_time": None if bound is None else bound / 1e6,
        "lag_s": None if bound is None else round(now - bound / 1e6, 3),
        "behind_s": None if bound is None or top is None else round(max(0.0, (top - bound) / 1e6), 3),
    }


def planned(seen: Seen) -> dict[tuple[str, str], list[Edge]]:
    """What the plan ships between any two sites."""
    found: dict[tuple[str, str], list[Edge]] = defaultdict(list)
    for query in () if seen.plan is None else seen.plan.queries:
        for edge in shipments(query.deployment):
            found[edge.source_site, edge.target_site].append(edge)
    return found


def link_capacity(seen: Seen, source: str, target: str) -> tuple[float | None, float | None]:
    """The latency of the path between two sites, and the bytes a second that it can carry."""
    catalog = None if seen.asked is None else seen.asked.catalog
    if catalog is None or not {source, target} <= catalog.sites.keys():
        return None, None
    try:
        return way(catalog, source, target)
    except UserError:  # no path leads there
        return None, None


def _links(seen: Seen, before: Point, seconds: float) -> list[dict[str, Any]]:
    plan, found = planned(seen), []
    sent = {tuple(name.split("-", 1)): counts for name, counts in seen.last.sent.items()}
    for source, target in sorted({*plan, *sent}):
        tuples, payload, size = sent.get((source, target), (0, 0, 0))
        then = before.sent.get(f"{source}-{target}", (0, 0, 0))
        rate = _rate(size, then[2], seconds)
        latency, capacity = link_capacity(seen, source, target)
        edges = plan.get((source, target), [])
        carried = dict.fromkeys(names(e.streams) for e in edges)
        found.append(
            {
                "from": source,
                "to": target,
                "tuples": tuples,
                "payload_bytes": payload,
                "bytes": size,
                "tuples_per_s": _rate(tuples, then[0], seconds),
                "payload_per_s": _rate(payload, then[1], seconds),
                "bytes_per_s": rate,
                "planned_bytes_per_s": sum(e.bytes_per_s for e in edges),
                "capacity_bytes_per_s": capacity,
                "share": None if not capacity else rate / capacity,
                "latency_s": latency,
                "delay_s": seen.last.delays.get(f"{source}-{target}"),
                "carries": list(carried),
                "in_plan": bool(edges),
            }
        )
    return found


def _streams(seen: Seen, before: Point, seconds: float, now: float) -> list[dict[str, Any]]:
    catalog, back = None if seen.asked is None else seen.asked.catalog, trouble.holds_back(seen)
    told, last = [], seen.last
    for name in seen.streams:
        newest = last.newest.get(name)
        told.append(
            {
                "name": name,
                "site": catalog.streams[name].site if catalog and name in catalog.streams else "",
                "rows": last.read.get(name, 0),
                "rows_per_s": _rate(last.read.get(name, 0), before.read.get(name, 0), seconds),
                "late": last.late.get(name, {}),
                "newest": None if newest is None else newest / 1e6,
                "lag_s": None if newest is None else round(now - newest / 1e6, 3),
                "ended": name in last.bounds and last.bounds[name] is None,
                "holds_back_s": back.get(name, 0.0),
            }
        )
    return told


def _queries(seen: Seen, before: Point, seconds: float) -> list[dict[str, Any]]:
    if seen.plan is None:
        return []
    unit = MODELS[seen.plan.objective].unit
    return [
        {
            "name": q.query,
            "sql": q.text,
            "planner": q.planner,
            "cost": q.cost,
            "unit": unit,
            "results": seen.last.results.get(q.query, 0),
            "results_per_s": _rate(
                seen.last.results.get(q.query, 0), before.results.get(q.query, 0), seconds
            ),
        }
        for q in seen.plan.queries
    ]


def _late(point: Point) -> int:
    return sum(n for reasons in point.late.values() for n in reasons.values())


def _sent(point: Point, part: int) -> int:
    return sum(counts[part] for counts in point.sent.values())


def _totals(seen: Seen, before: Point, seconds: float) -> dict[str, Any]:
    last = seen.last
    rows, results = sum(last.read.values()), sum(last.results.values())
    return {
        "rows": rows,
        "rows_per_s": _rate(rows, sum(before.read.values()), seconds),
        "results": results,
        "results_per_s": _rate(results, sum(before.results.values()), seconds),
        "late": _late(last),
        "tuples": _sent(last, 0),
        "payload_bytes": _sent(last, 1),
        "bytes": _sent(last, 2),
        "bytes_per_s": _rate(_sent(last, 2), _sent(before, 2), seconds),
        "payload_per_s": _rate(_sent(last, 1), _sent(before, 1), seconds),
        "central_bytes": last.central,
        "central_per_s": _rate(last.central, before.central, seconds),
        "window_rows": last.state[0],
        "memory_bytes": last.state[1],
        "disk_bytes": last.state[2],
        "batch_s": last.seconds,
        "p50_s": last.p50,
        "p95_s": last.p95,
    }


def _plan(seen: Seen) -> dict[str, Any] | None:
    if seen.plan is None:
        return None
    texts = [
        {
            "query": q.query,
            "heads": ways(q.deployment),
            "text": q.deployment.explain(),
            "assumed": list(q.assumed),
        }
        for q in seen.plan.queries
    ]
    return {
        "planner": seen.plan.planner,
        "objective": seen.plan.objective,
        "cost": seen.plan.total,
        "unit": MODELS[seen.plan.objective].unit,
        "number": seen.operators.change,
        "moving_to": seen.operators.coming or None,
        "queries": texts,
        "changes": [_change(r) for r in seen.records if r.outcome != "declined"],
        "declined": [_change(r) for r in seen.records if r.outcome == "declined"][-10:],
    }


def _change(record: Record) -> dict[str, Any]:
    return {
        "at": record.at,
        "outcome": record.outcome,
        "reason": record.reason,
        "because": list(record.moved),
        "cost_before": record.cost_before,
        "cost_after": record.cost_after,
        "bytes_moved": record.bytes_moved,
        "seconds": record.seconds,
    }


def _series(points: Sequence[Point]) -> dict[str, list[float | None]]:
    """What charts show, by column; rates are those between two points."""
    step = -(-len(points) // CHART) if points else 1
    picked = [*points[:-1][::step], *points[-1:]]
    told: dict[str, list[float | None]] = {name: [] for name in _COLUMNS}
    for then, now in pairwise(picked):
        seconds = max(now.at - then.at, 1e-3)
        for name, value in zip(_COLUMNS, _values(then, now, seconds), strict=True):
            told[name].append(None if value is None else round(value, 3))
    return told


_COLUMNS = (
    "at",
    "rows",
    "results",
    "late",
    "bytes",
    "payload",
    "central",
    "p50",
    "p95",
    "batch",
    "memory",
    "changes",
)


def _values(then: Point, now: Point, seconds: float) -> tuple[float | None, ...]:
    return (
        now.at,
        (sum(now.read.values()) - sum(then.read.values())) / seconds,
        (sum(now.results.values()) - sum(then.results.values())) / seconds,
        (_late(now) - _late(then)) / seconds,
        (_sent(now, 2) - _sent(then, 2)) / seconds,
        (_sent(now, 1) - _sent(then, 1)) / seconds,
        (now.central - then.central) / seconds,
        now.p50,
        now.p95,
        now.seconds,
        float(now.state[1]),
        float(now.changes),
    )
