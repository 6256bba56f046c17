"""Past the papers: a query planned by any planner, with its cost, its planning time and its messages.

Time is CPU time of this process, so that other work on the machine hardly counts. The planners on a hierarchy
send the messages of integrated's prototype (`integrated_messages`). All others plan at one site that knows
the network: the query goes there, and each operator is started from there.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from thalweg.cost.price import price
from thalweg.plan import operators as ops
from thalweg.plan.options import Objective, PlanOptions
from thalweg.planners.search.hierarchy import Hierarchy
from thalweg.planners.search.problem import Found, Problem
from thalweg.planners.table import PLANNERS, Session, planner
from thalweg.reproduce.integrated_messages import deployed
from thalweg.workloads import transit_stub
from thalweg.workloads.synthetic import Workload, workload

NAMES = tuple(p.name for p in PLANNERS if p.name not in ("local", "auto"))
"""`local` needs all streams at one site; `auto` asks the others for as long as it may."""
HIERARCHY = ("top-down", "bottom-up", "npc")
MAX_CS = 32
STUB = 8
"""Nodes of a stub domain, as in integrated 4.1."""


@dataclass(frozen=True)
class Planned:
    """One query: what its plan costs, CPU seconds to find it, and messages until it runs."""

    cost: float
    seconds: float
    messages: int


def network_of(nodes: int, seed: int, queries: int) -> Workload:
    """Streams and queries on a transit-stub network whose stub domains have eight nodes."""
    stubs = max(1, round((nodes - transit_stub.TRANSIT) / (transit_stub.TRANSIT * STUB)))
    return workload(nodes, transit_stub.links(nodes, seed, stubs=stubs), seed, queries=queries)


def plan(session: Session, name: str, number: int, one: Workload) -> Planned:
    """Deploys a query of a workload; what is deployed may be reused."""
    chosen = planner(name)
    solve = chosen.plan
    begun = time.process_time()
    problem = session.problem(one.queries[number])
    found = solve(problem)
    seconds = time.process_time() - begun
    cost = price(found.deployment, session.network, session.model)
    session.deployed.add(problem.query, found.deployment, problem.rates)
    return Planned(cost, seconds, messages(name, problem, found))


def messages(name: str, problem: Problem, found: Found) -> int:
    """The messages until all operators of a query run, and others can reuse them."""
    if name in HIERARCHY:
        sent = deployed(problem, found, Hierarchy.of(problem, MAX_CS))
        return sent.messages + sent.advertisements
    centre = problem.network.sites[0]
    started = [o for o in found.deployment.operators if not isinstance(o, ops.Source | ops.Sink | ops.Reuse)]
    asked = problem.deliver_to != centre
    return int(asked) + sum(o.site != centre for o in started)


def session_of(one: Workload, name: str, number: int) -> Session:
    """A session in which nothing is deployed, for a query and its sink."""
    settings = {"width": "equal"}
    if name in HIERARCHY:
        settings["max_cs"] = str(MAX_CS)
    return Session(one.catalog, PlanOptions(name, Objective.USAGE, one.sinks[number], settings))
