"""What a simulation has found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from thalweg.errors import UserError
from thalweg.plan.options import Shipped
from thalweg.query.model import Query


def refuse_groups(query: Query) -> None:
    """Refuses a query whose results are grouped: operators make what is grouped, the host groups it."""
    if query.groups is not None:
        raise UserError(
            f"query {query.name!r} groups its results, which is not simulated",
            remedy="simulate the query without GROUP BY or DISTINCT: it ships the same",
        )


@dataclass(frozen=True)
class LinkUse:
    """How busy one link was: the share of the time, and how long a message waited for it at most."""

    source: str
    target: str
    busy: float
    longest_wait_s: float

    def to_json(self) -> dict[str, Any]:
        return {
            "from": self.source,
            "to": self.target,
            "busy": round(self.busy, 6),
            "longest_wait_s": round(self.longest_wait_s, 6),
        }


@dataclass(frozen=True)
class Simulated:
    """The outcome of a simulation; `cost` is by second, in the objective's unit.

    `how` is `tuples` or `flows`. Only tuples wait for links and have delays: those of results, from their
    time until they come out.
    """

    how: str
    seconds: float
    seed: int
    unit: str
    results: Mapping[str, int]
    shipped: tuple[Shipped, ...]
    cost: tuple[tuple[int, float], ...]
    tuple_hops: int
    links: tuple[LinkUse, ...] = ()
    busy: Mapping[str, float] = field(default_factory=dict)
    delay_s: Mapping[str, float] = field(default_factory=dict)
    assumed: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "how": self.how,
            "seconds": self.seconds,
            "seed": self.seed,
            "results": dict(self.results),
            "shipped": [one.to_json() for one in self.shipped],
            "cost": [[second, cost] for second, cost in self.cost],
            "unit": self.unit,
            "tuple_hops": self.tuple_hops,
            "links": [one.to_json() for one in self.links],
            "busy": {site: round(share, 6) for site, share in self.busy.items()},
            "delay_s": {name: round(s, 6) for name, s in self.delay_s.items()},
            "assumed": list(self.assumed),
        }
