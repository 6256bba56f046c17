"""A planner's input, `Problem`, and output, `Found`."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from thalweg.catalog.model import Catalog
from thalweg.cost.network import Network
from thalweg.cost.objectives import Model
from thalweg.cost.rates import Rates
from thalweg.errors import UserError
from thalweg.plan.deployment import Deployment
from thalweg.query.model import Query

if TYPE_CHECKING:
    from thalweg.planners.search.reuse import Deployed


@dataclass(frozen=True, eq=False)
class Problem:
    """One query to deploy on a network, where others may be deployed already."""

    query: Query
    catalog: Catalog
    model: Model
    network: Network
    rates: Rates
    deployed: Deployed
    deliver_to: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    limit_s: float | None = None
    outer: bool = False  # whether outer joins follow
    begun_s: float = field(default_factory=time.monotonic)

    def check_time(self) -> None:
        """Ends a planner whose time is up; searches call it every now and then."""
        if self.limit_s is not None and time.monotonic() - self.begun_s > self.limit_s:
            raise NotApplicableError(
                f"not done after {self.limit_s:g} seconds", remedy="--seconds gives it more time"
            )

    @cached_property
    def at(self) -> tuple[int, ...]:
        """The site of each stream, by number."""
        return tuple(self.network.number[s] for s in self.rates.sites)

    @cached_property
    def target(self) -> int | None:
        """The site to deliver to, by number."""
        return None if self.deliver_to is None else self.network.number[self.deliver_to]

    @cached_property
    def twins(self) -> tuple[tuple[int, ...], ...]:
        """For each stream, those (itself too) that are the same tuples under other aliases."""
        reads = [
            (i.stream, sorted(f.rename(lambda _, column: column) for f in i.filters))
            for i in self.query.inputs
        ]
        return tuple(tuple(j for j, other in enumerate(reads) if other == one) for one in reads)

    def number(self, key: str, default: int, least: int = 1) -> int:
        """A setting that is a whole number."""
        text = self.settings.get(key, str(default))
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if value < least:
            raise UserError(
                f"setting {key!r} can't be {text!r}", remedy=f"it is a whole number from {least} on"
            )
        return value


@dataclass(frozen=True)
class Search:
    """The search of a coordinator (a site, by number) for a view, in its cluster of a level."""

    level: int
    coordinator: int
    plans: int


@dataclass(frozen=True)
class Found:
    """A deployment, and how many plans were looked at to find it; `planner` if another than asked.

    `searches` are those of coordinators, in their order, where there are any. `cost` is the plan's, where
    that is not the price of its deployment.
    """

    deployment: Deployment
    searched: int
    planner: str = ""
    searches: tuple[Search, ...] = ()
    cost: float | None = None


@contextmanager
def many_objects() -> Iterator[None]:
    """For making large plans: thousands of objects that all stay, and no cycles among them.

    Looking for garbage in them again and again would take as long as making them.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


class NotApplicableError(UserError):
    """A planner can't plan this query; the message says why."""
