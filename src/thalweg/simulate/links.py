"""Links between sites: they take time, and what is sent over one waits for what was sent before."""

from __future__ import annotations

from dataclasses import dataclass, field

from thalweg.catalog.model import Catalog, Link
from thalweg.cost.network import Quickest

Way = tuple[str, str]


@dataclass
class Used:
    """What has gone over one link: bytes, the time for which it was sending, and the longest wait for it."""

    bytes: float = 0.0
    sending_us: float = 0.0
    longest_wait_us: float = 0.0


@dataclass
class Transport:
    """Sends messages over the links of a catalog, along the quickest path, link by link.

    A message takes a link's latency and the time of its bytes. A link sends one message after another in the
    order in which they come; latencies pass at the same time.
    """

    catalog: Catalog
    used: dict[Way, Used] = field(default_factory=dict)
    _free: dict[Way, float] = field(default_factory=dict)
    _paths: dict[Way, tuple[tuple[Way, Link], ...]] = field(default_factory=dict)
    _last: dict[Way, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._quickest = Quickest(self.catalog)

    def hops(self, source: str, target: str) -> tuple[tuple[Way, Link], ...]:
        """The links from one site to another."""
        if (source, target) not in self._paths:
            self._paths[source, target] = self._quickest.path(source, target)
        return self._paths[source, target]

    def send(self, now: int, source: str, target: str, payload: int) -> int:
        """When a message arrives that is sent now: never before an earlier one on the same way."""
        at = float(now)
        for way, link in self.hops(source, target):
            used = self.used.setdefault(way, Used())
            takes = 8 * payload / link.mbps if link.mbps else 0.0
            begins = max(at, self._free.get(way, 0.0)) if payload else at
            if payload:
                self._free[way] = begins + takes
            used.bytes += payload
            used.sending_us += takes
            used.longest_wait_us = max(used.longest_wait_us, begins - at)
            at = begins + takes + 1e3 * link.latency_ms
        at = self._last[source, target] = max(at, self._last.get((source, target), 0.0))
        return round(at)
