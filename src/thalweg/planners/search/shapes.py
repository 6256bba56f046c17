"""Which tree of joins is the cheapest: exactly, for up to eight inputs (MJoin leaves this open).

The work of a join depends on which sets of inputs meet in it, not on how these were made. So with best(S)
the least work of any tree that joins the set S,

    best(S) = min over all ways to part S into two sets or more:  join(parts) + sum of best(part)

Eight inputs have 20,891 such ways, all sets together. Where each level of joins costs something beside its
work, best(S, d) is that of trees of at most d levels. With more inputs some trees are tried: one join of all,
changed step by step (of all pairs of inputs of one join, the one that it helps most to join first goes first,
as long as it helps), the two that are cheapest to join first, and a chain with the smallest first.
"""

from __future__ import annotations

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


def depth(shape: Shape) -> int:
    """How many joins follow each other."""
    return 0 if isinstance(shape, int) else 1 + max(map(depth, shape))


def cheapest(work: Work, each: Operations, level: float = 0.0) -> Chosen:
    """The tree of the least work, where each level of joins but the first costs so many seconds more."""
    n = len(work.inputs)
    if n > STEPWISE:
        return single(work, each)
    if n > MOST:
        found = [_stepwise(work, each), _joined_pairwise(work, each), _chain(work, each), single(work, each)]
    else:
        search = _Search(work, each, lambda mask: _partitions(members(mask)))
        found = [search.best(work.inputs.all, d) for d in (range(1, n) if level else (n - 1,))]
    return min(found, key=lambda c: c.seconds + level * depth(c.shape))


def cheapest_binary(work: Work, each: Operations) -> Chosen:
    """The tree of the least work of those whose joins all have two inputs."""
    n = len(work.inputs)
    if n > STEPWISE:
        return _chain(work, each)
    if n > MOST:
        return min(_joined_pairwise(work, each), _chain(work, each), key=lambda c: c.seconds)
    return _Search(work, each, _halves).best(work.inputs.all, n - 1)


class _Search:
    """The recurrence, with some ways to part a set."""

    def __init__(
        self, work: Work, each: Operations, ways: Callable[[int], Iterator[tuple[int, ...]]]
    ) -> None:
        self.work, self.each, self.ways = work, each, ways
        self._best: dict[tuple[int, int], Chosen | None] = {}
        self._joins: dict[tuple[int, ...], float] = {}

    def best(self, mask: int, levels: int) -> Chosen:
        """The least work of any tree that joins a set of inputs on so many levels at most."""
        found = self._known(mask, levels)
        if found is None:
            raise ValueError(f"there is no such tree of {levels} levels")
        return found

    def _known(self, mask: int, levels: int) -> Chosen | None:
        at = mask, min(levels, mask.bit_count() - 1)
        if at not in self._best:
            self._best[at] = self._searched(*at)
        return self._best[at]

    def _searched(self, mask: int, levels: int) -> Chosen | None:
        if not mask & (mask - 1):
            return Chosen(members(mask)[0], 0.0)
        if levels == 0:
            return None
        least: Chosen | None = None
        for way in self.ways(mask):
            parts = [self._known(part, levels - 1) for part in way]
            if any(part is None for part in parts):
                continue
            made = [part for part in parts if part is not None]
            below = sum(part.seconds for part in made)
            if least is None or below < least.seconds:
                seconds = below + self._join(way)
                if least is None or seconds < least.seconds:
                    least = Chosen(tuple(part.shape for part in made), seconds)
        return least

    def _join(self, way: tuple[int, ...]) -> float:
        if way not in self._joins:
            self._joins[way] = self.work.join(way).seconds(self.each)
        return self._joins[way]


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
    """From one join of all: greedily joins the pair first that saves most, as long as any saves."""
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


def _chain(work: Work, each: Operations) -> Chosen:
    """The tree that people write by hand: the smallest windows first, one after another."""
    sizes = work.inputs.moments[-1].content
    first, *rest = sorted(range(len(work.inputs)), key=lambda i: sizes[i])
    shape: Shape = first
    for i in rest:
        shape = (shape, i)
    return Chosen(shape, work.tree(shape).seconds(each))
