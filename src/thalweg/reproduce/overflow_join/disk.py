"""The disk part of a join operator: files of tuples for each input and partition of the keys.

Each tuple keeps the ticks of its arrival and of its departure from memory. Tuples that arrive in a partition
that is on disk wait in the output buffer until a file is worth its while.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from thalweg.kernel.keys import buckets, split
from thalweg.kernel.nway import Counters, Delta, InputSpec
from thalweg.kernel.spill_files import Spilled, SpillFolder


@dataclass
class Work(Counters):
    """The work of an operator that overflows: of joining, bytes of files, and results by phase.

    `results` also counts duplicates that were left out.
    """

    written: int = 0
    read: int = 0
    phases: list[int] = field(default_factory=lambda: [0, 0, 0])


@dataclass(frozen=True)
class Tuples:
    """Tuples of one input that have a past."""

    delta: Delta
    arrival: np.ndarray
    departure: np.ndarray

    def __len__(self) -> int:
        return len(self.delta)

    def take(self, rows: np.ndarray) -> Tuples:
        return Tuples(self.delta.take(rows), self.arrival[rows], self.departure[rows])

    def end(self, spec: InputSpec) -> np.ndarray:
        """The last moments of their lives."""
        return self.delta.start + spec.span if self.delta.end is None else self.delta.end


@dataclass(frozen=True)
class _File:
    spilled: Spilled
    last_end: int


class Disk:
    """The disk parts of all inputs and partitions, with the output buffers before them."""

    def __init__(self, inputs: Sequence[InputSpec], folder: SpillFolder, partitions: int, work: Work) -> None:
        self.inputs, self.folder, self.partitions, self.work = inputs, folder, partitions, work
        self.rows = np.zeros((len(inputs), partitions), np.int64)  # in files and buffers
        self._buffers: list[list[Tuples]] = [[] for _ in inputs]
        self._sizes: list[list[np.ndarray]] = [[] for _ in inputs]  # bytes of each tuple in them
        self.buffered = np.zeros(len(inputs), np.int64)  # and of all
        self._files: dict[tuple[int, int], list[_File]] = {}
        self._serial = 0

    @property
    def present(self) -> np.ndarray:
        """Which partitions have anything here."""
        return np.asarray(self.rows.any(axis=0))

    def buffer(self, i: int, tuples: Tuples, sizes: np.ndarray) -> None:
        """Put tuples of so many bytes each into the output buffer."""
        self.rows[i] += self._count(tuples)
        self.buffered[i] += sizes.sum()
        self._buffers[i].append(tuples)
        self._sizes[i].append(sizes)

    def write_buffers(self) -> None:
        """Empty the output buffers into files."""
        for i, waiting in enumerate(self._buffers):
            if waiting:
                self._write(i, join_tuples(waiting))
                self._buffers[i], self._sizes[i], self.buffered[i] = [], [], 0

    def write(self, i: int, tuples: Tuples) -> None:
        """Write tuples, of any partitions."""
        self.rows[i] += self._count(tuples)
        self._write(i, tuples)

    def load(self, i: int, partition: int) -> Tuples:
        """All tuples of one part."""
        parts = [_empty(self.inputs[i])]
        for file in self._files.get((i, partition), []):
            parts.append(_tuples(self.folder.read(file.spilled), self.inputs[i]))
            self.work.read += file.spilled.size
        if self._buffers[i]:
            waiting, _, mine = self._waiting(i, partition)
            parts.append(waiting.take(np.flatnonzero(mine)))
        return join_tuples(parts)

    def replace(self, i: int, partition: int, tuples: Tuples) -> None:
        """Let a part be these tuples, which were loaded from it, and no others; in one file."""
        if [f.spilled.rows for f in self._files.get((i, partition), [])] != [self.rows[i, partition]] or (
            len(tuples) < self.rows[i, partition]
        ):
            self.remove(i, partition)
            if len(tuples):
                self.write(i, tuples)

    def remove(self, i: int, partition: int) -> None:
        """Remove all of a part."""
        for file in self._files.pop((i, partition), []):
            self.folder.remove(file.spilled.name)
        if self._buffers[i]:
            waiting, sizes, mine = self._waiting(i, partition)
            self._buffers[i], self._sizes[i] = [waiting.take(np.flatnonzero(~mine))], [sizes[~mine]]
            self.buffered[i] -= sizes[mine].sum()
        self.rows[i, partition] = 0

    def expire(self, i: int, partition: int, bound: int) -> None:
        """Remove the files of a part if all of its tuples end before the bound."""
        files = self._files.get((i, partition), [])
        if any(f.last_end < bound for f in files):
            self._files[i, partition] = [f for f in files if f.last_end >= bound]
            for file in files:
                if file.last_end < bound:
                    self.folder.remove(file.spilled.name)
                    self.rows[i, partition] -= file.spilled.rows

    def _count(self, tuples: Tuples) -> np.ndarray:
        return np.bincount(buckets(tuples.delta.key, self.partitions), minlength=self.partitions)

    def _waiting(self, i: int, partition: int) -> tuple[Tuples, np.ndarray, np.ndarray]:
        """An input's output buffer, its sizes, and which tuples are of one partition."""
        self._buffers[i] = [join_tuples(self._buffers[i])]
        self._sizes[i] = [np.concatenate(self._sizes[i])]
        waiting = self._buffers[i][0]
        return waiting, self._sizes[i][0], buckets(waiting.delta.key, self.partitions) == partition

    def _write(self, i: int, tuples: Tuples) -> None:
        order, begin = split(buckets(tuples.delta.key, self.partitions), self.partitions)
        tuples = tuples.take(order)
        ends, batch = tuples.end(self.inputs[i]), _batch(tuples)
        for partition in np.flatnonzero(np.diff(begin)).tolist():
            lo, hi = int(begin[partition]), int(begin[partition + 1])
            self._serial += 1
            spilled = self.folder.write(f"{i}-{partition}-{self._serial}.arrow", batch.slice(lo, hi - lo))
            self.work.written += spilled.size
            file = _File(spilled, int(ends[lo:hi].max()))
            self._files.setdefault((i, partition), []).append(file)


def _batch(tuples: Tuples) -> pa.RecordBatch:
    delta = tuples.delta
    words = {"key": delta.key, "start": delta.start} | ({} if delta.end is None else {"end": delta.end})
    words |= {"arrival": tuples.arrival, "departure": tuples.departure}
    arrays = [pa.array(np.ascontiguousarray(w)) for w in words.values()]
    names = [*words, *(f"column{n}" for n in range(len(delta.columns)))]
    return pa.record_batch([*arrays, *delta.columns], names=names)


def _tuples(batch: pa.RecordBatch, spec: InputSpec) -> Tuples:
    def word(name: str) -> np.ndarray:
        return np.asarray(batch.column(name).to_numpy())

    columns = tuple(batch.column(f"column{n}") for n in range(len(spec.columns)))
    end = word("end") if spec.span is None else None
    return Tuples(Delta(word("key"), word("start"), end, columns), word("arrival"), word("departure"))


def _empty(spec: InputSpec) -> Tuples:
    none = np.empty(0, np.int64)
    columns = tuple(pa.array([], kind) for _, kind in spec.columns)
    return Tuples(Delta(none, none, none if spec.span is None else None, columns), none, none)


def join_tuples(parts: Sequence[Tuples]) -> Tuples:
    """Several lots of tuples of one input as one, in this order."""
    if len(parts) == 1:
        return parts[0]
    deltas = [p.delta for p in parts]
    ends = [d.end for d in deltas if d.end is not None]
    columns = zip(*(d.columns for d in deltas), strict=True)
    delta = Delta(
        np.concatenate([d.key for d in deltas]),
        np.concatenate([d.start for d in deltas]),
        np.concatenate(ends) if ends else None,
        tuple(pa.concat_arrays(lots) for lots in columns),
    )
    arrival, departure = (np.concatenate([getattr(p, n) for p in parts]) for n in ("arrival", "departure"))
    return Tuples(delta, arrival, departure)
