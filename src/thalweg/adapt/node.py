"""A node of a distributed update: it knows the statistics of its own streams, and what messages tell it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import singledispatchmethod

from thalweg.adapt.knowledge import Facts, Joined, Setting, rank
from thalweg.adapt.messages import (
    Assign,
    Begin,
    Changed,
    Compare,
    Message,
    Offer,
    Part,
    Settled,
    Swap,
    Withdraw,
)
from thalweg.cost.methods import at_source
from thalweg.plan.node_operators import Join, NodeOperator, Ship, Update, results_of
from thalweg.planners.linear_greedy import no_path

Send = Callable[[str, Message], None]
"""Sends a message to a site."""


@dataclass
class Sequence:
    """The sequence of a node's own head stream. One search at a time goes along it; other changes wait."""

    order: tuple[str, ...]
    searching: bool = False
    waiting: dict[str, Changed] = field(default_factory=dict)


@dataclass(frozen=True)
class Place:
    """The place of a node's own stream in the sequence of another head: what is joined before it, and how.

    `cost` is the one by which it got the place.
    """

    joined: Joined
    part: Part
    cost: float


class Node:
    """The node of a site. Its streams swap places in the sequences of all heads until eq. 4 holds."""

    def __init__(self, site: str, setting: Setting, own: Mapping[str, Facts], send: Send) -> None:
        self.site, self.setting, self.send = site, setting, send
        self.own = dict(own)
        self.sequences: dict[str, Sequence] = {}
        self.places: dict[tuple[str, str], Place] = {}
        self.parts: dict[tuple[str, str], Part] = {}

    def operators(self, *, told_apart: bool = False) -> frozenset[NodeOperator]:
        """Its node operator set (adaptive 4.1); results of other streams can be told apart by their names."""
        found: set[NodeOperator] = set()
        for part in self.parts.values():  # the head's results so far are here
            to = self.setting.sites[part.stream]
            if at_source(part.method):
                found |= self._join(part, told_apart)
            elif to != self.site:
                found.add(Ship(self._source(part, told_apart), to))
        for (_, stream), place in self.places.items():
            if at_source(place.part.method):
                found.add(Ship(stream, place.joined.site))
            else:
                found |= self._join(place.part, told_apart)
        return frozenset(found)

    def _join(self, part: Part, told_apart: bool) -> set[NodeOperator]:
        found: set[NodeOperator] = {
            Join((self._source(part, told_apart), part.stream)),
            Update(part.stream),
        }
        to = self.setting.deliver_to
        if part.last and to is not None and to != self.site:
            all_ = results_of(part.head, self.setting.query.aliases)
            name = all_ if told_apart else self.setting.output(part.head, part.stream)
            found.add(Ship(name, to))
        return found

    def _source(self, part: Part, told_apart: bool) -> str:
        """The results so far."""
        if told_apart:
            return results_of(part.head, part.joined)
        return self.setting.output(part.head, part.before)

    def change(self, facts: Facts) -> None:
        """A stream of its own has other statistics: every head hears of it."""
        before, self.own[facts.alias] = self.own[facts.alias], facts
        # Its one-way joins cost no less if none of these is less: then it can't move to the front.
        less = facts.rate < before.rate or facts.width < before.width or facts.window < before.window
        for head in self.setting.query.aliases:
            self._to(head, Changed(head, facts.alias, facts.flow, less))

    @singledispatchmethod
    def receive(self, message: Message) -> None:
        raise TypeError(message)

    @receive.register
    def _(self, message: Changed) -> None:
        sequence = self.sequences[message.head]
        earlier = sequence.waiting.get(message.stream)
        less = message.less or (earlier is not None and earlier.less)
        sequence.waiting[message.stream] = replace(message, less=less)
        if not sequence.searching:
            self._search(message.head, sequence)

    def _search(self, head: str, sequence: Sequence) -> None:
        """Begin where a changed stream is, or further in front where one has become the cheapest."""
        changes, order = sequence.waiting, sequence.order
        if not order or not changes:
            return
        sequence.searching, sequence.waiting = True, {}
        first = 0 if head in changes else min(order.index(s) for s in changes)
        bids = tuple((s, c.flow) for s, c in changes.items() if c.less)
        if first == 0:
            self._compare(Compare(head, order, 0, self._alone(head), 0, None))
        elif bids:
            self._to(order[0], Offer(head, order, 0, first, bids))
        else:
            self._to(order[first], Begin(head, order, first))

    @receive.register
    def _(self, message: Offer) -> None:
        head, order, position = message.head, message.order, message.position
        stream = order[position]
        place = self.places[head, stream]
        joined, price = place.joined, self.setting.step(place.joined, stream, self.own[stream].flow)
        if price.cost != place.cost:
            # It has changed as well, and the head has not heard of it yet: any stream may be cheaper now.
            self._compare(Compare(head, order, position, joined, position, None))
            return
        bids = [
            self.setting.step(joined, s, flow)
            for s, flow in message.bids
            if self.setting.joinable(joined.aliases, s)
        ]
        best = min([price, *bids], key=rank)
        if best is not price:
            # Of the others the stream here was the cheapest, so the bidder is now.
            cheapest = self.setting.query.aliases[best.number]
            self._to(cheapest, Swap(head, order, position, joined, cheapest, best.cost))
        elif position + 1 < message.stop:
            self._to(order[position + 1], Offer(head, order, position + 1, message.stop, message.bids))
        else:
            self._to(order[message.stop], Begin(head, order, message.stop))

    @receive.register
    def _(self, message: Begin) -> None:
        head, order, position = message.head, message.order, message.position
        joined = self.places[head, order[position]].joined
        self._compare(Compare(head, order, position, joined, position, None))

    def _compare(self, message: Compare) -> None:
        self._to(message.order[message.asked], message)

    @receive.register
    def _(self, message: Compare) -> None:
        head, order, joined, best = message.head, message.order, message.joined, message.best
        stream = order[message.asked]
        if self.setting.joinable(joined.aliases, stream):
            price = self.setting.step(joined, stream, self.own[stream].flow)
            best = price if best is None else min(best, price, key=rank)
        if message.asked + 1 < len(order):
            self._compare(Compare(head, order, message.position, joined, message.asked + 1, best))
            return
        if best is None or best.cost == float("inf"):
            raise no_path(head)
        cheapest = self.setting.query.aliases[best.number]
        self._to(cheapest, Swap(head, order, message.position, joined, cheapest, best.cost))

    @receive.register
    def _(self, message: Swap) -> None:
        head, position, joined, stream = message.head, message.position, message.joined, message.stream
        order = list(message.order)
        order[order.index(stream)], order[position] = order[position], stream
        last = position + 1 == len(order)
        here = self._settle(message, last=last)
        if last:
            self._to(head, Settled(head, tuple(order)))
            return
        after = self.setting.joined((*joined.streams, self.own[stream]), here)
        self._compare(Compare(head, tuple(order), position + 1, after, position + 1, None))

    def _settle(self, message: Swap, *, last: bool) -> str:
        """Take a place in a sequence, with the placement of the join; the site of its results."""
        head, joined, stream = message.head, message.joined, message.stream
        method = self.setting.step(joined, stream, self.own[stream].flow).method
        before, now = self.places[head, stream], place_of(joined, stream, method, message.cost, last=last)
        self.places[head, stream] = now
        if before.joined.site != joined.site:
            self.send(before.joined.site, Withdraw(head, stream))
        if (before.joined.site, before.part) != (joined.site, now.part):
            self.send(joined.site, Assign(head, now.part))
        return joined.site if at_source(method) else self.site

    @receive.register
    def _(self, message: Assign) -> None:
        self.parts[message.head, message.part.stream] = message.part

    @receive.register
    def _(self, message: Withdraw) -> None:
        del self.parts[message.head, message.stream]

    @receive.register
    def _(self, message: Settled) -> None:
        sequence = self.sequences[message.head]
        sequence.order, sequence.searching = message.order, False
        self._search(message.head, sequence)

    def _alone(self, head: str) -> Joined:
        return self.setting.joined((self.own[head],), self.site)

    def _to(self, stream: str, message: Message) -> None:
        self.send(self.setting.sites[stream], message)


def place_of(joined: Joined, stream: str, method: str, cost: float, *, last: bool) -> Place:
    """The place of a stream after what a head has joined."""
    streams = joined.aliases
    return Place(joined, Part(streams[0], stream, streams[-1], frozenset(streams), method, last), cost)
