"""The outcome of updating the node operator sets after a change of statistics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from thalweg.planners.search.sequences import Plan


@dataclass(frozen=True)
class Updated:
    """The new plan, the sites whose node operator sets changed, and the messages it took, by kind."""

    plan: Plan
    affected: tuple[str, ...]
    messages: Mapping[str, int]

    @property
    def modification(self) -> int:
        """All messages between sites."""
        return sum(self.messages.values())


def synchronisation(affected: int) -> int:
    """The messages of a two-phase migration: each affected site writes to each other one, twice (4.3).

    >>> synchronisation(4), synchronisation(8)
    (24, 112)
    """
    return 2 * affected * (affected - 1)
