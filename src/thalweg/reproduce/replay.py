"""Runs plans over the same arrivals, one after another, and says how many results each had when.

Two clocks. *Work*: arrivals are replayed as fast as the plan takes them, and time is the CPU time used so
far. *Arrivals*: tuples come at their times, a batch is begun when it is there and the one before it is done,
and takes its CPU time, `slow` times over. Nobody sleeps; the second clock is computed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from thalweg.kernel.nway import Counters, Delta
from thalweg.reproduce.arrivals import Batch
from thalweg.reproduce.outcome import Tell


class Plan(Protocol):
    """A plan that can be replayed: one join, or a tree of them."""

    @property
    def counters(self) -> Counters: ...

    def push(self, deltas: Sequence[Delta | None]) -> Iterable[Sized]: ...

    def expire(self, bounds: Sequence[int]) -> None: ...


@dataclass(frozen=True)
class Trace:
    """One plan's replay, batch by batch: when it arrived, the CPU seconds it took, all results so far."""

    plan: str
    at: np.ndarray
    cpu: np.ndarray
    results: np.ndarray
    counters: Counters

    @property
    def work(self) -> np.ndarray:
        """The CPU time used up to the end of each batch."""
        return np.cumsum(self.cpu)

    def clock(self, slow: float = 1.0) -> np.ndarray:
        """When each batch is done where tuples come at their times and the machine is so much slower.

        >>> two = np.array([1.0, 2.0])
        >>> Trace("", two, np.array([0.1, 0.3]), two, Counters()).clock(20).tolist()
        [3.0, 9.0]
        """
        done, now = np.empty(len(self.at)), 0.0
        for i, (at, cpu) in enumerate(zip(self.at, self.cpu, strict=True)):
            now = max(now, float(at)) + slow * float(cpu)
            done[i] = now
        return done


def times(most: int, scale: float) -> int:
    """How often to run every plan: less often for a quick look."""
    return max(2, round(most * scale))


def replay_all(
    plans: Mapping[str, Callable[[], Plan]], batches: Sequence[Batch], tell: Tell, repeats: int
) -> list[Trace]:
    """Every plan over all batches, several times in turn.

    A batch's time is the least of its repeats: other work on the machine can only add to it.
    """
    seen: dict[str, list[Trace]] = {name: [] for name in plans}
    for turn in range(repeats):
        tell(f"run {turn + 1} of {repeats}, {len(plans)} plan{'s' if len(plans) > 1 else ''}")
        for name, make in plans.items():
            seen[name].append(_replay(name, make(), batches))
    return [_least(traces) for traces in seen.values()]


def _replay(name: str, plan: Plan, batches: Sequence[Batch]) -> Trace:
    cpu, results, total = np.empty(len(batches)), np.empty(len(batches), np.int64), 0
    for i, batch in enumerate(batches):
        begun = time.process_time()
        total += sum(len(found) for found in plan.push(batch.deltas))
        plan.expire([batch.upto] * len(batch.deltas))
        cpu[i] = time.process_time() - begun
        results[i] = total
    return Trace(name, np.array([b.at for b in batches]), cpu, results, plan.counters)


def _least(traces: Sequence[Trace]) -> Trace:
    first = traces[0]
    assert all((t.results == first.results).all() for t in traces)  # the same input, so the same results
    cpu = np.min([t.cpu for t in traces], axis=0)
    return Trace(first.plan, first.at, cpu, first.results, first.counters)


def telling(tell: Tell, case: str) -> Tell:
    """Tells of one case among several."""
    return lambda line: tell(f"{case}, {line}")
