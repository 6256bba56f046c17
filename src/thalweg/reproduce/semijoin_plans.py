"""semijoin, tables 2 and 3 with figure 8: plans of Algorithm 10 beside those of an exhaustive search.

The paper measures how long plans take; what its searches compare are the formulas of appendix B. These are
compared here, without the noise of a clock. The paper has one join attribute (2.1). Equalities of one
attribute follow from each other, so a join graph then only says which stream may come next: that is how
Algorithm 10 reads it. This gives the paper's ratios for the larger graphs; with an attribute for each
equality, results soon vanish in a graph with many of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

import numpy as np

from thalweg.catalog.model import Link
from thalweg.planners.linear_greedy import greedy
from thalweg.planners.linear_optimal import Family, Table
from thalweg.planners.search.problem import Problem
from thalweg.planners.search.sequences import Plan, StepCosts, Steps
from thalweg.reproduce.outcome import Tell
from thalweg.reproduce.samples import scaled
from thalweg.reproduce.semijoin import (
    ATTRIBUTE_BYTES,
    INTERVAL_MS,
    KBPS,
    LATENCY_MS,
    SIX,
    Side,
    catalog,
    problem,
    query,
)
from thalweg.workloads.queries import GRAPHS, pairs

STREAMS, QUERIES, SEEDS = 4, 100, 5
ATTRIBUTES = (10, 50, 100, 150, 200)
DISTINCT = tuple(round(1 / factor) for factor in (0.02, 0.04, 0.06, 0.08, 0.1))
RATES = (10.0, 50.0, 100.0, 150.0, 200.0)
WINDOWS_MS = (400.0, 800.0, 1200.0, 1600.0, 2000.0)

PRINTED, DEARER, APART, DEPLOYED = (
    "appendix B",
    "work ten times as dear",
    "an attribute for each equality",
    "the same, as deployed",
)
"""The paper's formulas; with other prices; with another reading; and where all heads share what they ship."""
WAYS = (PRINTED, DEARER, APART, DEPLOYED)


@dataclass(eq=False)
class Along(StepCosts):
    """Steps to streams to which an edge of a join graph leads."""

    edges: Sequence[tuple[int, int]] = ()

    def leads(self, mask: int, stream: int) -> bool:
        """Whether an edge leads from a set of streams to another one."""
        return any((mask >> a & 1 and b == stream) or (mask >> b & 1 and a == stream) for a, b in self.edges)

    def nexts(self, mask: int) -> list[int]:
        return [stream for stream in super().nexts(mask) if self.leads(mask, stream)]

    def steps(self, head: int, masks: Sequence[int], streams: Sequence[int]) -> Steps:
        every = super().steps(head, masks, streams)
        led = np.array([self.leads(mask, stream) for mask, stream in zip(masks, streams, strict=True)])
        return Steps(self, every.streams, every.shared & led[:, None], every.methods)


def graph_problem(
    graph: str, sides: Sequence[Side], formulas: str = "printed", *, apart: bool = False, times: float = 1.0
) -> Problem:
    """Streams at nodes of their own, joined along a graph by the paper's methods.

    `apart`: each edge has an attribute of its own, else all are of one. `times`: how many times as much as
    usual work costs.
    """
    edges = pairs(graph, len(sides))
    names = [f"k{n}" if apart else "j" for n in range(len(edges))]
    joins = [(f"s{a}", name, f"s{b}", name) for name, (a, b) in zip(names, edges, strict=True)]
    link = Link(latency_ms=LATENCY_MS, mbps=KBPS / 1000)
    known = catalog(sides, list(dict.fromkeys(names)), link, INTERVAL_MS, times)
    return problem(known, query(joins, sides), formulas=formulas, methods=",".join(SIX))


def along(graph: str, one: Problem) -> StepCosts:
    """The costs of steps along a graph."""
    return Along(one, edges=pairs(graph, len(one.at)))


def greedy_plan(costs: StepCosts) -> Plan:
    """Algorithm 10."""
    return greedy(costs, SIX)[0]


def cheapest(costs: StepCosts, about: Plan) -> Plan:
    """The cheapest sequence of each head; `about` is a plan that costs about as much."""
    return {head: Table(costs, head, costs.additive(head, steps)).best() for head, steps in about.items()}


def added_up(costs: StepCosts, plan: Plan) -> float:
    """The paper's cost of a plan: of all steps of all heads, eq. 1."""
    return sum(costs.additive(head, steps) for head, steps in plan.items())


def ratio(costs: StepCosts) -> float:
    """T_G / T_E."""
    found = greedy_plan(costs)
    return added_up(costs, found) / added_up(costs, cheapest(costs, found))


def deployed_ratio(one: Problem) -> float:
    """The same where a shipment that several heads need is made once, and planned so."""
    family = Family(one)
    best = family.shared({table.head: table.best() for table in family.tables})
    return family.costs.price(greedy_plan(family.costs)) / family.costs.price(best)


def random_sides(rng: np.random.Generator) -> list[Side]:
    """Streams with parameters picked from table 2."""
    return [
        Side(
            rate=float(rng.choice(RATES)),
            bytes=float(ATTRIBUTE_BYTES * rng.choice(ATTRIBUTES)),
            distinct=int(rng.choice(DISTINCT)),
            window_ms=float(rng.choice(WINDOWS_MS)),
        )
        for _ in range(STREAMS)
    ]


@dataclass
class Ratios:
    """All ratios, by graph and by what they are of; a list for each seed."""

    by: dict[tuple[str, str], list[list[float]]] = field(default_factory=dict)

    def all(self, graph: str, way: str = PRINTED) -> np.ndarray:
        return np.concatenate([np.array(own) for own in self.by[graph, way]])

    def spread(self, graph: str, way: str) -> float:
        """The standard deviation of the mean over the seeds."""
        return float(np.std([np.mean(own) for own in self.by[graph, way]]))


def measured(scale: float, tell: Tell) -> Ratios:
    """The ratios for random queries over each graph."""
    found = Ratios()
    queries, seeds = scaled(QUERIES, min(1.0, scale * SEEDS), 4), scaled(SEEDS, scale)
    for seed in range(seeds):
        for graph in GRAPHS:
            tell(f"seed {seed + 1} of {seeds}, {graph}")
            for way, ratios in _ratios(graph, seed, queries).items():
                found.by.setdefault((graph, way), []).append(ratios)
    return found


@cache
def _ratios(graph: str, seed: int, queries: int) -> Mapping[str, list[float]]:
    """Those of some random queries: table 3 and figure 8 are of the same."""
    rng = np.random.default_rng([7, seed, GRAPHS.index(graph)])
    own: dict[str, list[float]] = {way: [] for way in WAYS}
    for _ in range(queries):
        sides = random_sides(rng)
        own[PRINTED].append(ratio(along(graph, graph_problem(graph, sides))))
        own[DEARER].append(ratio(along(graph, graph_problem(graph, sides, times=10.0))))
        own[APART].append(ratio(StepCosts(graph_problem(graph, sides, apart=True))))
        own[DEPLOYED].append(deployed_ratio(graph_problem(graph, sides, "own", apart=True)))
    return own
