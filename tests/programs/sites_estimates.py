"""Streams that follow their declared statistics, and what a plan ships of them beside its estimate."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tests.planners.examples import catalog, query, stream
from tests.programs.sites_cases import TIME, evaluate
from thalweg.cost.price import shipments
from thalweg.programs.deploy import deploy
from thalweg.programs.job import StreamInfo, TypedQuery
from thalweg.programs.network import LocalSites


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


def run(setting: Setting, known, asked, deployment) -> LocalSites:
    rng = np.random.default_rng(setting.seed)
    columns = {"ts": TIME, **dict.fromkeys("xyvw", pa.int64())}
    infos = {n: StreamInfo(n, columns, "ts", s.lateness) for n, s in known.streams.items()}
    kinds = {s.sql: pa.int64() for e in asked.equalities for s in (e.left, e.right)}
    made = deploy(
        [(TypedQuery(asked, asked.equalities, kinds), deployment)],
        infos,
        {n: s.site for n, s in known.streams.items()},
        buckets=2,
        labels=lambda n: range(1, n + 1),
        keep_late=False,
    )
    host = LocalSites(made.sites, evaluate)
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
    host.batch({}, host.waiting, end=True)
    host.drain()
    return host


def estimated(setting: Setting, deployment) -> Counter:
    """Payload by way over the whole time, as the plan has it."""
    found: Counter = Counter()
    for edge in shipments(deployment):
        found[edge.source_site, edge.target_site] += edge.bytes_per_s * setting.seconds
    return found


def counted(host: LocalSites) -> Counter:
    return Counter({way: s.payload for way, s in host.shipped.items() if way[0] != way[1] and s.payload})
