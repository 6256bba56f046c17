"""The work of an N-way join as one operator, and as a tree of smaller ones (MJoin 2.3, 3.6, appendix A).

One operator keeps no intermediate results: it finds them again and again. A tree keeps them: each is taken
out of windows, hashed and moved into the window of the next join, and found there in one probe. The cheaper
one is found by counting the operations of each in a second, at the prices of `cost/operations.py`.

An intermediate result lives as long as its members are alive together, so those in a window do not end in
the order in which they came. The kernel forgets the oldest first; so it holds each for as long as the
shortest of its members' windows, and probes look at all that it holds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from functools import reduce
from operator import or_

from thalweg.cost.masks import members

Shape = int | tuple["Shape", ...]
"""A tree of joins as nested tuples of the inputs' numbers: ((0, 1), 2) joins 0 and 1, then that with 2."""

_SLICE, _SLICES_A_WINDOW = 2048, 4  # how the kernel cuts a batch into slices
_CHAINED, _LEAST_SLOTS = 0.45, 700.0  # tuples of other keys in a chain, once a hash table has outgrown these
_STEP, _INTERVAL = 5, 3  # numbers a combination is: in a step, beside its rows as a result
_OVERLAPPED = 0.3  # a far value as a share of a far look: values are fetched together, a look is waited for
_CACHED = 30_000.0  # tuples of a window that a core's own cache holds


@dataclass(frozen=True)
class Operations:
    """A number for each operation: how often it is done, or its price in seconds.

    The paper's three (table 4) are `hash`, a tuple that is hashed into its window, `move`, a value of it
    that is put there, and `compare`, a tuple in a chain that a probe looks at. They are too few to tell what
    this kernel takes. Also counted: `probe`, a combination that looks for more in a window; `found`, a
    number written of a combination that is made; `copy`, one copied of a result; `take`, a value taken out
    of a window for a result; `far`, a look into a window, for each time that it is twice the size of the
    cache; `grow`, a value that a window gets more memory for, since it never forgets; `call`, a slice of
    tuples handed to a window; `between`, an intermediate result on its way to the next join.
    """

    hash: float = 0.0
    move: float = 0.0
    compare: float = 0.0
    probe: float = 0.0
    found: float = 0.0
    copy: float = 0.0
    take: float = 0.0
    far: float = 0.0
    grow: float = 0.0
    call: float = 0.0
    between: float = 0.0

    def __add__(self, other: Operations) -> Operations:
        return Operations(*(a + b for a, b in zip(self.values, other.values, strict=True)))

    @property
    def values(self) -> tuple[float, ...]:
        return tuple(getattr(self, name) for name in NAMES)

    def seconds(self, each: Operations) -> float:
        """The seconds of these counts, at the given prices."""
        return sum(n * s for n, s in zip(self.values, each.values, strict=True))


NAMES = tuple(f.name for f in fields(Operations))


@dataclass(frozen=True)
class Moment:
    """How things are for some seconds: tuples a second of each input, and tuples in its window."""

    rate: tuple[float, ...]
    content: tuple[float, ...]
    seconds: float = 1.0


@dataclass(frozen=True, eq=False)
class Inputs:
    """The inputs of a join. Sets of them are bit masks.

    In steady state one moment tells all; with windows that fill up, each its part of the time. `agree` is
    the share of combinations of a set's tuples that match. `span` are the windows in seconds, infinite for
    those without an end. `columns` is how many values a tuple has. Tuples are joined once they have gathered
    for `batch` seconds.
    """

    moments: tuple[Moment, ...]
    agree: Callable[[int], float]
    span: tuple[float, ...]
    columns: tuple[float, ...]
    batch: float = 1.0

    def __len__(self) -> int:
        return len(self.span)

    @property
    def all(self) -> int:
        """The set of all inputs."""
        return (1 << len(self)) - 1


def mask_in(shape: Shape) -> int:
    """The inputs that a tree joins, as a set."""
    return 1 << shape if isinstance(shape, int) else reduce(or_, map(mask_in, shape))


def joins_in(shape: Shape) -> Iterable[tuple[int, ...]]:
    """For each join of a tree, the sets of inputs that it joins; inner ones first."""
    if not isinstance(shape, int):
        for part in shape:
            yield from joins_in(part)
        yield tuple(mask_in(part) for part in shape)


@dataclass(frozen=True)
class _Flow:
    """The results of a set of inputs: how many come a second, are alive, and are in a window.

    `burst` of them come at a time, with the same key, and so lie side by side.
    """

    rate: float
    content: float
    held: float
    burst: float


class Work:
    """Counts the operations of joins among some inputs."""

    def __init__(self, inputs: Inputs) -> None:
        self.inputs = inputs
        self._flows: dict[int, list[_Flow]] = {}
        self._shares: dict[int, float] = {}
        self._columns: dict[int, float] = {}

    def tree(self, shape: Shape) -> Operations:
        """The operations of all joins of a tree."""
        return sum((self.join(parts) for parts in joins_in(shape)), Operations())

    def join(self, parts: Sequence[int]) -> Operations:
        """The operations of one join; `parts` are the sets of inputs that it joins."""
        counts = dict.fromkeys(NAMES, 0.0)
        for n, moment in enumerate(self.inputs.moments):
            self._count(n, moment.seconds, parts, counts)
        return Operations(**counts)

    def flow(self, mask: int) -> list[_Flow]:
        """A set of inputs joined, in each moment (pmjoin eqs. 2 and 3)."""
        if mask not in self._flows:
            inside, share = members(mask), self.share(mask)
            span = min(self.inputs.span[i] for i in inside)
            self._columns[mask] = sum(self.inputs.columns[i] for i in inside)
            flows = []
            for m in self.inputs.moments:
                content = share * math.prod(m.content[i] for i in inside)
                # Those that complete with a tuple of input i, for each i.
                headed = [
                    share * m.rate[i] * math.prod(m.content[j] for j in inside if j != i) for i in inside
                ]
                rate = sum(headed)
                times = sum(min(h, m.rate[i]) for h, i in zip(headed, inside, strict=True))
                single = len(inside) == 1 or math.isinf(span)
                held = content if single else max(content, rate * span)
                flows.append(_Flow(rate, content, held, rate / times if times > 0 else 1.0))
            self._flows[mask] = flows
        return self._flows[mask]

    def share(self, mask: int) -> float:
        """The share of combinations of a set's tuples that match."""
        if mask not in self._shares:
            self._shares[mask] = self.inputs.agree(mask) if mask & (mask - 1) else 1.0
        return self._shares[mask]

    def _count(self, n: int, seconds: float, parts: Sequence[int], counts: dict[str, float]) -> None:
        flows = [self.flow(p)[n] for p in parts]
        slices = self._slices(parts, sum(f.rate for f in flows)) * seconds
        for i, head in enumerate(flows):
            rows = head.rate * seconds
            if rows <= 0:
                continue
            values = self._columns[parts[i]]
            counts["hash"] += rows
            counts["move"] += rows * values
            counts["call"] += min(slices, rows)
            if parts[i] & (parts[i] - 1):
                counts["between"] += rows
            if all(math.isinf(self.inputs.span[k]) for k in members(parts[i])):
                counts["grow"] += rows * (values + 4)  # beside its values: key, interval and chain
            self._probe(i, rows, slices, parts, flows, counts)

    def _probe(
        self,
        head: int,
        rows: float,
        slices: float,
        parts: Sequence[int],
        flows: Sequence[_Flow],
        counts: dict[str, float],
    ) -> None:
        """The operations of one input's tuples in the windows of the others, the most selective first."""
        own = parts[head]
        order = sorted(
            (j for j in range(len(parts)) if j != head),
            key=lambda j: flows[j].content * self._matching(own, parts[j]),
        )
        combined, mask = rows, own
        for depth, j in enumerate(order, 1):
            target = flows[j]
            if target.content <= 0 or combined <= 0:
                return
            met = target.content * self._matching(mask, parts[j])
            found = combined * met
            chained = _CHAINED * min(1.0, target.held / _LEAST_SLOTS)
            counts["probe"] += combined
            counts["compare"] += found * target.held / target.content + combined * chained
            counts["found"] += found * (_STEP + depth)
            counts["call"] += min(slices, combined)
            # Combinations of one tuple, and tuples that came at once, look for one key: only the first far.
            apart = min(rows, combined) / flows[head].burst
            far = 1 + met / target.burst * (1 + _OVERLAPPED * self._columns[parts[j]])
            counts["far"] += apart * far * _beyond_cache(target.held)
            combined, mask = found, mask | parts[j]
        counts["copy"] += combined * (len(parts) + _INTERVAL)
        counts["take"] += combined * sum(self._columns[p] for p in parts)

    def _matching(self, a: int, b: int) -> float:
        """The share of pairs of two sets' results that match."""
        apart = self.share(a) * self.share(b)
        return self.share(a | b) / apart if apart > 0 else 0.0

    def _slices(self, parts: Sequence[int], arriving: float) -> float:
        """How often a second a join is handed tuples."""
        batch = self.inputs.batch
        spans = [self.inputs.span[members(p)[0]] for p in parts if not p & (p - 1)]
        wanted = batch * _SLICES_A_WINDOW / min(spans) if spans and min(spans) > 0 else 1.0
        return max(1.0, min(wanted, arriving * batch / _SLICE)) / batch


def _beyond_cache(held: float) -> float:
    """How often a window is twice the size of the cache."""
    return max(0.0, math.log2(max(1.0, held / _CACHED)))
