"""The least cost of a micro-batch, and where its milliseconds go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from thalweg.bench.data import Workload, generate
from thalweg.bench.join import run_side
from thalweg.bench.side import THALWEG

WARM_UP = 5
"""Batches that are left out: the first ones load classes and start workers."""

TINY = Workload("batch", keys=1_000, rate=100.0, tuples_per_stream=2_500, rows_per_batch=300)

PARTS = {
    "latestOffset": "ask the sources what is new",
    "walCommit": "write the offsets to the log",
    "getBatch": "take the new data from the sources",
    "queryPlanning": "plan the batch",
    "addBatch": "run it: Spark's stages, the join, the sink",
    "commitOffsets": "write that the batch is done",
    "commitBatch": "tell the sources",
}
"""The phases of a micro-batch as Spark reports them, in their order."""

STATE = {
    "allUpdatesTimeMs": "of that, state read and written",
    "allRemovalsTimeMs": "of that, state removed",
    "commitTimeMs": "of that, state committed",
}
"""The reports of stateful operators, summed over operators and tasks."""


@dataclass(frozen=True)
class BatchCost:
    """Medians over the micro-batches after the warm-up, in milliseconds."""

    batches: int
    rows_per_batch: int
    total_ms: float
    parts_ms: Mapping[str, float]
    state_ms: Mapping[str, float]

    @property
    def rest_ms(self) -> float:
        """The time outside all phases."""
        return self.total_ms - sum(self.parts_ms.values())

    def to_json(self) -> dict[str, Any]:
        """As the command prints it."""
        return {
            "batches": self.batches,
            "rows_per_batch": self.rows_per_batch,
            "total_ms": self.total_ms,
            "parts_ms": dict(self.parts_ms),
            "rest_ms": round(self.rest_ms, 1),
            "state_task_ms": dict(self.state_ms),
        }

    def rows(self) -> list[tuple[str, str, str]]:
        """The cells of the table: phase, ms, per cent of the whole."""
        cells = [(f"{PARTS.get(name, name)} ({name})", ms) for name, ms in self.parts_ms.items()]
        phases = [
            *((what, f"{ms:,.0f}", f"{ms / self.total_ms:.0%}") for what, ms in cells),
            ("the rest", f"{self.rest_ms:,.0f}", f"{self.rest_ms / self.total_ms:.0%}"),
            ("a micro-batch", f"{self.total_ms:,.0f}", "100%"),
        ]
        return phases + [
            (f"{STATE[name]}, over all tasks", f"{ms:,.0f}", "") for name, ms in self.state_ms.items()
        ]


def cost(measured: Sequence[Mapping[str, Any]]) -> BatchCost:
    """The medians of Spark's reports of each micro-batch."""
    names = {name for batch in measured for name in batch["duration_ms"]} - {"triggerExecution"}
    known = [name for name in PARTS if name in names]
    parts = {
        name: float(median(batch["duration_ms"].get(name, 0) for batch in measured))
        for name in [*known, *sorted(names - set(known))]
    }
    state = {
        name: float(median(sum(operator[name] for operator in batch["state"]) for batch in measured))
        for name in STATE
    }
    total = float(median(batch["duration_ms"]["triggerExecution"] for batch in measured))
    return BatchCost(len(measured), int(median(b["rows"] for b in measured)), total, parts, state)


def measure(data_root: Path, limit_s: float = 600, warm_s: float = 0.0, spec: Workload = TINY) -> BatchCost:
    """Run tiny micro-batches through Thalweg."""
    data = generate(spec, data_root)
    run = run_side(THALWEG, spec, data, spec.batches, limit_s, (data, warm_s))
    if run is None:
        raise RuntimeError(f"{spec.batches} tiny micro-batches took more than {limit_s:.0f} s")
    return cost(run.batches[WARM_UP:])
