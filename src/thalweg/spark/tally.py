"""What a run has counted so far, batch by batch, and the figures that come of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from thalweg.plan.options import Shipped
from thalweg.spark.exchange import Sent
from thalweg.spark.parcels import Edge

_COUNTED = ("in_", "late_", "out_", "ship_", "whole_")
"""The counts that add up over batches; `ship_` by way and measure, `whole_` by site."""
_PEAKS = ("state_bytes", "disk_bytes")
_MEASURES = ("tuples", "payload_bytes", "bytes")


@dataclass
class Tally:
    """Totals before the last batch and the last batch's own, which a repeat of it replaces.

    `sent` is the last number that was sent over each edge; `peaks` are the most that windows have taken.
    """

    batch: int = -1
    before: dict[str, int] = field(default_factory=dict)
    last: dict[str, int] = field(default_factory=dict)
    sent: dict[str, int] = field(default_factory=dict)
    peaks: dict[str, int] = field(default_factory=dict)

    def count(self, batch: int, found: Mapping[str, int], sent: Mapping[Edge, Sent]) -> None:
        """Take in what a batch has found and sent."""
        if self.batch != batch:
            self.batch, self.before = batch, self.totals
        self.last = {k: n for k, n in found.items() if k.startswith(_COUNTED)} | _counts(sent)
        self.sent |= {edge.name: one.seq for edge, one in sent.items()}
        self.peaks = {k: max(found[k], self.peaks.get(k, 0)) for k in _PEAKS}

    @property
    def totals(self) -> dict[str, int]:
        """All counts, over all batches."""
        return {k: self.before.get(k, 0) + self.last.get(k, 0) for k in self.before | self.last}

    @property
    def read(self) -> int:
        """The rows that the last batch has read."""
        return sum(n for k, n in self.last.items() if k.startswith("in_"))

    def rows(self, streams: Iterable[str], queries: Iterable[str]) -> dict[str, dict[str, int]]:
        """Rows in, out and late, as metrics.json has them."""
        totals, streams = self.totals, list(streams)
        return {
            "input_rows": {s: totals.get(f"in_{s}", 0) for s in streams},
            "output_rows": {q: totals.get(f"out_{q}", 0) for q in queries},
            "late_rows": {s: totals.get(f"late_{s}", 0) for s in streams},
        }

    @property
    def shipped(self) -> list[Shipped]:
        """What has been sent over each way between sites.

        >>> sent = {"ship_a-b_tuples": 2, "ship_a-b_payload_bytes": 16, "ship_a-b_bytes": 400}
        >>> Tally(last={"in_tuples": 3, **sent}).shipped
        [Shipped(source='a', target='b', tuples=2, payload_bytes=16, bytes=400)]
        """
        totals = self.totals
        names = (k.removeprefix("ship_") for k in totals if k.startswith("ship_"))
        edges = (Edge.named(n.removesuffix("_tuples")) for n in sorted(names) if n.endswith("_tuples"))
        return [
            Shipped(e.source, e.target, *(totals[f"ship_{e.name}_{m}"] for m in _MEASURES)) for e in edges
        ]

    @property
    def central(self) -> int:
        """The payload of shipping every stream whole to one site: the one where the most arises."""
        whole = [n for k, n in self.totals.items() if k.startswith("whole_")]
        return sum(whole) - max(whole, default=0)

    @property
    def windows(self) -> dict[str, int]:
        """The most that windows have taken after any batch."""
        return {
            "memory_bytes": self.peaks.get("state_bytes", 0),
            "disk_bytes": self.peaks.get("disk_bytes", 0),
        }

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def _counts(sent: Mapping[Edge, Sent]) -> dict[str, int]:
    """What a batch has sent between sites, as counts."""
    return {
        f"ship_{edge.name}_{measure}": getattr(one, measure)
        for edge, one in sent.items()
        if edge.source != edge.target
        for measure in _MEASURES
    }
