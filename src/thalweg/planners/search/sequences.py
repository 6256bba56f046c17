"""Probe sequences: for each head stream the order in which its tuples meet the others, and how.

A plan of the linear family (semijoin definition 1, adaptive definition 1) is one sequence of one-way joins
for each head. The papers' cost of a plan is the sum over all steps (`additive`). A deployment ships less if
two heads ship the same tuples; the exact planners take that into account.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from thalweg.cost.appendix_b import printed
from thalweg.cost.keys import Floats
from thalweg.cost.methods import (
    BLOOM,
    KEYS,
    Method,
    Number,
    Side,
    at_source,
    methods,
)
from thalweg.cost.network import Numbers
from thalweg.cost.price import shipment_key
from thalweg.cost.ways import Ways, least
from thalweg.errors import UserError
from thalweg.plan import operators as ops
from thalweg.plan.deployment import Deployment, Edge
from thalweg.plan.one_way import METHODS, PIECES, Piece
from thalweg.planners.search.problem import Found, NotApplicableError, Problem
from thalweg.planners.search.tree import Builder, Built
from thalweg.query.model import Expr


@dataclass(frozen=True)
class Step:
    """A one-way join to a stream (by number)."""

    stream: int
    method: str


FORMULAS = {"own": methods, "printed": printed}
"""The cost formulas of one-way joins: ours, or those of semijoin's appendix B."""
Plan = Mapping[int, tuple[Step, ...]]
"""For each head stream its sequence."""
Shipped = dict[Hashable, Edge]
"""Shipments, each once."""


@dataclass(frozen=True, eq=False)
class Steps:
    """Many possible steps of one head: from the join of a set of streams to one more stream each."""

    costs: StepCosts
    streams: Numbers
    shared: npt.NDArray[np.bool_]
    methods: Mapping[str, Method]

    @cached_property
    def work(self) -> Floats:
        """The cost of the work of each step by each method."""
        counts = self.costs.problem.model.work
        none = np.zeros(len(self.streams))
        return np.stack(
            [none + self.methods[m].work_s if counts and m in self.methods else none for m in METHODS]
        )

    @cached_property
    def cost(self) -> Floats:
        """The cost of each step by each method, from each site where the current stream may be.

        Infinite where there is no path, no equality, or nothing to ship: at one site only SP-D is left.
        """
        places = self.costs.place[self.streams]
        to, back = self.costs.ways.to(places), self.costs.ways.back(places)
        total = np.repeat(self.work[:, :, None], len(self.costs.sites), axis=2)
        for i, name in enumerate(METHODS):
            for s in self.methods[name].shipments if name in self.methods else ():
                total[i] += least(back if s.back else to, s.bytes_per_s)
            if name != "SP-D":
                total[i, np.arange(len(places)), places] = np.inf
        total[:, ~self.shared.any(axis=1)] = np.inf
        for i in np.flatnonzero(~self.costs.allowed).tolist():
            at_home = total[i, np.arange(len(places)), places].copy()
            total[i] = np.inf
            if METHODS[i] == "SP-D":  # nothing is shipped there, and no other method is left
                total[i, np.arange(len(places)), places] = at_home
        return total


@dataclass(eq=False)
class StepCosts:
    """The costs of a problem's steps; sites are numbered by their place in `sites`."""

    problem: Problem
    _made: dict[tuple[int, tuple[Step, ...]], tuple[Shipped, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        problem, rates = self.problem, self.problem.rates
        self.methods = FORMULAS[problem.settings.get("formulas", "own")]
        self.allowed = _allowed(problem.settings)
        self.sites = sorted({*problem.at, *([] if problem.target is None else [problem.target])})
        self.ways = Ways(problem.network, self.sites)
        self.place = np.array([self.ways.index[s] for s in problem.at])
        self.classes = problem.rates.keys
        shape = (len(self.classes), len(rates.aliases))
        self.member, self.distinct, self.key = np.zeros(shape, dtype=bool), np.ones(shape), np.zeros(shape)
        for c, (one, exprs) in enumerate(zip(rates.classes, self.classes, strict=True)):
            for i in one.members:
                self.member[c, i], self.distinct[c, i] = True, one.count(i)
                self.key[c, i] = rates.widths.key(exprs[rates.aliases[i]][:1])

    def steps(self, head: int, masks: Sequence[int], streams: Sequence[int]) -> Steps:
        """The steps from sets that a head has joined, each to one more stream."""
        rates, next_ = self.problem.rates, np.asarray(streams, dtype=np.int64)
        kind = np.int64 if len(rates.aliases) < 63 else object
        bits = np.array(masks, dtype=kind)[:, None] >> np.array(range(len(rates.aliases)), dtype=kind) & 1
        inside = bits.astype(bool)[:, None, :] & self.member
        shared = inside.any(axis=2) & self.member[:, next_].T
        # A class's values in the joined set are those of the member with the fewest.
        fewest = np.where(inside, self.distinct, np.inf).min(axis=2, initial=np.inf)
        first = np.take_along_axis(self.key[None], inside.argmax(axis=2)[:, :, None], axis=2)[:, :, 0]
        keys = [np.where(shared, key, 0.0).sum(axis=1) for key in (first, self.key[:, next_].T)]
        if rates.widths.equal:
            keys = [np.ones(len(next_))] * 2
        values = [np.where(shared, d, 1.0).prod(axis=1) for d in (fewest, self.distinct[:, next_].T)]
        flows = [rates.flow(1 << i) for i in range(len(rates.aliases))]
        known = {m: (rates.headed(head, m), rates.width(m)) for m in set(masks)}
        current = np.array([known[m] for m in masks])
        stream = np.array([(flows[i].rate, flows[i].width, flows[i].window) for i in streams])
        # All results of a head's tuple have its keys: of these there are no more than tuples with a result.
        own = self.member[:, head]
        met = np.where(bits.astype(bool), self._meets(head), 1.0).prod(axis=1)
        met *= (fewest[:, own] / self.distinct[own, head]).prod(axis=1)
        with_result = np.minimum(current[:, 0], flows[head].rate * met)
        draws = np.where((shared & ~own).any(axis=1), current[:, 0], with_result)
        near = Side(
            current[:, 0], current[:, 1], keys[0], values[0], 0.0, draws, *self._held(head, inside, shared)
        )
        far = Side(stream[:, 0], stream[:, 1], keys[1], values[1], stream[:, 2])
        return Steps(self, next_, shared, self.methods(near, far, self.problem.catalog.costs))

    def _meets(self, head: int) -> Floats:
        """The chance that a head's keys, if a stream has such values, are in its window; 1 without any."""
        both = self.member & self.member[:, [head]]
        values = np.where(both, self.distinct, 1.0).prod(axis=0)
        met: Floats = -np.expm1(-self.problem.rates.window / values)
        met[[head, *np.flatnonzero(~both.any(axis=0))]] = 1.0
        return met

    def _held(self, head: int, inside: npt.NDArray[np.bool_], shared: npt.NDArray[np.bool_]) -> list[Floats]:
        """How long the windows of a head's joined streams have a key that it goes on with, and how that ends.

        The share of the time in which all have it, and how often a second one of them loses it.
        """
        rates = self.problem.rates
        taking = inside & shared[:, :, None]
        taking[:, :, head] = False
        values = np.where(taking, self.distinct, 1.0).prod(axis=1)
        absent = np.exp(-rates.window / values)
        part = taking.any(axis=1) & (absent < 1)
        with np.errstate(divide="ignore", invalid="ignore"):
            ends = np.where(part, rates.rate / values * absent / (1 - absent), 0.0).sum(axis=1)
        return [np.where(part, 1 - absent, 1.0).prod(axis=1), ends]

    def nexts(self, mask: int) -> list[int]:
        """The streams that an equality connects to a set; queries are connected, so there is one."""
        rates = self.problem.rates
        return [i for i in range(len(rates.aliases)) if not mask >> i & 1 and rates.joinable(mask, 1 << i)]

    def delivery(self, head: int) -> Floats:
        """The cost of delivering a head's results from each site."""
        target, rates = self.problem.target, self.problem.rates
        if target is None:
            return np.zeros(len(self.sites))
        size = np.array([rates.headed(head, rates.all) * rates.width(rates.all)])
        return least(self.ways.to(np.array([self.ways.index[target]])), size).ravel()

    def name(self, name: str) -> str:
        """A name for an operator that is not an alias."""
        return unlike(name, self.problem.query.aliases)

    def keys(self, stream: int, shared: npt.NDArray[np.bool_], form: str = KEYS) -> tuple[str, list[Expr]]:
        """The operator that tells a stream's new keys in some classes, or makes filters; and the keys."""
        alias = self.problem.query.aliases[stream]
        exprs = [self.classes[c][alias][0] for c in np.flatnonzero(shared)]
        return self.name(f"{alias}.{form}({_columns(exprs)})"), exprs

    def sequence(self, head: int, steps: Sequence[Step]) -> tuple[Steps, list[int], list[int]]:
        """A head's sequence: its steps, and the set joined and the place before each, and after the last."""
        masks, places = [1 << head], [int(self.place[head])]
        for step in steps:
            masks.append(masks[-1] | 1 << step.stream)
            places.append(places[-1] if at_source(step.method) else int(self.place[step.stream]))
        return self.steps(head, masks[:-1], [s.stream for s in steps]), masks, places

    def additive(self, head: int, steps: Sequence[Step]) -> float:
        """The papers' cost of one head's sequence."""
        rows, _, places = self.sequence(head, steps)
        ways = [rows.cost[METHODS.index(s.method), i, places[i]] for i, s in enumerate(steps)]
        return float(sum(ways)) + float(self.delivery(head)[places[-1]])

    def shipped(self, plan: Plan) -> Shipped:
        """The shipments of all heads, each once; as `cost.price.shipments` of the whole deployment."""
        found: Shipped = {}
        for head, steps in plan.items():
            for key, edge in self._alone(head, steps)[0].items():
                if key not in found or found[key].bytes_per_s < edge.bytes_per_s:
                    found[key] = edge
        return found

    def price(self, plan: Plan) -> float:
        """The cost of the plan's deployment."""
        number, place = self.problem.network.number, self.ways.index
        total = sum(
            self.ways.cost(place[number[e.source_site]], place[number[e.target_site]], e.bytes_per_s)
            for e in self.shipped(plan).values()
        )
        return total + sum(self._alone(head, steps)[1] for head, steps in plan.items())

    @cached_property
    def twins(self) -> dict[str, tuple[int, ...]]:
        """For each alias the streams (itself too) that are the same tuples, and so shipped once for all."""
        return dict(zip(self.problem.query.aliases, self.problem.twins, strict=True))

    def _alone(self, head: int, steps: tuple[Step, ...]) -> tuple[Shipped, float]:
        """The shipments of one head, and the cost of its work."""
        if (head, steps) not in self._made:
            builder = Sequences(self)
            builder.sink([builder.sequence(head, steps)])
            crossing = [e for e in builder.edges if e.source_site != e.target_site]
            crossing.sort(key=lambda e: e.bytes_per_s)  # the largest stands for its like
            sent = {shipment_key(builder.operators[e.source], e): e for e in crossing}
            work = sum(o.work_s for o in builder.operators.values()) if self.problem.model.work else 0.0
            self._made[head, steps] = sent, work
        return self._made[head, steps]


class Sequences(Builder):
    """Gathers the operators of heads' sequences; a step's output is adaptive's S^i_k."""

    def __init__(self, costs: StepCosts) -> None:
        super().__init__(costs.problem)
        self.costs = costs
        self.heads: dict[str, int] = {}

    def sequence(self, head: int, steps: Sequence[Step]) -> Built:
        """The operators of one head's sequence; its last step."""
        rates = self.problem.rates
        rows, masks, _ = self.costs.sequence(head, steps)
        current = self.source(head)
        for row, step in enumerate(steps):
            stream = self.source(step.stream)
            name = step_name(stream.id, rates.aliases[head], self.problem.query.aliases)
            made = Built(name, masks[row + 1], rates)
            self.heads[made.id] = head
            self._step(rows.methods[step.method], row, rows.shared[row], (current, stream, made))
            current = made
        return current

    def _step(
        self, method: Method, row: int, shared: npt.NDArray[np.bool_], met: tuple[Built, Built, Built]
    ) -> None:
        """The operators of one step: from the current stream and the next one to their join."""
        current, stream, made = met
        sent, slot = {s.sender: s for s in method.shipments}, _at(method.interval_s, row)
        form = sent["keys"].carries if "keys" in sent else KEYS
        keys, key = self.costs.keys(made.rates.aliases.index(stream.id), shared, form)
        ids = {"current": current.id, "source": stream.id, "keys": keys, "step": made.id}
        ids |= {helper: self.costs.name(f"{made.id}.{helper}") for helper in ("match", "reduce")}
        ends = self.operators[current.id].site, self.operators[stream.id].site
        head, (on, decided) = made.rates.aliases[self.heads[made.id]], self._decided(met, shared)

        def operator_of(piece: Piece) -> ops.Operator:
            at = ids[piece.kind], ends[piece.far], tuple(ids[r] for r in piece.reads)
            work, every = _at(method.work.get(piece.kind, 0.0), row), slot if piece.slots else None
            if piece.kind == "keys":
                exprs, bloom = tuple(e.sql for e in key), form == BLOOM
                return ops.Keys(
                    *at, streams=(stream.id,), key=exprs, bloom=bloom, interval_s=every, work_s=work
                )
            name, to = method.name, stream.id
            if piece.kind == "step":
                streams = made.rates.names(made.mask)
                return ops.Step(
                    *at, head=head, stream=to, method=name, on=on,
                    streams=streams, conditions=decided, work_s=work,
                )  # fmt: skip
            helper = ops.Match if piece.kind == "match" else ops.Reduce
            return helper(*at, head=head, stream=to, method=name, on=on, interval_s=every, work_s=work)

        for piece in PIECES[method.name]:
            if (id_ := ids[piece.kind]) in self.operators:
                continue  # the keys of a window are the same for all heads
            operator = self.operators[id_] = operator_of(piece)
            for one in piece.reads:
                site = self.operators[ids[one]].site
                # A -S method moves the stream's tuples and keys, a -D method those of the current stream.
                near = one == "current" or (one not in ("source", "keys") and not at_source(method.name))
                whose = current if near else stream
                if site == operator.site:
                    self.edges.append(self._whole(whose, operator))
                    continue
                amount = _at(sent[one].tuples_per_s, row), _at(sent[one].bytes_per_s, row)
                carries = sent[one].carries
                twins = len(self.costs.twins.get(current.id, ())) > 1
                if carries in (KEYS, BLOOM) and one == "current" and twins:
                    # Two aliases of a stream ship the same keys only if these are of the same columns, and
                    # the same filters only if these are for the same time.
                    own = self.costs.keys(made.rates.aliases.index(current.id), shared)[1]
                    carries += f"({_columns(own)})" + (f" of {slot} s" if carries == BLOOM else "")
                names = whose.rates.names(whose.mask)
                self.edges.append(Edge(ids[one], id_, site, operator.site, names, *amount, carries))

    def add(self, operator: ops.Operator, inputs: Sequence[Built] = ()) -> None:
        self.operators[operator.id] = operator
        self.edges += [self._whole(one, operator) for one in inputs]

    def _decided(self, met: Sequence[Built], shared: npt.NDArray[np.bool_]) -> tuple[ops.On, tuple[str, ...]]:
        """The equalities that a step evaluates, and the conditions that no earlier one can."""
        *inputs, inside = (one.rates.names(one.mask) for one in met)
        on = tuple(
            {a: tuple(e.sql for e in exprs) for a, exprs in self.classes[c].items() if a in inside}
            for c in np.flatnonzero(shared)
        )
        within = [c for c in self.problem.query.conditions if c.aliases <= set(inside)]
        return on, tuple(c.sql for c in within if not any(c.aliases <= set(names) for names in inputs))

    def _whole(self, one: Built, to: ops.Operator) -> Edge:
        """All tuples of a stream, or of a step: those results that its head completes."""
        flow = one.rates.flow(one.mask)
        rate = one.rates.headed(self.heads[one.id], one.mask) if one.id in self.heads else flow.rate
        site, names = self.operators[one.id].site, one.rates.names(one.mask)
        return Edge(one.id, to.id, site, to.site, names, rate, rate * flow.width)


def step_name(stream: str, head: str, aliases: Sequence[str]) -> str:
    """The name of a head's step to a stream."""
    return unlike(f"{stream}^{head}", aliases)


def unlike(name: str, aliases: Sequence[str]) -> str:
    """A name that no alias has."""
    return unlike(f"{name}'", aliases) if name in aliases else name


def _at(number: Number, row: int) -> float:
    return float(number[row]) if isinstance(number, np.ndarray) else number


def _columns(exprs: Iterable[Expr]) -> str:
    return ", ".join(e.rename(lambda _, column: column) for e in exprs)


def deploy(problem: Problem, plan: Plan) -> Deployment:
    """The deployment of a query by a sequence for each head."""
    if problem.outer:
        raise NotApplicableError(
            "results of probe sequences do not say when they end, as an outer join must know",
            remedy="choose a planner of the families tree or partitioned, such as optimal",
        )
    builder = Sequences(StepCosts(problem))
    builder.sink([builder.sequence(head, steps) for head, steps in plan.items()])
    return builder.deployment()


def read(deployment: Deployment, aliases: Sequence[str]) -> Plan:
    """The sequences of a deployment of probe sequences: the opposite of `deploy`."""
    found: dict[int, list[ops.Step]] = {}
    for operator in deployment.operators:
        if isinstance(operator, ops.Step):
            found.setdefault(aliases.index(operator.head), []).append(operator)
    if any(len(found.get(head, ())) != len(aliases) - 1 for head in range(len(aliases))):
        raise ValueError("not a deployment of a probe sequence for each stream")
    return {
        head: tuple(Step(aliases.index(o.stream), o.method) for o in sorted(steps, key=_joined))
        for head, steps in sorted(found.items())
    }


def _joined(step: ops.Step) -> int:
    return len(step.streams)


def additive(problem: Problem, plan: Plan) -> float:
    """The papers' cost: the sum over all heads and steps (semijoin appendix B, eq. 1)."""
    costs = StepCosts(problem)
    return sum(costs.additive(head, steps) for head, steps in plan.items())


def as_found(costs: StepCosts, plan: Plan, searched: int) -> Found:
    """A plan as a planner gives it.

    Its cost is the papers' sum over all steps if that is asked for: a shipment that several heads need then
    counts for each of them.
    """
    additive = costs.problem.settings.get("price") == "additive"
    cost = sum(costs.additive(head, steps) for head, steps in plan.items()) if additive else None
    return Found(deploy(costs.problem, plan), searched, cost=cost)


def _allowed(settings: Mapping[str, str]) -> npt.NDArray[np.bool_]:
    """Which methods a sequence may use: those listed, or all that the formulas have."""
    known = [m for m in METHODS if settings.get("formulas") != "printed" or not m.startswith("SB")]
    text = settings.get("methods")
    listed = known if text is None else text.split(",")
    for name in listed:
        if name not in known:
            raise UserError(
                f"setting 'methods' can't have {name!r}", remedy=f"a list such as {','.join(known)}"
            )
    return np.array([m in listed for m in METHODS])
