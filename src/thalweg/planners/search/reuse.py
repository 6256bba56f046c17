"""Reuse: outputs of deployed queries that a later query can read, and their cost.

Every deployed stream and join is an offer, at its own site and at every site it is shipped to, for each later
query that needs it or a part of it. The part is filtered out at that site. If a column or a tuple is missing,
the filters and projections upstream can be widened instead (integrated 4.1.1), at the cost of more bytes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import combinations

from thalweg.cost.masks import mask_of, members
from thalweg.cost.price import shipment_key
from thalweg.cost.rates import Rates, passes
from thalweg.cost.stats import Statistics
from thalweg.cost.widths import Widths
from thalweg.plan import operators as ops
from thalweg.plan.deployment import TUPLES, Deployment, Edge
from thalweg.planners.search.problem import Problem
from thalweg.planners.search.views import Gap, View, gap, labels, widened
from thalweg.query.model import Expr, Query

WIDENING = "more"
"""The `carries` of an edge that adds to one deployed before."""


@dataclass(frozen=True)
class Running:
    """A query that is deployed."""

    query: Query
    deployment: Deployment
    rates: Rates

    def mask(self, aliases: Iterable[str]) -> int:
        return mask_of(self.query.aliases.index(a) for a in aliases)


@dataclass(frozen=True, eq=False)
class Entry:
    """An operator's output at a site."""

    of: Running
    operator: str
    mask: int
    site: str
    view: View


@dataclass(frozen=True)
class More:
    """The additional flow of an upstream edge once an operator is widened, and the work it adds."""

    edge: Edge
    tuples_per_s: float
    bytes_per_s: float
    work_s: float


@dataclass(frozen=True, eq=False)
class Offer:
    """An entry as an answer to a set of the new query's streams, at a site (by number), for a cost."""

    entry: Entry
    query: Query
    mask: int
    site: int
    gap: Gap
    cost: float
    more: tuple[More, ...]
    filter_s: float

    def operators(self) -> tuple[list[ops.Operator], list[Edge]]:
        """The operators of a reuse: widened ones, the reference and its filter; the last is its output."""
        entry, name = self.entry, self.entry.of.query.name
        aliases = tuple(self.query.aliases[i] for i in members(self.mask))
        flow = entry.of.rates.flow(entry.mask)
        made, edges = self._widened()
        inputs = tuple(o.id for o in made if isinstance(o, ops.Widen) and o.operator == entry.operator)
        reference = f"{name}.{entry.operator} at {entry.site} as {' '.join(aliases)}"
        edges += [Edge(i, reference, entry.site, entry.site, aliases, flow.rate, flow.bytes) for i in inputs]
        made.append(
            ops.Reuse(
                reference,
                entry.site,
                inputs,
                query=name,
                operator=entry.operator,
                streams=aliases,
                columns_added={n: tuple(sorted(c)) for n, c in self.gap.lacking.items()},
                filters_widened={n: tuple(sorted(f)) for n, f in self.gap.weaker.items()},
            )
        )
        if self.gap.filters or self.gap.windows:
            after = self._filter(reference)
            edges.append(Edge(reference, after.id, entry.site, entry.site, aliases, flow.rate, flow.bytes))
            made.append(after)
        return made, edges

    def _filter(self, reference: str) -> ops.Filter:
        """The filter after a reference, in the query's own names."""
        alias = {label: a for a, label in labels(self.query, self.mask).items()}

        def named(label: str, column: str) -> str:
            return Expr.column(alias[label], column).sql

        windows = {a: self.query.input(a).window for a in alias.values()} if self.gap.windows else {}
        return ops.Filter(
            f"{reference}, filtered",
            self.entry.site,
            (reference,),
            filters=tuple(Expr(f).rename(named) for f in self.gap.filters),
            windows={a: str(w) for a, w in windows.items()},
            work_s=self.filter_s,
        )

    def _widened(self) -> tuple[list[ops.Operator], list[Edge]]:
        deployment, name = self.entry.of.deployment, self.entry.of.query.name
        ids = list(dict.fromkeys(i for m in self.more for i in (m.edge.source, m.edge.target)))
        made: list[ops.Operator] = []
        for id_ in ids:
            into = [m for m in self.more if m.edge.target == id_]
            inputs = tuple(f"{name}.{m.edge.source} widened" for m in into)
            work = max((m.work_s for m in into), default=0.0)
            id_widened, site = f"{name}.{id_} widened", deployment.operator(id_).site
            made.append(ops.Widen(id_widened, site, inputs, query=name, operator=id_, work_s=work))
        edges = []
        for m in self.more:
            e = m.edge
            ends = (f"{name}.{e.source} widened", f"{name}.{e.target} widened")
            edges.append(
                Edge(*ends, e.source_site, e.target_site, e.streams, m.tuples_per_s, m.bytes_per_s, WIDENING)
            )
        return made, edges


@dataclass
class Deployed:
    """The queries deployed so far, and their offers."""

    running: dict[str, Running] = field(default_factory=dict)
    unseen: list[Running] = field(default_factory=list)
    entries: dict[tuple[str, ...], dict[tuple[object, ...], Entry]] = field(default_factory=dict)

    def add(self, query: Query, deployment: Deployment, rates: Rates) -> None:
        """Adds a query's deployment to those that later ones can reuse."""
        running = Running(query, deployment, rates)
        self.running[query.name] = running
        self.unseen.append(running)  # its offers are found when a later query asks for them

    def _look(self, running: Running) -> None:
        for operator, mask in _whole_outputs(running):
            view = View.of(running.query, mask, running.rates)
            for site in _sites(running.deployment, operator):
                self._enter(Entry(running, operator.id, mask, site, view))
        for operator in running.deployment.operators:
            if isinstance(operator, ops.Reuse):
                self._widen(operator)

    def offers(self, problem: Problem) -> list[Offer]:
        """All deployed outputs that a query could read instead of joining or shipping again."""
        while self.unseen:
            self._look(self.unseen.pop(0))
        streams = [i.stream for i in problem.query.inputs]
        wanted: dict[int, View] = {}
        found = []
        for key, entries in self.entries.items():
            for mask in _subsets(streams, key):
                if mask not in wanted:
                    wanted[mask] = View.of(problem.query, mask, problem.rates)
                for entry in entries.values():
                    between = gap(entry.view, wanted[mask])
                    if between is not None:
                        offer = _offer(problem, entry, mask, between)
                        if offer is not None:
                            found.append(offer)
        return found

    def upstream(self, operators: Iterable[ops.Operator]) -> dict[object, Edge]:
        """The shipments of other queries for the outputs that some operators reuse, each once."""
        found: dict[object, Edge] = {}
        for operator in operators:
            if not isinstance(operator, ops.Reuse):
                continue
            running = self.running[operator.query]
            inside = _above(running.deployment, operator.operator)
            by_id = {o.id: o for o in running.deployment.operators}
            for edge in running.deployment.edges:
                to_it = edge.source == operator.operator and edge.target_site == operator.site
                if (edge.target in inside or to_it) and edge.source_site != edge.target_site:
                    key = (running.query.name, shipment_key(by_id[edge.source], edge))
                    if key not in found or found[key].bytes_per_s < edge.bytes_per_s:
                        found[key] = edge
            found |= self.upstream(by_id[i] for i in inside)
        return found

    def work(self, deployment: Deployment) -> float:
        """The work of others' operators that a deployment refers to."""
        seen: dict[tuple[str, str], float] = {}
        for operator in deployment.operators:
            if isinstance(operator, ops.Reuse):
                running = self.running[operator.query]
                for id_ in _above(running.deployment, operator.operator):
                    seen[running.query.name, id_] = running.deployment.operator(id_).work_s
        return sum(seen.values())

    def _enter(self, entry: Entry) -> None:
        streams = tuple(sorted(n.split("#")[0] for n in entry.view.labels))
        self.entries.setdefault(streams, {}).setdefault((entry.view.key, entry.site), entry)

    def _widen(self, operator: ops.Reuse) -> None:
        """An output that was widened for one query is wider for all later ones."""
        lacking, weaker = (
            {n: frozenset(c) for n, c in added.items()}
            for added in (operator.columns_added, operator.filters_widened)
        )
        if not lacking and not weaker:
            return
        for by_key in list(self.entries.values()):
            for key, entry in list(by_key.items()):
                same = (entry.of.query.name, entry.operator, entry.site)
                if same == (operator.query, operator.operator, operator.site):
                    del by_key[key]
                    wider = widened(entry.view, Gap((), False, lacking, weaker))
                    self._enter(replace(entry, view=wider))


def _whole_outputs(running: Running) -> list[tuple[ops.Operator, int]]:
    """The operators whose output is a whole view, not a part of its key space or of its heads."""
    deployment = running.deployment
    partial: set[str] = set()
    found = []
    for operator in deployment.operators:  # inputs come before those that read them
        if isinstance(operator, ops.Split | ops.OneWay | ops.Keys) or not partial.isdisjoint(operator.inputs):
            partial.add(operator.id)
        if isinstance(operator, ops.Widen | ops.Sink) or operator.id in partial:
            continue
        out = [e for e in deployment.edges if e.source == operator.id and e.carries == TUPLES]
        filtered = any(isinstance(deployment.operator(e.target), ops.Filter) for e in out)
        if out and not filtered:
            found.append((operator, running.mask(out[0].streams)))
    return found


def _sites(deployment: Deployment, operator: ops.Operator) -> list[str]:
    """Where an operator's output is: at its own site, and where it is shipped whole."""
    out = [e for e in deployment.edges if e.source == operator.id and e.carries == TUPLES]
    return list(dict.fromkeys([operator.site, *(e.target_site for e in out)]))


def _above(deployment: Deployment, id_: str) -> set[str]:
    """An operator and all that it reads, directly or not."""
    found, waiting = {id_}, [id_]
    while waiting:
        for name in deployment.operator(waiting.pop()).inputs:
            if name not in found:
                found.add(name)
                waiting.append(name)
    return found


def _subsets(streams: list[str], wanted: tuple[str, ...]) -> list[int]:
    """The sets of aliases that read just these streams."""
    where = [i for i, s in enumerate(streams) if s in wanted]
    chosen = [tuple(where)] if len(where) == len(wanted) else list(combinations(where, len(wanted)))
    return [mask_of(c) for c in chosen if tuple(sorted(streams[i] for i in c)) == wanted]


def _offer(problem: Problem, entry: Entry, mask: int, between: Gap) -> Offer | None:
    flow = entry.of.rates.flow(entry.mask)
    filter_s = flow.rate * problem.catalog.costs.probe_s if between.filters or between.windows else 0.0
    more: tuple[More, ...] = ()
    if between.must_widen:
        found = _widening(entry, between, problem.rates.statistics)
        if found is None:
            return None
        more = found
    number = problem.network.number
    cost = sum(
        problem.network.cost(number[m.edge.source_site], number[m.edge.target_site], m.bytes_per_s)
        for m in more
        if m.edge.source_site != m.edge.target_site
    )
    if problem.model.work:
        cost += filter_s + sum({m.edge.target: m.work_s for m in more}.values())
    return Offer(entry, problem.query, mask, number[entry.site], between, cost, more, filter_s)


def _widening(entry: Entry, between: Gap, statistics: Statistics) -> tuple[More, ...] | None:
    """The additional flow of each edge upstream of an operator, once its filters and projections are wider.

    Assumptions are noted in `statistics`.
    """
    deployment, old = entry.of.deployment, entry.of.rates
    if entry.site != deployment.operator(entry.operator).site:
        return None  # a copy elsewhere would have to be widened on its way as well
    inside = _above(deployment, entry.operator)
    if not all(isinstance(deployment.operator(i), ops.Source | ops.Join) for i in inside):
        return None
    number = {label: old.aliases.index(a) for a, label in labels(entry.of.query, entry.mask).items()}
    grown = dict.fromkeys(members(entry.mask), 1.0)
    for name, theirs in between.weaker.items():
        grown[number[name]] = _growth(entry, number[name], theirs, statistics)
    added = dict.fromkeys(members(entry.mask), 0.0)
    widths = Widths(entry.of.query, statistics, old.equal_width)
    for name, columns in between.lacking.items():
        added[number[name]] = widths.more(old.aliases[number[name]], columns)
    more = []
    for edge in deployment.edges:
        if edge.target not in inside:
            continue
        mask = entry.of.mask(edge.streams)
        factor = math.prod(grown[i] for i in members(mask))
        lone = mask.bit_count() == 1  # shipped whole anyway
        wider = 0.0 if lone else sum(added[i] for i in members(mask))
        extra = edge.tuples_per_s * factor * (old.width(mask) + wider) - edge.bytes_per_s
        joined = math.prod(grown.values()) - 1
        if extra > 0:
            work_s = deployment.operator(edge.target).work_s * joined
            more.append(More(edge, edge.tuples_per_s * (factor - 1), extra, work_s))
    return tuple(more)


def _growth(entry: Entry, stream: int, theirs: frozenset[str], statistics: Statistics) -> float:
    """The growth of a stream once its filters pass the tuples that either query needs."""
    one = entry.of.query.inputs[stream]
    ours = 1.0
    for f in one.filters:
        ours *= passes(one, f, statistics)
    other = 1.0
    for text in theirs:
        other *= passes(one, Expr(text), statistics)
    if not theirs:
        return 1 / ours if ours else 1.0
    return min(1.0, ours + other) / ours if ours else 1.0
