"""`linear-optimal`: the cheapest sequence of one-way joins for each head, by dynamic programming.

Let f[S][v] be the least cost of having a head's join of the set S at site v. With T = S + {j}, j at w,

    f[T][v] = min over j of f[S][v] + cost of the cheapest -S method from v to j
    f[T][w] = min over u of f[S][u] + cost of the cheapest -D method from u to j

is exact for the papers' additive cost, in 2^m * m states instead of (m - 1)! * 8^(m - 1) sequences
(`semijoin-exhaustive`). A shipment that heads share costs once: `share` starts from these sequences.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from contextlib import suppress
from functools import cached_property, reduce
from itertools import combinations

import numpy as np

from thalweg.cost.keys import Floats
from thalweg.cost.methods import BLOOM, KEYS, at_source
from thalweg.cost.network import Numbers
from thalweg.cost.ways import least
from thalweg.plan.deployment import TUPLES, Edge
from thalweg.plan.one_way import METHODS
from thalweg.planners.linear_greedy import SIMPLE, greedy
from thalweg.planners.search.problem import Found, NotApplicableError, Problem
from thalweg.planners.search.sequences import Plan, Shipped, Step, StepCosts, as_found

MOST = 12
"""Streams beyond which 2^m sets for each head are too many."""
GATHERED = 3
"""How many sites are tried as the one where all streams meet."""
GRAIN = 2.0**-40
_SP_S, _SP_D = (METHODS.index(m) for m in ("SP-S", "SP-D"))
_READ = {KEYS: ("SM-S2", "SM-D1"), BLOOM: ("SB-D1",)}
"""The methods that read the output of a keys operator, as keys or as filters."""
_STAY = [i for i, m in enumerate(METHODS) if at_source(m)]
_MOVE = [i for i, m in enumerate(METHODS) if not at_source(m)]


def plan(problem: Problem) -> Found:
    """The cheapest sequences of simple joins and semijoins."""
    if len(problem.rates.aliases) > MOST:
        raise NotApplicableError(
            f"linear-optimal looks at 2^m sets, and {len(problem.rates.aliases)} streams are too many for it",
            remedy="semijoin-greedy takes any number",
        )
    family = Family(problem)
    additive = {table.head: table.best() for table in family.tables}
    return as_found(family.costs, family.shared(additive), sum(t.transitions for t in family.tables))


class Family:
    """Shared by the exact planners: the greedy plans, a table for each head, and `share`."""

    def __init__(self, problem: Problem) -> None:
        self.costs = StepCosts(problem)
        self.greedy: list[Plan] = []
        for methods in (METHODS, SIMPLE):
            with suppress(NotApplicableError):  # in a network with one-way links greed may lead nowhere
                self.greedy.append(greedy(self.costs, methods)[0])
        self._replanned: dict[Hashable, tuple[Step, ...]] = {}
        self.tables = [Table(self.costs, head, self._about(head)) for head in range(len(problem.at))]

    def _about(self, head: int) -> float:
        return min((self.costs.additive(head, plan[head]) for plan in self.greedy), default=0.0)

    def shared(self, additive: Plan) -> Plan:
        """The plan of the least price: the additive one where the price is additive too."""
        if self.costs.problem.settings.get("price") == "additive":
            return additive
        return self.share(additive)

    def share(self, additive: Plan) -> Plan:
        """The cheapest plan, by its real shipments, that re-planning one head at a time finds.

        The papers' additive cost counts a shipment again for each head that uses it. From the additive
        optimum, the greedy plans and one that gathers all at a site, each head is planned again with the
        others' shipments free, as long as the price falls. So no greedy plan is cheaper than the result.
        """
        starts = (additive, *self.greedy, *self._gathered())
        return min((self._falling(start) for start in starts), key=self.costs.price)

    def _gathered(self) -> list[Plan]:
        """The cheapest plan that ships all streams to one site.

        No head alone would pay for that, so planning one head at a time does not find it.
        """
        problem, ways = self.costs.problem, self.costs.ways
        flows = [problem.rates.flow(1 << i) for i in range(len(problem.at))]
        sites: list[tuple[float, str, Shipped]] = []
        for site in dict.fromkeys(problem.rates.sites):
            to = ways.index[problem.network.number[site]]
            cost = sum(ways.cost(int(p), to, f.bytes) for p, f in zip(self.costs.place, flows, strict=True))
            ends = zip(problem.rates.aliases, problem.rates.sites, flows, strict=True)
            edges = (Edge(a, "", s, site, (a,), f.rate, f.bytes) for a, s, f in ends if s != site)
            if cost < math.inf:
                sites.append((cost, site, {e.source: e for e in edges}))
        nearest = sorted(sites, key=lambda one: one[:2])[:GATHERED]
        plans: list[Plan] = [{t.head: t.best(shipped) for t in self.tables} for _, _, shipped in nearest]
        return sorted(plans, key=self.costs.price)[:1]

    def _falling(self, plan: Plan) -> Plan:
        cost, falling = self.costs.price(plan), True
        while falling:
            falling = False
            for head in plan:
                self.costs.problem.check_time()
                tried = {**plan, head: self._beside({h: s for h, s in plan.items() if h != head}, head)}
                if (new := self.costs.price(tried)) < cost * (1 - 1e-12):
                    plan, cost, falling = tried, new, True
        return plan

    def _beside(self, others: Plan, head: int) -> tuple[Step, ...]:
        key = frozenset(others.items())
        if key not in self._replanned:
            self._replanned[key] = self.tables[head].best(self.costs.shipped(others))
        return self._replanned[key]


class Table:
    """All steps that one head can take, from each set of streams and each site.

    The sets T = S + {j} of one size make a level, with a row for each T and j. Costs are rounded to a grain
    far below `about`, the cost of a sequence: so sums are exact, and sequences that cost the same do so to
    the last bit in whatever order their steps are added up.
    """

    def __init__(self, costs: StepCosts, head: int, about: float) -> None:
        costs.problem.check_time()
        self.costs, self.head = costs, head
        m = len(costs.problem.at)
        others = [i for i in range(m) if i != head]
        self.joined = [np.array(list(combinations(others, size))) for size in range(1, m)]
        self.sets = [(1 << joined).sum(axis=1) | 1 << head for joined in self.joined]
        self.before = np.concatenate(
            [(t[:, None] ^ 1 << j).ravel() for t, j in zip(self.sets, self.joined, strict=True)]
        )
        streams = np.concatenate([joined.ravel() for joined in self.joined])
        self.steps = costs.steps(head, self.before.tolist(), streams.tolist())
        self.grain = 2.0 ** math.floor(math.log2(about)) * GRAIN if 0 < about < math.inf else 0.0
        self.delivery = self.rounded(costs.delivery(head))
        self.transitions = 0

    @cached_property
    def _to(self) -> list[Numbers]:
        """The rows that lead to each stream."""
        possible = self.steps.shared.any(axis=1)
        return [np.flatnonzero(possible & (self.steps.streams == i)) for i in range(len(self.costs.place))]

    @cached_property
    def _keys(self) -> dict[str, tuple[Numbers, str]]:
        """The rows that an operator of keys or filters may serve, and which it is, by its name."""
        found: dict[str, tuple[Numbers, str]] = {}
        for stream, rows in enumerate(self._to):
            kinds, kind = np.unique(self.steps.shared[rows], axis=0, return_inverse=True)
            for i, shared in enumerate(kinds):
                for form in _READ:
                    found[self.costs.keys(stream, shared, form)[0]] = rows[kind.ravel() == i], form
        return found

    def best(self, shipped: Shipped | None = None) -> tuple[Step, ...]:
        """The cheapest sequence if the shipments in `shipped` are free.

        Of equally cheap ones that with the first last site, then the first last stream, the first site
        before it, the first method, and so on towards the head.
        """
        self.costs.problem.check_time()
        cost = self._beside(shipped) if shipped else self.steps.cost
        stay, move = (self.rounded(reduce(np.minimum, (cost[i] for i in own))) for own in (_STAY, _MOVE))
        place, k = self.costs.place, len(self.costs.sites)
        known = np.full((1 << len(place), k), np.inf)
        known[1 << self.head, place[self.head]] = 0.0
        trace: list[tuple[Numbers, Numbers]] = []
        start = 0
        for sets, joined in zip(self.sets, self.joined, strict=True):
            rows, shape = slice(start, start := start + joined.size), (*joined.shape, k)
            before = known[self.before[rows]].reshape(shape)
            ways, moving = before + stay[rows].reshape(shape), before + move[rows].reshape(shape)
            # At the stream's own site no -S method is offered: there the result is by a -D method.
            np.put_along_axis(ways, place[joined][:, :, None], moving.min(axis=2, keepdims=True), axis=2)
            known[sets] = ways.min(axis=1)
            trace.append((ways.argmin(axis=1), moving.argmin(axis=2)))
        if shipped is None:
            self.transitions = int(np.isfinite(known[self.before] + cost).sum())
        ends = known[-1] + self.delivery
        if not np.isfinite(ends.min()):
            raise NotApplicableError(
                f"there is no path by which the tuples of {self.costs.problem.rates.aliases[self.head]} "
                "meet all other streams",
                remedy="add links to the catalog, or a links.default",
            )
        return self._traced(trace, int(ends.argmin()), cost)

    def _traced(self, trace: list[tuple[Numbers, Numbers]], site: int, cost: Floats) -> tuple[Step, ...]:
        """The steps that lead to all streams at a site, from the last to the first."""
        steps: list[Step] = []
        joined, end = (1 << len(self.costs.place)) - 1, len(self.before)
        for sets, streams, (slots, came) in zip(self.sets[::-1], self.joined[::-1], trace[::-1], strict=True):
            i = int(np.flatnonzero(sets == joined)[0])
            slot = int(slots[i, site])
            end -= streams.size
            row, stream = end + i * streams.shape[1] + slot, int(streams[i, slot])
            stays = site != self.costs.place[stream]
            site = site if stays else int(came[i, slot])
            offered = _STAY if stays else _MOVE
            steps.append(Step(stream, METHODS[offered[self.rounded(cost[offered, row, site]).argmin()]]))
            joined ^= 1 << stream
        return tuple(reversed(steps))

    def _beside(self, shipped: Shipped) -> Floats:
        """The costs of steps without shipments that are made anyway."""
        costs, streams, steps = self.costs, self.steps.streams, self.steps
        cost, work = steps.cost.copy(), steps.work
        first = np.flatnonzero((self.before == 1 << self.head) & steps.shared.any(axis=1))
        for edge in shipped.values():
            site = costs.ways.index[costs.problem.network.number[edge.target_site]]
            for stream in costs.twins.get(edge.source, ()):
                rows = self._to[stream]
                if edge.carries == TUPLES:
                    if costs.allowed[_SP_S]:
                        cost[_SP_S, rows, site] = work[_SP_S, rows]
                    if stream == self.head and costs.allowed[_SP_D]:
                        met = first[costs.place[streams[first]] == site]
                        cost[_SP_D, met, costs.place[stream]] = work[_SP_D, met]
            if edge.source in self._keys:
                rows, form = self._keys[edge.source]
                keys = np.asarray(steps.methods[_READ[form][0]].shipments[0].bytes_per_s)[rows]
                sizes = np.minimum(keys, edge.bytes_per_s)
                paid = least(costs.ways.back(costs.place[streams[rows]]), sizes)[:, site]
                for name in _READ[form]:
                    if name not in steps.methods:
                        continue
                    cost[METHODS.index(name), rows, site] -= paid
        return cost

    def rounded(self, costs: Floats) -> Floats:
        """Costs to a grain, a power of two; the lesser of two stays so."""
        return np.round(costs / self.grain) * self.grain if self.grain else costs
