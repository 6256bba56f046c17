"""The protocol of exchanges: durable, replayable logs of parcels from one site to another.

Each parcel takes effect exactly once. A batch that is repeated after a crash publishes nothing new, and a
reader can read a file again until it forgets it. Writer and reader share only numbers: from 1, without gaps,
one for each batch that sent something.
"""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from thalweg.exchange.parcel_file import Edge
from thalweg.wire.parcel import Parcel


@dataclass(frozen=True, slots=True)
class Sent:
    """What a batch has sent over an edge: `payload_bytes` as the plan counts them, `bytes` on the wire."""

    seq: int
    batch: int
    tuples: int
    payload_bytes: int
    bytes: builtins.int


class Exchange(Protocol):
    """A log of parcels over one edge, with one writer and one reader. They need not run at the same time."""

    def publish(self, batch: int, parcels: Sequence[Parcel]) -> Sent:
        """Append the parcels of a batch. A repeat of the last batch appends nothing and returns the same."""

    def last(self) -> int:
        """The last number in the log; 0 if nothing has been sent."""

    def ready(self, after: int, now: float) -> int:
        """The last number that has arrived at this moment, for a reader that has read up to `after`."""

    def next_at(self, after: int) -> float | None:
        """When the number after `after` arrives; None if it has not been sent."""

    def read(self, seq: int) -> list[Parcel]:
        """The parcels with this number."""

    def sent(self, seq: int) -> Sent:
        """Counts and sizes of the parcels with this number, without reading them."""

    def forget(self, upto: int) -> None:
        """Remove the parcels up to this number: nobody will read them again."""


class Exchanges(Protocol):
    """All exchanges of a run."""

    def edges(self) -> list[Edge]:
        """The edges over which something has been sent so far; more can follow."""

    def over(self, edge: Edge) -> Exchange:
        """The exchange over this edge, always the same object. It may be empty."""
