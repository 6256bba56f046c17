"""The one-way join methods: which operators each is made of; cost/methods.py says what each does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Piece:
    """An operator of a method: its kind, its inputs, and whether it is at the destination.

    `slots`: it makes, or reads, keys or filters of a slot each.
    """

    kind: str
    reads: tuple[str, ...]
    far: bool
    slots: bool = False


PIECES: Mapping[str, tuple[Piece, ...]] = {
    "SP-S": (Piece("step", ("current", "source"), False),),
    "SP-D": (Piece("step", ("current", "source"), True),),
    "SM-S1": (
        Piece("reduce", ("current", "source"), True, slots=True),
        Piece("step", ("current", "reduce"), False),
    ),
    "SM-S2": (
        Piece("keys", ("source",), True),
        Piece("match", ("current", "keys"), False),
        Piece("reduce", ("match", "source"), True),
        Piece("step", ("current", "reduce"), False),
    ),
    "SM-D1": (
        Piece("keys", ("source",), True),
        Piece("reduce", ("current", "keys"), False),
        Piece("step", ("reduce", "source"), True),
    ),
    "SM-D2": (
        Piece("match", ("current", "source"), True, slots=True),
        Piece("reduce", ("current", "match"), False),
        Piece("step", ("reduce", "source"), True),
    ),
    "SB-S1": (
        Piece("reduce", ("current", "source"), True, slots=True),
        Piece("step", ("current", "reduce"), False),
    ),
    "SB-D1": (
        Piece("keys", ("source",), True, slots=True),
        Piece("reduce", ("current", "keys"), False),
        Piece("step", ("reduce", "source"), True),
    ),
}
"""The operators of each method; the graph has no circle, for `match` and `reduce` are apart."""

METHODS = tuple(PIECES)
"""The names of all methods."""
