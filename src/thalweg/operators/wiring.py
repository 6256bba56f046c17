"""Who reads what of whom in a program."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import NamedTuple

from thalweg.operators.inlet import Inlet
from thalweg.operators.outlet import Outlet
from thalweg.operators.pack import PackRoute
from thalweg.operators.program import KeyGroup, Placed, Program, Route
from thalweg.operators.spec import KeepSpec, SourceSpec


class Producer(NamedTuple):
    """Who sends what an inlet reads; the route is None where they are called together."""

    group: KeyGroup
    placed: Placed
    outlet: Outlet
    route: Route | None


class Reader(NamedTuple):
    """Who reads an outlet."""

    group: KeyGroup
    placed: Placed
    inlet: Inlet


class Wiring:
    """Who reads what of whom in a program."""

    def __init__(self, program: Program) -> None:
        self.program = program

    @cached_property
    def packed(self) -> Mapping[str, tuple[str, PackRoute]]:
        """By channel: the stream and how its rows come over it."""
        return {r.channel: (p.stream, r) for p in self.program.streams for r in p.routes}

    @cached_property
    def _senders(self) -> Mapping[str, tuple[KeyGroup, Placed, Outlet]]:
        return {o.channel: (g, p, o) for g in self.program.groups for p in g.operators for o in p.outlets}

    @cached_property
    def _inlets(self) -> Mapping[tuple[int, str], list[Reader]]:
        found: dict[tuple[int, str], list[Reader]] = {}
        for group in self.program.groups:
            for placed in group.operators:
                for inlet in placed.inlets:
                    found.setdefault((group.groups[0], inlet.channel), []).append(
                        Reader(group, placed, inlet)
                    )
        return found

    @cached_property
    def _routes(self) -> Mapping[tuple[int, str], Route]:
        return {(r.groups[0], r.channel): r for r in self.program.routes}

    def producer(self, group: KeyGroup, inlet: Inlet) -> Producer | None:
        """Who sends what an inlet reads; None where a stream brings it, or nobody any more."""
        route = self._routes.get((group.groups[0], inlet.channel))
        found = self._senders.get(inlet.channel if route is None else route.outlet)
        return None if found is None else Producer(*found, route)

    def read(self, group: KeyGroup, channel: str) -> list[Reader]:
        """Who reads a channel in a group."""
        return self._inlets.get((group.groups[0], channel), [])

    def readers(self, group: KeyGroup, outlet: Outlet) -> Iterator[Reader]:
        """Who reads an outlet of an operator of a group, wherever."""
        if outlet.to == "here":
            yield from self.read(group, outlet.channel)
        for route in self.program.routes_of.get(outlet.channel, ()):
            yield from self._inlets.get((route.groups[0], route.channel), [])

    def base(self, group: KeyGroup, placed: Placed) -> bool:
        """Whether it is the source, or the keeper behind it, that every plan has."""
        if isinstance(placed.spec, SourceSpec):
            return any(
                isinstance(r.placed.spec, KeepSpec)
                for o in placed.outlets
                for r in self.readers(group, o)
                if o.to == "here"
            )
        feeding = self.producer(group, placed.inlets[0]) if placed.inlets else None
        return (
            isinstance(placed.spec, KeepSpec)
            and feeding is not None
            and isinstance(feeding.placed.spec, SourceSpec)
        )
