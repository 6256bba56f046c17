"""`bottom-up`: from the sink's cluster upwards, each level joins its available streams (integrated 3.3).

The streams that are available in the sink's cluster and connected by equalities are joined there. Their
result replaces them at the next level, where more streams are available, and so on until all are. A level
plans on its representatives; `top-down`'s planning then finds the real sites.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from thalweg.cost.rates import Rates
from thalweg.planners.exhaustive import Option
from thalweg.planners.search.hierarchy import Hierarchy
from thalweg.planners.search.problem import Found, Problem
from thalweg.planners.search.tree import Reused
from thalweg.planners.top_down import Unit, View, Views


def plan(problem: Problem) -> Found:
    """Joins the available streams at each level."""
    return climb(problem, lambda stage: True)


@dataclass(frozen=True, eq=False)
class Stage:
    """A level of the way up where not all streams are in sight: what is (V_local) and what is not (V_remote).

    `groups` are those units in sight that can be joined without a cross product.
    """

    views: Views
    level: int
    sink: int
    groups: Sequence[Sequence[Unit]]
    remote: int

    @cached_property
    def searched(self) -> list[View]:
        """The joins of the groups, each to be had at the cluster's coordinator."""
        consumer = self.views.hierarchy.coordinator(self.level, self.sink)
        return [self.views.search(self.level, self.sink, group, consumer) for group in self.groups]


def climb(problem: Problem, joins_now: Callable[[Stage], bool]) -> Found:
    """Goes up from the sink's cluster; where `joins_now` says no, the streams go up as they are."""
    views = Views.of(problem)
    hierarchy, sink = views.hierarchy, _sink(problem)
    waiting = views.streams()
    for level in range(1, hierarchy.height + 1):
        waiting = _with_derived(views, level, sink, waiting)
        local = [u for unit in waiting if (u := _in_sight(hierarchy, level, sink, unit)).options]
        known = {u.mask for u in local}
        remote = [unit for unit in waiting if unit.mask not in known]
        if not remote:
            return views.found(views.planned(level, sink, local, problem.target))
        groups = [g for g in _hanging_together(problem.rates, local) if len(g) > 1]
        stage = Stage(views, level, sink, groups, sum(u.mask for u in remote))
        if groups and joins_now(stage):
            joined = [views.settled(view) for view in stage.searched]
            done = sum(u.mask for u in joined)
            waiting = [*joined, *(u for u in waiting if not u.mask & done)]
    raise AssertionError("the top level has all streams in sight")


def _sink(problem: Problem) -> int:
    """Where the query is registered; one without a place to deliver to, where its largest stream arises."""
    if problem.target is not None:
        return problem.target
    sizes = [problem.rates.flow(1 << i).bytes for i in range(len(problem.at))]
    return problem.at[sizes.index(max(sizes))]


def _in_sight(hierarchy: Hierarchy, level: int, sink: int, unit: Unit) -> Unit:
    """A unit as the cluster can have it: from its own sites only."""
    cluster = hierarchy.levels[level - 1].cluster
    return Unit(unit.mask, tuple(o for o in unit.options if cluster[o.site] == cluster[sink]))


def _with_derived(views: Views, level: int, sink: int, waiting: Sequence[Unit]) -> list[Unit]:
    """What other queries have joined in the cluster stands for its streams if some of them are not in sight.

    (V_local has base and derived sources, 3.3.) Derived sources of streams that all are in sight are left
    to the search, which compares them with a new join. Large ones come first.
    """
    cluster = views.hierarchy.levels[level - 1].cluster
    here = [o for o in views.offers if cluster[o.site] == cluster[sink]]
    found = list(waiting)
    for offer in sorted(here, key=lambda o: (-o.mask.bit_count(), o.mask)):
        parts = [u for u in found if u.mask & offer.mask]
        whole = len(parts) > 1 and sum(u.mask for u in parts) == offer.mask
        if whole and not all(_in_sight(views.hierarchy, level, sink, u).options for u in parts):
            options = tuple(Option(Reused(o.mask, o), o.site, o.cost) for o in here if o.mask == offer.mask)
            found = [u for u in found if u not in parts] + [Unit(offer.mask, options)]
    return found


def _hanging_together(rates: Rates, units: Sequence[Unit]) -> list[list[Unit]]:
    """Units in groups between which there is no equality."""
    groups: list[list[Unit]] = []
    for unit in units:
        near = [g for g in groups if any(rates.joinable(unit.mask, u.mask) for u in g)]
        groups = [g for g in groups if g not in near] + [[u for g in near for u in g] + [unit]]
    return groups
