"""Shared by the experiments of integrated (Seshadri, Kumar, Cooper and Liu 2009): workloads in order.

Queries come one after another, each with a sink of its own, and see what is deployed. The cost is network
usage: data rates times latencies, of all deployments together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from thalweg.catalog.model import Links
from thalweg.plan import operators as ops
from thalweg.plan.deployment import Deployment
from thalweg.plan.options import Objective, PlanOptions
from thalweg.planners.table import Session, planner
from thalweg.reproduce.outcome import Tell
from thalweg.workloads import transit_stub
from thalweg.workloads.synthetic import Workload

TOP_DOWN, BOTTOM_UP, NPC = "Top-Down", "Bottom-Up", "NPC"
IN_NETWORK, RELAXATION, OPTIMAL, TWO_PHASES = "In-network", "Relaxation", "optimal", "plan, then deploy"
PLANNERS: Mapping[str, str] = {
    TOP_DOWN: "top-down",
    BOTTOM_UP: "bottom-up",
    NPC: "npc",
    IN_NETWORK: "in-network",
    RELAXATION: "relaxation",
    OPTIMAL: "optimal",
    TWO_PHASES: "plan-then-deploy",
}
NODES = 128
MAX_CS = 32
"""Of figures 12 to 15."""

_POINTS = 0.10
POINTS = "within ten percentage points: workloads and networks are random"
"""The criterion for a stated share, and its reason."""


@dataclass
class Deployed:
    """What a planner made of a workload, query by query."""

    cost: list[float] = field(default_factory=list)
    searched: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    deployments: list[Deployment] = field(default_factory=list)

    @property
    def total(self) -> float:
        return sum(self.cost)

    @property
    def plans(self) -> int:
        return sum(self.searched)

    def count(self, kind: type[ops.Operator]) -> int:
        """The operators of a kind that were deployed for all queries together."""
        return sum(isinstance(o, kind) for d in self.deployments for o in d.operators)


def deploy(workload: Workload, name: str, max_cs: int = MAX_CS, *, reuse: bool = True) -> Deployed:
    """Deploys all queries by one planner; without reuse, each as if it were alone."""
    chosen = planner(PLANNERS[name])
    settings = {"width": "equal"} if _equal(workload) else {}
    if "max_cs" in chosen.settings:
        settings["max_cs"] = str(max_cs)
    options = PlanOptions(chosen.name, Objective.USAGE, None, settings)
    session = Session(workload.catalog, options)
    found = Deployed()
    for query, sink in zip(workload.queries, workload.sinks, strict=True):
        session = session if reuse else Session(workload.catalog, options)
        session.options = replace(options, deliver_to=sink)
        planned = session.deploy(query, chosen)
        found.cost.append(planned.marginal_cost)
        found.searched.append(planned.searched)
        found.seconds.append(planned.elapsed_ms / 1000)
        found.deployments.append(planned.deployment)
    return found


def _equal(workload: Workload) -> bool:
    """Whether all tuples count as 1: where the workload does not say how wide they are."""
    return all(stream.stats.bytes is None for stream in workload.catalog.streams.values())


def network(nodes: int, seed: int) -> Links:
    """The paper's kind of network."""
    return transit_stub.links(nodes, seed)


def runs(
    make: Callable[[int], Workload],
    names: Sequence[str],
    seeds: int,
    tell: Tell,
    sizes: Sequence[int] = (MAX_CS,),
) -> dict[tuple[str, int], list[Deployed]]:
    """Every planner with every cluster size, over the workloads of all seeds."""
    found: dict[tuple[str, int], list[Deployed]] = {}
    for seed in range(seeds):
        workload = make(seed)
        for size in sizes:
            for name in names:
                tell(f"seed {seed + 1} of {seeds}, {name}, clusters of {size}")
                found.setdefault((name, size), []).append(deploy(workload, name, size))
    return found


def totals(some: Sequence[Deployed]) -> np.ndarray:
    """The total cost of each seed."""
    return np.array([one.total for one in some])


def above(some: Sequence[Deployed], others: Sequence[Deployed]) -> float:
    """By which share one planner's costs are above another's, all seeds together."""
    return float(totals(some).sum() / totals(others).sum()) - 1


def more_plans(some: Sequence[Deployed], others: Sequence[Deployed]) -> float:
    """By which share it looks at more plans."""
    return sum(one.plans for one in some) / sum(one.plans for one in others) - 1


def near(measured: float, paper: float) -> bool:
    """Whether a share is about the paper's."""
    return abs(measured - paper) <= _POINTS


def cumulative(
    some: Sequence[Deployed], of: Callable[[Deployed], Sequence[float]]
) -> tuple[np.ndarray, np.ndarray]:
    """The mean over the seeds, and the deviation, of a sum over the queries so far."""
    sums = np.cumsum([list(of(one)) for one in some], axis=1)
    return sums.mean(axis=0), sums.std(axis=0)
