"""The N-way join in less memory than its windows need (MJoin, Viglas et al. 2003, sections 2.4 to 2.7).

    phase 1  push     memory to memory   new tuples probe what is in memory; beyond the budget it is flushed
    phase 2  idle     disk to memory     a part on disk probes the memory of the other inputs
    phase 3  finish   disk to disk       what has not met yet meets, a partition of the keys at a time

Inputs that never end have no third phase to wait for. There a partition is visited, which is the third phase
for it alone, before its oldest tuple that is not yet joined expires, or after the stated delay; so results
are complete, and at most that late.

*Random* flushing picks tuples whatever their keys. *Coordinated* flushing takes a partition of every input
and lets what arrives in it go to disk unprobed: nothing of it is in memory then, so an idle step of it would
find nothing, and visits the partition instead.

Every result comes out once: see `together`. For each partition `settled` is a tick before which all that was
complete is out, and the log holds the probes since. A result that is still missing has a member that came
after `settled` when something of the partition was on disk; `_since` is the earliest start of those.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import pyarrow as pa

from thalweg.kernel.columns import FixedColumn
from thalweg.kernel.disk import Disk, Tuples, Work, join_tuples
from thalweg.kernel.keys import buckets
from thalweg.kernel.nway import Delta, InputSpec, NWayJoin, Probing, Results, others
from thalweg.kernel.sizes import delta_bytes, window_bytes
from thalweg.kernel.spill import SpillFolder
from thalweg.kernel.together import Probe, propagated
from thalweg.kernel.window import NEVER, Window

Policy = Literal["random", "coordinated"]

_PIECE = 4  # a batch is pushed in pieces of at most this part of the budget


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
    A visit needs the memory for one partition besides.
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
        # A tuple carries the tick of its arrival as one more column.
        self.inputs = tuple(replace(i, columns=(*i.columns, ("arrival", pa.int64()))) for i in inputs)
        self.join = NWayJoin(self.inputs, probing=probing)
        self.counters = self.join.counters = Work()
        self.disk = Disk(inputs, folder, partitions, self.counters)
        self.policy, self.partitions, self.delay, self.keep = policy, partitions, delay, keep
        n = len(inputs)
        self.budgets = (
            [(budget, list(range(n)))]
            if isinstance(budget, int)
            else [(b, [i]) for i, b in zip(range(n), budget, strict=True)]
        )
        self.tick = 0  # of what happens next
        self._rng = np.random.default_rng(seed)
        self._held = np.zeros(n, np.int64)  # bytes in the windows
        self._settled = np.zeros(partitions, np.int64)
        self._log: list[list[Probe]] = [[] for _ in range(partitions)]
        self._since = np.full(partitions, NEVER)
        self._until = np.full(partitions, NEVER)  # the earliest end of the same tuples
        self._probed = np.full((n, partitions), -1)  # when each part on disk last probed,
        self._pushed = -1  # and when something last came
        self._limits = [-NEVER] * n  # what ends before can meet nothing more, for each input

    @property
    def held(self) -> np.ndarray:
        """Bytes in memory, for each input."""
        return self._held + self.disk.buffered

    def push(self, deltas: Sequence[Delta | None]) -> Iterator[Joined]:
        """Join new tuples with what is in memory (phase 1); all of it must be consumed."""
        for piece in self._pieces(deltas):
            self._make_room(self._bytes(piece))
            fresh = [None if d is None else self._admit(i, d) for i, d in enumerate(piece)]
            self._pushed = self.tick
            self.tick += 1
            for found in self.join.push(fresh):
                yield self._out(1, self.join, found)
            self._write_buffers()

    def idle(self, part: tuple[int, int] | None = None) -> Iterator[Joined]:
        """One step while no input brings anything (phase 2): of this (input, partition), or of the largest.

        There is nothing left to do when none has tuples that could have missed something since it probed.
        """
        waiting = np.where(self._since < NEVER, self.disk.rows, 0)
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
        """All that is still missing, when no input brings anything any more (phase 3)."""
        for partition in np.flatnonzero(self._since < NEVER).tolist():
            yield from self._visit(partition, 3)
        for partition in np.flatnonzero(self.disk.present).tolist():
            for i in range(len(self.inputs)):
                self.disk.remove(i, partition)

    def expire(self, bounds: Sequence[int]) -> Iterator[Joined]:
        """Visit the partitions that are due and forget what can meet nothing more; consume all of it.

        bounds[j] is the least start that input j can still bring. A result is out once the least of them has
        passed its start by more than `delay`.
        """
        limits = [others(bounds, i) for i in range(len(self.inputs))]
        due = self._until < max(limits)
        if self.delay is not None:
            due |= self._since + self.delay < min(bounds)
        self._limits = limits
        for partition in np.flatnonzero(due).tolist():
            yield from self._return_visit(partition, 3)
        for i, limit in enumerate(limits):
            self._expire(i, limit)

    def bound(self, bounds: Sequence[int]) -> int:
        """The least start of the results that can still come out, given the least of each input."""
        return min(*bounds, int(self._since.min()))

    def shrink(self, to: int) -> None:
        """Flush until at most this many bytes are in the windows."""
        if self._held.sum() > to:
            self._flush_to([(to, list(range(len(self.inputs))))])

    def _expire(self, i: int, limit: int) -> None:
        window = self.join.windows[i]
        first = window.row(window.first)
        # Tuples in memory may still have to meet some on disk, unless partitions are there as a whole.
        window.expire(limit if self.policy == "coordinated" else min(limit, int(self._since.min())))
        gone = np.arange(first, window.row(window.first))
        self._held[i] -= window_bytes(self.inputs[i], window, gone).sum()
        for partition in np.flatnonzero(self.disk.rows[i]).tolist():
            self.disk.expire(i, partition, min(limit, int(self._since[partition])))
        self._settle(~self.disk.present)

    def _settle(self, partitions: np.ndarray | int) -> None:
        """Note that nothing of these partitions is missing."""
        self._since[partitions] = self._until[partitions] = NEVER

    def _pieces(self, deltas: Sequence[Delta | None]) -> Iterator[Sequence[Delta | None]]:
        lengths = [0 if d is None else len(d) for d in deltas]
        need = self._bytes(deltas)
        if sum(lengths) <= 1 or all(need[pool].sum() <= budget // _PIECE for budget, pool in self.budgets):
            yield deltas
            return
        # A half of each input's, or a half of the inputs where each has but one tuple.
        halves = [(n + 1) // 2 for n in lengths]
        if max(lengths) == 1:
            ones = np.cumsum(lengths)
            halves = [int(n and one <= ones[-1] // 2) for n, one in zip(lengths, ones, strict=True)]
        yield from self._pieces([d and d.slice(0, h) for d, h in zip(deltas, halves, strict=True)])
        yield from self._pieces([d and d.slice(h, len(d)) for d, h in zip(deltas, halves, strict=True)])

    def _bytes(self, deltas: Sequence[Delta | None]) -> np.ndarray:
        sizes = zip(self.inputs, deltas, strict=True)
        return np.array([0 if d is None else delta_bytes(spec, d).sum() for spec, d in sizes])

    def _make_room(self, need: np.ndarray) -> None:
        rooms = [(max(0, budget - int(need[pool].sum())), budget, pool) for budget, pool in self.budgets]
        if any(self.held[pool].sum() > room for room, _, pool in rooms):
            self.disk.write_buffers()
            full = [r for r in rooms if self.held[r[2]].sum() > r[0]]
            self._flush_to([(min(room, int(self.keep * budget)), pool) for room, budget, pool in full])

    def _admit(self, i: int, delta: Delta) -> Delta:
        """The new tuples that go to memory; the others go to the output buffer."""
        size = delta_bytes(self.inputs[i], delta)
        partition = buckets(delta.key, self.partitions)
        present = self.disk.present
        aside = present[partition] if self.policy == "coordinated" else np.zeros(len(delta), bool)
        # A single tuple that is larger than the budget never is in memory.
        if any(self.held[pool].sum() + size.sum() > budget for budget, pool in self.budgets if i in pool):
            aside = np.ones(len(delta), bool)
            self._leaves(partition)
            present[partition] = True
        missing = present[partition]
        end = delta.end if delta.end is not None else delta.start + (self.inputs[i].span or 0)
        np.minimum.at(self._since, partition[missing], delta.start[missing])
        np.minimum.at(self._until, partition[missing], end[missing])
        if aside.any():
            out = delta.take(np.flatnonzero(aside))
            ticks = np.full(len(out), self.tick)
            self.disk.buffer(i, Tuples(out, ticks, ticks), size[aside])
            delta = delta.take(np.flatnonzero(~aside))
        self._held[i] += size[~aside].sum()
        return _with(delta, np.full(len(delta), self.tick))

    def _write_buffers(self) -> None:
        for budget, pool in self.budgets:
            buffered = self.disk.buffered[pool].sum()
            if buffered > (1 - self.keep) * budget or (buffered and self.held[pool].sum() > budget):
                self.disk.write_buffers()

    def _leaves(self, partition: np.ndarray) -> None:
        """Note that tuples of these partitions go to disk: what was complete before has come out."""
        new = np.setdiff1d(partition, np.flatnonzero(self.disk.present))
        self._settled[new] = self.tick
        for p in new.tolist():
            self._log[p].clear()

    def _flush_to(self, wanted: Sequence[tuple[int, list[int]]]) -> None:
        """Flush until each of these sets of inputs has at most so many bytes in its windows."""
        rows = [w.rows for w in self.join.windows]
        if self.policy == "coordinated":
            chosen = self._partitions_to_flush(rows, wanted)
        else:
            chosen = [np.zeros(len(r), bool) for r in rows]
            for target, pool in wanted:
                self._tuples_to_flush(rows, target, pool, chosen)
        for i, (window, flushed) in enumerate(zip(self.join.windows, chosen, strict=True)):
            if flushed.any():
                tuples = self._tuples(i, rows[i][flushed])
                self._leaves(buckets(tuples.delta.key, self.partitions))
                self.disk.write(i, replace(tuples, departure=np.full(len(tuples), self.tick)))
                self._held[i] -= window_bytes(self.inputs[i], window, rows[i][flushed]).sum()
                window.retain(rows[i][~flushed])

    def _tuples_to_flush(
        self, rows: Sequence[np.ndarray], target: int, pool: Sequence[int], chosen: list[np.ndarray]
    ) -> None:
        """Tuples at random, whatever their keys and inputs."""
        windows = self.join.windows
        sizes = np.concatenate([window_bytes(self.inputs[i], windows[i], rows[i]) for i in pool])
        order = self._rng.permutation(len(sizes))
        freed = np.cumsum(sizes[order])
        enough = int(np.searchsorted(freed, self._held[pool].sum() - target)) + 1
        mask = np.zeros(len(sizes), bool)
        mask[order[:enough]] = True
        cuts = np.cumsum([len(rows[i]) for i in pool])[:-1]
        for i, part in zip(pool, np.split(mask, cuts), strict=True):
            chosen[i] = part

    def _partitions_to_flush(
        self, rows: Sequence[np.ndarray], wanted: Sequence[tuple[int, list[int]]]
    ) -> list[np.ndarray]:
        """Whole partitions of every input, one after another."""
        windows, count = self.join.windows, self.partitions
        partition = [buckets(w.keys(r), count) for w, r in zip(windows, rows, strict=True)]
        held = np.array(
            [
                np.bincount(p, window_bytes(spec, w, r), count)
                for spec, w, p, r in zip(self.inputs, windows, partition, rows, strict=True)
            ]
        )
        flushed = np.zeros(count, bool)
        for p in np.flatnonzero(held.any(axis=0)).tolist():
            if all(held[pool][:, ~flushed].sum() <= target for target, pool in wanted):
                break
            flushed[p] = True
        return [flushed[p] for p in partition]

    def _tuples(self, i: int, rows: np.ndarray) -> Tuples:
        """Some tuples of a window, which are still there."""
        window = self.join.windows[i]
        end = window.end[rows] if window.span is None else None
        columns = tuple(c.take(rows) for c in window.columns[:-1])
        delta = Delta(window.keys(rows), window.starts(rows), end, columns)
        return Tuples(delta, _arrival(window, rows), np.full(len(rows), NEVER))

    def _probe(self, i: int, partition: int) -> Iterator[Joined]:
        """Let a part on disk probe the memory of the other inputs."""
        tuples = self.disk.load(i, partition)
        tuples = tuples.take(np.argsort(tuples.delta.start))
        tick, self.tick = self.tick, self.tick + 1
        deltas: list[Delta | None] = [None] * len(self.inputs)
        deltas[i] = _with(tuples.delta, tuples.arrival)
        windows = list(self.join.windows)
        windows[i] = self._window(i)
        beside = self.join.beside(windows)
        for found in beside.push(deltas):
            yield from self._new(2, partition, beside, found, {i: tuples.departure})
        self._log[partition].append(Probe(tick, i))
        self._probed[i, partition] = tick

    def _return_visit(self, partition: int, phase: int) -> Iterator[Joined]:
        """Visit a partition and leave what is still alive on disk."""
        parts = yield from self._visit(partition, phase)
        for i, tuples in enumerate(parts):
            alive = tuples.end(self.inputs[i]) >= self._limits[i]
            self.disk.replace(i, partition, tuples.take(np.flatnonzero(alive)))

    def _visit(self, partition: int, phase: int) -> Generator[Joined, None, list[Tuples]]:
        """Bring all of a partition together: what came since it was settled probes, the rest is there.

        Returns what is on disk.
        """
        tick, self.tick = self.tick, self.tick + 1
        windows, fresh, departure, parts = [], [], {}, []
        for i, memory in enumerate(self.join.windows):
            rows = memory.rows
            rows = rows[buckets(memory.keys(rows), self.partitions) == partition]
            parts.append(self.disk.load(i, partition))
            tuples = join_tuples([parts[i], self._tuples(i, rows)])
            new = tuples.arrival >= self._settled[partition]
            tuples = tuples.take(np.lexsort((tuples.delta.start, new)))
            old, departure[i] = int(np.count_nonzero(~new)), tuples.departure
            ticked = _with(tuples.delta, tuples.arrival)
            before = ticked.slice(0, old)
            windows.append(self._window(i))
            windows[i].append(before.key, before.start, before.end, before.columns)
            windows[i].link(windows[i].next)
            fresh.append(ticked.slice(old, len(ticked)))
        beside = self.join.beside(windows)
        for found in beside.push(fresh):
            yield from self._new(phase, partition, beside, found, departure)
        self._settled[partition] = tick
        self._log[partition].clear()
        self._settle(partition)
        return parts

    def _window(self, i: int) -> Window:
        spec = self.inputs[i]
        return Window(spec.columns, spec.span, spec.slack)

    def _new(
        self, phase: int, partition: int, join: NWayJoin, found: Results, departure: dict[int, np.ndarray]
    ) -> Iterator[Joined]:
        """Those results that have not come out; `departure` has the ticks of inputs not all in memory."""
        members = list(enumerate(found.rows))
        arrivals = [_arrival(join.windows[i], rows) for i, rows in members]
        departures = [
            departure[i][rows] if i in departure else np.full(len(rows), NEVER) for i, rows in members
        ]
        log = self._log[partition]
        new = ~propagated(arrivals, departures, int(self._settled[partition]), log)
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


def _with(delta: Delta, arrival: np.ndarray) -> Delta:
    return replace(delta, columns=(*delta.columns, pa.array(arrival)))


def _arrival(window: Window, rows: np.ndarray) -> np.ndarray:
    column = window.columns[-1]
    assert isinstance(column, FixedColumn)
    return np.asarray(column.data[rows])
