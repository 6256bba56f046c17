"""What plans cost when a stream changes its rate: one that stays, others that follow, the best of a phase."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from thalweg.oracle import duck
from thalweg.plan.document import Plan
from thalweg.planners.search import sequences
from thalweg.reproduce.adaptive import (
    CHANGES_US,
    HIGH,
    INTERVAL_US,
    LOW,
    Rows,
    catalog,
    phases,
    planned,
    query,
    round_of,
    rows,
)
from thalweg.reproduce.adaptive_run import (
    COPIES,
    INTERVALS,
    KINDS,
    MESSAGES,
    SHIPPED,
    WORK,
    Trace,
    run,
)
from thalweg.reproduce.outcome import Tell

STATIC, CENTRAL, DISTRIBUTED = "static", "adaptive, central", "adaptive, distributed"
GREEDY, CHEAPEST = "the best greedy plan of each phase", "the cheapest plan of each phase"
ADAPTIVE = (CENTRAL, DISTRIBUTED)
EXECUTION = (WORK, SHIPPED)
ALL = (WORK, SHIPPED, COPIES, MESSAGES)
SETTLED_US, LASTS_US = 1_300_000, 2_000_000
"""In a phase: costs have settled when the longest search, the copies and a window's life are over."""


@dataclass(frozen=True)
class Averages:
    """Each plan's seconds by kind and interval, averaged over runs; whether all results are right."""

    seconds: Mapping[str, Mapping[str, np.ndarray]]
    runs: int
    results: int
    same: bool

    def cost(self, plan: str, kinds: Sequence[str] = EXECUTION) -> np.ndarray:
        return np.asarray(sum(self.seconds[plan][kind] for kind in kinds))

    def total(self, plan: str, kinds: Sequence[str] = EXECUTION) -> float:
        return float(self.cost(plan, kinds).sum())

    def settled(self, plan: str, phase: int) -> float:
        """The cost of an interval towards the end of a phase."""
        return settled(self.cost(plan), phase)

    def highest(self, plan: str, phase: int, kinds: Sequence[str] = EXECUTION) -> float:
        """The greatest cost of an interval before costs have settled."""
        return float(self.cost(plan, kinds)[_in(phase) & _SETTLING].max())

    def above(self, plan: str, phase: int) -> float:
        """How many times the static plan's cost of the same interval it costs at most, until it settles."""
        inside = _in(phase) & _SETTLING
        return float((self.cost(plan)[inside] / self.cost(STATIC)[inside]).max())

    def apart(self, plan: str) -> float:
        """How far costs are from the static plan's in the first phase at most, as a share of those."""
        difference = np.abs(self.cost(plan) - self.cost(STATIC))[_in(0)]
        return float(difference.max()) / self.settled(STATIC, 0)


def settled(costs: np.ndarray, phase: int) -> float:
    """The mean of some costs by interval towards the end of a phase."""
    return float(costs[_in(phase) & _SETTLED].mean())


def _in(phase: int) -> np.ndarray:
    """The intervals of a phase. What is done in an interval is for the tuples of the one before."""
    return np.asarray(phase == _PHASES)


_BEGIN = np.arange(INTERVALS) * INTERVAL_US
_PHASES = np.array([round_of(int(begin)) for begin in _BEGIN])
_SINCE = _BEGIN - np.array([CHANGES_US[0] - LASTS_US, *CHANGES_US])[_PHASES]
_SETTLING = _SINCE <= SETTLED_US
_SETTLED = (_SINCE > SETTLED_US) & (_SINCE < LASTS_US)


def averaged(streams: int, seeds: int, tell: Tell) -> Averages:
    """All plans over the same tuples, once for each seed."""
    plans = {rate: planned(streams, rate) for rate in (LOW, HIGH)}
    best = {rate: planned(streams, rate, "linear-optimal") for rate in (LOW, HIGH)}
    gone: dict[str, list[Mapping[str, np.ndarray]]] = {}
    same, results = True, 0
    for seed in range(seeds):
        tell(f"{streams} streams, run {seed + 1} of {seeds}")
        arrived = rows(streams, seed)
        traces = {
            STATIC: run(streams, arrived, plans[LOW]),
            CENTRAL: run(streams, arrived, plans[LOW], "central"),
            DISTRIBUTED: run(streams, arrived, plans[LOW], "distributed"),
        }
        greedy = {LOW: traces[STATIC], HIGH: run(streams, arrived, plans[HIGH])}
        cheapest = _each(streams, arrived, best)
        wanted = _expected(streams, arrived)
        results += sum(wanted.values())
        every = (*traces.values(), *greedy.values(), *cheapest.values())
        same &= all(trace.results == wanted for trace in every)
        found = {name: trace.seconds for name, trace in traces.items()}
        found |= {GREEDY: _spliced(greedy), CHEAPEST: _spliced(cheapest)}
        for name, seconds in found.items():
            gone.setdefault(name, []).append(seconds)
    mean = {n: {k: np.mean([one[k] for one in each], axis=0) for k in KINDS} for n, each in gone.items()}
    return Averages(mean, seeds, results, same)


def _each(streams: int, arrived: Mapping[str, Rows], plans: Mapping[float, Plan]) -> dict[float, Trace]:
    """A run of each plan; plans that are the same run once."""
    low, high = (sequences.read(p.queries[0].deployment, tuple(arrived)) for p in plans.values())
    first = run(streams, arrived, plans[LOW])
    return {LOW: first, HIGH: first if low == high else run(streams, arrived, plans[HIGH])}


def _spliced(traces: Mapping[float, Trace]) -> dict[str, np.ndarray]:
    """In each phase what the plan made for it costs, as if changing plans took nothing."""
    fast = np.array(list(phases()))[_PHASES] == HIGH
    return {kind: np.where(fast, traces[HIGH].seconds[kind], traces[LOW].seconds[kind]) for kind in KINDS}


def _expected(streams: int, arrived: Mapping[str, Rows]) -> Counter[tuple[str, ...]]:
    """The results by DuckDB."""
    known = catalog(streams, LOW)
    asked = query(known)
    tables = {name: pa.Table.from_batches([one.batch]) for name, one in arrived.items()}
    with duck.connect() as con:
        duck.load(con, asked, known, read_static=lambda one: tables[one.name])
        found = con.execute(duck.expected_sql(asked, known)).fetchall()
    return Counter(row[1::2] for row in found)  # of each stream the column that tells its tuples apart
