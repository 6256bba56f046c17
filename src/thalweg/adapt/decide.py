"""When a plan is changed: how the streams are now, what another plan would save, and what moving costs.

A decision is asked for when statistics have moved. The plan in force and the best plan by the new statistics
are priced by one model. The new one is taken if it is cheaper by a margin, and if what it saves
over the horizon is more than what copying its windows costs. Each decision is a record, taken or not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from thalweg.adapt import distributed
from thalweg.adapt.knowledge import plain
from thalweg.catalog.model import Catalog, Stats
from thalweg.cost.masks import mask_of
from thalweg.cost.price import price
from thalweg.errors import UserError
from thalweg.plan import operators as ops
from thalweg.plan.deployment import TUPLES, Deployment, Edge
from thalweg.plan.document import Plan
from thalweg.plan.options import PlanOptions
from thalweg.planners.linear_greedy import SIMPLE
from thalweg.planners.search import sequences
from thalweg.planners.search.problem import Problem
from thalweg.planners.search.reprice import repriced
from thalweg.planners.table import Session, make_plan
from thalweg.query.model import Query


@dataclass(frozen=True)
class Rules:
    """When to ask, and when to move.

    `moves` is the relative change of a statistic that asks for a decision. A new plan must cost less by the
    share `margin`, so that two plans of about the same cost do not take turns. What it saves in `horizon_s`
    seconds must be more than what moving costs.
    """

    moves: float = 0.2
    margin: float = 0.1
    horizon_s: float = 300.0


@dataclass(frozen=True)
class Moved:
    """A statistic that has changed; `before` is None where it was not known."""

    name: str
    before: float | None
    now: float

    def __str__(self) -> str:
        was = "not known" if self.before is None else f"{self.before:.4g}"
        return f"{self.name}: {was}, now {self.now:.4g}"


@dataclass(frozen=True)
class Decision:
    """What was considered, and what came of it. Costs are in the unit of the plan's objective."""

    moved: tuple[Moved, ...]
    cost_before: float
    cost_after: float
    bytes_to_move: float
    taken: bool
    reason: str
    plan: Plan
    messages: int = 0


@dataclass
class Decider:
    """Decides for `plan`, which is in force; `first` is the one that a run began with.

    Another plan is found by the planner of the options, which has all statistics (adaptive Algorithm 2); or
    `by_nodes`, which have their own and write to each other (Algorithm 3). Those change probe sequences of
    simple joins only.
    """

    queries: Sequence[Query]
    options: PlanOptions
    first: Plan
    plan: Plan
    catalog: Catalog
    """With the statistics of the last decision."""
    rules: Rules = field(default_factory=Rules)
    by_nodes: bool = False
    _declared: bool = True  # no decision has been asked for yet

    def consider(self, now: Catalog) -> Decision | None:
        """Decide by the statistics of this moment; None while they are about those of the last decision."""
        moved = tuple(moves(self.catalog, now, self.rules.moves, self._streams))
        if not moved and not self._declared:
            return None
        then, self.catalog, self._declared = self.catalog, now, False
        session = Session(now, self.options)
        before, flows = priced(session, self.queries, self.plan)
        candidate, messages = self._candidate(then, now)
        moving = list(copied(session, self.queries, flows, candidate))
        size = sum(one.bytes for one in moving)
        # Nodes find a plan by fewer statistics; both are priced by all of them.
        after, _ = priced(Session(now, self.options), self.queries, candidate)
        cost, saved = _moving(session, moving, self.rules.horizon_s), before - after
        if not before:
            taken, why = False, "the plan costs nothing"
        elif saved <= self.rules.margin * before:
            taken, why = False, f"the best plan now costs {_share(after, before)} of this one"
        elif saved * self.rules.horizon_s <= cost:
            taken, why = False, f"moving costs more than it saves in {self.rules.horizon_s:g} s"
        else:
            taken, why = True, f"saves {_share(saved, before)} of the cost"
        return Decision(moved, before, after, size, taken, why, candidate, messages)

    def _candidate(self, then: Catalog, now: Catalog) -> tuple[Plan, int]:
        """The best plan by the new statistics, and the messages that nodes needed to find it."""
        if not self.by_nodes:
            return make_plan(self.queries, now, self.options), 0
        found, messages = [], 0
        old, new = (Session(plain(catalog), self.options) for catalog in (then, now))
        for query, planned in zip(self.queries, self.plan.queries, strict=True):
            problem = new.problem(query)
            before = sequences.read(planned.deployment, query.aliases)
            updated = distributed.update(old.problem(query), problem, before)
            deployment = sequences.deploy(problem, updated.plan)
            cost = price(deployment, new.network, new.model)
            found.append(replace(planned, cost=cost, marginal_cost=cost, searched=0, deployment=deployment))
            messages += updated.modification
        return Plan(self.plan.objective, tuple(found)), messages

    def first_cost(self, now: Catalog) -> float:
        """What the plan of the beginning would cost."""
        return priced(Session(now, self.options), self.queries, self.first)[0]

    @property
    def _streams(self) -> list[str]:
        return list(dict.fromkeys(i.stream for q in self.queries for i in q.inputs))


def check_for_nodes(plan: Plan, where: str) -> None:
    """A UserError where nodes can't change a plan by themselves."""
    operators = [o for q in plan.queries for o in q.deployment.operators]
    if any(
        isinstance(o, ops.Join) or (isinstance(o, ops.Step) and o.method not in SIMPLE) for o in operators
    ):
        raise UserError(
            "nodes change probe sequences of simple joins only",
            where=where,
            remedy="use --adapt central, or plan with linear-greedy",
        )


def _share(part: float, whole: float) -> str:
    return f"{part / whole:.0%}"


def moves(then: Catalog, now: Catalog, least: float, streams: Sequence[str]) -> Iterator[Moved]:
    """The statistics of some streams, and of their joins, that have changed by more than a share."""
    for name in streams:
        old, new = then.streams[name].stats, now.streams[name].stats
        for what, before, after in _numbers(old, new):
            if _differs(before, after, least):
                yield Moved(f"{name} {what}", before, after)
        for column, by_value in new.rates.items():
            apart = _apart(old.rates.get(column, {}), by_value)
            if apart > least:
                yield Moved(f"{name} {column}, share of tuples with other values", 0.0, apart)
    known = {frozenset((j.left, j.right)): j.selectivity for j in then.joins}
    for join in now.joins:
        before = known.get(frozenset((join.left, join.right)))
        if _differs(before, join.selectivity, least):
            name = " = ".join(".".join(side) for side in (join.left, join.right))
            yield Moved(f"{name} selectivity", before, join.selectivity)


def _numbers(old: Stats, new: Stats) -> Iterator[tuple[str, float | None, float]]:
    if new.rate is not None:
        yield "rate", old.rate, new.rate
    if new.bytes is not None:
        yield "bytes", old.bytes, new.bytes
    for column, count in new.distinct.items():
        yield f"{column} distinct", old.distinct.get(column), count


def _differs(before: float | None, now: float, least: float) -> bool:
    return before is None or abs(now - before) > least * max(abs(before), 1e-12)


def _apart(old: Mapping[object, float], new: Mapping[object, float]) -> float:
    """The share of tuples that have other values now, as far as values are named."""
    totals = sum(old.values()), sum(new.values())
    if not all(totals):
        return 0.0
    return sum(abs(old.get(v, 0.0) / totals[0] - new.get(v, 0.0) / totals[1]) for v in {*old, *new}) / 2


def priced(session: Session, queries: Sequence[Query], plan: Plan) -> tuple[float, list[Deployment]]:
    """What a plan costs by the statistics of a session, and its deployments with the flows of now."""
    total, found = 0.0, []
    for query, planned in zip(queries, plan.queries, strict=True):
        problem = session.problem(query)
        deployment = repriced(problem, planned.deployment)
        total += price(deployment, session.network, session.model)
        session.deployed.add(query, deployment, problem.rates)
        found.append(deployment)
    return total, found


@dataclass(frozen=True)
class Copied:
    """A window that a new plan has at a site where the old one does not, and its size."""

    source_site: str
    target_site: str
    bytes: float


def copied(
    session: Session, queries: Sequence[Query], before: Sequence[Deployment], plan: Plan
) -> Iterator[Copied]:
    """The windows that must be copied for a plan."""
    for query, old, planned in zip(queries, before, plan.queries, strict=True):
        there = {key for key, _ in _stored(old)}
        problem, seen = session.problem(query), set(there)
        for key, edge in _stored(planned.deployment):
            if key not in seen:
                seen.add(key)
                yield Copied(edge.source_site, edge.target_site, _size(problem, planned.deployment, edge))


def _stored(deployment: Deployment) -> Iterator[tuple[object, Edge]]:
    """The edges between sites whose tuples the reader keeps, and what tells each window from others."""
    for edge in deployment.edges:
        reader = deployment.operator(edge.target)
        if edge.source_site == edge.target_site or edge.carries != TUPLES:
            continue
        kept = isinstance(reader, ops.Join)
        kept |= isinstance(reader, ops.OneWay) and reader.inputs.index(edge.source) == 1
        if kept:
            yield (edge.streams, _parts(deployment, edge.source), edge.source_site, edge.target_site), edge


def _parts(deployment: Deployment, id_: str) -> frozenset[object]:
    """The parts of key spaces that an operator's output belongs to."""
    operator = deployment.operator(id_)
    own = frozenset([operator.selector]) if isinstance(operator, ops.Split) else frozenset[object]()
    return own.union(*(_parts(deployment, i) for i in operator.inputs))


def _size(problem: Problem, deployment: Deployment, edge: Edge) -> float:
    """The bytes of a window: what is alive of the streams together, by the rate that the edge has."""
    number = {a: i for i, a in enumerate(problem.query.aliases)}
    flow = problem.rates.flow(mask_of(number[a] for a in edge.streams))
    within = edge.tuples_per_s / flow.rate if flow.rate else 1.0
    return flow.window * within * flow.width


def _moving(session: Session, windows: Sequence[Copied], horizon_s: float) -> float:
    """What copying costs in all, in the unit of cost times seconds."""
    number = session.network.number
    return horizon_s * sum(
        session.network.cost(number[w.source_site], number[w.target_site], w.bytes / horizon_s)
        for w in windows
    )
