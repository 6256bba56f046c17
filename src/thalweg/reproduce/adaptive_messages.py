"""The messages by which nodes change a plan: how large they are, and how long they take.

A message takes the latency of a link, and its bytes the bandwidth. A number has eight bytes, and a text is as
long as it is. Computing takes no time.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from pydantic import BaseModel

from thalweg.adapt.distributed import Nodes
from thalweg.adapt.knowledge import facts_of, plain
from thalweg.adapt.messages import Message
from thalweg.adapt.update import synchronisation
from thalweg.catalog.model import Catalog
from thalweg.plan.deployment import Deployment
from thalweg.plan.node_operators import compare, node_operators
from thalweg.planners.search import sequences
from thalweg.planners.table import Session
from thalweg.reproduce.adaptive import CENTRE, LATENCY_MS, MBPS, options, query

_WORD = 8


def seconds(size: float) -> float:
    """How long a message takes: T(x) of the paper's eqs. 1 and 2."""
    return LATENCY_MS / 1e3 + size * 8 / (MBPS * 1e6)


@dataclass(frozen=True)
class Exchanged:
    """Some messages: how many, how long all of them take together, and how long until the last is there."""

    messages: int = 0
    total_s: float = 0.0
    elapsed_s: float = 0.0


def central(then: Catalog, now: Catalog, before: Deployment, after: Deployment | None) -> Exchanged:
    """Who has changed reports to the centre; if that finds another plan, it writes to who is affected."""
    reports = [
        seconds(size(now.streams[name].stats))
        for name in changed(then, now)
        if now.streams[name].site != CENTRE
    ]
    written: list[float] = []
    if after is not None:
        affected = [site for site, c in compare(before, after).items() if c.affected and site != CENTRE]
        written = [seconds(sum(len(str(o)) for o in node_operators(after, site))) for site in affected]
    times = [*reports, *written]
    return Exchanged(len(times), sum(times), max(reports, default=0.0) + max(written, default=0.0))


def distributed(then: Catalog, now: Catalog, before: Deployment) -> Exchanged:
    """The nodes of the changed streams write to others, until every step is the cheapest."""
    asked = query(then)
    old, new = (Session(plain(known), options()).problem(asked) for known in (then, now))
    nodes = _TimedNodes(old, sequences.read(before, asked.aliases))
    facts = facts_of(new)
    for name in changed(then, now):
        nodes.node(name).change(facts[name])
    nodes.settle()
    return Exchanged(sum(nodes.sent.values()), nodes.total_s, nodes.now)


def migration(before: Deployment, after: Deployment) -> Exchanged:
    """What a move takes beside the windows: a request for each of them, and both rounds of getting ready."""
    changes = compare(before, after)
    requests = [seconds(len(m.stream) + _WORD) for c in changes.values() for m in c.moves]
    rounds = synchronisation(sum(c.affected for c in changes.values()))
    return Exchanged(
        len(requests) + rounds, sum(requests) + rounds * seconds(_WORD), 2 * seconds(_WORD) if rounds else 0.0
    )


def changed(then: Catalog, now: Catalog) -> list[str]:
    """The streams whose statistics differ."""
    return [name for name, stream in now.streams.items() if stream.stats != then.streams[name].stats]


class _TimedNodes(Nodes):
    """Nodes whose messages arrive after their time, those from one site to another in order."""

    def __init__(self, problem: Any, plan: sequences.Plan) -> None:
        self.now = self.total_s = 0.0
        self._queue: list[tuple[float, int, str, Message]] = []
        self._last: dict[tuple[str, str], float] = {}
        self._numbers = itertools.count()
        super().__init__(problem, plan)

    def _send(self, source: str, target: str, message: Message) -> None:
        takes = 0.0 if source == target else seconds(size(message))
        there = max(self.now + takes, self._last.get((source, target), 0.0))
        self._last[source, target] = there
        self.total_s += takes
        heapq.heappush(self._queue, (there, next(self._numbers), target, message))
        if source != target:
            self.sent[type(message).__name__.lower()] += 1

    def deliver(self) -> bool:
        if not self._queue:
            return False
        self.now, _, target, message = heapq.heappop(self._queue)
        self.by_site[target].receive(message)
        return True


def size(value: object) -> int:
    """The bytes of what a message says.

    >>> size({"rate": 50.0, "name": "s1"}), size((1, None, True))
    (18, 10)
    """
    match value:
        case None | bool():
            return 1
        case str():
            return len(value)
        case Mapping():
            return sum(size(k) + size(v) for k, v in value.items())
        case Collection():
            return sum(map(size, value))
        case BaseModel():
            return sum(size(v) for _, v in value if v)
    if is_dataclass(value):
        return sum(size(getattr(value, f.name)) for f in fields(value))
    return _WORD
