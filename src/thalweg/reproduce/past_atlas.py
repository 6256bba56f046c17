"""Past the papers: all planners on a real network, of round-trip times between RIPE Atlas anchors."""

from __future__ import annotations

import os
from collections.abc import Mapping
from copy import copy
from dataclasses import replace
from pathlib import Path

import numpy as np

from thalweg.cost.price import price
from thalweg.errors import UserError
from thalweg.plan.deployment import Deployment
from thalweg.plan.options import Objective, PlanOptions
from thalweg.planners.search.problem import NotApplicableError
from thalweg.planners.search.reuse import Deployed
from thalweg.planners.table import PLANNERS, Session, planner
from thalweg.reproduce.outcome import Bars, Claim, Outcome, Tell
from thalweg.reproduce.samples import Samples, scaled
from thalweg.workloads import measured
from thalweg.workloads.synthetic import Workload, workload

NAME = "past-atlas"
DATA = "THALWEG_ATLAS"
FILES = ("atlas-00h.csv.gz", "atlas-12h.csv.gz")
MIDNIGHT, NOON, KEPT = "at midnight", "at noon", "at noon by midnight's plan"
SEEDS, QUERIES, STREAMS = 3, 30, 20
NAMES = tuple(p.name for p in PLANNERS if p.name not in ("local", "auto") and "exhaustive" not in p.name)
TREES = tuple(p.name for p in PLANNERS if p.family == "tree" and p.name in NAMES)
SHARES = {"top-down": 0.10, "bottom-up": 0.34, "npc": 0.18}
"""How far above the optimum integrated's planners are, as integrated 4.4 says."""


def read() -> tuple[measured.Times, measured.Times, int]:
    """The times of both hours without sites whose times can't be right, and how many these are."""
    folder = os.environ.get(DATA)
    if not folder:
        raise UserError(
            "the round-trip times between RIPE Atlas anchors are not part of Thalweg",
            remedy=f"set {DATA} to the folder of {' and '.join(FILES)}; docs/reproduce.md says how to "
            "get them",
        )
    midnight, noon = (measured.read(Path(folder) / name) for name in FILES)
    if len(midnight.rtt_ms) != len(noon.rtt_ms):
        raise UserError("the files of the two hours have different sites", where=folder)
    wrong = midnight.shortcuts | noon.shortcuts
    return midnight.without(wrong), noon.without(wrong), int(wrong.sum())


def deployed(one: Workload, name: str, known: Session) -> tuple[float, list[Deployment]]:
    """What all queries cost, deployed one after another by a planner.

    `known` is a session on the same network, whose paths need not be found again.
    """
    chosen = planner(name)
    session = copy(known)
    session.deployed = Deployed()
    total, made = 0.0, []
    for query, sink in zip(one.queries, one.sinks, strict=True):
        session.options = replace(known.options, planner=name, deliver_to=sink)
        planned = session.deploy(query, chosen)
        total += planned.marginal_cost
        made.append(planned.deployment)
    return total, made


def run(scale: float, tell: Tell) -> Outcome:
    """The cost of each planner's plans at both hours."""
    *hours, left_out = read()
    seeds, queries = scaled(SEEDS, scale), scaled(QUERIES, scale, 5)
    count = scaled(len(hours[0].rtt_ms), scale, 30)
    found = {when: Samples() for when in (MIDNIGHT, NOON, KEPT)}
    refused: dict[str, str] = {}
    for seed in range(seeds):
        some = [hour.some(count, seed) for hour in hours]
        midnight, noon = (
            workload(len(times.rtt_ms), times.links(), seed, queries=queries, streams=STREAMS)
            for times in some
        )
        options = PlanOptions(objective=Objective.USAGE, settings={"width": "equal"})
        before, later = (Session(one.catalog, options) for one in (midnight, noon))
        for name in NAMES:
            if name in refused:
                continue
            tell(f"seed {seed + 1} of {seeds}, {name}")
            try:
                total, made = deployed(midnight, name, before)
                found[NOON].add(name, 0, deployed(noon, name, later)[0])
            except NotApplicableError as error:
                refused[name] = str(error).splitlines()[0]
                continue
            found[MIDNIGHT].add(name, 0, total)
            found[KEPT].add(name, 0, sum(price(d, later.network, later.model) for d in made))
    cost = {name: found[MIDNIGHT].mean(name, 0) for name in found[MIDNIGHT].plans}
    above = {name: cost[name] / cost["optimal"] - 1 for name in cost}
    trees = {name: above[name] for name in TREES if name in above}
    least = min(trees, key=lambda name: trees[name])
    stays = {name: found[KEPT].mean(name, 0) / found[NOON].mean(name, 0) - 1 for name in cost}
    detours, shorter = _detours(hours[0])
    return Outcome(
        NAME,
        "all planners on the network of RIPE Atlas anchors",
        (
            f"{count} of {len(hours[0].rtt_ms)} anchors all over the world, with the round-trip times "
            "between any two of them on 2023-07-02, as published with the NOVA placement study; a link has "
            f"half of that as its latency. Anchors left out: {left_out}; over each, more than "
            f"{measured.MANY:.0%} of all pairs would be twice as near. {queries} queries of 2 to 5 joins "
            f"over {STREAMS} streams at random anchors, random sinks, deployed one after another; {seeds} "
            "seeds. Cost is bytes in flight, all tuples counting 1.",
            f"Between {detours:.0%} of the pairs a path over other anchors is quicker than the direct one, "
            f"by {shorter:.0%} on average: far more than on the Internet, so many of the published times "
            "must be wrong. Plans of all planners take the quickest path.",
            *(f"{name}: {why}" for name, why in refused.items()),
        ),
        (
            Claim(
                "optimal costs the least of all planners of trees (criterion: within 1 percent: it is the "
                "optimum of each query, given those before it)",
                f"{least} costs the least, {trees[least]:+.1%}",
                trees[least] >= -0.01,
                "It takes no account of queries that come later.",
            ),
            *(
                Claim(
                    f"{name} is {paper:.0%} above the optimum (criterion: within ten percentage points, as "
                    "for integrated-fig12)",
                    f"{above[name]:+.0%}",
                    abs(above[name] - paper) <= 0.10,
                    "A real network has no transit domain through which all must go, and its clusters are "
                    "not as far from each other.",
                )
                for name, paper in SHARES.items()
            ),
            Claim(
                "the planners on a hierarchy cost less than in-network and relaxation (criterion: each of "
                "them)",
                _shares({n: above[n] for n in (*SHARES, "in-network", "relaxation")}),
                max(above[name] for name in SHARES) < min(above["in-network"], above["relaxation"]),
                "Positions in three dimensions tell distances between real sites well.",
            ),
            Claim(
                "midnight's plans still do at noon (criterion: optimal's cost at most 5 percent more than "
                "new plans)",
                f"optimal {stays['optimal']:+.1%}; by planner from {min(stays.values()):+.1%} to "
                f"{max(stays.values()):+.1%}",
                stays["optimal"] <= 0.05,
                "Some paths have changed much within twelve hours.",
            ),
        ),
        ("planner", *(f"{when}" for when in found), "above the optimum", "standard deviation", "seeds"),
        tuple(
            (
                name,
                *(some.mean(name, 0) for some in found.values()),
                above[name],
                found[MIDNIGHT].spread(name, 0),
                seeds,
            )
            for name in cost
        ),
        tuple(
            Bars(when, "bytes in flight, in tuples", {name: some.mean(name, 0) for name in some.plans})
            for when, some in found.items()
        ),
    )


def _detours(times: measured.Times) -> tuple[float, float]:
    """The share of all pairs for which a way over other sites is quicker, and by how much on average."""
    from scipy.sparse.csgraph import floyd_warshall

    direct = times.rtt_ms
    quickest = floyd_warshall(direct)
    apart = ~np.eye(len(direct), dtype=bool)
    quicker = apart & (quickest < direct * (1 - 1e-9))
    saved = 1 - quickest[quicker] / direct[quicker]
    return float(quicker.sum() / apart.sum()), float(saved.mean()) if len(saved) else 0.0


def _shares(numbers: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {number:+.0%}" for name, number in numbers.items())
