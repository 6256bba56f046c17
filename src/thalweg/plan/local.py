"""The plan of a query whose streams all arise at one site: nothing is shipped, so there is nothing to search.

Streams that are equal in one attribute meet in one N-way join. A query with several such attributes is a
tree: the result of one join and the streams that are still missing meet in the next.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from thalweg.catalog.model import Catalog
from thalweg.errors import UserError
from thalweg.plan.deployment import Deployment, Edge, Operator
from thalweg.plan.options import Objective, PlanOptions
from thalweg.plan.rates import Flow, Rates
from thalweg.query import classes
from thalweg.query.model import Expr, Query

Class = Mapping[str, Sequence[Expr]]


@dataclass(frozen=True)
class LocalPlan:
    deployment: Deployment
    cost: float
    assumed: tuple[str, ...]


def plan_local(query: Query, catalog: Catalog, options: PlanOptions) -> LocalPlan:
    """One N-way join for each class of equal attributes, all at the streams' site."""
    site = _site(query, catalog, options)
    builder = _Builder(query, Rates(query, catalog, options.settings.get("width") == "equal"), site)
    builder.build()
    cost = builder.work(catalog) if options.objective is Objective.TIME else 0.0
    return LocalPlan(
        Deployment(tuple(builder.operators), tuple(builder.edges)), cost, tuple(builder.rates.assumed)
    )


def _site(query: Query, catalog: Catalog, options: PlanOptions) -> str:
    sites = sorted({catalog.streams[i.stream].site for i in query.inputs})
    if len(sites) > 1:
        raise UserError(
            f"streams are at several sites ({', '.join(sites)}); running across sites is not supported yet",
            remedy="put them at one site",
        )
    if options.deliver_to not in (None, sites[0]):
        raise UserError(
            f"the streams are at {sites[0]} and the result is to go to {options.deliver_to}; "
            "running across sites is not supported yet",
            remedy=f"deliver to {sites[0]}",
        )
    return sites[0]


@dataclass
class _Builder:
    query: Query
    rates: Rates
    site: str
    operators: list[Operator] = field(default_factory=list)
    edges: list[Edge] = field(default_factory=list)
    flows: dict[str, Flow] = field(default_factory=dict)

    def build(self) -> None:
        everything = list(classes(self.query.equalities))
        for one in self.query.inputs:
            filters = [f.sql for f in one.filters]
            details = {"stream": one.stream, "filters": filters} if filters else {"stream": one.stream}
            self._add(Operator(one.alias, "source", self.site, (), details), self.rates.source(one))

        joined: set[str] = set()
        top = ""
        for number, members in enumerate(_in_reach(everything, self.query.aliases[0])):
            inputs = [a for a in self.query.aliases if a in members and a not in joined]
            if not inputs:  # an equality among streams that have met already
                continue
            top, joined = self._join(
                f"join{number + 1}", [*([top] if top else []), *inputs], everything, joined
            )
        flow = self.rates.conditions(self.flows[top])
        sink = Operator(
            self.query.name if self.query.name not in self.flows else f"{self.query.name} results",
            "sink", self.site, (top,), {"query": self.query.name},
        )  # fmt: skip
        self.flows[top] = flow
        self._add(sink, flow)

    def work(self, catalog: Catalog) -> float:
        """Seconds of work a second: a tuple that enters a join is hashed and kept, and probes the others."""
        costs = catalog.costs
        joins = {o.id: len(o.inputs) for o in self.operators if o.kind == "join"}
        return sum(
            e.tuples_per_s * (costs.hash_s + costs.insert_s + (joins[e.target] - 1) * costs.probe_s)
            for e in self.edges
            if e.target in joins
        )

    def _join(
        self, name: str, inputs: list[str], everything: Sequence[Class], joined: set[str]
    ) -> tuple[str, set[str]]:
        """A join on every equality among its inputs."""
        while name in self.flows:
            name += "_"
        flow = self.rates.join([self.flows[i] for i in inputs], everything)
        on = [
            {a: [e.sql for e in members[a]] for a in flow.aliases if a in members}
            for members in everything
            if len([i for i in inputs if set(self.flows[i].aliases) & members.keys()]) > 1
        ]
        self._add(Operator(name, "join", self.site, tuple(inputs), {"on": on}), flow)
        return name, joined | set(flow.aliases)

    def _add(self, operator: Operator, flow: Flow) -> None:
        self.operators.append(operator)
        for name in operator.inputs:
            carried = self.flows[name]
            later = [
                side
                for equality in self.query.equalities
                for side in (equality.left, equality.right)
                if not equality.left.aliases | equality.right.aliases <= set(carried.aliases)
            ]
            size = self.rates.bytes_per_s(carried, later)
            self.edges.append(
                Edge(name, operator.id, self.site, self.site, carried.aliases, carried.rate, size)
            )
        self.flows[operator.id] = flow


def _in_reach(everything: Sequence[Class], first: str) -> list[Class]:
    """The classes in an order in which each shares a stream with those before it."""
    waiting, reached, order = list(everything), {first}, []
    while waiting:
        members = next((m for m in waiting if reached & m.keys()), waiting[0])
        waiting.remove(members)
        reached |= members.keys()
        order.append(members)
    return order
