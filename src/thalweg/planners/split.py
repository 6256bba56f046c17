"""Splits N-way joins of a deployment into trees of smaller ones at the same site, where that is cheaper.

Nothing is shipped for it, so the plan's cost stays what it was. What is decided by: seconds of work a second
of one operator and of trees (`cost/splitting.py`), with what a further join costs beside its work: on Spark
each is a stage of every micro-batch, and what goes from one to the next is packed and shuffled.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from thalweg.cost.masks import mask_of
from thalweg.cost.mjoin import store_or_discard
from thalweg.cost.operations import prices
from thalweg.cost.rates import Rates
from thalweg.cost.splitting import Inputs, Moment, Operations, Shape, Work, mask_in
from thalweg.plan.deployment import Deployment, Edge, Operator
from thalweg.planners.problem import Problem
from thalweg.planners.shapes import Chosen, cheapest, cheapest_binary, single
from thalweg.planners.tree import Builder
from thalweg.query.model import Expr
from thalweg.query.tree import Node, join_tree

AUTO, NEVER, BINARY = "auto", "never", "binary"
MODES = (AUTO, NEVER, BINARY)

STAGE_S = 0.25
"""What a further join takes of every micro-batch, of which there is about one a second."""

FORWARD_S = 1e-6
"""What it takes to pack, shuffle and unpack an intermediate result."""

_VALUE = 8  # bytes of a value, on average


def split_joins(problem: Problem, deployment: Deployment, mode: str) -> Deployment:
    """The deployment with each join of three inputs or more as it is best run, and why."""
    if mode == NEVER:
        return deployment
    pass_ = _Pass(problem, deployment, mode)
    for operator in deployment.operators:
        if operator.kind == "join":
            pass_.join(operator)
    return pass_.done()


@dataclass
class _Pass:
    problem: Problem
    deployment: Deployment
    mode: str
    operators: dict[str, list[Operator]] = field(default_factory=dict)  # what is put in an operator's place
    edges: dict[tuple[str, str], Edge] = field(default_factory=dict)
    _each: Operations | None = None

    def __post_init__(self) -> None:
        self.operators = {o.id: [o] for o in self.deployment.operators}
        self.edges = {(e.source, e.target): e for e in self.deployment.edges}
        self.rates: Rates = self.problem.rates
        self.number = {a: i for i, a in enumerate(self.rates.aliases)}

    @property
    def each(self) -> Operations:
        """The prices; measured only when something is to be decided."""
        if self._each is None:
            measured = prices()
            self._each = replace(measured, between=measured.between + FORWARD_S)
        return self._each

    def done(self) -> Deployment:
        return Deployment(
            tuple(o for made in self.operators.values() for o in made), tuple(self.edges.values())
        )

    def join(self, operator: Operator) -> None:
        """Decide on one join, and put a tree in its place or write down why not."""
        groups = self._groups(operator)
        if len(groups) < 3:
            if self.mode == BINARY:
                about = {"tree": _text((0, 1), self._labels(groups)), "because": "asked for"}
                self.operators[operator.id] = [_told(operator, split=about)]
            return
        assumed = self._assumed()
        if self.mode == AUTO and assumed:
            about = {"tree": _text(tuple(range(len(groups))), self._labels(groups)), "because": assumed}
            self.operators[operator.id] = [_told(operator, split=about)]
            return
        masks = list(groups)
        try:
            nodes = self._nodes(masks)
        except ValueError:
            return  # nothing connects them all: there are no statistics for that
        shapes, told = [], []
        for node in nodes:
            parts = [masks[int(i)] if isinstance(i, str) else _inside(nodes[i], masks) for i in node.inputs]
            choice = self._choose(parts, self._shares(operator, groups, parts))
            shapes.append(choice.shape)
            if len(parts) > 2:
                told.append(choice)
        if all(_flat(shape) for shape in shapes):
            self.operators[operator.id] = [_told(operator, **_details(told))]
        else:
            self._replace(operator, groups, _expanded(nodes, shapes), told)

    def _assumed(self) -> str:
        """What is assumed of the streams, beside widths: where that is guesswork, one operator is no risk."""
        found = [a for a in self.rates.statistics.assumed if ".stats.widths." not in a]
        return f"assumed: {found[0]}" + (f", and {len(found) - 1} more" if found[1:] else "") if found else ""

    def _groups(self, operator: Operator) -> dict[int, list[str]]:
        """The inputs by the set of streams that each brings; parts of a key space are one."""
        groups: dict[int, list[str]] = {}
        for i in operator.inputs:
            streams = self.deployment.edge(i, operator.id).streams
            groups.setdefault(mask_of(self.number[a] for a in streams), []).append(i)
        return groups

    def _labels(self, groups: Mapping[int, Sequence[str]]) -> list[str]:
        return [" ".join(self.rates.names(mask)) for mask in groups]

    def _nodes(self, masks: Sequence[int]) -> list[Node]:
        """An operator on several attributes is a tree of joins already; its inputs are told by number."""
        names = [set(self.rates.names(mask)) for mask in masks]
        within: list[dict[str, list[Expr]]] = [
            {str(n): [] for n, own in enumerate(names) if own & by_alias.keys()}
            for by_alias in self.rates.keys
        ]
        return join_tree([str(n) for n in range(len(masks))], within)

    def _shares(
        self, operator: Operator, groups: Mapping[int, Sequence[str]], parts: Sequence[int]
    ) -> list[float]:
        """How much of each input arrives here: in a plan by parts of a key space it is not all."""
        shares = []
        for part in parts:
            inputs = groups.get(part, ())
            whole = self.rates.flow(part).rate
            here = sum(self.deployment.edge(i, operator.id).tuples_per_s for i in inputs)
            shares.append(min(1.0, here / whole) if inputs and whole > 0 and here > 0 else 1.0)
        return shares

    def _choose(self, parts: Sequence[int], shares: Sequence[float]) -> _Choice:
        work = Work(_inputs(self.rates, parts, shares))
        one, labels = single(work, self.each), self._labels(dict.fromkeys(parts, ()))
        if len(parts) < 3:
            return _Choice(work, labels, one.shape, one, one, "", self.each)
        binary = cheapest_binary(work, self.each)
        if self.mode == BINARY:
            return _Choice(work, labels, binary.shape, one, binary, "asked for", self.each)
        best = cheapest(work, self.each)
        saved, asked = one.seconds - best.seconds, STAGE_S * (_depth(best.shape) - 1)
        if _flat(best.shape):
            because = "no tree of smaller joins is less work"
        elif saved > asked:
            because = f"saves {saved:.3g} s of work a second, and its stages take {asked:.3g} s"
        else:
            tree = _text(best.shape, labels)
            because = f"{tree} saves {saved:.3g} s of work a second, and its stages take {asked:.3g} s"
        chosen = best.shape if saved > asked else one.shape
        return _Choice(work, labels, chosen, one, binary, because, self.each)

    def _replace(
        self, operator: Operator, groups: Mapping[int, Sequence[str]], tree: Shape, told: Sequence[_Choice]
    ) -> None:
        """A tree of joins in the place of one; the last keeps its name for all that read it."""
        masks = list(groups)
        for i in operator.inputs:
            del self.edges[i, operator.id]
        made: list[Operator] = []
        self._made(operator, tree, masks, groups, made)
        made[-1] = replace(_told(made[-1], **_details(told)), work_s=operator.work_s)
        self.operators[operator.id] = made

    def _made(
        self,
        operator: Operator,
        tree: Shape,
        masks: Sequence[int],
        groups: Mapping[int, Sequence[str]],
        made: list[Operator],
        top: bool = True,
    ) -> str:
        assert not isinstance(tree, int)
        sets, inputs = [], []
        edges: list[Edge] = []
        for part in tree:
            mask = mask_of(n for k in _numbers(part) for n in _bits(masks[k]))
            sets.append(mask)
            if isinstance(part, int):
                edges += [self.deployment.edge(i, operator.id) for i in groups[mask]]
            else:
                below = self._made(operator, part, masks, groups, made, top=False)
                flow, names = self.rates.flow(mask), self.rates.names(mask)
                edges.append(Edge(below, "", operator.site, operator.site, names, flow.rate, flow.bytes))
        name = operator.id if top else self._fresh(operator.id, len(made))
        for edge in edges:
            inputs.append(edge.source)
            self.edges[edge.source, name] = replace(edge, target=name)
        union = mask_of(n for s in sets for n in _bits(s))
        details = Builder(self.problem).describe(union, sets)
        kept = {k: v for k, v in operator.details.items() if k not in ("streams", "on", "conditions")}
        made.append(
            Operator(name, "join", operator.site, tuple(inputs), {**details, **(kept if top else {})})
        )
        return name

    def _fresh(self, id_: str, n: int) -> str:
        taken = {*self.operators, *self.rates.aliases}
        return next(f"{id_}_{k}" for k in range(n + 1, n + 2 + len(taken)) if f"{id_}_{k}" not in taken)


@dataclass(frozen=True)
class _Choice:
    """How the inputs of one join are to meet, and what that was decided by."""

    work: Work
    labels: Sequence[str]
    shape: Shape
    one: Chosen
    binary: Chosen
    because: str
    each: Operations

    def told(self) -> dict[str, Any]:
        chosen = self.work.tree(self.shape).seconds(self.each)
        split = self.binary.shape
        assert not isinstance(split, int)
        paper = store_or_discard(self.work, (mask_in(split[0]), mask_in(split[1])), self.each)
        return {
            "tree": _text(self.shape, self.labels),
            "because": self.because,
            "work_s": {
                "one operator": _short(self.one.seconds),
                f"binary tree {_text(split, self.labels)}": _short(self.binary.seconds),
                "chosen": _short(chosen),
            },
            "mjoin": {
                "S": _short(paper.store),
                "D": _short(paper.discard),
                "says": "split" if paper.splits else "one operator",
            },
        }

    @property
    def warning(self) -> str:
        """MJoin 3.6: what arrives faster than it is joined piles up."""
        seconds = self.work.tree(self.shape).seconds(self.each)
        if seconds <= 1:
            return ""
        return f"takes {seconds:.3g} seconds of work a second: with fewer cores than that a backlog grows"


def _inputs(rates: Rates, parts: Sequence[int], shares: Sequence[float]) -> Inputs:
    """What the statistics say of a join's inputs, in steady state."""
    flows = [rates.flow(part) for part in parts]
    within = math.prod(shares) ** (1 / len(shares))  # the part of the key space that this is, about

    def agree(mask: int) -> float:
        some = [part for k, part in enumerate(parts) if mask >> k & 1]
        together = mask_of(n for part in some for n in _bits(part))
        apart = math.prod(rates.agree(part) for part in some)
        return min(1.0, rates.agree(together) / apart / within ** (len(some) - 1)) if apart > 0 else 0.0

    rate = tuple(f.rate * s for f, s in zip(flows, shares, strict=True))
    content = tuple(f.window * s for f, s in zip(flows, shares, strict=True))
    span = tuple(w / r if r > 0 else math.inf for r, w in zip(rate, content, strict=True))
    return Inputs((Moment(rate, content),), agree, span, tuple(max(1.0, f.width / _VALUE) for f in flows))


def _details(told: Sequence[_Choice]) -> dict[str, Any]:
    about = [choice.told() for choice in told]
    warnings = [choice.warning for choice in told if choice.warning]
    found: dict[str, Any] = {"split": about[0] if len(about) == 1 else about} if about else {}
    return {**found, "warning": warnings[0]} if warnings else found


def _told(operator: Operator, **details: Any) -> Operator:
    return replace(operator, details={**operator.details, **details})


def _inside(node: Node, masks: Sequence[int]) -> int:
    return mask_of(n for label in node.aliases for n in _bits(masks[int(label)]))


def _expanded(nodes: Sequence[Node], shapes: Sequence[Shape]) -> Shape:
    """One tree over the operator's inputs, from those of its joins, one for each set of attributes."""
    done: list[Shape] = []
    for node, shape in zip(nodes, shapes, strict=True):
        inputs = [int(i) if isinstance(i, str) else done[i] for i in node.inputs]
        done.append(_placed(shape, inputs))
    return done[-1]


def _placed(shape: Shape, inputs: Sequence[Shape]) -> Shape:
    return inputs[shape] if isinstance(shape, int) else tuple(_placed(s, inputs) for s in shape)


def _numbers(shape: Shape) -> list[int]:
    return [shape] if isinstance(shape, int) else [n for part in shape for n in _numbers(part)]


def _bits(mask: int) -> list[int]:
    return [i for i in range(mask.bit_length()) if mask >> i & 1]


def _flat(shape: Shape) -> bool:
    return _depth(shape) <= 1


def _depth(shape: Shape) -> int:
    return 0 if isinstance(shape, int) else 1 + max(_depth(part) for part in shape)


def _text(shape: Shape, labels: Sequence[str]) -> str:
    """A tree as people read it: ((a b) c)."""
    if isinstance(shape, int):
        return f"({labels[shape]})" if " " in labels[shape] else labels[shape]
    return f"({' '.join(_text(part, labels) for part in shape)})"


def _short(seconds: float) -> float:
    return float(f"{seconds:.3g}")
