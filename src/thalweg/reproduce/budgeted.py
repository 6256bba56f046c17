"""Trees of joins with too little memory, run on a clock of arrivals: the number of results over time.

An operator of two inputs that flushes at random is an XJoin. All plans of an experiment get the same bytes; a
plan divides them among its operators in proportion to their final windows.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from thalweg.kernel.nway import Delta, InputSpec
from thalweg.kernel.spill_files import SpillFolder
from thalweg.reproduce.arrivals import Batch
from thalweg.reproduce.outcome import Tell
from thalweg.reproduce.overflow_join.budget import fixed_bytes
from thalweg.reproduce.overflow_join.join import Joined, OverflowJoin, Policy

_TICK_BYTES = 8  # bytes of a tuple that the join adds to its stored columns
_PARTITIONS = 16


@dataclass(frozen=True)
class Op:
    """One operator: its inputs, the tuples that each brings in all, the column that the next one joins on."""

    parts: tuple[int | Op, ...]
    tuples: tuple[int, ...]
    key: int | None = None


def needed(inputs: Sequence[InputSpec], op: Op) -> int:
    """The bytes that an operator and those below it would hold in the end."""
    own = sum(
        n * (fixed_bytes(_spec(inputs, part)) + _TICK_BYTES)
        for part, n in zip(op.parts, op.tuples, strict=True)
    )
    return own + sum(needed(inputs, part) for part in op.parts if isinstance(part, Op))


def _spec(inputs: Sequence[InputSpec], part: int | Op) -> InputSpec:
    """The input of a stream, or of an operator's results: all their columns side by side."""
    if isinstance(part, int):
        return inputs[part]
    inside = [_spec(inputs, p) for p in part.parts]
    return InputSpec("+".join(i.name for i in inside), tuple(c for i in inside for c in i.columns), None)


class BudgetedTree:
    """The operators of a plan, each within its share of the plan's budget."""

    def __init__(
        self, inputs: Sequence[InputSpec], op: Op, folder: Path, *, budget: int, policy: Policy
    ) -> None:
        share = budget / needed(inputs, op)
        self.op = op
        self.children = [
            BudgetedTree(
                inputs, part, folder / str(i), budget=round(share * needed(inputs, part)), policy=policy
            )
            if isinstance(part, Op)
            else None
            for i, part in enumerate(op.parts)
        ]
        below = sum(needed(inputs, part) for part in op.parts if isinstance(part, Op))
        self.join = OverflowJoin(
            [_spec(inputs, part) for part in op.parts],
            SpillFolder(folder / "own"),
            budget=round(share * (needed(inputs, op) - below)),
            policy=policy,
            partitions=_PARTITIONS,
        )

    def push(self, deltas: Sequence[Delta | None]) -> Iterator[Joined]:
        """New tuples of the streams, through all operators."""
        yield from self._fed(lambda child: child.push(deltas))
        own = [deltas[part] if isinstance(part, int) else None for part in self.op.parts]
        if any(delta is not None for delta in own):
            yield from self.join.push(own)

    def idle(self) -> Iterator[Joined]:
        """One step of each operator's second phase."""
        yield from self._fed(lambda child: child.idle())
        yield from self.join.idle()

    def finish(self) -> Iterator[Joined]:
        """The clean-up: an operator begins with its own when those below it are done."""
        yield from self._fed(lambda child: child.finish())
        yield from self.join.finish()

    @property
    def tick(self) -> int:
        """How much has been done, by all operators: it stands still when there is nothing to do."""
        return self.join.tick + sum(child.tick for child in self.children if child is not None)

    @property
    def on_disk(self) -> int:
        """How many partitions are on disk, wholly or in part, over all operators."""
        own = int(self.join.disk.present.sum())
        return own + sum(child.on_disk for child in self.children if child is not None)

    @property
    def written(self) -> int:
        """Bytes that all operators have written to disk."""
        return self.join.counters.written + sum(c.written for c in self.children if c is not None)

    def _fed(self, step: Callable[[BudgetedTree], Iterator[Joined]]) -> Iterator[Joined]:
        """Joins the results of a step of the operators below."""
        for i, child in enumerate(self.children):
            if child is not None:
                for found in step(child):
                    deltas: list[Delta | None] = [None] * len(self.children)
                    deltas[i] = child._rekeyed(found)
                    yield from self.join.push(deltas)

    def _rekeyed(self, found: Joined) -> Delta:
        if self.op.key is None:
            return found.delta()
        column = [c for member in found.columns for c in member][self.op.key]
        return found.delta(np.asarray(column))


@dataclass(frozen=True)
class Timeline:
    """One plan's run on the clock: all results up to each moment, in seconds, and how they came.

    `pushed` and `on_disk` are of the batches of arrivals: the results of each at once, and how many
    partitions were on disk after it, over all operators.
    """

    plan: str
    at: np.ndarray
    results: np.ndarray
    phases: tuple[int, int, int]
    pushed: np.ndarray
    on_disk: np.ndarray
    full: float  # when an operator's memory was full for the first time
    ended: float  # when the last batch had been taken
    written: int  # bytes

    def by(self, moments: np.ndarray) -> np.ndarray:
        """How many results there were at each of these moments."""
        counts = np.concatenate(([0], self.results))
        return np.asarray(counts[np.searchsorted(self.at, moments, side="right")])


def timed(
    plans: Mapping[str, tuple[Op, Policy]],
    inputs: Sequence[InputSpec],
    arrivals: Sequence[Batch],
    budget: int,
    tell: Tell,
) -> list[Timeline]:
    """Run plans over the same arrivals, each with this budget."""
    made = []
    for name, (op, policy) in plans.items():
        tell(name)
        with tempfile.TemporaryDirectory(prefix="thalweg-") as folder:
            plan = BudgetedTree(inputs, op, Path(folder), budget=budget, policy=policy)
            made.append(_timed(name, plan, arrivals))
    return made


def _timed(name: str, plan: BudgetedTree, arrivals: Sequence[Batch]) -> Timeline:
    """Push arrivals at their times; work takes its CPU time, the second phase as much as inputs are idle."""
    clock = _Clock()
    pushed, on_disk = [], []
    second, left, full = 0, 0.0, np.inf
    for batch in arrivals:
        clock.now = max(clock.now, batch.at)
        pushed.append(clock.spend(plan.push(batch.deltas)))
        on_disk.append(plan.on_disk)
        if on_disk[-1]:
            full = min(full, batch.at)
        left += batch.idle
        done = -1
        while left > 0 and plan.tick > done:
            before, done = clock.now, plan.tick
            second += clock.spend(plan.idle())
            left -= clock.now - before
    ended = clock.now
    third = clock.spend(plan.finish())
    return Timeline(
        name,
        np.array(clock.at),
        np.cumsum(clock.found),
        (sum(pushed), second, third),
        np.array(pushed),
        np.array(on_disk),
        full,
        ended,
        plan.written,
    )


class _Clock:
    """The simulated time, which work moves on; results are noted when they are there."""

    def __init__(self) -> None:
        self.now = 0.0
        self.at: list[float] = []
        self.found: list[int] = []

    def spend(self, work: Iterable[Sized]) -> int:
        """Do some work; how many results it had."""
        total, begun, came = 0, time.process_time(), self.now
        for found in work:
            self._note(came + time.process_time() - begun, len(found))
            total += len(found)
        self._note(came + time.process_time() - begun, 0)
        return total

    def _note(self, now: float, found: int) -> None:
        self.now = now
        self.at.append(now)
        self.found.append(found)
