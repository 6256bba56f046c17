"""`pmjoin`: one plan for each part of the key space (pmjoin 3.3).

Where all streams are equal in one attribute, each part is planned by Algorithm 1. Otherwise Algorithm 1
plans the whole, Algorithm 2 finds the joins in it that can be partitioned, and some of these are.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from thalweg.cost.rates import Rates
from thalweg.planners.search.partition import Piece, partition, together
from thalweg.planners.search.problem import Found, Problem, many_objects
from thalweg.planners.search.tree import Join, Leaf, Part, Partitioned, Tree, deploy, from_below
from thalweg.planners.streamjoinopt import optimise

PlanPart = Callable[[Rates, Sequence[Tree], Sequence[int], int | None], tuple[Tree, int]]
"""Plans one part: from its rates, its inputs, their sites and the site where the result is wanted (if it is
at one) to a tree, and how many plans were looked at."""
_SEED = 7


def plan(problem: Problem) -> Found:
    """Algorithm 1 for every part."""
    return plan_parts(problem, lambda rates, units, at, _: (optimise(rates, units, at), len(units) ** 2))


def plan_parts(problem: Problem, plan_part: PlanPart) -> Found:
    """Partitions a query's joins where that applies, and plans each part."""
    units: list[Tree] = [Leaf(i) for i in range(len(problem.at))]
    everything = problem.rates.all
    for class_, one in enumerate(problem.rates.classes):
        if one.mask == everything and len(problem.rates.classes) == 1:
            tree, searched = _partitioned(problem, class_, units, problem.at, problem.target, plan_part)
            return Found(deploy(problem, tree), searched)
    whole = optimise(problem.rates, units, problem.at)
    chosen = _select(problem, _find(problem.rates, whole))
    tree, searched = _rebuild(problem, whole, problem.target, {id(c.top): c for c in chosen}, plan_part)
    return Found(deploy(problem, tree), searched + len(units) ** 2)


def _partitioned(
    problem: Problem,
    class_: int,
    units: Sequence[Tree],
    at: Sequence[int],
    target: int | None,
    plan_part: PlanPart,
) -> tuple[Tree, int]:
    """One tree for each part; parts with the same tree become one."""
    parts = problem.number("partitions", 16)
    pieces = partition(problem.rates, class_, parts, problem.settings.get("partitioner", "rate"))
    alike: dict[tuple[tuple[int, int], ...], list[tuple[Piece, Rates]]] = {}
    trees: dict[tuple[tuple[int, int], ...], Tree] = {}
    searched = 0
    with many_objects():
        for piece in pieces:
            rates = problem.rates.part(class_, piece.selection)
            tree, looked_at = plan_part(rates, units, at, target)
            searched += looked_at
            # Two trees are the same if they join the same sets at the same sites.
            shape = tuple((n.mask, n.site) for n in from_below(tree) if isinstance(n, Join))
            trees.setdefault(shape, tree)
            alike.setdefault(shape, []).append((piece, rates))
    if len(alike) == 1:
        return next(iter(trees.values())), searched
    keys = {a: exprs[0].sql for a, exprs in problem.rates.keys[class_].items()}
    made = []
    for shape, same in alike.items():
        piece, rates = same[0]
        if len(same) > 1:
            piece = together([p for p, _ in same])
            rates = problem.rates.part(class_, piece.selection)
        made.append(Part(trees[shape], rates, piece.selector, keys))
    return Partitioned(tuple(units), tuple(made)), searched


@dataclass(eq=False)
class _Candidate:
    """A join that can be partitioned on one attribute, with those below that were merged into it."""

    top: Join
    class_: int
    inputs: list[Tree]
    parent: _Candidate | None = None
    children: list[_Candidate] = field(default_factory=list)


def _find(rates: Rates, tree: Tree) -> list[_Candidate]:
    """Algorithm 2, from the root down."""
    found: list[_Candidate] = []
    waiting: list[tuple[Tree, bool, _Candidate | None]] = [(tree, False, None)]
    while waiting:
        node, is_right, above = waiting.pop()
        if not isinstance(node, Join):
            continue
        class_ = None if is_right else _partitionable(rates, node)
        inputs, here = list(node.inputs), None
        if class_ is not None:
            while merged := next((i for i in inputs if _partitionable(rates, i) == class_), None):
                assert isinstance(merged, Join)
                at = inputs.index(merged)
                inputs[at : at + 1] = merged.inputs
            here = _Candidate(node, class_, inputs, above)
            found.append(here)
            if above is not None:
                above.children.append(here)
        # A partitioned join excludes another only if it is its direct parent.
        waiting.extend((child, child is inputs[-1], here) for child in inputs)
    return found


def _partitionable(rates: Rates, tree: Tree) -> int | None:
    """The one attribute that all predicates of a join are on."""
    if not isinstance(tree, Join):
        return None
    touched = [
        c for c, one in enumerate(rates.classes) if sum(1 for i in tree.inputs if i.mask & one.mask) > 1
    ]
    if len(touched) != 1:
        return None
    one = rates.classes[touched[0]]
    return touched[0] if all(i.mask & one.mask for i in tree.inputs) else None


def _select(problem: Problem, candidates: list[_Candidate]) -> list[_Candidate]:
    """The selection heuristic: joins with much input first; a chosen one rules out its parent and children.

    `random` chooses in any order instead, `alternative` among those that the heuristic leaves.
    """
    how = problem.settings.get("selection", "heuristic")
    # Without rates of single values all parts are alike; such a join must not rule out another.
    gaining = [c for c in candidates if problem.rates.classes[c.class_].values]
    by_input = sorted(gaining, key=lambda c: -sum(problem.rates.flow(i.mask).bytes for i in c.inputs))
    if how == "random":
        random.Random(_SEED).shuffle(by_input)
    chosen = _compatible(by_input)
    if how == "alternative":
        chosen = _compatible([c for c in by_input if c not in chosen])
    return chosen


def _compatible(candidates: Sequence[_Candidate]) -> list[_Candidate]:
    chosen: list[_Candidate] = []
    for one in candidates:
        if one.parent not in chosen and not any(child in chosen for child in one.children):
            chosen.append(one)
    return chosen


def _rebuild(
    problem: Problem, tree: Tree, target: int | None, chosen: dict[int, _Candidate], plan_part: PlanPart
) -> tuple[Tree, int]:
    """The tree with the chosen joins partitioned."""
    wanted_at = {id(tree): target}
    for node in reversed(from_below(tree)):  # readers first
        if isinstance(node, Join):
            inside = chosen[id(node)].inputs if id(node) in chosen else None
            for child in inside or node.inputs:
                wanted_at[id(child)] = None if inside else node.site
    made: dict[int, Tree] = {}
    searched = 0
    for node in from_below(tree):
        candidate = chosen.get(id(node))
        if not isinstance(node, Join):
            made[id(node)] = node
        elif candidate is None:
            inputs = [made[id(i)] for i in node.inputs]
            if isinstance(
                inputs[-1], Partitioned
            ):  # the others would have to go to every site of its results
                inputs[-1] = node.inputs[-1]
            made[id(node)] = Join(tuple(inputs), node.site)
        else:
            units = [made[id(i)] for i in candidate.inputs]
            at = []
            for unit in units:
                assert isinstance(unit, Leaf | Join)  # a partitioned join is never the child of another
                at.append(problem.at[unit.stream] if isinstance(unit, Leaf) else unit.site)
            whole, looked_at = _partitioned(
                problem, candidate.class_, units, at, wanted_at[id(node)], plan_part
            )
            made[id(node)], searched = whole, searched + looked_at
    return made[id(tree)], searched
