"""What queries deployed before already compute, and what it takes to use that.

Every stream and every join that is deployed is an offer, at its own site and at every site it is shipped
to, to each later query that needs it, or less than it. What must be filtered away after is done there. Where
a column or a tuple that is needed was left out, the filters and projections upstream can be widened instead
(integrated 4.1.1); that costs the bytes that flow more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

from thalweg.cost.masks import mask_of, members
from thalweg.cost.network import Network
from thalweg.cost.price import shipment_key
from thalweg.cost.rates import Rates, passes
from thalweg.plan.deployment import TUPLES, Deployment, Edge, Operator
from thalweg.planners.problem import Problem
from thalweg.planners.views import Gap, View, gap, widened
from thalweg.query.model import Expr, Query

_PARTIAL = ("split", "step", "reduce", "match", "keys")
_NOTHING = ("widen", "sink")
WIDENING = "more"
"""What an edge carries that only adds to one deployed before."""


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


@dataclass(frozen=True, eq=False)
class Offer:
    """An entry as an answer to a set of the new query's streams, at a site (by number), for a cost."""

    entry: Entry
    mask: int
    site: int
    gap: Gap
    cost: float
    more: tuple[tuple[Edge, float], ...] = ()
    rate: tuple[float, float] = (0.0, 0.0)
    aliases: tuple[str, ...] = ()
    filter_s: float = 0.0

    def operators(self) -> tuple[list[Operator], list[Edge]]:
        """The reference, what is widened for it, and the filter after it; the last one's output is used."""
        entry, name = self.entry, self.entry.of.query.name
        by_id = {o.id: o for o in entry.of.deployment.operators}
        made, edges, inputs = [], [], []
        widened_ids = dict.fromkeys(i for e, _ in self.more for i in (e.source, e.target))
        for id_ in widened_ids:
            into = tuple(f"{name}.{e.source} widened" for e, _ in self.more if e.target == id_)
            details = {"query": name, "operator": id_}
            made.append(Operator(f"{name}.{id_} widened", "widen", by_id[id_].site, into, details))
        for edge, extra in self.more:
            ends = (f"{name}.{edge.source} widened", f"{name}.{edge.target} widened")
            edges.append(Edge(*ends, edge.source_site, edge.target_site, edge.streams, 0.0, extra, WIDENING))
        reference = f"{name}.{entry.operator} at {entry.site} as {' '.join(self.aliases)}"
        if entry.operator in widened_ids:
            inputs = [f"{name}.{entry.operator} widened"]
            edges.append(Edge(inputs[0], reference, entry.site, entry.site, self.aliases, *self.rate))
        about: dict[str, Any] = {"query": name, "operator": entry.operator, "streams": list(self.aliases)}
        if self.gap.lacking:
            about["columns_added"] = [f"{n}.{c}" for n, cs in self.gap.lacking.items() for c in sorted(cs)]
        if self.gap.weaker:
            about["filters_widened"] = {n: sorted(f) for n, f in self.gap.weaker.items()}
        made.append(Operator(reference, "reuse", entry.site, tuple(inputs), about))
        if self.gap.filters:
            after = Operator(
                f"{reference}, filtered", "filter", entry.site, (reference,),
                {"filters": list(self.gap.filters)}, self.filter_s,
            )  # fmt: skip
            edges.append(Edge(reference, after.id, entry.site, entry.site, self.aliases, *self.rate))
            made.append(after)
        return made, edges


@dataclass
class Deployed:
    """The queries deployed so far, and what they offer."""

    running: dict[str, Running] = field(default_factory=dict)
    unseen: list[Running] = field(default_factory=list)
    entries: dict[tuple[str, ...], dict[tuple[object, ...], Entry]] = field(default_factory=dict)

    def add(self, query: Query, deployment: Deployment, rates: Rates) -> None:
        """Takes a query's deployment into what later ones can use."""
        running = Running(query, deployment, rates)
        self.running[query.name] = running
        self.unseen.append(running)  # what it offers is worked out when somebody asks

    def _look(self, running: Running) -> None:
        for operator, mask in _whole_outputs(running):
            view = View.of(running.query, mask, running.rates)
            for site in _sites(running.deployment, operator):
                self._enter(Entry(running, operator.id, mask, site, view))
        for operator in running.deployment.operators:
            if operator.kind == "reuse":
                self._widen(operator)

    def offers(self, problem: Problem) -> list[Offer]:
        """All that a query could use instead of joining or shipping anew."""
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

    def upstream(self, deployment: Deployment) -> dict[object, Edge]:
        """What others ship for the operators that a deployment refers to, each shipment once."""
        found: dict[object, Edge] = {}
        for operator in deployment.operators:
            if operator.kind != "reuse":
                continue
            running = self.running[operator.details["query"]]
            inside = _above(running.deployment, operator.details["operator"])
            by_id = {o.id: o for o in running.deployment.operators}
            for edge in running.deployment.edges:
                to_it = edge.source == operator.details["operator"] and edge.target_site == operator.site
                if (edge.target in inside or to_it) and edge.source_site != edge.target_site:
                    key = (running.query.name, shipment_key(by_id[edge.source], edge))
                    if key not in found or found[key].bytes_per_s < edge.bytes_per_s:
                        found[key] = edge
            part = [o for o in running.deployment.operators if o.id in inside]
            if any(o.kind == "reuse" for o in part):
                below = Deployment(tuple(Operator(o.id, o.kind, o.site, (), o.details) for o in part), ())
                found |= self.upstream(below)
        return found

    def work(self, deployment: Deployment) -> float:
        """The work of others' operators that a deployment refers to."""
        seen: dict[tuple[str, str], float] = {}
        for operator in deployment.operators:
            if operator.kind == "reuse":
                running = self.running[operator.details["query"]]
                for id_ in _above(running.deployment, operator.details["operator"]):
                    seen[running.query.name, id_] = running.deployment.operator(id_).work_s
        return sum(seen.values())

    def _enter(self, entry: Entry) -> None:
        streams = tuple(sorted(n.split("#")[0] for n in entry.view.labels))
        self.entries.setdefault(streams, {}).setdefault((entry.view.key, entry.site), entry)

    def _widen(self, operator: Operator) -> None:
        """What was widened for one query is wider for all that come after."""
        if not {"columns_added", "filters_widened"} & operator.details.keys():
            return
        for by_key in self.entries.values():
            for key, entry in list(by_key.items()):
                same = (entry.of.query.name, entry.operator, entry.site)
                if same == (operator.details["query"], operator.details["operator"], operator.site):
                    lacking: dict[str, frozenset[str]] = {}
                    for text in operator.details.get("columns_added", ()):
                        name, column = text.rsplit(".", 1)
                        lacking[name] = lacking.get(name, frozenset()) | {column}
                    weaker = {n: frozenset(f) for n, f in operator.details.get("filters_widened", {}).items()}
                    wider = widened(entry.view, Gap((), lacking, weaker))
                    del by_key[key]
                    self._enter(Entry(entry.of, entry.operator, entry.mask, entry.site, wider))


def _whole_outputs(running: Running) -> list[tuple[Operator, int]]:
    """The operators whose output is all of a view, not a part of its key space or of its heads."""
    deployment = running.deployment
    partial: set[str] = set()
    found = []
    for operator in deployment.operators:  # inputs come before those that read them
        if operator.kind in _PARTIAL or not partial.isdisjoint(operator.inputs):
            partial.add(operator.id)
        if operator.kind in _NOTHING or operator.id in partial:
            continue
        out = [e for e in deployment.edges if e.source == operator.id and e.carries == TUPLES]
        filtered = any(deployment.operator(e.target).kind == "filter" for e in out)
        if out and not filtered:
            found.append((operator, running.mask(out[0].streams)))
    return found


def _sites(deployment: Deployment, operator: Operator) -> list[str]:
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
    site = problem.network.number[entry.site]
    flow = entry.of.rates.flow(entry.mask)
    rate = (flow.rate, flow.bytes)
    aliases = problem.rates.names(mask)
    filter_s = flow.rate * problem.catalog.costs.probe_s if between.filters else 0.0
    work = filter_s if problem.model.work else 0.0
    if not between.must_widen:
        return Offer(entry, mask, site, between, work, (), rate, aliases, filter_s)
    more = _widening(entry, between, problem)
    if more is None:
        return None
    return Offer(
        entry, mask, site, between, work + _priced(more, problem.network), more, rate, aliases, filter_s
    )


def _widening(entry: Entry, between: Gap, problem: Problem) -> tuple[tuple[Edge, float], ...] | None:
    """What each edge upstream of an operator carries more, once its filters and projections are wider."""
    deployment, old = entry.of.deployment, entry.of.rates
    if entry.site != deployment.operator(entry.operator).site:
        return None  # a copy elsewhere would have to be widened on its way as well
    inside = _above(deployment, entry.operator)
    if any(deployment.operator(i).kind not in ("source", "join") for i in inside):
        return None
    label = dict(zip(_labels_in_order(entry), members(entry.mask), strict=True))
    grown = dict.fromkeys(members(entry.mask), 1.0)
    for name, theirs in between.weaker.items():
        grown[label[name]] = _growth(entry, label[name], theirs)
    added = {
        label[n]: sum(old.statistics.width(old.query.inputs[label[n]].stream, c).value for c in columns)
        for n, columns in between.lacking.items()
    }
    more = []
    for edge in deployment.edges:
        if edge.target not in inside:
            continue
        mask = entry.of.mask(edge.streams)
        factor = 1.0
        for i in members(mask):
            factor *= grown[i]
        lone = mask.bit_count() == 1  # shipped whole anyway
        wider = 0.0 if lone or old.equal_width else sum(added.get(i, 0.0) for i in members(mask))
        extra = edge.tuples_per_s * factor * (old.width(mask) + wider) - edge.bytes_per_s
        more.append((edge, max(0.0, extra)))
    return tuple(more)


def _labels_in_order(entry: Entry) -> list[str]:
    numbered: dict[str, int] = {}
    names = []
    streams = [entry.of.query.inputs[i].stream for i in members(entry.mask)]
    for stream in streams:
        numbered[stream] = numbered.get(stream, 0) + 1
        names.append(stream if streams.count(stream) == 1 else f"{stream}#{numbered[stream]}")
    return names


def _growth(entry: Entry, stream: int, theirs: frozenset[str]) -> float:
    """How many times the tuples of a stream pass once its filters let pass what either query asks for."""
    one = entry.of.query.inputs[stream]
    ours = 1.0
    for f in one.filters:
        ours *= passes(one, f, entry.of.rates.statistics)
    other = 1.0
    for text in theirs:
        other *= passes(one, Expr(text), entry.of.rates.statistics)
    if not theirs:
        return 1 / ours if ours else 1.0
    return min(1.0, ours + other) / ours if ours else 1.0


def _priced(more: Iterable[tuple[Edge, float]], network: Network) -> float:
    numbers: Mapping[str, int] = network.number
    return sum(
        network.cost(numbers[e.source_site], numbers[e.target_site], extra)
        for e, extra in more
        if e.source_site != e.target_site and extra > 0
    )
