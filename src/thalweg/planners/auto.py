"""`auto`: the cheapest plan that the other planners find in the time allowed.

The exact planners come first where they can be expected to finish; then the heuristics that take any query.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

from thalweg.cost.price import price
from thalweg.errors import UserError
from thalweg.planners.search.problem import Found, NotApplicableError, Problem
from thalweg.planners.table import planner

_SPLIT_S, _SPLIT_NODE_S, _SET_S, _SET_NODE_S = 3e-7, 1e-8, 3e-5, 4e-7
"""The approximate seconds of the recurrence for a split and for a set, and for each node in either."""


def plan(problem: Problem) -> Found:
    """Tries planners until the time is up; the cheapest deployment wins, the first of equals."""
    end = time.perf_counter() + _seconds(problem)
    best: Found | None = None
    least, searched = float("inf"), 0
    for name, expected_s in _candidates(problem):
        if best is not None and time.perf_counter() + expected_s > end:
            continue
        try:
            found = planner(name).plan(problem)
        except NotApplicableError:
            continue
        searched += found.searched
        cost = price(found.deployment, problem.network, problem.model)
        if cost < least * (1 - 1e-9):
            best, least = replace(found, planner=name), cost
    if best is None:
        raise NotApplicableError(
            "no planner found a way for the streams to meet", remedy="give it more time with --set seconds=10"
        )
    return replace(best, searched=searched)


def _candidates(problem: Problem) -> Iterator[tuple[str, float]]:
    """Planners in the order in which they are tried, with the seconds each may take."""
    streams, nodes = len(problem.at), len(problem.network.sites)
    if len({*problem.at, *([problem.target] if problem.target is not None else [])}) == 1:
        yield "local", 0.0
        if not problem.model.work:
            return  # nothing is shipped, so there is nothing to decide
    from thalweg.planners import optimal  # not before: what arises at one site needs only `local`

    exact_s = clusters_s = float("inf")
    if streams <= optimal.MOST:
        splits, sets = 3**streams / 2, 2**streams
        splits_s = splits * _SPLIT_S + sets * _SET_S
        exact_s = splits_s + (splits * _SPLIT_NODE_S + sets * _SET_NODE_S) * nodes
        exact_s *= 1 + optimal.tries(problem)
        clusters_s = splits_s + nodes * 1e-3
    if exact_s > 0.2:  # a first plan at once, in case there is no time for the exact one
        yield "streamjoinopt", 0.0
    yield "optimal", exact_s
    if any(one.values for one in problem.rates.classes):
        yield "pmjoin-optimal", exact_s * problem.number("partitions", 16)
        yield "pmjoin", 0.0
    yield "linear-optimal", streams * 2.0 ** min(streams, 1000) * 1e-4
    if exact_s <= 0.2:
        yield "streamjoinopt", 0.0
    yield "semijoin-greedy", streams**3 * 1e-4
    yield "top-down", clusters_s
    yield "simple", 0.0


def _seconds(problem: Problem) -> float:
    text = problem.settings.get("seconds", "1")
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise UserError(f"setting 'seconds' can't be {text!r}", remedy="it is a number of seconds, such as 1")
    return seconds
