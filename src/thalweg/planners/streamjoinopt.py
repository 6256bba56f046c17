"""`streamjoinopt`: pmjoin's Algorithm 1, from the slowest stream to the site of the one it suits best.

The paper counts tuples and says that sizes can be put in; here all rates are bytes a second, which is the
same where tuples are equally wide.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from thalweg.cost.keys import Floats, KeyClass
from thalweg.cost.masks import members
from thalweg.cost.rates import LARGEST, Rates
from thalweg.planners.search.problem import Found, Problem
from thalweg.planners.search.tree import Join, Leaf, Tree, deploy

_FEW = 64
"""Up to so many streams, the width of each joined tuple is looked up; beyond, parts are added up."""


def plan(problem: Problem) -> Found:
    """One tree of N-way joins for all tuples."""
    units = [Leaf(i) for i in range(len(problem.at))]
    found = optimise(problem.rates, units, problem.at, local_always=problem.settings.get("local") == "always")
    return Found(deploy(problem, found), len(units) ** 2)


def optimise(rates: Rates, units: Sequence[Tree], at: Sequence[int], *, local_always: bool = False) -> Tree:
    """Algorithm 1 over units, each a stream or the result of joins made before, at its site."""
    estimates = _Estimates(rates, few=len(units) <= _FEW)
    by_site: dict[int, list[_Stream]] = {}
    for unit, site in zip(units, at, strict=True):
        by_site.setdefault(site, []).append(estimates.stream(unit, site))
    streams = [stream for here in by_site.values() for stream in _local(estimates, here, always=local_always)]
    while len(streams) > 1:
        streams = _allocate(estimates, streams)
    return streams[0].tree


@dataclass(slots=True, eq=False)
class _Stream:
    """A stream, or the join of several, at its site.

    `keys` has, for each class of equal attributes, how its tuples spread over the values: shares of the
    named ones, and for the others the rest and their number. `part` is its width within a joined tuple.
    """

    tree: Tree
    site: int
    mask: int
    rate: float
    window: float
    width: float
    part: float
    keys: dict[int, tuple[Floats | None, float, float]]
    bytes: float = field(init=False)

    def __post_init__(self) -> None:
        self.bytes = self.rate * self.width


def _local(estimates: _Estimates, streams: list[_Stream], *, always: bool) -> list[_Stream]:
    """Lines 2 to 9: joins within a site whose result is slower than both; all there are with `always`."""
    left = sorted(streams, key=lambda s: s.bytes)
    done = []
    while left:
        slow = left.pop(0)
        k = 0
        while k < len(left):
            if estimates.joinable(slow, left[k]):
                joined = estimates.join(slow, left[k], slow.site)
                if always or joined.bytes < slow.bytes:
                    slow = joined
                    del left[k]
                    k = 0 if always else k  # a larger join may connect to more streams
                    continue
            k += 1
        done.append(slow)
    return done


def _allocate(estimates: _Estimates, streams: list[_Stream]) -> list[_Stream]:
    """Lines 12 to 28: the slowest stream, and those pending with it, until a site is found for them."""
    slowest = min(streams, key=lambda s: s.bytes)
    pending, together = [slowest], slowest
    left = [s for s in streams if s is not slowest]
    while True:
        sent = sum(p.bytes for p in pending)
        there: dict[int, float] = {}
        for p in pending:
            there[p.site] = there.get(p.site, 0.0) + p.bytes
        best, least, here = None, float("inf"), True
        for other in left:
            if together.keys.keys().isdisjoint(other.keys):
                continue
            result = estimates.joined_bytes(together, other)
            to_its_site = sent - there.get(other.site, 0.0) + result
            to_a_third = sent + other.bytes
            # Eq. 4; without another stream there is no third site to wait for.
            stays = to_its_site <= to_a_third or len(left) == 1
            cost = to_its_site if stays else to_a_third
            if best is None or cost < least:
                best, least, here = other, cost, stays
        assert best is not None  # a query is connected
        left = [s for s in left if s is not best]
        together = estimates.join(together, best, best.site)
        if here:
            together.tree = Join((*(p.tree for p in pending), best.tree), best.site)
            return [*left, together]
        pending.append(best)


class _Estimates:
    """Rates and widths of joins, from those of the streams joined (eqs. 2 and 3)."""

    def __init__(self, rates: Rates, *, few: bool) -> None:
        self.rates, self.few = rates, few
        self._equal = rates.equal_width
        self._decides = bool(rates.query.conditions)
        self._classes_of: list[list[int]] = [[] for _ in rates.aliases]
        for c, one in enumerate(rates.classes):
            for i in one.members:
                self._classes_of[i].append(c)
        self._by_pairs = {c for c, one in enumerate(rates.classes) if one.declared}

    def stream(self, unit: Tree, site: int) -> _Stream:
        """A unit as it is before anything is decided."""
        rates, flow = self.rates, self.rates.flow(unit.mask)
        part = flow.width
        if not self.few and not rates.equal_width:
            part = rates.widths.joined(unit.mask)
        touched = sorted({c for i in members(unit.mask) for c in self._classes_of[i]})
        keys = {c: _spread(rates.classes[c], members(unit.mask & rates.classes[c].mask)) for c in touched}
        return _Stream(unit, site, unit.mask, flow.rate, flow.window, flow.width, part, keys)

    def joinable(self, a: _Stream, b: _Stream) -> bool:
        return not a.keys.keys().isdisjoint(b.keys)

    def joined_bytes(self, a: _Stream, b: _Stream) -> float:
        """Bytes a second of a join of two."""
        rate = self._agree(a, b) * (a.rate * b.window + b.rate * a.window)
        width = 1.0 if self._equal else self.rates.width(a.mask | b.mask) if self.few else a.part + b.part
        return rate * width if rate < LARGEST else LARGEST * width

    def join(self, a: _Stream, b: _Stream, site: int) -> _Stream:
        """The join of two streams."""
        share = self._agree(a, b)
        width = 1.0 if self._equal else self.rates.width(a.mask | b.mask) if self.few else a.part + b.part
        rate = min(share * (a.rate * b.window + b.rate * a.window), LARGEST)
        window = min(share * a.window * b.window, LARGEST)
        keys = {**a.keys, **b.keys}
        for c in a.keys.keys() & b.keys.keys():
            keys[c] = _both(a.keys[c], b.keys[c])
        return _Stream(Join((a.tree, b.tree), site), site, a.mask | b.mask, rate, window, width, width, keys)

    def _agree(self, a: _Stream, b: _Stream) -> float:
        share = 1.0
        for c, (named, rest, distinct) in (a if len(a.keys) < len(b.keys) else b).keys.items():
            other = (b if len(a.keys) < len(b.keys) else a).keys.get(c)
            if other is None:
                continue
            if c in self._by_pairs:
                agree = self._declared(self.rates.classes[c], a.mask, b.mask)
            else:
                agree = rest * other[1] / (distinct if distinct > other[2] else other[2])
                if named is not None and other[0] is not None:
                    agree += float(named @ other[0])
            share *= agree
        if self._decides:
            apart = self.rates.decided(a.mask) * self.rates.decided(b.mask)
            share *= self.rates.decided(a.mask | b.mask) / apart
        return share

    def _declared(self, one: KeyClass, a: int, b: int) -> float:
        ours, theirs = frozenset(members(a & one.mask)), frozenset(members(b & one.mask))
        apart = one.log_agree(ours) + one.log_agree(theirs)
        return math.exp(one.log_agree(ours | theirs) - apart) if apart > -math.inf else 0.0


def _spread(one: KeyClass, inside: Sequence[int]) -> tuple[Floats | None, float, float]:
    rows = [one.rows[m] for m in inside]
    spreads = [
        (one.shares[row] if one.values else None, float(one.rest[row]), float(one.distinct[row]))
        for row in rows
    ]
    found = spreads[0]
    for other in spreads[1:]:
        found = _both(found, other)
    return found


def _both(
    a: tuple[Floats | None, float, float], b: tuple[Floats | None, float, float]
) -> tuple[Floats | None, float, float]:
    """How the tuples spread that two streams agree in."""
    rest, distinct = a[1] * b[1] / max(a[2], b[2]), min(a[2], b[2])
    if a[0] is None or b[0] is None:
        return None, 1.0, distinct
    named = a[0] * b[0]
    total = float(named.sum()) + rest
    return (named / total, rest / total, distinct) if total > 0 else (named, 0.0, distinct)
