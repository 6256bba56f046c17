"""Past the papers: cost, planning time and messages of every planner from ten sites to ten thousand."""

from __future__ import annotations

import numpy as np

from thalweg.planners.search.problem import NotApplicableError
from thalweg.planners.table import PLANNERS
from thalweg.reproduce.outcome import Claim, Outcome, Tell
from thalweg.reproduce.past_growth import HIERARCHY, MAX_CS, NAMES, STUB, network_of, plan, session_of
from thalweg.reproduce.samples import Samples, scaled

TREES = tuple(p.name for p in PLANNERS if p.family == "tree" and p.name in NAMES)
SITES = (10, 100, 1_000, 10_000)
EACH, SEEDS = 4, 2
LONGEST_S = 10.0
"""A planner that takes longer for a query is not asked about larger networks."""


def run(scale: float, tell: Tell) -> Outcome:
    """From ten sites to ten thousand; each query is planned as if it were alone."""
    counts = SITES if scale >= 0.5 else SITES[:3] if scale >= 0.1 else SITES[:2]
    seeds = scaled(SEEDS, scale)
    cost, seconds, sent, apart = Samples(), Samples(), Samples(), Samples()
    stopped: dict[str, str] = {}
    for n in counts:
        for seed in range(seeds):
            one = network_of(n, seed, EACH)
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
            f"ten streams, random sinks, each planned alone; {seeds} seeds. Cost is bytes in flight, all "
            "tuples counting 1.",
            f"Planning is CPU time. Clusters of {MAX_CS} sites. The planners on a hierarchy ask "
            "coordinators, and advertise what they deploy; all others are asked at one site, which must "
            "know the whole network, and start operators from there.",
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
                f"{many:,} sites by 20 at most)",
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
