"""Simulates a plan by its rates alone: for thousands of sites, and for days.

Nothing waits here, and windows are as full as their rates make them. A stream that changes has its new rates
at once.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence

from thalweg.catalog.model import Catalog
from thalweg.cost.network import Network, Quickest
from thalweg.cost.objectives import MODELS
from thalweg.cost.price import price, shipments
from thalweg.errors import UserError
from thalweg.plan.deployment import TUPLES, Deployment
from thalweg.plan.document import Plan
from thalweg.plan.operators import Sink
from thalweg.plan.options import Objective, PlanOptions, Shipped
from thalweg.planners.search.reprice import repriced
from thalweg.planners.table import Session
from thalweg.query.model import Query
from thalweg.simulate.changes import Change, phases
from thalweg.simulate.outcome import Simulated, refuse_groups

MOST_TUPLES = 20_000_000
"""Tuples and tuple-hops beyond which a simulation tuple by tuple takes minutes."""
MOST_BATCHES = 200_000
"""The same for batches of sites."""


def too_large(plan: Plan, catalog: Catalog, seconds: float) -> bool:
    """Whether simulating a plan tuple by tuple would take long."""
    flows = [e.tuples_per_s for q in plan.queries for e in q.deployment.edges if e.carries == TUPLES]
    batches = len(plan.sites) * seconds / catalog.costs.interval_s
    return sum(flows) * seconds > MOST_TUPLES or batches > MOST_BATCHES


def simulate(
    queries: Sequence[Query],
    catalog: Catalog,
    plan: Plan,
    seconds: float,
    seed: int,
    changes: Sequence[Change] = (),
) -> Simulated:
    """The results, shipments and cost that the rates of each phase give."""
    results: dict[str, float] = defaultdict(float)
    tuples: dict[tuple[str, str], float] = defaultdict(float)
    payload: dict[tuple[str, str], float] = defaultdict(float)
    hops, assumed = 0.0, dict[str, None]()
    cost = [0.0] * max(1, math.ceil(seconds))
    quickest = Quickest(catalog)
    for low_us, high_us, known in phases(catalog, changes, round(1e6 * seconds)):
        low, high = low_us / 1e6, high_us / 1e6
        deployments = _deployments(queries, known, plan, assumed)
        model = MODELS[plan.objective]
        network = Network.of(known, model)
        a_second = sum(price(d, network, model) for d in deployments)
        for second in range(int(low), math.ceil(high)):
            cost[second] += a_second * (min(high, second + 1) - max(low, second))
        for query, deployment in zip(queries, deployments, strict=True):
            sinks = {o.id for o in deployment.operators if isinstance(o, Sink)}
            arriving = sum(e.tuples_per_s for e in deployment.edges if e.target in sinks)
            results[query.name] += arriving * (high - low)
            for edge in shipments(deployment):
                way = edge.source_site, edge.target_site
                tuples[way] += edge.tuples_per_s * (high - low)
                payload[way] += edge.bytes_per_s * (high - low)
                hops += edge.tuples_per_s * (high - low) * len(quickest.path(*way))
    return Simulated(
        "flows",
        seconds,
        seed,
        MODELS[plan.objective].unit,
        {name: round(n) for name, n in results.items()},
        tuple(Shipped(*way, round(n), round(payload[way]), 0) for way, n in sorted(tuples.items())),
        tuple(enumerate(cost)),
        round(hops),
        assumed=tuple(assumed),
    )


def _deployments(
    queries: Sequence[Query], known: Catalog, plan: Plan, assumed: dict[str, None]
) -> list[Deployment]:
    """The plan's deployments with the flows that some statistics give."""
    session = Session(known, PlanOptions(objective=Objective(plan.objective)))
    found = []
    for query, planned in zip(queries, plan.queries, strict=True):
        refuse_groups(query)
        if query.outer:
            raise UserError(
                f"query {query.name!r} has an outer join, which is simulated tuple by tuple only",
                remedy="leave --flows out, or simulate fewer seconds",
            )
        problem = session.problem(query)
        found.append(repriced(problem, planned.deployment))
        assumed.update(problem.rates.statistics.assumed)
    return found
