"""Which tree of joins is the cheapest: exactly, for up to eight inputs (MJoin leaves this open).

The work of a join depends on which sets of inputs meet in it, not on how these were made. So with best(S)
the least work of any tree that joins the set S,

    best(S) = min over all ways to part S into two sets or more:  join(parts) + sum of best(part)

Eight inputs have 21,146 such ways, all sets together. With more of them the tree is found step by step: of
all pairs of inputs of one join, the one that it helps most to join first goes first, as long as it helps.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations

from thalweg.cost.masks import members
from thalweg.cost.splitting import Operations, Shape, Work, mask_in

MOST = 8
"""For more inputs the tree is not searched exactly,"""
STEPWISE = 24
"""and for more than these it is not searched at all."""


@dataclass(frozen=True)
class Chosen:
    """A tree and its work: seconds a second, or, of inputs that end, seconds in all."""

    shape: Shape
    seconds: float


def single(work: Work, each: Operations) -> Chosen:
    """All inputs in one join."""
    shape = tuple(range(len(work.inputs)))
    return Chosen(shape, work.tree(shape).seconds(each))


def cheapest(work: Work, each: Operations) -> Chosen:
    """The tree of the least work."""
    n = len(work.inputs)
    if n > STEPWISE:
        return single(work, each)
    if n > MOST:
        return _stepwise(work, each)
    return _Search(work, each, lambda mask: _partitions(members(mask))).best(work.inputs.all)


def cheapest_binary(work: Work, each: Operations) -> Chosen:
    """The tree of the least work of those whose joins all have two inputs."""
    n = len(work.inputs)
    if n > MOST:
        return _joined_pairwise(work, each)
    return _Search(work, each, _halves).best(work.inputs.all)


class _Search:
    """The recurrence, with some ways to part a set."""

    def __init__(
        self, work: Work, each: Operations, ways: Callable[[int], Iterator[tuple[int, ...]]]
    ) -> None:
        self.work, self.each, self.ways = work, each, ways
        self._best: dict[int, Chosen] = {}

    def best(self, mask: int) -> Chosen:
        if mask not in self._best:
            self._best[mask] = self._searched(mask)
        return self._best[mask]

    def _searched(self, mask: int) -> Chosen:
        if not mask & (mask - 1):
            return Chosen(members(mask)[0], 0.0)
        least, parts = math.inf, None
        for way in self.ways(mask):
            below = sum(self.best(part).seconds for part in way)
            if below < least:
                seconds = below + self.work.join(way).seconds(self.each)
                if seconds < least:
                    least, parts = seconds, way
        assert parts is not None
        return Chosen(tuple(self.best(part).shape for part in parts), least)


def _partitions(numbers: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """All ways to part a set into two parts or more, as masks; all single ones first."""
    parts: list[int] = []

    def placed(at: int) -> Iterator[tuple[int, ...]]:
        if at == len(numbers):
            if len(parts) > 1:
                yield tuple(parts)
            return
        bit = 1 << numbers[at]
        parts.append(bit)
        yield from placed(at + 1)
        parts.pop()
        for i in range(len(parts)):
            parts[i] |= bit
            yield from placed(at + 1)
            parts[i] ^= bit

    return placed(0)


def _halves(mask: int) -> Iterator[tuple[int, int]]:
    """All ways to part a set into two."""
    first = mask & -mask
    rest = mask ^ first
    part = rest
    while part:
        yield mask ^ part, part
        part = (part - 1) & rest


def _stepwise(work: Work, each: Operations) -> Chosen:
    """From one join of all: what helps most to join first is joined first, as long as it helps."""
    best = single(work, each)
    while True:
        steps = [Chosen(shape, work.tree(shape).seconds(each)) for shape in _steps(best.shape)]
        step = min(steps, key=lambda s: s.seconds, default=best)
        if step.seconds >= best.seconds:
            return best
        best = step


def _steps(shape: Shape) -> Iterator[Shape]:
    """All trees in which, somewhere, two inputs of one join meet in a join of their own before."""
    if isinstance(shape, int):
        return
    if len(shape) > 2:
        for a, b in combinations(range(len(shape)), 2):
            pair = (shape[a], shape[b])
            others = tuple(s for i, s in enumerate(shape) if i not in (a, b))
            yield (*others, pair)
            for one, other in (pair, pair[::-1]):
                if not isinstance(one, int):  # it also may join one that is there
                    yield (*others, (*one, other))
    for i, part in enumerate(shape):
        for changed in _steps(part):
            yield (*shape[:i], changed, *shape[i + 1 :])


def _joined_pairwise(work: Work, each: Operations) -> Chosen:
    """The two that cost the least to join meet first, then the next two, until all have met."""
    parts: list[Shape] = list(range(len(work.inputs)))
    while len(parts) > 1:
        a, b = min(
            combinations(parts, 2),
            key=lambda pair: work.join(tuple(map(mask_in, pair))).seconds(each),
        )
        parts = [p for p in parts if p not in (a, b)] + [(a, b)]
    return Chosen(parts[0], work.tree(parts[0]).seconds(each))
