"""The node operator set of a site, its part of a deployment (adaptive 4.1, definition 2); comparing two.

Streams have the names of the operators they come from: a source its alias, the output of a head's step
"k^i" (adaptive's S^i_k). A step probes the window of one stream; an N-way join, or a helper of a semijoin,
those of all its inputs.

Two deployments can give one name to different streams: "join1" is any first join, and "k^i" does not say what
else has been joined. `compare` therefore names a stream by its content: the streams, the part of the key
space, the filters.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from thalweg.plan import operators
from thalweg.plan.deployment import Deployment, Edge


@dataclass(frozen=True)
class Join:
    """A one-way join from the first stream to the second; an N-way join of all."""

    streams: tuple[str, ...]

    def __str__(self) -> str:
        return f"join({', '.join(self.streams)})"


@dataclass(frozen=True)
class Update:
    """Keeps the window of a stream."""

    stream: str

    def __str__(self) -> str:
        return f"update({self.stream})"


@dataclass(frozen=True)
class Ship:
    """Sends the tuples or keys of a stream to another site."""

    stream: str
    site: str

    def __str__(self) -> str:
        return f"ship({self.stream}, {self.site})"


@dataclass(frozen=True)
class Make:
    """Makes a stream of one other: a part of it, its keys, a filtered one."""

    kind: str
    stream: str

    def __str__(self) -> str:
        return f"{self.kind}({self.stream})"


NodeOperator = Join | Update | Ship | Make


@dataclass(frozen=True)
class Move:
    """A window that a site needs and did not keep.

    `origin` keeps it in the old deployment. None: no site does, so it is computed from other windows.
    """

    stream: str
    origin: str | None


@dataclass(frozen=True)
class Change:
    """What changes at a site: the operators that start, stop and stay, and the windows that it needs."""

    start: frozenset[NodeOperator]
    stop: frozenset[NodeOperator]
    stay: frozenset[NodeOperator]
    moves: tuple[Move, ...]

    @property
    def affected(self) -> bool:
        return bool(self.start or self.stop)


def node_operators(deployment: Deployment, site: str, head: str | None = None) -> frozenset[NodeOperator]:
    """The node operator set of a site; with `head`, only its part of that stream's sequence.

    >>> a, b = (operators.Source(s, f"n_{s}", stream=s) for s in "ab")
    >>> more = {"head": "a", "stream": "b", "method": "SP-D", "streams": ("a", "b"), "on": ()}
    >>> step = operators.Step("b^a", "n_b", ("a", "b"), **more)
    >>> edges = (Edge("a", "b^a", "n_a", "n_b", ("a",), 1, 1), Edge("b", "b^a", "n_b", "n_b", ("b",), 1, 1))
    >>> plan = Deployment((a, b, step), edges)
    >>> for site in plan.sites:
    ...     print(site, sorted(map(str, node_operators(plan, site))))
    n_a ['ship(a, n_b)']
    n_b ['join(a, b)', 'update(b)']
    """
    return _operators(deployment, site, head, {o.id: o.id for o in deployment.operators})


def compare(before: Deployment, after: Deployment) -> dict[str, Change]:
    """What changes at each site from one deployment of a query to another."""
    old, new = ({site: _named(d, site) for site in d.sites} for d in (before, after))
    homes = {o.id: o.site for o in before.operators if isinstance(o, operators.Source)}
    keepers: dict[str, list[str]] = {}
    for site, found in old.items():
        for operator in found:
            if isinstance(operator, Update):
                keepers.setdefault(operator.stream, []).append(site)

    def moved(stream: str) -> Move:
        kept = sorted(keepers.get(stream, ()), key=lambda site: (site != homes.get(stream), site))
        return Move(stream, kept[0] if kept else None)

    changes = {}
    for site in sorted({*old, *new}):
        was, will = (found.get(site, frozenset()) for found in (old, new))
        needed = sorted(o.stream for o in will - was if isinstance(o, Update))
        changes[site] = Change(will - was, was - will, was & will, tuple(map(moved, needed)))
    return changes


def _named(deployment: Deployment, site: str) -> frozenset[NodeOperator]:
    """The node operator set of a site, with streams named by their content."""
    return _operators(deployment, site, None, contents(deployment))


def _operators(
    deployment: Deployment, site: str, head: str | None, names: Mapping[str, str]
) -> frozenset[NodeOperator]:
    found: set[NodeOperator] = set()
    for operator in deployment.operators:
        if operator.site == site and head in (None, _head_of(operator)):
            found |= _done(operator, names)
    for edge in deployment.edges:
        if edge.source_site == site != edge.target_site and head in (None, _head(deployment, edge)):
            found.add(Ship(names[edge.source], edge.target_site))
    return frozenset(found)


def contents(deployment: Deployment) -> dict[str, str]:
    """A name for the output of each operator that is the same in every deployment of the query."""
    found: dict[str, frozenset[str]] = {}
    waiting = list(reversed(deployment.operators))
    while waiting:  # no recursion: a plan of a thousand streams may be a thousand deep
        operator = waiting[-1]
        if missing := [deployment.operator(i) for i in operator.inputs if i not in found]:
            waiting += missing
            continue
        waiting.pop()
        inputs = [found[i] for i in operator.inputs]
        if isinstance(operator, operators.Join):
            # Joins of the same streams have the same results, in whatever order they are joined.
            found[operator.id] = frozenset().union(*inputs)
        else:
            found[operator.id] = frozenset([_content(operator, [*map(_product, inputs)], deployment)])
    return {id_: _product(streams) for id_, streams in found.items()}


def _product(streams: Iterable[str]) -> str:
    return "*".join(sorted(streams))


def _content(operator: operators.Operator, inputs: Sequence[str], deployment: Deployment) -> str:
    match operator:
        case operators.Step():
            return results_of(operator.head, operator.streams)
        case operators.Split():
            return f"{inputs[0]}[{_part(operator, deployment)}]"
        case operators.Filter():
            more = [*sorted(operator.filters), *(f"{s} {w}" for s, w in sorted(operator.windows.items()))]
            return f"{inputs[0]}[{'; '.join(more)}]"
        case operators.Reuse():
            return f"{operator.query}.{operator.operator}"
        case operators.Keys():
            return f"{operator.kind}({', '.join(operator.key)}; {operator.bloom} {operator.interval_s})"
        case operators.Helper():
            return f"{operator.method}.{operator.kind}({', '.join(inputs)}; {operator.interval_s})"
        case _:
            return operator.id


def _part(split: operators.Split, deployment: Deployment) -> str:
    """The part of the key space that a split lets pass, whatever its number."""
    told = {k: v for k, v in split.selector.to_json().items() if k != "part"}
    if split.selector.others:  # those that no part names
        all_ = (o for o in deployment.operators if isinstance(o, operators.Split) and o.key == split.key)
        told["named"] = sorted({str(v) for o in all_ for v in o.selector.values})
    return f"{split.key} {told}"


def results_of(head: str, streams: Iterable[str]) -> str:
    """A name for a head's results with a set of streams, whatever their order.

    "k^i" names a head's results by the last stream only.

    >>> results_of("b", "cab"), results_of("b", "b")
    ('a*b*c^b', 'b')
    """
    return head if set(streams) == {head} else f"{_product(streams)}^{head}"


def _done(operator: operators.Operator, names: Mapping[str, str]) -> set[NodeOperator]:
    inputs = tuple(names[i] for i in operator.inputs)
    match operator:
        case operators.Step():
            return {Join(inputs), Update(inputs[1])}
        case operators.Keys():
            return {Make(operator.kind, names[operator.id]), Update(inputs[0])}
        case operators.Split() | operators.Filter():
            return {Make(operator.kind, names[operator.id])}
        case operators.Source() | operators.Reuse() | operators.Widen() | operators.Sink():
            return set()
        case _:
            return {Join(inputs), *(Update(i) for i in inputs)}


def _head(deployment: Deployment, edge: Edge) -> str | None:
    """The head for which something is shipped: the reader's head, or the sender's if a sink reads it."""
    return _head_of(deployment.operator(edge.target)) or _head_of(deployment.operator(edge.source))


def _head_of(operator: operators.Operator) -> str | None:
    return operator.head if isinstance(operator, operators.OneWay) else None
