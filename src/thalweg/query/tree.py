"""A query's joins as a tree of N-way joins, one for each set of join attributes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from thalweg.query.model import Expr

Classes = Sequence[Mapping[str, Sequence[Expr]]]


@dataclass(frozen=True)
class Node:
    """An N-way join: each input is an alias or an earlier node; `classes` are the attributes joined on."""

    inputs: tuple[str | int, ...]
    classes: tuple[int, ...]
    aliases: frozenset[str]


def join_tree(aliases: Sequence[str], classes: Classes) -> list[Node]:
    """The nodes in topological order; the last one is the root.

    Inputs that share the most classes meet first, and all inputs that share the very same ones meet at once.
    So a key of several columns is one join, and a class that covers all streams is one N-way join.
    """
    members = {c: frozenset(m) for c, m in enumerate(classes)}
    parts: list[tuple[str | int, frozenset[str]]] = [(a, frozenset([a])) for a in aliases]
    nodes: list[Node] = []

    def shared(a: frozenset[str], b: frozenset[str]) -> frozenset[int]:
        return frozenset(c for c, m in members.items() if m & a and m & b)

    while len(parts) > 1:
        pairs = [
            (-len(common), i, j, common)
            for i, (_, a) in enumerate(parts)
            for j, (_, b) in enumerate(parts[i + 1 :], i + 1)
            if (common := shared(a, b))
        ]
        if not pairs:
            raise ValueError("the streams are not all connected by equalities")
        _, i, j, common = min(pairs, key=lambda p: p[:3])
        group = [i, j]
        for k in range(len(parts)):
            if k not in group and all(shared(parts[k][1], parts[g][1]) == common for g in group):
                group.append(k)
        group.sort()
        together = frozenset[str]().union(*(parts[g][1] for g in group))
        nodes.append(Node(tuple(parts[g][0] for g in group), tuple(sorted(common)), together))
        at = group[0]
        parts = [p for k, p in enumerate(parts) if k not in group]
        parts.insert(at, (len(nodes) - 1, together))
    return nodes
