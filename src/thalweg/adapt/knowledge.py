"""What the nodes of a distributed update know: all of them the setting, each one its streams' facts.

Everybody knows the query, the sites and the links between them. The statistics of a stream are known where it
arises, and to those who are told. So a node estimates a head's results with the planners' own formulas, and
with statistics for no other streams than the head has joined so far.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from thalweg.catalog.model import Catalog, JoinSelectivity, Stats
from thalweg.cost.methods import Side, at_source, simple
from thalweg.cost.objectives import Model
from thalweg.cost.rates import Flow, Rates
from thalweg.cost.stats import Statistics
from thalweg.cost.ways import Ways
from thalweg.planners.search.problem import Problem
from thalweg.planners.search.sequences import step_name
from thalweg.query.model import Query


@dataclass(frozen=True)
class Facts:
    """The statistics of one stream of a query, and the selectivities of its joins with others.

    `rate` and `window` are those after its filters; `flow` has what its one-way joins cost by.
    """

    alias: str
    declared: Stats
    measured: Stats | None
    rate: float
    window: float
    width: float
    joins: tuple[JoinSelectivity, ...]

    @property
    def flow(self) -> Flow:
        return Flow(self.rate, self.window, self.width)


@dataclass(frozen=True)
class Joined:
    """What a head has joined so far: the streams in their order, and rate, width and site of the results.

    `rate` and `width` are adaptive's r^i and t^i at this position.
    """

    streams: tuple[Facts, ...]
    site: str
    rate: float
    width: float

    @property
    def aliases(self) -> tuple[str, ...]:
        return tuple(f.alias for f in self.streams)


@dataclass(frozen=True)
class Price:
    """The cost of a one-way join; the cheaper is the smaller."""

    cost: float
    number: int
    order: int
    method: str


@dataclass(frozen=True, eq=False)
class Setting:
    """What does not change, and everybody knows; `place` is the place of a site in `ways`."""

    query: Query
    catalog: Catalog
    model: Model
    ways: Ways
    place: Mapping[str, int]
    equal_width: bool
    deliver_to: str | None

    @classmethod
    def of(cls, problem: Problem) -> Setting:
        """A problem without its statistics."""
        known = problem.catalog
        streams = {name: s.model_copy(update={"stats": Stats()}) for name, s in known.streams.items()}
        bare = known.model_copy(update={"streams": streams, "joins": ()})
        at = list(dict.fromkeys(problem.at))
        place = {problem.network.sites[n]: i for i, n in enumerate(at)}
        equal = problem.rates.equal_width
        return cls(
            problem.query, bare, problem.model, Ways(problem.network, at), place, equal, problem.deliver_to
        )

    @cached_property
    def sites(self) -> dict[str, str]:
        """The site of each stream."""
        return {i.alias: self.catalog.streams[i.stream].site for i in self.query.inputs}

    @cached_property
    def number(self) -> dict[str, int]:
        return {alias: i for i, alias in enumerate(self.query.aliases)}

    @cached_property
    def _classes(self) -> tuple[Mapping[str, object], ...]:
        return Rates.of(self.query, Statistics(self.catalog)).keys

    def joinable(self, joined: Collection[str], alias: str) -> bool:
        """Whether an equality connects a stream to some others."""
        return any(alias in one and any(a in one for a in joined) for one in self._classes)

    def output(self, head: str, stream: str) -> str:
        """The name of a head's results with a stream, adaptive's S^i_k."""
        return head if stream == head else step_name(stream, head, self.query.aliases)

    def step(self, joined: Joined, alias: str, flow: Flow) -> Price:
        """The cost of joining one more stream, at the cheaper site (adaptive eqs. 1 to 3)."""
        source, target = self.place[joined.site], self.place[self.sites[alias]]
        near = Side(joined.rate, joined.width, 0.0, 1.0)
        far = Side(flow.rate, flow.width, 0.0, 1.0, flow.window)
        found = []
        for order, method in enumerate(simple(near, far, self.catalog.costs)):
            if at_source(method.name) and source == target:
                continue  # there is nothing to ship
            cost = float(method.work_s) if self.model.work else 0.0
            for one in method.shipments:
                ends = (target, source) if one.back else (source, target)
                cost += self.ways.cost(*ends, float(one.bytes_per_s))
            found.append(Price(cost, self.number[alias], order, method.name))
        return min(found, key=rank)

    def joined(self, streams: Sequence[Facts], site: str) -> Joined:
        """The results of a head, the first of these streams, with the others."""
        numbers = [self.number[f.alias] for f in streams]
        rates, mask = self._rates(streams), sum(1 << n for n in numbers)
        return Joined(tuple(streams), site, rates.headed(numbers[0], mask), rates.width(mask))

    def _rates(self, told: Sequence[Facts]) -> Rates:
        """Estimates by the facts told; those for other streams are assumed, and not to be used."""
        streams, measured = dict(self.catalog.streams), {}
        for facts in told:
            name = self.query.input(facts.alias).stream
            streams[name] = streams[name].model_copy(update={"stats": facts.declared})
            if facts.measured is not None:
                measured[name] = facts.measured
        joins = tuple(join for facts in told for join in facts.joins)
        known = self.catalog.model_copy(update={"streams": streams, "joins": joins})
        rates = Rates.of(self.query, Statistics(known, measured), equal_width=self.equal_width)
        rate, window = np.array(rates.rate), np.array(rates.window)
        for facts in told:
            rate[self.number[facts.alias]] = facts.rate
            window[self.number[facts.alias]] = facts.window
        return replace(rates, rate=rate, window=window, _flows={})


def rank(price: Price) -> tuple[float, int, int]:
    """The order of prices: of equal costs the first stream has the lower, and its first method."""
    return price.cost, price.number, price.order


def plain(catalog: Catalog) -> Catalog:
    """The catalog without the rates of single values.

    An estimate with these depends on the values that all streams name, also those not joined yet. Nodes do
    not know them, so a distributed update ends at the same plan as a central one by these statistics.
    """
    streams = {}
    for name, stream in catalog.streams.items():
        stats = stream.stats
        rates = [by_value for by_value in stats.rates.values() if by_value]
        rate = sum(rates[0].values()) if stats.rate is None and rates else stats.rate
        distinct = {column: float(len(by_value)) for column, by_value in stats.rates.items() if by_value}
        update = {"rate": rate, "distinct": {**distinct, **stats.distinct}, "rates": {}}
        streams[name] = stream.model_copy(update={"stats": stats.model_copy(update=update)})
    return catalog.model_copy(update={"streams": streams})


def facts_of(problem: Problem) -> dict[str, Facts]:
    """The facts of each stream; each is for the node where the stream arises."""
    rates, statistics = problem.rates, problem.rates.statistics
    found = {}
    for i, one in enumerate(problem.query.inputs):
        joins = (*statistics.measured_joins, *statistics.catalog.joins)
        own = tuple(j for j in joins if one.stream in (j.left[0], j.right[0]))
        found[one.alias] = Facts(
            one.alias,
            statistics.catalog.streams[one.stream].stats,
            statistics.measured.get(one.stream),
            float(rates.rate[i]),
            float(rates.window[i]),
            rates.width(1 << i),
            own,
        )
    return found
