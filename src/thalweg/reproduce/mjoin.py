"""Shared by the experiments of MJoin (Viglas, Naughton and Burger 2003): the paper's measured costs."""

from __future__ import annotations

from thalweg.kernel.nway import Counters

HASH_S, MOVE_S, COMP_S = 1.75e-7, 4.27e-7, 4.91e-8
"""Table 3: seconds for hashing a key, moving a tuple, comparing two keys, on the paper's machine."""


def paper_seconds(work: Counters) -> float:
    """The seconds of counted work at the costs of table 3.

    >>> round(paper_seconds(Counters(hashes=185_000, moves=185_000, comparisons=1_500_000)), 3)
    0.185
    """
    return work.hashes * HASH_S + work.moves * MOVE_S + work.comparisons * COMP_S
