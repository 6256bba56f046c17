"""`local`: all joins at the one site where all streams arise.

Nothing is shipped, so there is nothing to search. Streams that are equal in one attribute meet in one N-way
join. A query with several such attributes is a tree: the result of one join and the streams that are still
missing meet in the next.
"""

from __future__ import annotations

from thalweg.planners.search.problem import Found, NotApplicableError, Problem
from thalweg.planners.search.tree import Join, Leaf, Tree, deploy


def plan(problem: Problem) -> Found:
    """One N-way join for each class of equal attributes, all at the streams' site."""
    sites = sorted(set(problem.rates.sites))
    if len(sites) > 1:
        raise NotApplicableError(
            f"local needs all streams at one site, and these are at {', '.join(sites)}",
            remedy="auto plans across sites",
        )
    tree: Tree | None = None
    joined: set[str] = set()
    aliases = problem.query.aliases
    for members in _in_reach(problem):
        inputs = [Leaf(i) for i, a in enumerate(aliases) if a in members and a not in joined]
        if inputs:  # otherwise it is an equality among streams that have met already
            tree = Join((*([tree] if tree else []), *inputs), problem.at[0])
            joined |= members
    assert tree is not None
    return Found(deploy(problem, tree), 1)


def _in_reach(problem: Problem) -> list[set[str]]:
    """The classes of equal attributes in an order in which each shares a stream with those before it."""
    waiting = [set(members) for members in problem.rates.keys]
    reached, order = {problem.query.aliases[0]}, []
    while waiting:
        members = next((m for m in waiting if reached & m), waiting[0])
        waiting.remove(members)
        reached |= members
        order.append(members)
    return order
