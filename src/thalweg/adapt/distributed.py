"""The distributed update of node operator sets (adaptive Algorithm 3, both stages), by messages of nodes."""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from functools import partial

from thalweg.adapt.knowledge import Facts, Joined, Setting, facts_of, rank
from thalweg.adapt.messages import Changed, Message
from thalweg.adapt.node import Node, Sequence, place_of
from thalweg.adapt.update import Updated
from thalweg.cost.methods import at_source
from thalweg.plan.node_operators import NodeOperator
from thalweg.planners.linear_greedy import SIMPLE
from thalweg.planners.search.problem import Problem
from thalweg.planners.search.sequences import Plan, Step


class Nodes:
    """The nodes of a query that runs by a plan, and the messages on their way between them.

    Messages from one site to another arrive in order; otherwise `rng` decides which comes next.
    """

    def __init__(self, problem: Problem, plan: Plan, rng: random.Random | None = None) -> None:
        if any(step.method not in SIMPLE for steps in plan.values() for step in steps):
            raise ValueError("a distributed update is for simple joins")
        self.rng = rng or random.Random(0)
        self.setting = setting = Setting.of(problem)
        self.sent: Counter[str] = Counter()
        self.links: dict[tuple[str, str], deque[Message]] = {}
        facts = facts_of(problem)
        self.by_site = {
            site: Node(
                site,
                setting,
                {a: facts[a] for a, s in setting.sites.items() if s == site},
                partial(self._send, site),
            )
            for site in sorted({*setting.sites.values()})
        }
        for head, steps in plan.items():
            self._install(facts, setting.query.aliases[head], steps)

    def node(self, stream: str) -> Node:
        """The node where a stream arises."""
        return self.by_site[self.setting.sites[stream]]

    def _install(self, facts: Mapping[str, Facts], head: str, steps: tuple[Step, ...]) -> None:
        """Hand out one sequence, as when a query starts. One that is not greedy is searched at once."""
        order = tuple(self.setting.query.aliases[s.stream] for s in steps)
        self.node(head).sequences[head] = Sequence(order)
        joined = self.setting.joined((facts[head],), self.setting.sites[head])
        greedy = True
        for position, (stream, step) in enumerate(zip(order, steps, strict=True)):
            greedy = greedy and self._cheapest(facts, joined, order[position:]) == (stream, step.method)
            cost = self.setting.step(joined, stream, facts[stream].flow).cost
            place = place_of(joined, stream, step.method, cost, last=stream == order[-1])
            self.node(stream).places[head, stream] = place
            self.by_site[joined.site].parts[head, stream] = place.part
            site = joined.site if at_source(step.method) else self.setting.sites[stream]
            joined = self.setting.joined((*joined.streams, facts[stream]), site)
        if not greedy:
            home = self.setting.sites[head]
            self._send(home, home, Changed(head, head, facts[head].flow, less=False))

    def _cheapest(self, facts: Mapping[str, Facts], joined: Joined, left: Iterable[str]) -> tuple[str, str]:
        """The stream and the method that eq. 4 wants next."""
        setting = self.setting
        near = [s for s in left if setting.joinable(joined.aliases, s)]
        best = min((setting.step(joined, s, facts[s].flow) for s in near), key=rank)
        return setting.query.aliases[best.number], best.method

    def _send(self, source: str, target: str, message: Message) -> None:
        self.links.setdefault((source, target), deque()).append(message)
        if source != target:
            self.sent[type(message).__name__.lower()] += 1

    def deliver(self) -> bool:
        """Let one message arrive; whether there was one."""
        waiting = [link for link, messages in self.links.items() if messages]
        if not waiting:
            return False
        link = self.rng.choice(waiting)
        self.by_site[link[1]].receive(self.links[link].popleft())
        return True

    def settle(self) -> None:
        """Until no message is on its way."""
        while self.deliver():
            pass

    @property
    def plan(self) -> Plan:
        """The sequences as the nodes have them."""
        number = self.setting.number
        found = {}
        for head in self.setting.query.aliases:
            order = self.node(head).sequences[head].order
            methods = [self.node(s).places[head, s].part.method for s in order]
            found[number[head]] = tuple(Step(number[s], m) for s, m in zip(order, methods, strict=True))
        return found

    @property
    def operators(self) -> dict[str, frozenset[NodeOperator]]:
        """The node operator set of each site, results of other streams told apart."""
        return {site: node.operators(told_apart=True) for site, node in self.by_site.items()}


def update(old: Problem, new: Problem, before: Plan, rng: random.Random | None = None) -> Updated:
    """Nodes whose streams have other statistics in the new problem swap places with others."""
    nodes = Nodes(old, before, rng)
    was = nodes.operators
    then, now = facts_of(old), facts_of(new)
    for stream, facts in now.items():
        if facts != then[stream]:
            nodes.node(stream).change(facts)
    nodes.settle()
    has = nodes.operators
    affected = tuple(site for site in has if has[site] != was[site])
    return Updated(nodes.plan, affected, dict(nodes.sent))
