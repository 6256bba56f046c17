"""MJoin's own cost expressions (appendix A): the output rate, and storing against recomputing.

S, D and the work of equation 2 are shown beside the decision, which counts operations (`cost/splitting.py`).
Storing costs a hash, its moves and a comparison for each stored result. Recomputing costs a comparison for
every combination of tuples, matching or not. So "split" is almost always cheaper in these formulas, even if
one operator would never make most of these combinations.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from thalweg.cost.masks import members
from thalweg.cost.splitting import Operations, Work


@dataclass(frozen=True)
class StoreOrDiscard:
    """Equations 3 and 4 in seconds: S(k, l) to store the results of two parts, D(k, l) to recompute them."""

    store: float
    discard: float

    @property
    def splits(self) -> bool:
        """The paper's decision."""
        return self.discard > self.store


def store_or_discard(work: Work, parts: tuple[int, int], each: Operations) -> StoreOrDiscard:
    """Equations 3 and 4 for a join of two parts; the window contents are the sizes n_i."""
    stored = discarded = moved = 0.0
    contents = work.inputs.moments[-1].content
    for part in parts:
        inside = members(part)
        combinations = math.prod(contents[i] for i in inside)
        predicates = len(inside) - 1
        # One attribute connects them all: each predicate has the same part in how selective they are.
        selectivity = work.share(part) ** (1 / predicates) if predicates else 1.0
        stored += work.share(part) * combinations
        moved += work.share(part) * combinations * sum(work.inputs.columns[i] for i in inside)
        discarded += predicates * (1 - selectivity) * combinations
    kept = stored * (each.hash + each.compare) + moved * each.move
    return StoreOrDiscard(kept, discarded * each.compare)


def work_a_second(
    rates: Sequence[float], selectivity: float, each: Operations, columns: Sequence[float] = ()
) -> float:
    """The denominator of equation 2: seconds of work a second. More than one: a backlog grows (3.6).

    `selectivity` is that of all predicates but one; a tuple has one value to move, or so many columns.
    """
    moved = sum(r * c for r, c in zip(rates, columns or [1.0] * len(rates), strict=True))
    return sum(rates) * (each.hash + each.compare * (1 + selectivity)) + moved * each.move


def work_in_all(work: Work, each: Operations) -> float:
    """The same for one operator of all inputs, as things are in the last moment."""
    n, inputs = len(work.inputs), work.inputs
    selectivity = work.share(inputs.all) ** ((n - 2) / (n - 1))  # each predicate has the same part in it
    return work_a_second(inputs.moments[-1].rate, selectivity, each, inputs.columns)


def results_in_second(t: int, rates: Sequence[float], selectivity: float) -> float:
    """The results of the t-th second, T(t).

    Of the t^n combinations so far, those of the seconds before are done: t^n - (t-1)^n are left. As printed,
    all earlier powers are subtracted, though each was only what had been there by then; with four streams
    that is below zero from the eighth second on.

    >>> [results_in_second(t, [2.0, 3.0, 1.0], 0.5) for t in (1, 2, 3)]
    [3.0, 21.0, 57.0]
    """
    n = len(rates)
    return selectivity * math.prod(rates) * float(t**n - (t - 1) ** n)


def output_rate(t: int, rates: Sequence[float], selectivity: float, last: float, each: Operations) -> float:
    """Equation 2: results per second of work; `last` is how selective all predicates but one are."""
    return results_in_second(t, rates, selectivity) / work_a_second(rates, last, each)
