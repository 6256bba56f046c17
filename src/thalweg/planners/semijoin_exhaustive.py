"""`semijoin-exhaustive`: for each head all orders by all methods (semijoin 4.1).

`linear-optimal` finds the same plans faster. This one is for small queries, and checks the other.
"""

from __future__ import annotations

import math

from thalweg.cost.methods import at_source
from thalweg.plan.one_way import METHODS
from thalweg.planners.linear_optimal import Family, Table
from thalweg.planners.search.problem import Found, NotApplicableError, Problem
from thalweg.planners.search.sequences import Step, as_found

MOST = 2_000_000
"""Sequences beyond which it takes too long."""

_Key = tuple[float, int, tuple[tuple[int, int, int], ...]]


def plan(problem: Problem) -> Found:
    """The cheapest sequences of simple joins and semijoins."""
    m = len(problem.rates.aliases)
    if (count := m * math.factorial(m - 1) * len(METHODS) ** (m - 1)) > MOST:
        raise NotApplicableError(
            f"semijoin-exhaustive would look at {count:,} sequences, and more than {MOST:,} take too long",
            remedy="linear-optimal finds the same plan",
        )
    family = Family(problem)
    searches = {table.head: _Search(table) for table in family.tables}
    additive = {head: search.best() for head, search in searches.items()}
    return as_found(family.costs, family.shared(additive), sum(s.searched for s in searches.values()))


class _Search:
    """Looks at every sequence of one head."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.place = table.costs.place.tolist()
        costs = table.rounded(table.steps.cost).transpose(1, 0, 2).tolist()
        ends = zip(table.before.tolist(), table.steps.streams.tolist(), costs, strict=True)
        self.nexts: dict[int, list[tuple[int, list[list[float]]]]] = {}
        for joined, stream, cost in ends:
            self.nexts.setdefault(joined, []).append((stream, cost))
        self.delivery = table.delivery.tolist()
        self.found: _Key | None = None
        self.searched = 0

    def best(self) -> tuple[Step, ...]:
        """The cheapest sequence; of equally cheap ones the same as `Table.best` takes."""
        self._extend(1 << self.table.head, self.place[self.table.head], 0.0, ())
        if self.found is None:
            return self.table.best()  # which says that there is none
        return tuple(Step(stream, METHODS[method]) for stream, _, method in reversed(self.found[2]))

    def _extend(self, joined: int, site: int, cost: float, steps: tuple[tuple[int, int, int], ...]) -> None:
        """Goes through all that can follow; the last step comes first in `steps`."""
        if joined not in self.nexts:
            self.searched += 1
            self.table.costs.problem.check_time()
            key = (cost + self.delivery[site], site, steps)
            if key[0] < math.inf and (self.found is None or key < self.found):
                self.found = key
            return
        for stream, by_method in self.nexts[joined]:
            for method, by_site in enumerate(by_method):
                if (step := by_site[site]) < math.inf:
                    after = site if at_source(METHODS[method]) else self.place[stream]
                    self._extend(joined | 1 << stream, after, cost + step, ((stream, site, method), *steps))
