"""Past the papers: cost, planning time and messages of each planner as sites and queries become many.

Time is CPU time of this process, so that other work on the machine hardly counts. The planners on a hierarchy
send the messages of integrated's prototype (`integrated_messages`). All others plan at one site that knows
the network: the query goes there, and each operator is started from there.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from thalweg.cost.price import price
from thalweg.plan import operators as ops
from thalweg.plan.options import Objective, PlanOptions
from thalweg.planners.search.hierarchy import Hierarchy
from thalweg.planners.search.problem import Found, NotApplicableError, Problem
from thalweg.planners.table import PLANNERS, Session, planner
from thalweg.reproduce.integrated_messages import deployed
from thalweg.reproduce.outcome import Claim, Curve, Outcome, Panel, Tell
from thalweg.reproduce.samples import Samples, scaled
from thalweg.workloads import transit_stub
from thalweg.workloads.synthetic import Workload, workload

NAMES = tuple(p.name for p in PLANNERS if p.name not in ("local", "auto"))
"""`local` needs all streams at one site; `auto` asks the others for as long as it may."""
HIERARCHY = ("top-down", "bottom-up", "npc")
REUSING = (
    *("top-down", "bottom-up", "npc", "optimal", "pmjoin-optimal"),
    *("plan-then-deploy", "in-network", "relaxation"),
)
TREES = tuple(p.name for p in PLANNERS if p.family == "tree" and p.name in NAMES)
MAX_CS = 32
SITES = (10, 100, 1_000, 10_000)
STUB = 8
"""Nodes of a stub domain, as in integrated 4.1."""
EACH, SEEDS = 4, 2
LONGEST_S = 10.0
"""A planner that takes longer for a query is not asked about larger networks."""
NODES = 128
QUERIES = (1, 10, 100, 1_000)
STREAMS = 20
PATIENCE_S = 60.0
"""A planner that takes longer for all queries so far gets no further ones."""


@dataclass(frozen=True)
class Planned:
    """One query: what its plan costs, CPU seconds to find it, and messages until it runs."""

    cost: float
    seconds: float
    messages: int


def network_of(nodes: int, seed: int) -> Workload:
    """Streams and queries on a transit-stub network whose stub domains have eight nodes."""
    stubs = max(1, round((nodes - transit_stub.TRANSIT) / (transit_stub.TRANSIT * STUB)))
    return workload(nodes, transit_stub.links(nodes, seed, stubs=stubs), seed, queries=EACH)


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


def sites(scale: float, tell: Tell) -> Outcome:
    """From ten sites to ten thousand; each query is planned as if it were alone."""
    counts = SITES if scale >= 0.5 else SITES[:3] if scale >= 0.1 else SITES[:2]
    seeds = scaled(SEEDS, scale)
    cost, seconds, sent, apart = Samples(), Samples(), Samples(), Samples()
    stopped: dict[str, str] = {}
    for n in counts:
        for seed in range(seeds):
            one = network_of(n, seed)
            best: dict[int, float] = {}
            for name in sorted(NAMES, key=lambda name: name != "optimal"):
                if name in stopped:
                    continue
                tell(f"{n:,} sites, seed {seed + 1} of {seeds}, {name}")
                try:
                    if n == counts[0] and seed == 0:  # what is loaded by the first call is not planning
                        plan(session_of(one, name, 0), name, 0, one)
                    made = [plan(session_of(one, name, i), name, i, one) for i in range(EACH)]
                except NotApplicableError as error:
                    stopped[name] = f"at {n:,} sites: {str(error).splitlines()[0]}"
                    continue
                if name == "optimal":
                    best = {i: p.cost for i, p in enumerate(made)}
                cost.add(name, n, float(np.mean([p.cost for p in made])))
                seconds.add(name, n, float(np.mean([p.seconds for p in made])))
                sent.add(name, n, float(np.mean([p.messages for p in made])))
                apart.add(name, n, float(np.mean([p.cost / best[i] for i, p in enumerate(made)])))
        for name in NAMES:
            if name not in stopped and seconds.mean(name, n) > LONGEST_S and n != counts[-1]:
                stopped[name] = f"beyond {n:,} sites: it takes {seconds.mean(name, n):.0f} s for a query"
    few, many = counts[0], counts[-1]
    there = [name for name in NAMES if many in cost.values.get(name, {})]
    heuristics = [name for name in TREES if name in there and name not in ("optimal", "exhaustive")]
    worst = min(
        (apart.mean(name, n), name) for name in TREES if name in apart.values for n in apart.points(name)
    )
    best_one = {n: min((apart.mean(name, n), name) for name in heuristics) for n in counts}
    slowest = max((seconds.mean(name, many), name) for name in there)
    grown = seconds.mean("optimal", many) / seconds.mean("optimal", counts[-2])
    hierarchy = {name: sent.mean(name, many) / sent.mean(name, few) for name in HIERARCHY if name in there}
    return Outcome(
        "past-sites",
        "every planner as the network grows",
        (
            f"Transit-stub networks with stub domains of {STUB} nodes; {EACH} queries of 2 to 5 joins over "
            "ten "
            f"streams, random sinks, each planned alone; {seeds} seeds. Cost is bytes in flight, all "
            "tuples counting 1.",
            f"Planning is CPU time. Clusters of {MAX_CS} sites. The planners on a hierarchy ask "
            "coordinators, "
            "and advertise what they deploy; all others are asked at one site, which must know the whole "
            "network, and start operators from there.",
            *(f"{name}, {why}" for name, why in stopped.items()),
        ),
        (
            Claim(
                "optimal costs no more than any other planner of trees (criterion: at each size, to nine "
                "digits)",
                f"the least is {worst[0]:.6f} times ({worst[1]})",
                worst[0] >= 1 - 1e-9,
            ),
            Claim(
                "the best heuristic stays within 10 percent of the optimum at every size (criterion: the "
                "paper's distance of Top-Down)",
                "; ".join(f"{n:,}: {name} {ratio - 1:+.1%}" for n, (ratio, name) in best_one.items()),
                all(ratio <= 1.10 for ratio, _ in best_one.values()),
                "Clusters hide the network from each other, and the other heuristics plan by rates alone.",
            ),
            Claim(
                f"every planner that takes {many:,} sites plans a query within ten seconds (criterion: ours)",
                f"{slowest[1]} takes {slowest[0]:.1f} s; optimal {seconds.mean('optimal', many):.2f} s",
                slowest[0] <= LONGEST_S,
                "It looks at all sites again and again, or builds a hierarchy of all of them.",
            ),
            Claim(
                f"the time of optimal grows about as the sites do (criterion: from {counts[-2]:,} to "
                f"{many:,} "
                "sites by 20 at most)",
                f"{grown:.1f} times",
                grown <= 20,
            ),
            Claim(
                "the messages of planners on a hierarchy grow with its height only (criterion: at most by 4, "
                f"as a hierarchy of {many:,} sites has at most four levels)",
                ", ".join(f"{name} {times:.1f} times" for name, times in hierarchy.items()),
                max(hierarchy.values()) <= 4,
                "In the smallest network all coordinators are one site, and most messages stay there.",
            ),
        ),
        (
            "planner",
            "sites",
            "cost",
            "standard deviation",
            "to the optimum",
            "planning, s",
            "messages",
            "seeds",
        ),
        tuple(
            (
                name,
                n,
                mean,
                spread,
                apart.mean(str(name), float(n)),
                seconds.mean(str(name), float(n)),
                sent.mean(str(name), float(n)),
                number,
            )
            for name, n, mean, spread, number in cost.rows()
        ),
        (
            apart.panel("cost", "sites", "cost by that of the optimum", "x"),
            seconds.panel("planning", "sites", "CPU seconds a query", "xy"),
            sent.panel("messages", "sites", "messages a query", "x"),
        ),
    )


def queries(scale: float, tell: Tell) -> Outcome:
    """From one query to a thousand, deployed one after another on one network."""
    most = scaled(QUERIES[-1], scale, 20)
    marks = [n for n in QUERIES if n <= most]
    links = transit_stub.links(NODES, 1)
    one = workload(NODES, links, 1, queries=most, streams=STREAMS)
    found: dict[str, list[Planned]] = {}
    for name in (name for name in NAMES if "exhaustive" not in name):
        tell(f"{name}, {most:,} queries")
        found[name] = _deployed(one, name, most)
    done = {name: own for name, own in found.items() if len(own) >= marks[-1]}
    reusing = [name for name in REUSING if name in done]
    tenth = max(1, marks[-1] // 10)
    share = {
        name: _mean(own[-tenth:], "cost") / _mean(found["simple"][len(own) - tenth : len(own)], "cost")
        for name, own in done.items()
    }
    first = {
        name: _mean(own[:tenth], "cost") / _mean(found["simple"][:tenth], "cost")
        for name, own in done.items()
    }
    slower = {
        name: _mean(own[-tenth:], "seconds") / _mean(own[tenth : 2 * tenth], "seconds")
        for name, own in done.items()
    }
    totals = {name: sum(p.cost for p in own[: marks[-1]]) for name, own in done.items()}
    least = min(totals, key=lambda name: totals[name])
    early = [name for name in found if name not in done]
    return Outcome(
        "past-queries",
        "every planner as queries become many",
        (
            f"A transit-stub network of {NODES} nodes; up to {most:,} queries of 2 to 5 joins over {STREAMS} "
            "streams, random sinks, deployed one after another. Cost is bytes in flight that a query adds, "
            f"all tuples counting 1. {', '.join(reusing)} reuse what is deployed; the others plan each "
            "query alone.",
            f"Planning is CPU time; a planner gets no further queries after {PATIENCE_S:g} seconds"
            + (f": {', '.join(f'{name} {len(found[name])}' for name in early)}." if early else "."),
            "One seed: the spread is over queries. The exhaustive planners are left out: they refuse "
            "queries of "
            "so many streams.",
        ),
        (
            Claim(
                "with reuse, late queries add less than early ones (criterion: the last tenth of them less "
                "than half of the first tenth, both by what simple, which never reuses, costs for them)",
                ", ".join(f"{name} {share[name] / first[name]:.2f} times" for name in reusing),
                all(share[name] < first[name] / 2 for name in reusing),
                "A query can only reuse what joins the same streams by the same attributes. The planners in "
                "two phases reuse only what is a part of their tree.",
            ),
            Claim(
                "planning does not become slower with what is deployed (criterion: the last tenth of the "
                "queries takes at most twice the time of the second tenth)",
                ", ".join(f"{name} {times:.1f} times" for name, times in slower.items()),
                max(slower.values()) <= 2,
                "What could be reused grows with the queries, and is looked through for each.",
            ),
            Claim(
                "the optimum of each query, given those before it, is the cheapest for all of them "
                "(criterion: "
                "within 1 percent)",
                f"{least} costs the least; optimal {totals['optimal'] / totals[least]:.3f} times as much"
                if "optimal" in totals
                else "optimal did not get through",
                "optimal" in totals and totals["optimal"] <= 1.01 * totals[least],
                "It takes no account of queries that come later.",
            ),
        ),
        (
            "planner",
            "queries",
            "cost a query",
            "standard deviation",
            "planning, s a query",
            "messages a query",
        ),
        tuple(
            (
                name,
                n,
                _mean(own[:n], "cost"),
                float(np.std([p.cost for p in own[:n]])),
                _mean(own[:n], "seconds"),
                _mean(own[:n], "messages"),
            )
            for name, own in found.items()
            for n in marks
            if len(own) >= n
        ),
        (
            _panel("cost", "bytes in flight a query", found, "cost"),
            _panel("planning", "CPU seconds a query", found, "seconds", "xy"),
            _panel("messages", "messages a query", found, "messages"),
        ),
    )


def _deployed(one: Workload, name: str, most: int) -> list[Planned]:
    """The queries one after another, until all are deployed or patience is over."""
    plan(session_of(one, name, 0), name, 0, one)  # what is loaded by the first call is not planning
    session, made, spent = session_of(one, name, 0), [], 0.0
    for number in range(most):
        session.options = replace(session.options, deliver_to=one.sinks[number])
        made.append(plan(session, name, number, one))
        spent += made[-1].seconds
        if spent > PATIENCE_S:
            break
    return made


def _panel(title: str, label: str, found: dict[str, list[Planned]], what: str, log: str = "x") -> Panel:
    curves = []
    for name, own in found.items():
        at = np.unique(np.round(np.geomspace(1, len(own), 12)).astype(int))
        means = np.array([_mean(own[:n], what) for n in at])
        curves.append(Curve(name, at.astype(float), means))
    return Panel(title, "queries", tuple(curves), y_label=label, log=log)


def _mean(some: Sequence[Planned], what: str) -> float:
    return float(np.mean([getattr(p, what) for p in some]))
