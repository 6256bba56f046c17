"""Streams that follow their declared statistics, and what a plan ships of them beside its estimate."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tests.planners.examples import catalog, query, stream
from tests.simulate.sites_cases import TIME, evaluate, labels
from thalweg.compile.compiler import compile_plan
from thalweg.compile.inputs import StreamInfo, TypedQuery
from thalweg.cost.price import shipments
from thalweg.simulate.host import SimulatedHost


@dataclass(frozen=True)
class Setting:
    """Streams with Poisson arrivals and uniform keys, joined on one attribute or along a chain."""

    rates: tuple[float, ...] = (200.0, 200.0, 200.0, 200.0)
    distinct: tuple[int, ...] = (400, 400, 400, 400)
    range_s: float = 1.0
    seconds: float = 30.0
    batch_s: float = 2.0
    chain: bool = False
    seed: int = 1


NAMES = "abcd"


def known_of(setting: Setting):
    streams = [
        stream(
            name,
            f"n{i}",
            {"x": "long", "y": "long", "v": "long", "w": "long"},
            rate=setting.rates[i],
            distinct={"x": setting.distinct[i], "y": setting.distinct[i]},
            widths={"x": 8, "y": 8, "v": 8, "w": 8, "ts": 8},
        )
        for i, name in enumerate(NAMES[: len(setting.rates)])
    ]
    return catalog([s.model_copy(update={"lateness": 0}) for s in streams])


def asked_of(setting: Setting, known):
    names = NAMES[: len(setting.rates)]
    on = ("y", "x") if setting.chain else ("x", "x")
    where = " AND ".join(f"{a}.{on[0]} = {b}.{on[1]}" for a, b in itertools.pairwise(names))
    froms = ", ".join(f"{a} [RANGE {round(setting.range_s * 1000)} MILLISECONDS]" for a in names)
    return query(f"SELECT {', '.join(f'{a}.v AS {a}_v' for a in names)} FROM {froms} WHERE {where}", known)


def hosted(known, asked, deployment, columns, kind) -> SimulatedHost:
    """The sites of a plan, in this process."""
    infos = {n: StreamInfo(n, columns, "ts", s.lateness) for n, s in known.streams.items()}
    kinds = {s.sql: kind for e in asked.equalities for s in (e.left, e.right)}
    made = compile_plan(
        [(TypedQuery(asked, asked.equalities, kinds), deployment)],
        infos,
        {n: s.site for n, s in known.streams.items()},
        buckets=2,
        labels=labels,
        keep_late=False,
    )
    return SimulatedHost(made, evaluate)


def run(setting: Setting, known, asked, deployment) -> SimulatedHost:
    rng = np.random.default_rng(setting.seed)
    columns = {"ts": TIME, **dict.fromkeys("xyvw", pa.int64())}
    host = hosted(known, asked, deployment, columns, pa.int64())
    at = 0.0
    while at < setting.seconds:
        rows = {}
        for i, name in enumerate(known.streams):
            n = rng.poisson(setting.rates[i] * setting.batch_s)
            ts = np.sort(rng.uniform(at, at + setting.batch_s, n))
            values = [pa.array((ts * 1e6).astype(np.int64)).view(TIME)]
            values += [pa.array(rng.integers(0, setting.distinct[i], n)) for _ in "xyvw"]
            rows[name] = pa.record_batch(values, names=list(columns))
        host.batch(rows, host.waiting)
        at += setting.batch_s
    host.end()
    host.batch({}, host.waiting)
    host.drain()
    return host


def estimated(setting: Setting, deployment) -> Counter:
    """Payload by way over the whole time, as the plan has it."""
    found: Counter = Counter()
    for edge in shipments(deployment):
        found[edge.source_site, edge.target_site] += edge.bytes_per_s * setting.seconds
    return found


def counted(host: SimulatedHost) -> Counter:
    return Counter({way: s.payload for way, s in host.traffic.items() if way[0] != way[1] and s.payload})


EXAMPLE_S = 60.0
RATES = {
    "s1": {"a": 0.1, "b": 0.1, "c": 100},
    "s2": {"a": 0.03, "b": 50, "c": 0.04},
    "s3": {"a": 50, "b": 0.01, "c": 0.02},
}
"""pmjoin, table 1: tuples a second by destination."""


def shipped_in_example_1(times: float, make) -> int:
    """The payload that a plan ships in pmjoin's first example, with rates times this and windows over it."""
    rates = {s: {v: r * times for v, r in by_value.items()} for s, by_value in RATES.items()}
    known = catalog(
        [
            stream(s, s.replace("s", "n"), {"dest": "string"}, bytes=1, rates={"dest": by_value}).model_copy(
                update={"lateness": 0}
            )
            for s, by_value in rates.items()
        ]
    )
    window = f"[RANGE {round(500 / times)} MILLISECONDS]"
    asked = query(
        f"SELECT s1.dest FROM s1 {window}, s2 {window}, s3 {window} "
        "WHERE s1.dest = s2.dest AND s2.dest = s3.dest",
        known,
    )
    columns = {"ts": TIME, "dest": pa.string()}
    host = hosted(known, asked, make(asked, known), columns, pa.string())
    rng = np.random.default_rng(4)
    for at in np.arange(0.0, EXAMPLE_S, 5.0):
        rows = {}
        for name, by_value in rates.items():
            counts = {v: rng.poisson(r * 5.0) for v, r in by_value.items()}
            ts = np.concatenate([rng.uniform(at, at + 5.0, n) for n in counts.values()])
            dest = np.repeat(list(counts), list(counts.values()))
            order = np.argsort(ts)
            values = [pa.array((ts[order] * 1e6).astype(np.int64)).view(TIME), pa.array(dest[order].tolist())]
            rows[name] = pa.record_batch(values, names=list(columns))
        host.batch(rows, host.waiting)
    host.end()
    host.batch({}, host.waiting)
    host.drain()
    return sum(counted(host).values())
