"""A deployment under other statistics: the same operators at the same sites, with the flows of now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from graphlib import TopologicalSorter
from typing import NamedTuple

from thalweg.cost.keys import Selection
from thalweg.cost.masks import mask_of
from thalweg.cost.objectives import join_work
from thalweg.cost.rates import LARGEST, Rates
from thalweg.plan import operators as ops
from thalweg.plan.deployment import Deployment, Edge
from thalweg.plan.selectors import Selector
from thalweg.planners.search import sequences
from thalweg.planners.search.problem import Problem


def repriced(problem: Problem, deployment: Deployment) -> Deployment:
    """The deployment of a problem's query, with the flows and the work that the problem's rates give it."""
    if any(isinstance(o, ops.Step) for o in deployment.operators):
        return sequences.deploy(problem, sequences.read(deployment, problem.query.aliases))
    return _Flows(problem, deployment).deployment()


class _Made(NamedTuple):
    """What an operator puts out: the join of a set of streams, within some part of the key space."""

    mask: int
    rates: Rates


class _Flows:
    def __init__(self, problem: Problem, deployment: Deployment) -> None:
        self.problem, self.before = problem, deployment
        self.number = {a: i for i, a in enumerate(problem.query.aliases)}
        self._parts: dict[tuple[int, Selector], Rates] = {}
        self.made: dict[str, _Made] = {}
        order = TopologicalSorter({o.id: o.inputs for o in deployment.operators}).static_order()
        for id_ in order:
            self.made[id_] = self._output(deployment.operator(id_))

    def deployment(self) -> Deployment:
        return Deployment(
            tuple(map(self._worked, self.before.operators)), tuple(map(self._flow, self.before.edges))
        )

    def _output(self, operator: ops.Operator) -> _Made:
        rates = self.problem.rates
        match operator:
            case ops.Source():
                return _Made(1 << self.number[operator.id], rates)
            case ops.Reuse():
                return _Made(mask_of(self.number[a] for a in operator.streams), rates)
            case ops.Split():
                return _Made(self.made[operator.inputs[0]].mask, self._part(operator))
            case ops.Widen():
                return _Made(0, rates)  # what it adds is another query's to pay
        inputs = [self.made[i] for i in operator.inputs]
        mask = 0
        for one in inputs:
            mask |= one.mask
        within = {id(one.rates): one.rates for one in inputs if one.rates is not rates}
        return _Made(mask, next(iter(within.values())) if len(within) == 1 else rates)

    def _part(self, split: ops.Split) -> Rates:
        rates = self.problem.rates
        splits = [o for o in self.before.operators if isinstance(o, ops.Split)]
        # A key can be in two classes, if it is compared with values of two types; a part is of one of them.
        keys = {o.key for o in splits if o.selector == split.selector}
        class_ = next(
            c for c, own in enumerate(rates.keys) if keys <= {e.sql for exprs in own.values() for e in exprs}
        )
        if (class_, split.selector) not in self._parts:
            beside = [o.selector for o in splits if (o.inputs, o.key) == (split.inputs, split.key)]
            selection = _selection(split.selector, beside, rates.classes[class_].values)
            self._parts[class_, split.selector] = rates.part(class_, selection)
        return self._parts[class_, split.selector]

    def _worked(self, operator: ops.Operator) -> ops.Operator:
        if not isinstance(operator, ops.Join):
            return operator
        sets = list(dict.fromkeys(self.made[i].mask for i in operator.inputs))
        work = join_work(self.made[operator.id].rates, sets, self.problem.catalog.costs)
        return replace(operator, work_s=min(work, LARGEST))

    def _flow(self, edge: Edge) -> Edge:
        one = self.made[edge.source]
        if not one.mask:
            return edge
        flow = one.rates.flow(one.mask)
        return replace(edge, tuples_per_s=flow.rate, bytes_per_s=flow.bytes)


def _selection(selector: Selector, beside: Sequence[Selector], values: Sequence[object]) -> Selection:
    """The values of a part that statistics name now, and its share of the others."""
    named = frozenset(v for one in beside for v in one.values)
    inside = tuple(v for v in values if selector.matches(_shown(v), named))
    if selector.buckets:
        share = len(selector.buckets) / selector.of
    elif selector.ranges:
        share = len(selector.ranges) / sum(len(one.ranges) for one in beside)
    else:
        share = float(selector.others)
    return Selection(inside, share)


def _shown(value: object) -> object:
    return int(value) if isinstance(value, float) and value.is_integer() else value
