"""Trees of joins, each at a site, and the deployments they make.

A tree's leaves are the query's streams, or outputs of another query's operators. Some of its joins may be
made by several trees, each for a part of a key space.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from thalweg.cost.masks import mask_of, members
from thalweg.cost.objectives import join_work
from thalweg.cost.rates import LARGEST, Rates
from thalweg.plan import operators as ops
from thalweg.plan.deployment import Deployment, Edge
from thalweg.plan.selectors import Selector
from thalweg.planners.search.problem import Problem, many_objects
from thalweg.planners.search.reuse import Offer


@dataclass(frozen=True)
class Leaf:
    """One of the query's streams, where it arises."""

    stream: int

    @property
    def mask(self) -> int:
        return 1 << self.stream


@dataclass(frozen=True)
class Reused:
    """The output of a deployed operator, for a set of the query's streams."""

    mask: int
    offer: Offer


@dataclass(frozen=True)
class Join:
    """An N-way join at a site (by number)."""

    inputs: tuple[Tree, ...]
    site: int
    mask: int = field(init=False)

    def __post_init__(self) -> None:
        mask = 0
        for one in self.inputs:
            mask |= one.mask
        object.__setattr__(self, "mask", mask)


@dataclass(frozen=True)
class Partitioned:
    """A set of streams joined by several trees, each for its part of an attribute's key space.

    The leaves of these trees are `inputs`: streams, or joins of all their tuples.
    """

    inputs: tuple[Tree, ...]
    parts: tuple[Part, ...]
    mask: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "mask", self.parts[0].tree.mask)


Tree = Leaf | Reused | Join | Partitioned


@dataclass(frozen=True)
class Part:
    """A tree for a part of the key space, its rates, and the selector and keys of its tuples."""

    tree: Tree
    rates: Rates
    selector: Selector
    keys: Mapping[str, str] = field(hash=False)


def deploy(problem: Problem, tree: Tree) -> Deployment:
    """The deployment of a query by a tree."""
    with many_objects():
        builder = Builder(problem)
        builder.sink(builder.tree(tree))
        return builder.deployment()


@dataclass(frozen=True)
class Built:
    """An operator whose output is the join of a set of streams, with its rates."""

    id: str
    mask: int
    rates: Rates


@dataclass
class Builder:
    """Gathers operators and the edges between them."""

    problem: Problem
    operators: dict[str, ops.Operator] = field(default_factory=dict)
    edges: list[Edge] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.classes = self.problem.rates.keys
        self._counts: Counter[str] = Counter()
        self._joins: dict[tuple[int, ...], ops.Join] = {}
        number = {a: i for i, a in enumerate(self.problem.query.aliases)}
        self._classes_of: list[list[int]] = [[] for _ in number]
        for c, by_alias in enumerate(self.classes):
            for alias in by_alias:
                self._classes_of[number[alias]].append(c)
        self._conditions = [(c, mask_of(number[a] for a in c.aliases)) for c in self.problem.query.conditions]

    def deployment(self) -> Deployment:
        return Deployment(tuple(self.operators.values()), tuple(self.edges))

    def tree(self, tree: Tree) -> list[Built]:
        """The operators of a tree, inputs first; its tops, one for each part of the key space."""
        done: dict[int, list[Built]] = {}
        for node in from_below(tree):
            if isinstance(node, Leaf):
                done[id(node)] = [self.source(node.stream)]
            elif isinstance(node, Reused):
                done[id(node)] = [Built(self.reuse(node.offer), node.mask, self.problem.rates)]
            elif isinstance(node, Join):
                inputs = [top for i in node.inputs for top in done[id(i)]]
                done[id(node)] = [self.join(inputs, node.site, self.problem.rates)]
            else:
                whole = {i.mask: done[id(i)][0] for i in node.inputs}
                done[id(node)] = [self._part(part, whole) for part in node.parts]
        return done[id(tree)]

    def _part(self, part: Part, whole: Mapping[int, Built]) -> Built:
        done: dict[int, Built] = {}
        for node in from_below(part.tree, until=whole):
            if node.mask in whole:
                done[id(node)] = self.split(whole[node.mask], part)
            else:
                assert isinstance(node, Join)
                done[id(node)] = self.join([done[id(i)] for i in node.inputs], node.site, part.rates)
        return done[id(part.tree)]

    def source(self, stream: int) -> Built:
        """A stream where it arises, filtered."""
        one = self.problem.query.inputs[stream]
        if one.alias not in self.operators:
            site, filters = self.problem.rates.sites[stream], tuple(f.sql for f in one.filters)
            self.add(ops.Source(one.alias, site, stream=one.stream, filters=filters))
        return Built(one.alias, 1 << stream, self.problem.rates)

    def split(self, whole: Built, part: Part) -> Built:
        """Those tuples of a stream that belong to a part of the key space."""
        name = f"{whole.id}#{part.selector.part}"
        key = next(part.keys[a] for a in whole.rates.names(whole.mask) if a in part.keys)
        site = self.operators[whole.id].site
        self.add(ops.Split(name, site, (whole.id,), key=key, selector=part.selector), [whole])
        return Built(name, whole.mask, part.rates)

    def join(self, inputs: Sequence[Built], site: int, rates: Rates) -> Built:
        """An N-way join on every equality among its inputs, and the conditions that it can decide first."""
        mask = 0
        for one in inputs:
            mask |= one.mask
        sets = list(dict.fromkeys(one.mask for one in inputs))  # parts of one input have the same streams
        joined = self.joined(
            self.fresh("join"), self.problem.network.sites[site], [i.id for i in inputs], sets
        )
        work = min(join_work(rates, sets, self.problem.catalog.costs), LARGEST)
        self.add(replace(joined, work_s=work), inputs)
        return Built(joined.id, mask, rates)

    def joined(self, id_: str, site: str, inputs: Iterable[str], sets: Sequence[int]) -> ops.Join:
        """The join operator for inputs that bring some sets of streams."""
        # Parts of the key space join the same sets again and again.
        if (like := self._joins.get(tuple(sets))) is not None:
            return replace(like, id=id_, site=site, inputs=tuple(inputs))
        mask = 0
        for one in sets:
            mask |= one
        decided = (c.sql for c, r in self._conditions if not r & ~mask and all(r & ~one for one in sets))
        streams, on = self.problem.rates.names(mask), self._on(sets, self.problem.rates)
        made = ops.Join(id_, site, tuple(inputs), streams=streams, on=on, conditions=tuple(decided))
        self._joins[tuple(sets)] = made
        return made

    def _on(self, sets: Sequence[int], rates: Rates) -> ops.On:
        """For each attribute that connects inputs, one stream of each that has it, and its expressions."""
        largest = max(sets, key=int.bit_count)
        touched = sorted({c for s in sets if s != largest for i in members(s) for c in self._classes_of[i]})
        found = []
        for c in touched:  # an attribute that connects two inputs is one of all but the largest
            met = [s & rates.classes[c].mask for s in sets if s & rates.classes[c].mask]
            if len(met) > 1:
                names = [rates.aliases[(m & -m).bit_length() - 1] for m in met]
                found.append({a: tuple(e.sql for e in self.classes[c][a]) for a in names})
        return tuple(found)

    def reuse(self, offer: Offer) -> str:
        """A reference to another query's operator, widened and filtered as this query needs it."""
        made, edges = offer.operators()
        for operator in made:
            self.operators.setdefault(operator.id, operator)
        known = {(e.source, e.target) for e in self.edges}
        self.edges += [e for e in edges if (e.source, e.target) not in known]
        return made[-1].id

    def sink(self, tops: Sequence[Built]) -> None:
        """Adds the sinks: one at the site of delivery, or one at each site where results arise."""
        name = self.problem.query.name
        name = name if name not in self.operators else f"{name} results"
        sites = dict.fromkeys(self.operators[t.id].site for t in tops)
        if self.problem.deliver_to is not None:
            sites = dict.fromkeys([self.problem.deliver_to])
        for site in sites:
            here = [t for t in tops if len(sites) == 1 or self.operators[t.id].site == site]
            id_ = name if len(sites) == 1 else f"{name}@{site}"
            inputs = tuple(t.id for t in here)
            self.add(ops.Sink(id_, site, inputs, query=self.problem.query.name), here)

    def add(self, operator: ops.Operator, inputs: Sequence[Built] = ()) -> None:
        self.operators[operator.id] = operator
        for one in inputs:
            flow = one.rates.flow(one.mask)
            source = self.operators[one.id].site
            streams = one.rates.names(one.mask)
            self.edges.append(
                Edge(one.id, operator.id, source, operator.site, streams, flow.rate, flow.bytes)
            )

    def fresh(self, kind: str) -> str:
        """A name that no operator has yet."""
        while True:
            self._counts[kind] += 1
            name = f"{kind}{self._counts[kind]}"
            if name not in self.operators and name not in self.problem.query.aliases:
                return name


def from_below(tree: Tree, until: Container[int] = ()) -> list[Tree]:
    """All nodes in topological order; nothing below a node whose mask is in `until`.

    No recursion: a tree of a thousand streams may be a thousand deep.
    """
    order, waiting = [], [tree]
    while waiting:
        node = waiting.pop()
        order.append(node)
        if isinstance(node, Join | Partitioned) and node.mask not in until:
            waiting.extend(node.inputs)
    return order[::-1]
