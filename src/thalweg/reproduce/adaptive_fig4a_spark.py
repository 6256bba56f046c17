"""adaptive, figure 4(a) once more: live on Spark, with all times stretched; bytes stand for cost."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from thalweg.adapt.decide import priced
from thalweg.catalog.model import Catalog
from thalweg.cost.price import shipments
from thalweg.planners.table import Session, make_plan
from thalweg.query.model import Query
from thalweg.reproduce import adaptive
from thalweg.reproduce.adaptive import (
    BYTES,
    CENTRE,
    CHANGES_US,
    CHANGING,
    DISTINCT,
    END_US,
    HIGH,
    INTERVAL_US,
    KEY_BYTES,
    LATENCY_MS,
    LOW,
    MBPS,
    USUAL,
    WINDOW_MS,
    options,
    phases,
    round_of,
)
from thalweg.reproduce.adaptive_costs import settled
from thalweg.reproduce.adaptive_live import Live, watched
from thalweg.reproduce.adaptive_run import INTERVALS
from thalweg.reproduce.outcome import Claim, Curve, Outcome, Panel, Tell

NAME = "adaptive-fig4a-spark"
STREAMS, STRETCH, SEED = 4, 30, 0
STATIC, ADAPTIVE = "static", "adaptive"
GREEDY = "the best greedy plan of each phase, as estimated"
_CLOSE, _NEAR, _MORE, _WHOLE = 0.05, 0.1, 1.5, 0.8
_SHOWN = range(1, END_US // INTERVAL_US + 2)


def run(scale: float, tell: Tell) -> Outcome:
    """Two runs over the same streams; at a small scale times are stretched less."""
    stretch = max(2, round(STRETCH * scale))
    plan = ("--planner", "linear-greedy", "--objective", "time", "--deliver-to", CENTRE)
    made, found = adaptive.rows(STREAMS, SEED, stretch), {}
    for name, adapt in ((STATIC, "off"), (ADAPTIVE, "central")):
        with tempfile.TemporaryDirectory(prefix="thalweg-reproduce-") as folder:
            found[name] = one = Live(name, (*plan, "--adapt", adapt), Path(folder))
            (one.home / "catalog.yaml").write_text(catalog(stretch))
            (one.home / "join.sql").write_text(_asked(stretch).text)
            watched(one, made, tell)
    interval_s = stretch * INTERVAL_US / 1e6
    curves = {name: one.by_interval(interval_s, INTERVALS) for name, one in found.items()}
    curves[GREEDY] = estimated(stretch)
    return Outcome(
        NAME,
        f"a join of {STREAMS} streams live on Spark: bytes between sites",
        _setting(stretch),
        _claims(found, curves),
        (
            "plan",
            *(f"phase {n}, {rate:g}/s" for n, rate in enumerate(phases(), 1)),
            *("payload", "to static", "bytes on the wire", "plan changed at"),
        ),
        tuple(_row(name, curves, found.get(name)) for name in curves),
        (
            Panel(
                f"payload between sites in intervals of {interval_s:g} s",
                "seconds",
                tuple(
                    Curve(name, np.array(_SHOWN) * interval_s, np.round(curve[list(_SHOWN)]))
                    for name, curve in curves.items()
                ),
                tuple(stretch * change / 1e6 for change in CHANGES_US),
                f"the rate of s{CHANGING} changes",
                "bytes",
            ),
        ),
    )


def catalog(stretch: int) -> str:
    """The catalog as YAML, with the statistics of the first phase."""
    lines = [f"sites: {{{', '.join(f'n{i}: {{}}' for i in range(1, STREAMS + 1))}}}"]
    lines += [f"links: {{default: {{latency_ms: {LATENCY_MS:g}, mbps: {MBPS:g}}}}}"]
    lines += [f"costs: {{interval_s: {INTERVAL_US / 1e6:g}}}", "streams:"]
    for i in range(1, STREAMS + 1):
        stats = f"rate: {LOW if i == CHANGING else USUAL:g}, bytes: {BYTES}"
        stats += f", widths: {{j: {KEY_BYTES}, rest: {BYTES - KEY_BYTES}}}"
        stats += f", distinct: {{j: {stretch * DISTINCT}}}"
        lines += [
            f"  s{i}:",
            f"    site: n{i}",
            "    time: ts",
            "    lateness: 0 seconds",
            "    schema: {ts: timestamp, j: string, rest: string}",
            f"    source: {{format: parquet, options: {{path: data/s{i}}}}}",
            f"    stats: {{{stats}}}",
        ]
    return "\n".join(lines) + "\n"


def estimated(stretch: int) -> np.ndarray:
    """The bytes in each interval by the plan that is made for its phase, as the cost model has them."""
    each = {}
    for rate in (LOW, HIGH):
        known, asked = _known(stretch, rate), _asked(stretch)
        plan = make_plan([asked], known, options())
        _, (deployment,) = priced(Session(known, options()), [asked], plan)
        bytes_per_s = sum(edge.bytes_per_s for edge in shipments(deployment))
        each[rate] = bytes_per_s * stretch * INTERVAL_US / 1e6
    found = np.zeros(INTERVALS)
    rates = list(phases())
    for n in _SHOWN:
        found[n] = each[rates[round_of(n * INTERVAL_US)]]
    return found


def _known(stretch: int, rate: float) -> Catalog:
    known = adaptive.catalog(STREAMS, rate)
    distinct = {"distinct": {"j": float(stretch * DISTINCT)}}
    streams = {
        name: one.model_copy(update={"stats": one.stats.model_copy(update=distinct)})
        for name, one in known.streams.items()
    }
    return known.model_copy(update={"streams": streams})


def _asked(stretch: int) -> Query:
    return adaptive.query(adaptive.catalog(STREAMS, LOW), stretch * WINDOW_MS)


def _setting(stretch: int) -> tuple[str, ...]:
    return (
        f"The streams, windows and changes of adaptive-fig4a with all times stretched {stretch}-fold: "
        f"windows of {stretch * WINDOW_MS / 1000:g} s, and a phase lasts {2 * stretch} s. Rates are the "
        f"paper's; there are {stretch} times as many values of the join attribute, so that as many tuples of "
        "a window match.",
        "Two `thalweg run`, one after the other, read the same files, which come once a second; one has "
        "`--adapt central`. All settings are the usual ones: statistics have a half-life of 20 s, "
        "selectivities are measured too, and every 5 s the run may decide.",
        "Measured: the payload between sites (tuples times their width), with copies of windows and the "
        "delivery of results, in intervals that are as long as the measuring interval, stretched.",
    )


def _row(name: str, curves: Mapping[str, np.ndarray], one: Live | None) -> tuple[str | int | float, ...]:
    curve = curves[name]
    phase = [round(settled(curve, n)) for n in range(len(CHANGES_US) + 1)]
    wire: tuple[str | int, ...] = ("", "")
    if one is not None:
        wire = one.total("bytes"), ", ".join(f"{at:.0f} s" for at in one.changes_s) or "none"
    return (name, *phase, round(curve.sum()), _share(curves, name), *wire)


def _claims(found: Mapping[str, Live], curves: Mapping[str, np.ndarray]) -> tuple[Claim, ...]:
    changes = range(1, len(CHANGES_US) + 1)

    def ratio(one: str, other: str, n: int) -> float:
        return _over(settled(curves[one], n), settled(curves[other], n))

    def rises(name: str) -> list[float]:
        return [settled(curves[name], n) - settled(curves[name], n - 1) for n in changes[::2]]

    start = ratio(ADAPTIVE, STATIC, 0)
    least = min(_over(s, a) for s, a in zip(rises(STATIC), rises(ADAPTIVE), strict=True))
    back = [ratio(ADAPTIVE, STATIC, n) for n in changes[1::2]]
    greedy = [ratio(ADAPTIVE, GREEDY, n) for n in changes]
    whole = _share(curves, ADAPTIVE)
    verdicts = {name: one.verdict for name, one in found.items()}
    late = (
        "With a half-life of 20 s it takes 20 to 30 s after a rise and 30 to 45 s after a fall until another "
        "plan is a tenth cheaper by the measured rate. Then windows are copied, and both plans run for 10 s "
        "or more. Of a phase of 60 s little is left after a fall."
    )
    return (
        Claim(
            f"initially both plans ship the same (criterion: when settled, at most {_NEAR:.0%} apart)",
            f"{start:.2f} times the static plan's",
            abs(start - 1) <= _NEAR,
        ),
        Claim(
            "when the rate rises, what the static plan ships rises by much more (criterion: when settled, at "
            f"least {_MORE:g} times as much)",
            f"{least:.2f} times as much",
            least >= _MORE,
        ),
        Claim(
            f"when it falls, both ship the same again (criterion: when settled, at most {_NEAR:.0%} apart)",
            ", ".join(f"{b:.2f}" for b in back) + " times the static plan's",
            all(abs(b - 1) <= _NEAR for b in back),
            late,
        ),
        Claim(
            "target: when settled after a change, the adaptive plan ships at most "
            f"{_CLOSE:.0%} more than the best greedy plan for the phase, as estimated",
            ", ".join(f"{g:.2f}" for g in greedy) + " times as much",
            all(g <= 1 + _CLOSE for g in greedy),
            late,
        ),
        Claim(
            f"target: over the whole run the adaptive plan ships at most {_WHOLE:g} times as much as the "
            "static one",
            f"{whole:.2f} times as much",
            whole <= _WHOLE,
            f"The best greedy plans of the phases would ship {_share(curves, GREEDY):.2f} of it. But they "
            "are found late: after a fall most of a phase goes by with the plan for the high rate, which "
            "ships more there than the static one.",
        ),
        Claim(
            "both runs have the results of DuckDB",
            ", ".join(f"{name}: {v['found']:,} of {v['expected']:,}" for name, v in verdicts.items()),
            all(v["same"] for v in verdicts.values()),
        ),
    )


def _share(curves: Mapping[str, np.ndarray], name: str) -> float:
    return _over(float(curves[name].sum()), float(curves[STATIC].sum()))


def _over(one: float, other: float) -> float:
    """A ratio; not a number where times are so short that an interval shows nothing."""
    return one / other if other else math.nan
