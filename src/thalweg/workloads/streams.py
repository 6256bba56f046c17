"""pmjoin's streams and queries (section 4): rates, windows, value distributions and sites, from a seed.

All tuples count as 1, joined or not, as the paper has it. The problems are made of arrays: a catalog that
names each of 100,000 values of each stream would take long to build.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from thalweg.catalog.model import Catalog, Site, Source, Stats, Stream
from thalweg.cost.keys import Floats, KeyClass
from thalweg.cost.network import Network
from thalweg.cost.objectives import MODELS
from thalweg.cost.rates import Rates
from thalweg.cost.stats import Statistics
from thalweg.planners.search.problem import Problem
from thalweg.planners.search.reuse import Deployed
from thalweg.planners.search.tree import Join, Tree, from_below
from thalweg.query.model import Equality, Expr, Input, Output, Query, Window, WindowKind
from thalweg.workloads.values import distributions

LASW, HASW = "LASW", "HASW"
"""Slower streams have the smaller windows; faster streams have them."""
SELECTIVITIES = (LASW, HASW)
WINDOWS_S = (10.0, 100.0)

Attribute = tuple[tuple[int, ...], Floats]
"""Some streams that are equal in an attribute, and a row for each of how often each value occurs."""


@dataclass(frozen=True, eq=False)
class Streams:
    """Streams by number: tuples a second, seconds of window, site, and which are equal in what."""

    rate: Floats
    window_s: Floats
    at: tuple[int, ...]
    attributes: tuple[Attribute, ...]

    @property
    def sites(self) -> int:
        return max(self.at) + 1

    def problem(self, **settings: str) -> Problem:
        """The query that joins them all on all attributes, as planners take it; the result stays anywhere."""
        query, catalog = self._query(), self._catalog()
        model = MODELS["bytes"]
        statistics = Statistics(catalog)
        estimates = Rates.of(query, statistics, equal_width=True)
        order = [tuple(query.aliases.index(a) for a in by_alias) for by_alias in estimates.keys]
        classes = tuple(_key_class(*self._attribute(streams)) for streams in order)
        rates = Rates(
            query, statistics, self.rate, self.rate * self.window_s, classes, estimates.keys, equal_width=True
        )
        network = Network.of(catalog, model)
        return Problem(
            query, catalog, model, network, rates, Deployed(), None, {"width": "equal", **settings}
        )

    def _attribute(self, streams: Sequence[int]) -> Attribute:
        found = next(a for a in self.attributes if set(a[0]) == set(streams))
        rows = [found[0].index(i) for i in streams]
        return tuple(streams), found[1][rows]

    def _query(self) -> Query:
        equal = []
        for number, (streams, _) in enumerate(self.attributes):
            column = f"k{number}"
            for a, b in pairwise(streams):
                equal.append(Equality(Expr.column(f"s{a}", column), Expr.column(f"s{b}", column)))
        inputs = tuple(
            Input(f"s{i}", f"s{i}", Window(WindowKind.RANGE, round(seconds * 1e6)))
            for i, seconds in enumerate(self.window_s.tolist())
        )
        return Query("q", "", inputs, tuple(equal), (), (Output("ts", Expr.column("s0", "ts")),))

    def _catalog(self) -> Catalog:
        columns: list[dict[str, str]] = [{"ts": "timestamp"} for _ in self.at]
        distinct: list[dict[str, float]] = [{} for _ in self.at]
        for number, (streams, shares) in enumerate(self.attributes):
            for i in streams:
                columns[i][f"k{number}"] = "long"
                distinct[i][f"k{number}"] = float(shares.shape[1])
        made = {
            f"s{i}": Stream(
                name=f"s{i}",
                site=f"n{site}",
                time="ts",
                columns=columns[i],
                source=Source(format="parquet"),
                stats=Stats(rate=float(self.rate[i]), distinct=distinct[i]),
            )
            for i, site in enumerate(self.at)
        }
        return Catalog(path="", sites={f"n{i}": Site() for i in range(self.sites)}, streams=made)


def _key_class(streams: Sequence[int], shares: Floats) -> KeyClass:
    """All values are named, by their numbers."""
    n = len(streams)
    values = tuple(float(v) for v in range(1, shares.shape[1] + 1))
    return KeyClass(tuple(streams), values, shares, np.zeros(n), np.ones(n))


def windows(rate: Floats, rng: np.random.Generator, selectivity: str = "") -> Floats:
    """Seconds of 10 to 100, at random, or in the order of the rates (LASW) or against it (HASW)."""
    found = rng.uniform(*WINDOWS_S, len(rate))
    if not selectivity:
        return found
    ordered = np.sort(found)
    if selectivity == HASW:
        ordered = ordered[::-1]
    made = np.empty_like(ordered)
    made[np.argsort(rate)] = ordered
    return made


def shipped(problem: Problem, tree: Tree, rates: Rates | None = None) -> float:
    """The tuples a second that a tree ships between sites: pmjoin's cost."""
    flows = rates or problem.rates
    total = 0.0
    for node in from_below(tree):
        if isinstance(node, Join):
            for one in node.inputs:
                where = one.site if isinstance(one, Join) else problem.at[one.mask.bit_length() - 1]
                if where != node.site:
                    total += flows.flow(one.mask).rate
    return total


def on_one_attribute(rate: Floats, window_s: Floats, at: Sequence[int], shares: Floats) -> Streams:
    """All streams equal in one attribute."""
    return Streams(rate, window_s, tuple(at), ((tuple(range(len(rate))), shares),))


def on_several(
    attributes: int, values: int, sites: int, rng: np.random.Generator, *, rates: tuple[float, float]
) -> Streams:
    """Streams at random sites, joined on several attributes; each connects two or three streams.

    An attribute after the first connects one stream that is there with one or two new ones.
    """
    groups: list[tuple[int, ...]] = []
    count = 0
    for number in range(attributes):
        new = int(rng.integers(1, 3)) + (number == 0)
        old = [int(rng.integers(count))] if count else []
        groups.append((*old, *range(count, count := count + new)))
    rate = rng.uniform(*rates, count)
    at = tuple(int(site) for site in rng.integers(sites, size=count))
    made = tuple((group, distributions(len(group), values, rng)) for group in groups)
    return Streams(rate, windows(rate, rng), at, made)
