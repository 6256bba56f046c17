"""A tree of N-way joins in one process: the results of a join are tuples of the next one.

    ((0, 1), 2)      joins inputs 0 and 1, and their results with input 2
    (0, 1, 2)        joins all three at once

A result of one join is alive on the intersection of its members' intervals, so it is a tuple like any other,
and every tree gives the same results. All joins are on the same key.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa

from thalweg.kernel.nway import Counters, Delta, InputSpec, NWayJoin, Results

Shape = int | tuple["Shape", ...]
"""A tree as nested tuples of the inputs' numbers."""


def leaves(shape: Shape) -> tuple[int, ...]:
    """The inputs that a tree joins, from left to right."""
    return (shape,) if isinstance(shape, int) else tuple(i for part in shape for i in leaves(part))


@dataclass(frozen=True)
class _Node:
    """One join of the tree; each of its windows holds tuples of one input or of some inputs joined."""

    join: NWayJoin
    parts: tuple[int | _Node, ...]
    members: tuple[tuple[int, ...], ...]  # for each window the inputs whose columns it holds, side by side


class Joined:
    """Results as they lie in the windows of a tree's last join; valid until the next push."""

    def __init__(self, node: _Node, results: Results, widths: Sequence[int]) -> None:
        self._node, self._results, self._widths = node, results, widths

    def __len__(self) -> int:
        return len(self._results)

    @property
    def key(self) -> np.ndarray:
        return self._results.key

    @property
    def start(self) -> np.ndarray:
        """The time of each result."""
        return self._results.start

    @property
    def end(self) -> np.ndarray:
        return self._results.end

    def columns(self, i: int) -> tuple[pa.Array, ...]:
        """The columns of one input, a value for each result."""
        for window, rows, members in zip(
            self._node.join.windows, self._results.rows, self._node.members, strict=True
        ):
            if i in members:
                at = sum(self._widths[j] for j in members[: members.index(i)])
                return tuple(c.take(rows) for c in window.columns[at : at + self._widths[i]])
        raise IndexError(f"the tree has no input {i}")


class JoinTree:
    """A tree of joins over some inputs.

    >>> import numpy as np
    >>> tree = JoinTree([InputSpec(c, (("id", pa.int64()),), span=10) for c in "abc"], ((0, 2), 1))
    >>> at = lambda *ts: Delta(np.zeros(len(ts), np.int64), np.array(ts), None, (pa.array(ts),))
    >>> [len(found) for found in tree.push([at(0, 5), at(9), None])]
    []
    >>> [found.columns(0)[0].to_pylist() for found in tree.push([None, None, at(12)])]
    [[5]]
    """

    def __init__(
        self,
        inputs: Sequence[InputSpec],
        shape: Shape,
        probing: Literal["measured", "worst"] = "measured",
    ) -> None:
        if isinstance(shape, int) or sorted(leaves(shape)) != list(range(len(inputs))):
            raise ValueError(f"the tree {shape} does not join {len(inputs)} inputs, each once")
        self.inputs, self.shape = tuple(inputs), shape
        self._widths = [len(i.columns) for i in inputs]
        self._nodes: list[_Node] = []
        self._root = self._made(shape, probing)

    @property
    def joins(self) -> tuple[NWayJoin, ...]:
        """All joins of the tree, inner ones first."""
        return tuple(node.join for node in self._nodes)

    @property
    def counters(self) -> Counters:
        """The work of all joins together; `results` are the last one's."""
        each = [join.counters for join in self.joins]
        return Counters(
            sum(c.hashes for c in each),
            sum(c.moves for c in each),
            sum(c.comparisons for c in each),
            each[-1].results,
        )

    def push(self, deltas: Sequence[Delta | None]) -> Iterator[Joined]:
        """Join new tuples, one delta for each input; all of it must be consumed."""
        for found in self._pushed(self._root, deltas):
            yield Joined(self._root, found, self._widths)

    def expire(self, bounds: Sequence[int]) -> None:
        """Drop tuples that can't match any more: bounds[i] is the least start that input i can bring."""
        for node in self._nodes:
            # A new result has a new member, and begins with it or later.
            node.join.expire([min(bounds[i] for i in members) for members in node.members])

    def _made(self, shape: tuple[Shape, ...], probing: Literal["measured", "worst"]) -> _Node:
        parts = tuple(part if isinstance(part, int) else self._made(part, probing) for part in shape)
        members = tuple(leaves(part) for part in shape)
        specs = [
            self.inputs[part] if isinstance(part, int) else self._spec(inside)
            for part, inside in zip(parts, members, strict=True)
        ]
        node = _Node(NWayJoin(specs, probing=probing), parts, members)
        self._nodes.append(node)
        return node

    def _spec(self, members: Sequence[int]) -> InputSpec:
        """The window of some inputs joined: their columns side by side, and intervals of their own."""
        inputs = [self.inputs[i] for i in members]
        return InputSpec(
            "+".join(i.name for i in inputs),
            tuple(column for i in inputs for column in i.columns),
            None,
            inputs[0].key_columns,
        )

    def _pushed(self, node: _Node, deltas: Sequence[Delta | None]) -> Iterator[Results]:
        return node.join.push(
            [
                deltas[part] if isinstance(part, int) else _together(part, self._pushed(part, deltas))
                for part in node.parts
            ]
        )


def _together(node: _Node, found: Iterator[Results]) -> Delta | None:
    """The results of a join as tuples of the next one."""
    parts = [_tuples(node, results) for results in found]
    if not parts:
        return None
    if len(parts) == 1:
        return parts[0]
    key, start, end = (np.concatenate([getattr(p, name) for p in parts]) for name in ("key", "start", "end"))
    columns = tuple(pa.concat_arrays(same) for same in zip(*(p.columns for p in parts), strict=True))
    return Delta(key, start, end, columns).ordered()


def _tuples(node: _Node, results: Results) -> Delta:
    order = np.argsort(results.start, kind="stable")  # before columns are taken: they are wider
    columns = [
        column.take(rows)
        for window, rows in zip(node.join.windows, (r[order] for r in results.rows), strict=True)
        for column in window.columns
    ]
    return Delta(results.key[order], results.start[order], results.end[order], tuple(columns))
