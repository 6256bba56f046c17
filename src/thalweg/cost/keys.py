"""How likely it is that tuples of several streams agree in one attribute.

Each stream that takes part in a class of equal attributes spreads its tuples over values: some known by
name, with their own shares, and the rest evenly over a number of unnamed ones. The share of all
combinations that agree is the sum over values of the product of shares. Without named values that is
1 / max(distinct) for two streams, and the product of all but the smallest for more, in whatever order they
are joined: equalities that are implied (a = b and b = c, so a = c) are not counted twice.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations

import numpy as np
import numpy.typing as npt

from thalweg.cost.stats import Spread

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Selection:
    """A part of the key space: some named values, and a share of all unnamed ones."""

    values: tuple[Hashable, ...]
    unnamed: float


@dataclass(frozen=True, eq=False)
class KeyClass:
    """Streams (by number) that are equal in one attribute.

    `shares` has a row for each member and a column for each named value; `rest` and `distinct` are for the
    unnamed values. `declared` are selectivities of pairs that the catalog gives. A part of the key space
    knows the `whole` that it is a part of.

    >>> two = KeyClass.of((0, 1, 2), [10, 100, 1000], [None] * 3, {})
    >>> round(two.agree(frozenset([0, 1])) * 100, 9), round(two.agree(frozenset([0, 1, 2])) * 100_000, 9)
    (1.0, 1.0)
    """

    members: tuple[int, ...]
    values: tuple[Hashable, ...]
    shares: Floats
    rest: Floats
    distinct: Floats
    declared: Mapping[tuple[int, int], float] = field(default_factory=dict)
    whole: KeyClass | None = None
    _known: dict[frozenset[int], float] = field(default_factory=dict, repr=False)

    @classmethod
    def of(
        cls,
        members: Sequence[int],
        distinct: Sequence[float],
        spreads: Sequence[Spread | None],
        declared: Mapping[tuple[int, int], float],
    ) -> KeyClass:
        """Puts the statistics of all members into one table over the same values."""
        values = tuple(sorted({v for s in spreads if s for v in s.shares}, key=lambda v: (str(type(v)), v)))
        n = len(values)
        shares, rest, unnamed = np.zeros((len(members), n)), np.zeros(len(members)), np.ones(len(members))
        for row, (count, spread) in enumerate(zip(distinct, spreads, strict=True)):
            known = spread or Spread({}, 1.0, max(count, float(n)))
            shares[row] = [known.of(v) for v in values]
            rest[row] = max(0.0, 1 - shares[row].sum())
            rest[row] = rest[row] if rest[row] > 1e-9 else 0.0
            unnamed[row] = max(1.0, known.values - n)
        return cls(tuple(members), values, shares, rest, unnamed, dict(declared))

    @cached_property
    def rows(self) -> dict[int, int]:
        return {member: row for row, member in enumerate(self.members)}

    @cached_property
    def _column(self) -> dict[Hashable, int]:
        return {v: i for i, v in enumerate(self.values)}

    @cached_property
    def mask(self) -> int:
        return sum(1 << m for m in self.members)

    def agree(self, members: frozenset[int]) -> float:
        """The share of combinations of these members' tuples that agree."""
        return math.exp(self.log_agree(members))

    def log_agree(self, members: frozenset[int]) -> float:
        """The logarithm of `agree`, which is too small to be a number where there are very many streams."""
        if len(members) < 2:
            return 0.0
        if members not in self._known:
            self._known[members] = self._log_agree(members)
        return self._known[members]

    def estimate(self, members: frozenset[int]) -> float:
        """The value of `agree` without declared selectivities."""
        return math.exp(self._spread(members))

    def _log_agree(self, members: frozenset[int]) -> float:
        if not any(i in members and j in members for i, j in self.declared):
            return self._spread(members)
        if self.whole is None:
            return self._declared(members)
        # A declared selectivity is that of the whole; its parts divide it as the estimate does.
        estimate = self.whole._spread(members)
        if estimate == -math.inf:
            return self.whole.log_agree(members)
        return self.whole.log_agree(members) + self._spread(members) - estimate

    @cached_property
    def log_all(self) -> float:
        """The same for all members."""
        return self.log_agree(frozenset(self.members))

    def count(self, member: int) -> float:
        """Distinct values of one member."""
        row = self.rows[member]
        return max(
            1.0, float(np.count_nonzero(self.shares[row])) + (self.distinct[row] if self.rest[row] else 0)
        )

    def part(self, selection: Selection) -> tuple[KeyClass, Floats]:
        """The class within a part of the key space, and how much of each member lies in it."""
        picked = self.shares[:, [self._column[v] for v in selection.values]]
        rest = self.rest * selection.unnamed
        inside = picked.sum(axis=1) + rest
        scale = np.divide(1.0, inside, out=np.zeros_like(inside), where=inside > 0)[:, None]
        within = replace(
            self,
            values=selection.values,
            shares=picked * scale,
            rest=rest * scale[:, 0],
            # On average less than one, where parts are many.
            distinct=self.distinct * (selection.unnamed or 1.0),
            whole=self.whole or self,
            _known={},
        )
        return within, inside

    def _spread(self, members: frozenset[int]) -> float:
        rows = [self.rows[m] for m in members]
        counts, rest = self.distinct[rows], self.rest[rows]
        log = -math.inf
        if rest.all():
            log = float(np.log(rest).sum() - np.log(counts).sum() + np.log(counts.min()))
        if self.values:
            named = float(self.shares[rows].prod(axis=0).sum())
            log = math.log(named + math.exp(log)) if named > 0 else log
        return log

    def _declared(self, members: frozenset[int]) -> float:
        """Groups meet two by two: by declared pairs first, the most selective first.

        Of several pairs between two groups one counts, for the others are implied: the least selective,
        since the groups' tuples agree among themselves already.
        """
        groups = [frozenset([m]) for m in sorted(members)]
        log = 0.0
        while len(groups) > 1:
            (_, f), a, b = min(
                ((self._between(a, b), a, b) for a, b in combinations(groups, 2)), key=lambda found: found[0]
            )
            groups = [g for g in groups if g not in (a, b)] + [a | b]
            log += math.log(f) if f > 0 else -math.inf
        return log

    def _alone(self, members: frozenset[int]) -> float:
        return self._spread(members) if len(members) > 1 else 0.0

    def _between(self, a: frozenset[int], b: frozenset[int]) -> tuple[bool, float]:
        """The estimated selectivity between two groups, and whether an estimate is needed.

        Where values are named, the tuples of a group agree in values that are frequent there, which pairs
        of streams say nothing of. So the estimate holds, corrected by as much as it was wrong for a pair.
        """
        declared = {p: f for p, f in self.declared.items() if len({*p} & a) == len({*p} & b) == 1}
        if declared and self.values and len(a) + len(b) > 2:
            together, apart = self._spread(a | b), self._alone(a) + self._alone(b)
            pairs = {p: self._spread(frozenset(p)) for p in declared}
            if min(together, apart, *pairs.values()) > -math.inf:
                wrong = max(f / math.exp(pairs[p]) for p, f in declared.items())
                return False, min(1.0, math.exp(together - apart) * wrong)
        if declared:
            return False, max(declared.values())
        return True, math.exp(max(self._spread(frozenset((i, j))) for i in a for j in b))
