"""Splits N-way joins of a deployment into trees of smaller ones at the same site, where that is cheaper.

Nothing more is shipped, so the plan's cost stays the same. The choice compares the seconds of work a second
of one operator and of trees (`cost/splitting.py`). Each further join adds a fixed cost: on Spark it is a
stage of every micro-batch, and its input is packed and shuffled.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from thalweg.cost.masks import mask_of, members
from thalweg.cost.mjoin import store_or_discard, work_in_all
from thalweg.cost.operations import USUAL, prices
from thalweg.cost.rates import Rates
from thalweg.cost.splitting import Inputs, Moment, Operations, Shape, Work, mask_in
from thalweg.plan.deployment import Deployment, Edge
from thalweg.plan.operators import Join, JoinTree, Operator, PaperCosts
from thalweg.planners.search.problem import Problem
from thalweg.planners.search.shapes import MOST, STEPWISE, Chosen, cheapest, cheapest_binary, depth, single
from thalweg.planners.search.tree import Builder
from thalweg.query.model import Expr
from thalweg.query.tree import Node, join_tree

AUTO, NEVER, BINARY = "auto", "never", "binary"
MODES = (AUTO, NEVER, BINARY)

STAGE_S = 0.25
"""Seconds of a further join in every micro-batch; there is about one a second."""

FORWARD_S = 1e-6
"""Seconds to pack, shuffle and unpack an intermediate result."""

_VALUE = 8  # bytes of a value, on average
_LITTLE = 0.1  # seconds of work a second at the usual prices, below which those of this machine don't matter


def split_joins(problem: Problem, deployment: Deployment, mode: str) -> Deployment:
    """The deployment with each join as it is best run, and why; with a warning where it is too much work."""
    pass_ = _Pass(problem, deployment, mode)
    for operator in deployment.operators:
        if isinstance(operator, Join):
            pass_.join(operator)
    return pass_.done()


@dataclass
class _Pass:
    problem: Problem
    deployment: Deployment
    mode: str
    operators: dict[str, list[Operator]] = field(
        default_factory=dict
    )  # the operators that replace each operator
    edges: dict[tuple[str, str], Edge] = field(default_factory=dict)
    _each: Operations | None = None

    def __post_init__(self) -> None:
        self.operators = {o.id: [o] for o in self.deployment.operators}
        self.edges = {(e.source, e.target): e for e in self.deployment.edges}
        self.rates: Rates = self.problem.rates
        self.number = {a: i for i, a in enumerate(self.rates.aliases)}
        self.assumed = _assumed(self.rates)

    @property
    def each(self) -> Operations:
        """The prices; measured only when there is a decision to make."""
        if self._each is None:
            measured = prices()
            self._each = replace(measured, between=measured.between + FORWARD_S)
        return self._each

    def done(self) -> Deployment:
        return Deployment(
            tuple(o for made in self.operators.values() for o in made), tuple(self.edges.values())
        )

    def join(self, operator: Join) -> None:
        """Decide on one join, and put a tree in its place or write down why not."""
        groups = self._groups(operator)
        masks = list(groups)
        try:
            nodes = self._nodes(masks)
        except ValueError:
            nodes = []  # nothing connects them all: there are no statistics for that
        choices = []
        for node in nodes:
            parts = [masks[int(i)] if isinstance(i, str) else _inside(nodes[i], masks) for i in node.inputs]
            choices.append(self._choose(parts, self._shares(operator, groups, parts)))
        decided = replace(operator, split=self._trees(groups, choices), warning=self._warning(choices))
        if all(_flat(choice.shape) for choice in choices):
            self.operators[operator.id] = [decided]
        else:
            self._replace(decided, groups, _expanded(nodes, [c.shape for c in choices]))

    def _trees(self, groups: Mapping[int, Sequence[str]], choices: Sequence[_Choice]) -> tuple[JoinTree, ...]:
        """How an operator is run, and why."""
        if told := tuple(choice.tree for choice in choices if choice.tree):
            return told
        because = "asked for" if self.mode == BINARY and len(groups) < 3 else ""
        if self.mode == AUTO and len(groups) > 2:
            many = f"trees of more than {STEPWISE} inputs are not searched" if len(groups) > STEPWISE else ""
            because = self.assumed or many
        tree = _text(tuple(range(len(groups))), self._labels(groups))
        return (JoinTree(tree=tree, because=because),) if because else ()

    def _warning(self, choices: Sequence[_Choice]) -> str | None:
        """MJoin 3.6: tuples that arrive too fast pile up. No warning is given when a statistic is assumed."""
        seconds = sum(choice.seconds for choice in choices)
        if seconds <= 1 or self.assumed:
            return None
        return f"takes {seconds:.3g} seconds of work a second: with fewer cores than that a backlog grows"

    def _groups(self, operator: Join) -> dict[int, list[str]]:
        """The inputs by the set of streams that each brings; parts of a key space are one."""
        groups: dict[int, list[str]] = {}
        for i in operator.inputs:
            streams = self.deployment.edge(i, operator.id).streams
            groups.setdefault(mask_of(self.number[a] for a in streams), []).append(i)
        return groups

    def _labels(self, groups: Mapping[int, Sequence[str]]) -> list[str]:
        return [" ".join(self.rates.names(mask)) for mask in groups]

    def _nodes(self, masks: Sequence[int]) -> list[Node]:
        """The tree of joins of an operator on several attributes; its inputs are numbers."""
        names = [set(self.rates.names(mask)) for mask in masks]
        within: list[dict[str, list[Expr]]] = [
            {str(n): [] for n, own in enumerate(names) if own & by_alias.keys()}
            for by_alias in self.rates.keys
        ]
        return join_tree([str(n) for n in range(len(masks))], within)

    def _shares(
        self, operator: Join, groups: Mapping[int, Sequence[str]], parts: Sequence[int]
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
        if len(parts) > STEPWISE and self.mode != BINARY:
            return _Choice(tuple(range(len(parts))), 0.0)  # counting the work of so many takes too long
        work = Work(_inputs(self.rates, parts, shares))
        if len(parts) < 3 or self.mode == NEVER or (self.mode == AUTO and self.assumed):
            one = single(work, USUAL)
            exact = one if one.seconds < _LITTLE else single(work, self.each)
            return _Choice(exact.shape, exact.seconds)
        one, binary = single(work, self.each), cheapest_binary(work, self.each)
        labels = self._labels(dict.fromkeys(parts, ()))
        if self.mode == BINARY:
            best, because = binary, "asked for"
        else:
            least, best = cheapest(work, self.each), cheapest(work, self.each, STAGE_S)
            because = _because(one, least, best, labels)
        return _Choice(best.shape, best.seconds, _tree(work, labels, best, one, binary, because, self.each))

    def _replace(self, operator: Join, groups: Mapping[int, Sequence[str]], tree: Shape) -> None:
        """A tree of joins in the place of one; the last keeps its name for all that read it."""
        masks = list(groups)
        for i in operator.inputs:
            del self.edges[i, operator.id]
        made: list[Join] = []
        self._made(operator, tree, masks, groups, made)
        work, split, warning = operator.work_s, operator.split, operator.warning
        made[-1] = replace(made[-1], work_s=work, split=split, warning=warning)
        self.operators[operator.id] = [*made]

    def _made(
        self,
        operator: Join,
        tree: Shape,
        masks: Sequence[int],
        groups: Mapping[int, Sequence[str]],
        made: list[Join],
        top: bool = True,
    ) -> str:
        assert not isinstance(tree, int)
        sets, inputs = [], []
        edges: list[Edge] = []
        for part in tree:
            mask = mask_of(n for k in members(mask_in(part)) for n in members(masks[k]))
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
        made.append(Builder(self.problem).joined(name, operator.site, inputs, sets))
        return name

    def _fresh(self, id_: str, n: int) -> str:
        taken = {*self.operators, *self.rates.aliases}
        return next(f"{id_}_{k}" for k in range(n + 1, n + 2 + len(taken)) if f"{id_}_{k}" not in taken)


@dataclass(frozen=True)
class _Choice:
    """How the inputs of one join meet, the work, and the reasons if there was a choice."""

    shape: Shape
    seconds: float
    tree: JoinTree | None = None


def _because(one: Chosen, least: Chosen, best: Chosen, labels: Sequence[str]) -> str:
    """Why a tree is the best, or none is."""
    tree = least if _flat(best.shape) else best
    if not _flat(tree.shape):
        saved, asked = one.seconds - tree.seconds, STAGE_S * (depth(tree.shape) - 1)
        says = f"saves {saved:.3g} s of work a second, and its stages take {asked:.3g} s"
        return says if tree is best else f"{_text(tree.shape, labels)} {says}"
    tried = " that was tried" if len(labels) > MOST else ""
    return f"no tree of smaller joins{tried} is less work"


def _tree(
    work: Work,
    labels: Sequence[str],
    best: Chosen,
    one: Chosen,
    binary: Chosen,
    because: str,
    each: Operations,
) -> JoinTree:
    """The chosen tree with its reasons, and the result of the paper's own formulas."""
    assert not isinstance(binary.shape, int)
    low, high = map(mask_in, binary.shape)
    paper = store_or_discard(work, (low, high), each)
    seconds = {
        "one operator": one.seconds,
        f"binary tree {_text(binary.shape, labels)}": binary.seconds,
        "chosen": best.seconds,
    }
    says = "split" if paper.splits else "one operator"
    theirs = {"store": paper.store, "recompute": paper.discard, "work_s": work_in_all(work, each)}
    mjoin = PaperCosts(says=says, **_short(theirs))
    return JoinTree(tree=_text(best.shape, labels), because=because, work_s=_short(seconds), mjoin=mjoin)


def _assumed(rates: Rates) -> str:
    """The assumed statistics other than widths; if there are any, one operator is the safe choice."""
    found = [a for a in rates.statistics.assumed if ".stats.widths." not in a]
    return f"assumed: {found[0]}" + (f", and {len(found) - 1} more" if found[1:] else "") if found else ""


def _inputs(rates: Rates, parts: Sequence[int], shares: Sequence[float]) -> Inputs:
    """The statistics of a join's inputs, in steady state."""
    flows = [rates.flow(part) for part in parts]
    within = math.prod(shares) ** (1 / len(shares))  # the part of the key space that this is, about

    def agree(mask: int) -> float:
        some = [part for k, part in enumerate(parts) if mask >> k & 1]
        together = mask_of(n for part in some for n in members(part))
        apart = math.prod(rates.agree(part) for part in some)
        return min(1.0, rates.agree(together) / apart / within ** (len(some) - 1)) if apart > 0 else 0.0

    rate = tuple(f.rate * s for f, s in zip(flows, shares, strict=True))
    content = tuple(f.window * s for f, s in zip(flows, shares, strict=True))
    span = tuple(w / r if r > 0 else math.inf for r, w in zip(rate, content, strict=True))
    return Inputs((Moment(rate, content),), agree, span, tuple(max(1.0, f.width / _VALUE) for f in flows))


def _inside(node: Node, masks: Sequence[int]) -> int:
    return mask_of(n for label in node.aliases for n in members(masks[int(label)]))


def _expanded(nodes: Sequence[Node], shapes: Sequence[Shape]) -> Shape:
    """One tree over the operator's inputs, from those of its joins, one for each set of attributes."""
    done: list[Shape] = []
    for node, shape in zip(nodes, shapes, strict=True):
        inputs = [int(i) if isinstance(i, str) else done[i] for i in node.inputs]
        done.append(_placed(shape, inputs))
    return done[-1]


def _placed(shape: Shape, inputs: Sequence[Shape]) -> Shape:
    return inputs[shape] if isinstance(shape, int) else tuple(_placed(s, inputs) for s in shape)


def _flat(shape: Shape) -> bool:
    return depth(shape) <= 1


def _text(shape: Shape, labels: Sequence[str]) -> str:
    """A tree as text: ((a b) c)."""
    if isinstance(shape, int):
        return f"({labels[shape]})" if " " in labels[shape] else labels[shape]
    return f"({' '.join(_text(part, labels) for part in shape)})"


def _short(seconds: Mapping[str, float]) -> dict[str, float]:
    """Numbers to three digits, without infinite ones."""
    return {name: float(f"{s:.3g}") for name, s in seconds.items() if math.isfinite(s)}
