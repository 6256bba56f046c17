"""The messages of a distributed update (adaptive Algorithm 3); each is about the sequence of one head.

Changed   to a head's node: a stream has other statistics
Offer     along the sequence from its beginning: does a bid beat the stream here?
Begin     to a changed stream's node: find the cheapest stream for this position
Compare   along the rest of the sequence: the cheapest for a position, and by whom so far
Swap      to the cheapest: take this position, the stream there takes yours
Assign    to the node that has the head's results so far: how they meet the next stream
Withdraw  to the node that had them before
Settled   to the head's node: the sequence as it is now
"""

from __future__ import annotations

from dataclasses import dataclass

from thalweg.adapt.knowledge import Joined, Price
from thalweg.cost.rates import Flow


@dataclass(frozen=True)
class Message:
    head: str


@dataclass(frozen=True)
class Changed(Message):
    """`less`: the stream may have become cheaper, so its new flow is a bid for places further in front."""

    stream: str
    flow: Flow
    less: bool


@dataclass(frozen=True)
class _AtPosition(Message):
    """`order` is the head's sequence, `position` counts from 0."""

    order: tuple[str, ...]
    position: int


@dataclass(frozen=True)
class Offer(_AtPosition):
    """At position `stop` the search begins without a bid."""

    stop: int
    bids: tuple[tuple[str, Flow], ...]


@dataclass(frozen=True)
class Begin(_AtPosition):
    pass


@dataclass(frozen=True)
class Compare(_AtPosition):
    """`asked` is the position of the receiver's stream, `best` the lowest price so far."""

    joined: Joined
    asked: int
    best: Price | None


@dataclass(frozen=True)
class Swap(_AtPosition):
    """`stream` is the receiver's, the cheapest for the position at this cost."""

    joined: Joined
    stream: str
    cost: float


@dataclass(frozen=True)
class Part:
    """A head's one-way join to a stream; `last` ends the sequence.

    It leads from the results with `joined`, a set of streams, which come out of the step to `before`.
    """

    head: str
    stream: str
    before: str
    joined: frozenset[str]
    method: str
    last: bool


@dataclass(frozen=True)
class Assign(Message):
    part: Part


@dataclass(frozen=True)
class Withdraw(Message):
    stream: str


@dataclass(frozen=True)
class Settled(Message):
    order: tuple[str, ...]
