"""Hosts operator programs in this process, a batch at a time: for tests, and to see what a program does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from thalweg.kernel.spill import SpillFolder
from thalweg.programs.cache import OwnCache
from thalweg.programs.job import Job, StreamPlan
from thalweg.programs.join import JoinProgram
from thalweg.programs.pack import pack_batch
from thalweg.programs.packet import Kind, Packet
from thalweg.programs.state import Cache


class MemoryStore(dict[int, bytes]):
    """State as plain bytes in memory, as a state store keeps them."""

    def put(self, key: int, value: bytes) -> None:
        self[key] = value

    def remove(self, key: int) -> None:
        del self[key]


@dataclass
class LocalHost:
    """Runs a job. What its operators put out is collected in `results`, `late` and `counted`.

    `forget` drops the windows at hand, as a crash does; state is then rebuilt from the stores. What memory
    has no room for goes to `folder`.
    """

    job: Job
    stores: dict[int, MemoryStore] = field(default_factory=dict)
    caches: dict[int, Cache] = field(default_factory=dict)
    new_cache: Callable[[int], Cache] = lambda group: OwnCache()
    results: dict[int, list[pa.RecordBatch]] = field(default_factory=dict)
    late: dict[int, list[pa.RecordBatch]] = field(default_factory=dict)
    counted: dict[tuple[int, int], int] = field(default_factory=dict)
    folder: Path | None = None

    def push(self, batches: Mapping[str, pa.RecordBatch], wall: int = 0) -> None:
        """One micro-batch: rows of any of the streams."""
        packets = []
        for plan in self.job.streams:
            if plan.stream in batches and batches[plan.stream].num_rows:
                packets += list(pack_batch(plan.pack, _selected(plan, batches[plan.stream]), wall))
        self._run(packets)

    def end(self) -> None:
        """End all streams."""
        self._tell(Kind.END)

    def idle(self) -> None:
        """Nothing has come for a while."""
        self._tell(Kind.IDLE)

    def _tell(self, kind: Kind) -> None:
        self._run([Packet(g, 0, kind, 0, None, 0) for stage in self.job.stages for g in stage])

    def forget(self) -> None:
        self.caches.clear()

    def _run(self, packets: list[Packet]) -> None:
        for specs in self.job.stages:
            forward = [p for p in packets if p.group not in specs]
            for group, spec in specs.items():
                mine = [p for p in packets if p.group == group]
                if not mine:
                    continue
                store = self.stores.setdefault(group, MemoryStore())
                if group not in self.caches:
                    self.caches[group] = self.new_cache(group)
                folder = None if self.folder is None else SpillFolder(self.folder / str(group))
                forward += JoinProgram(spec).call(mine, store, self.caches[group], folder)
            packets = forward
        for p in packets:
            where = (p.kind, p.port)
            self.counted[where] = self.counted.get(where, 0) + p.n
            if p.kind == Kind.RESULT:
                self.results.setdefault(p.port, []).append(p.table)
            if p.kind == Kind.LATE and p.batch is not None:
                self.late.setdefault(p.port, []).append(p.table)


def _selected(plan: StreamPlan, batch: pa.RecordBatch) -> pa.RecordBatch:
    """What a stream's plan reads of its rows; here that can only be whole columns."""
    arrays = [batch.column(sql.strip("`")) for sql, _ in plan.select]
    return pa.record_batch(arrays, names=[name for _, name in plan.select])
