"""What a run has counted so far, batch by batch, and the figures that come of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import AfterValidator, Field, TypeAdapter

from thalweg.exchange.log import Sent
from thalweg.exchange.parcel_file import Edge
from thalweg.operators.output import Report
from thalweg.plan.options import Shipped

_EdgeName = Annotated[str, AfterValidator(lambda name: Edge.named(name).name)]
_Counts = Annotated[list[int], Field(min_length=3, max_length=3)]


@dataclass
class Totals:
    """Counts that add up: rows by stream, results by query, payload by site, and the traffic of each edge.

    `copied` is the payload of windows that were copied to other sites.
    """

    read: dict[str, int] = field(default_factory=dict)
    late: dict[str, int] = field(default_factory=dict)
    results: dict[str, int] = field(default_factory=dict)
    whole: dict[str, int] = field(default_factory=dict)
    sent: dict[_EdgeName, _Counts] = field(default_factory=dict)  # tuples, payload, bytes
    copied: int = 0

    def plus(self, other: Totals) -> Totals:
        return Totals(
            _sum(self.read, other.read),
            _sum(self.late, other.late),
            _sum(self.results, other.results),
            _sum(self.whole, other.whole),
            {
                edge: [
                    a + b
                    for a, b in zip(self.sent.get(edge, _NONE), other.sent.get(edge, _NONE), strict=True)
                ]
                for edge in self.sent | other.sent
            },
            self.copied + other.copied,
        )

    @property
    def shipped(self) -> list[Shipped]:
        """What has been sent from each site to each other.

        >>> Totals(sent={"a-b": [2, 16, 40]}).shipped
        [Shipped(source='a', target='b', tuples=2, payload_bytes=16, bytes=40)]
        """
        edges = sorted(self.sent.items())
        return [Shipped(e.source, e.target, *n) for name, n in edges for e in (Edge.named(name),)]


_NONE = (0, 0, 0)


def _sum(a: Mapping[str, int], b: Mapping[str, int]) -> dict[str, int]:
    return {k: a.get(k, 0) + b.get(k, 0) for k in {**a, **b}}


@dataclass
class Tally:
    """Totals before the last batch and the last batch's own, which a repeat of it replaces.

    `sent` is the last number that was sent over each edge, `newest` the greatest time of each stream,
    `progress` how far each has come, as `Report.progress` says. `ready` are the buckets of operators that
    have started and have their windows, `ended` those of earlier programs that have ended. The peaks are the
    most that windows have taken after any batch.
    """

    batch: int = -1
    before: Totals = field(default_factory=Totals)
    last: Totals = field(default_factory=Totals)
    sent: dict[_EdgeName, int] = field(default_factory=dict)
    newest: dict[str, int] = field(default_factory=dict)
    progress: dict[str, list[list[int]]] = field(default_factory=dict)
    ready: list[str] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)
    peak_memory: int = 0
    peak_disk: int = 0

    def count(
        self, batch: int, report: Report, results: Mapping[str, int], sent: Mapping[Edge, Sent]
    ) -> None:
        """Take in what a batch has found and sent."""
        if self.batch != batch:
            self.batch, self.before = batch, self.totals
        between = {
            e.name: [s.tuples, s.payload_bytes, s.bytes] for e, s in sent.items() if e.source != e.target
        }
        self.last = Totals(report.read, report.late, dict(results), report.whole, between, report.copied)
        self.sent |= {edge.name: one.seq for edge, one in sent.items()}
        for stream, time in report.newest.items():
            self.newest[stream] = max(time, self.newest.get(stream, time))
        self.progress |= report.progress
        self.ready = sorted({*self.ready, *report.ready})
        self.ended = sorted({*self.ended, *report.ended})
        self.peak_memory = max(self.peak_memory, report.state_bytes)
        self.peak_disk = max(self.peak_disk, report.disk_bytes)

    @property
    def totals(self) -> Totals:
        """All counts, over all batches."""
        return self.before.plus(self.last)

    @property
    def after_all(self) -> int:
        """A time after all that has been read."""
        return 1 + max(self.newest.values(), default=-1)

    @property
    def read(self) -> int:
        """The rows that the last batch has read."""
        return sum(self.last.read.values())

    def rows(self, streams: Iterable[str], queries: Iterable[str]) -> dict[str, dict[str, int]]:
        """Rows in, out and late, as metrics.json has them."""
        totals, streams = self.totals, list(streams)
        return {
            "input_rows": {s: totals.read.get(s, 0) for s in streams},
            "output_rows": {q: totals.results.get(q, 0) for q in queries},
            "late_rows": {s: totals.late.get(s, 0) for s in streams},
        }

    @property
    def shipped(self) -> list[Shipped]:
        """What has been sent from each site to each other, in all batches."""
        return self.totals.shipped

    @property
    def central(self) -> int:
        """The payload of shipping every stream whole to one site: the one where the most arises."""
        whole = self.totals.whole.values()
        return sum(whole) - max(whole, default=0)

    @property
    def windows(self) -> dict[str, int]:
        """The most that windows have taken after any batch."""
        return {"memory_bytes": self.peak_memory, "disk_bytes": self.peak_disk}

    def to_json(self) -> bytes:
        return _ADAPTER.dump_json(self)

    @classmethod
    def from_json(cls, data: bytes) -> Tally:
        """The inverse of `to_json`; a ValueError where it is not one."""
        return _ADAPTER.validate_json(data, strict=True)


_ADAPTER = TypeAdapter(Tally)
