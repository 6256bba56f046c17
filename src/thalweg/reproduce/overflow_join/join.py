"""The N-way join in less memory than its windows need (MJoin, Viglas et al. 2003, sections 2.4 to 2.7).

    phase 1  push     memory to memory   new tuples probe the windows in memory; surplus tuples are flushed
    phase 2  idle     disk to memory     a part on disk probes the memory of the other inputs
    phase 3  finish   disk to disk       all remaining combinations, a partition of the keys at a time

Inputs that never end have no third phase to wait for. There a partition is visited, which is the third phase
for it alone, before its oldest tuple that is not yet joined expires, or after the stated delay; so results
are complete, and at most that late.

*Random* flushing picks tuples whatever their keys. *Coordinated* flushing takes a partition of every input,
and new tuples of it go to disk unprobed: none of it is in memory then, so an idle step of it would find
nothing, and visits the partition instead.

Every result comes out once; `together` has the rule.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import pyarrow as pa

from thalweg.kernel.keys import buckets
from thalweg.kernel.nway import Delta, InputSpec, NWayJoin, Probing, Results, others
from thalweg.kernel.spill_files import SpillFolder
from thalweg.kernel.window import NEVER
from thalweg.reproduce.overflow_join.budget import (
    Share,
    batch_bytes,
    delta_bytes,
    pieces,
    tuples_at_random,
    whole_partitions,
)
from thalweg.reproduce.overflow_join.disk import Disk, Tuples, Work, join_tuples
from thalweg.reproduce.overflow_join.memory import Memory, arrivals, ticked
from thalweg.reproduce.overflow_join.together import Ledger, Probe

Policy = Literal["random", "coordinated"]


@dataclass(frozen=True)
class Joined:
    """Results with all stored columns of their members, input by input, and the phase they came out in."""

    phase: int
    key: np.ndarray
    start: np.ndarray
    end: np.ndarray
    columns: tuple[tuple[pa.Array, ...], ...]

    def __len__(self) -> int:
        return len(self.start)

    def delta(self, key: np.ndarray | None = None) -> Delta:
        """As new tuples of an input of a further join, by this key or the same one."""
        columns = tuple(c for member in self.columns for c in member)
        return Delta(self.key if key is None else key, self.start, self.end, columns).ordered()


class OverflowJoin:
    """The join of all inputs within a budget of bytes; one for all of them, or one for each.

    When tuples must go, as many do as to leave the part `keep` of the budget, so that it is not too often.
    A visit needs the memory for one partition besides. After an error of the disk it can't go on.

    >>> import tempfile
    >>> from pathlib import Path
    >>> specs = [InputSpec(c, (), span=NEVER) for c in "ab"]
    >>> keys = Delta(np.arange(4), np.zeros(4, np.int64), None, ())
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     join = OverflowJoin(specs, SpillFolder(Path(folder)), budget=64, policy="random", partitions=2)
    ...     found = [*join.push([keys, None]), *join.push([None, keys])]
    ...     held, first = int(join.held.sum()), sum(map(len, found))
    ...     last = sum(map(len, join.finish()))
    >>> held <= 64, first + last, join.counters.phases == [first, 0, last]
    (True, 4, True)
    """

    def __init__(
        self,
        inputs: Sequence[InputSpec],
        folder: SpillFolder,
        *,
        budget: int | Sequence[int],
        policy: Policy,
        partitions: int,
        probing: Probing = "measured",
        delay: int | None = None,
        keep: float = 0.9,
        seed: int = 0,
    ) -> None:
        if policy not in get_args(Policy) or partitions < 1 or not 0 <= keep <= 1:
            raise ValueError(f"no such flushing: {policy}, {partitions} partitions, keeping {keep}")
        self.memory = Memory(inputs, probing)
        self.inputs = self.memory.inputs
        self.counters = self.memory.join.counters = Work()
        self.disk = Disk(inputs, folder, partitions, self.counters)
        self.policy, self.partitions, self.delay, self.keep = policy, partitions, delay, keep
        n = len(inputs)
        self.budgets = (
            [Share(budget, list(range(n)))]
            if isinstance(budget, int)
            else [Share(b, [i]) for i, b in zip(range(n), budget, strict=True)]
        )
        self.tick = 0  # of what happens next
        self._rng = np.random.default_rng(seed)
        self._ledger = Ledger(partitions)
        self._probed = np.full((n, partitions), -1)  # when each part on disk last probed,
        self._pushed = -1  # and when something last came
        self._limits = [-NEVER] * n  # for each input: tuples that end before can't match any more

    @property
    def held(self) -> np.ndarray:
        """Bytes in memory, for each input."""
        return self.memory.bytes + self.disk.buffered

    def push(self, deltas: Sequence[Delta | None]) -> Iterator[Joined]:
        """Join new tuples with the windows in memory (phase 1); the caller must consume all results."""
        for piece in pieces(self.inputs, deltas, self.budgets):
            self._make_room(batch_bytes(self.inputs, piece))
            fresh = [None if d is None else self._admit(i, d) for i, d in enumerate(piece)]
            self._pushed = self.tick
            self.tick += 1
            for found in self.memory.join.push(fresh):
                yield self._out(1, self.memory.join, found)
            self._write_buffers()

    def idle(self, part: tuple[int, int] | None = None) -> Iterator[Joined]:
        """One step while no input brings anything (phase 2): of this (input, partition), or of the largest.

        There is nothing left to do when none has tuples that could have missed something since it probed.
        """
        waiting = np.where(self._ledger.missing, self.disk.rows, 0)
        if self.policy == "coordinated":
            partition = int(waiting.sum(axis=0).argmax()) if part is None else part[1]
            if waiting[:, partition].any():
                yield from self._return_visit(partition, 2)
            return
        waiting[self._probed > self._pushed] = 0
        i, partition = divmod(int(waiting.argmax()), self.partitions) if part is None else part
        if waiting[i, partition]:
            yield from self._probe(i, partition)

    def finish(self) -> Iterator[Joined]:
        """All missing results, after all inputs have ended (phase 3). Nothing follows it."""
        for partition in np.flatnonzero(self._ledger.missing).tolist():
            yield from self._visit(partition, 3)
        for partition in np.flatnonzero(self.disk.present).tolist():
            for i in range(len(self.inputs)):
                self.disk.remove(i, partition)

    def expire(self, bounds: Sequence[int]) -> Iterator[Joined]:
        """Visit the partitions that are due and forget tuples that can't match any more; consume all results.

        bounds[j] is the least start that input j can still bring. A result is out once the least of them has
        passed its start by more than `delay`.
        """
        limits = [others(bounds, i) for i in range(len(self.inputs))]
        self._limits = limits
        for partition in self._ledger.due(min(bounds), max(limits), self.delay):
            yield from self._return_visit(partition, 3)
        # Tuples in memory may still have to meet some on disk, unless partitions are there as a whole.
        owed = NEVER if self.policy == "coordinated" else int(self._ledger.since.min())
        for i, limit in enumerate(limits):
            self.memory.expire(i, min(limit, owed))
            for partition in np.flatnonzero(self.disk.rows[i]).tolist():
                self.disk.expire(i, partition, min(limit, int(self._ledger.since[partition])))
        for partition in np.flatnonzero(self._ledger.missing & ~self.disk.present).tolist():
            self._ledger.settle(partition, self.tick)

    def bound(self, bounds: Sequence[int]) -> int:
        """The least start of the results that can still come out, given the least of each input."""
        return min(*bounds, int(self._ledger.since.min()))

    def shrink(self, to: int) -> None:
        """Flush until at most this many bytes are in the windows."""
        if self.memory.bytes.sum() > to:
            self._flush_to([Share(to, list(range(len(self.inputs))))])

    def _make_room(self, need: np.ndarray) -> None:
        rooms = [Share(max(0, b - int(need[inputs].sum())), inputs) for b, inputs in self.budgets]
        if any(self.held[inputs].sum() > room for room, inputs in rooms):
            self.disk.write_buffers()
            self._flush_to(
                [
                    Share(min(room, int(self.keep * budget)), inputs)
                    for (room, inputs), (budget, _) in zip(rooms, self.budgets, strict=True)
                    if self.memory.bytes[inputs].sum() > room
                ]
            )

    def _admit(self, i: int, delta: Delta) -> Delta:
        """The new tuples that go to memory; the others go to the output buffer."""
        size = delta_bytes(self.inputs[i], delta)
        partition = buckets(delta.key, self.partitions)
        present = self.disk.present
        aside = present[partition] if self.policy == "coordinated" else np.zeros(len(delta), bool)
        # A single tuple that is larger than the budget never is in memory.
        if any(self.held[s.inputs].sum() + size.sum() > s.bytes for s in self.budgets if i in s.inputs):
            aside = np.ones(len(delta), bool)
            if self.policy == "coordinated":  # nor is anything of its partition then
                self._flush([np.isin(p, partition) for p in self.memory.partitions(self.partitions)])
            self._leaves(partition)
            present[partition] = True
        missing = present[partition]
        end = delta.end if delta.end is not None else delta.start + (self.inputs[i].span or 0)
        self._ledger.arrive(partition[missing], delta.start[missing], end[missing])
        if aside.any():
            out = delta.take(np.flatnonzero(aside))
            ticks = np.full(len(out), self.tick)
            self.disk.buffer(i, Tuples(out, ticks, ticks), size[aside])
            delta = delta.take(np.flatnonzero(~aside))
        self.memory.bytes[i] += size[~aside].sum()
        return ticked(delta, np.full(len(delta), self.tick))

    def _write_buffers(self) -> None:
        for budget, inputs in self.budgets:
            buffered = self.disk.buffered[inputs].sum()
            if buffered > (1 - self.keep) * budget or (buffered and self.held[inputs].sum() > budget):
                self.disk.write_buffers()

    def _leaves(self, partition: np.ndarray) -> None:
        """Note that tuples of these partitions go to disk: all results complete before have come out."""
        for p in np.setdiff1d(partition, np.flatnonzero(self.disk.present)).tolist():
            self._ledger.settle(p, self.tick)

    def _flush_to(self, wanted: Sequence[Share]) -> None:
        """Flush until the windows of each of these shares hold at most so many bytes."""
        sizes, partition = self.memory.sizes(), self.memory.partitions(self.partitions)
        if self.policy == "coordinated":
            chosen = whole_partitions(sizes, partition, self.partitions, wanted)
        else:
            chosen = tuples_at_random(sizes, wanted, self._rng)
        self._flush(chosen)

    def _flush(self, chosen: Sequence[np.ndarray]) -> None:
        """Let tuples of each window, marked among all of it, go to disk."""
        for i, going in enumerate(chosen):
            if going.any():
                tuples = self.memory.take_out(i, going, self.tick)
                self._leaves(buckets(tuples.delta.key, self.partitions))
                self.disk.write(i, tuples)

    def _probe(self, i: int, partition: int) -> Iterator[Joined]:
        """Let a part on disk probe the memory of the other inputs."""
        tuples = self.disk.load(i, partition)
        tuples = tuples.take(np.argsort(tuples.delta.start))
        tick, self.tick = self.tick, self.tick + 1
        deltas: list[Delta | None] = [None] * len(self.inputs)
        deltas[i] = ticked(tuples.delta, tuples.arrival)
        windows = list(self.memory.join.windows)
        windows[i] = self.memory.window(i)
        beside = self.memory.join.beside(windows)
        for found in beside.push(deltas):
            yield from self._new(2, partition, beside, found, {i: tuples.departure})
        self._ledger.probes[partition].append(Probe(tick, i))
        self._probed[i, partition] = tick

    def _return_visit(self, partition: int, phase: int) -> Iterator[Joined]:
        """Visit a partition; its alive tuples stay on disk, or come back to memory if there is room."""
        parts = yield from self._visit(partition, phase)
        for i, tuples in enumerate(parts):
            alive = tuples.end(self.inputs[i]) >= self._limits[i]
            parts[i] = tuples.take(np.flatnonzero(alive))
        held = self.memory.bytes + batch_bytes(self.inputs, [t.delta for t in parts])
        if self.policy == "coordinated" and all(held[i].sum() <= self.keep * b for b, i in self.budgets):
            for i, tuples in enumerate(parts):
                self.disk.remove(i, partition)
                self.memory.bring_in(i, tuples)
        else:
            for i, tuples in enumerate(parts):
                self.disk.replace(i, partition, tuples)

    def _visit(self, partition: int, phase: int) -> Generator[Joined, None, list[Tuples]]:
        """Join a whole partition: tuples that came since it was settled probe the rest.

        Returns its tuples on disk.
        """
        tick, self.tick = self.tick, self.tick + 1
        windows, fresh, departure, parts = [], [], {}, []
        for i in range(len(self.inputs)):
            parts.append(self.disk.load(i, partition))
            tuples = join_tuples([parts[i], self.memory.of_partition(i, partition, self.partitions)])
            new = tuples.arrival >= self._ledger.settled[partition]
            tuples = tuples.take(np.lexsort((tuples.delta.start, new)))
            old, departure[i] = int(np.count_nonzero(~new)), tuples.departure
            kept = ticked(tuples.delta, tuples.arrival)
            before = kept.slice(0, old)
            windows.append(self.memory.window(i))
            windows[i].append(before.key, before.start, before.end, before.columns)
            windows[i].link(windows[i].next)
            fresh.append(kept.slice(old, len(kept)))
        beside = self.memory.join.beside(windows)
        for found in beside.push(fresh):
            yield from self._new(phase, partition, beside, found, departure)
        self._ledger.settle(partition, tick)
        return parts

    def _new(
        self, phase: int, partition: int, join: NWayJoin, found: Results, departure: dict[int, np.ndarray]
    ) -> Iterator[Joined]:
        """Those results that have not come out; `departure` has the ticks of inputs not all in memory."""
        members = list(enumerate(found.rows))
        arrived = [arrivals(join.windows[i], rows) for i, rows in members]
        departures = [
            departure[i][rows] if i in departure else np.full(len(rows), NEVER) for i, rows in members
        ]
        new = self._ledger.new(partition, arrived, departures)
        if new.any():
            rows = tuple(r[new] for r in found.rows)
            yield self._out(phase, join, Results(rows, found.key[new], found.start[new], found.end[new]))

    def _out(self, phase: int, join: NWayJoin, found: Results) -> Joined:
        self.counters.phases[phase - 1] += len(found)
        columns = tuple(
            tuple(c.take(rows) for c in window.columns[:-1])
            for window, rows in zip(join.windows, found.rows, strict=True)
        )
        return Joined(phase, found.key, found.start, found.end, columns)
