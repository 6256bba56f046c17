"""Puts keepers into a program: at each place where a stream arises or arrives and somebody remembers it.

    source ─ keeper ─┬─> operators called with it
                     ├─> parcels ─ keeper at another site ─> operators there
                     └─> the copy for operators that read another source of the same stream

What a stream's own keeper keeps depends on the queries alone, so it stays whatever the plan is. A program
with keepers can be left for another one without losing what its windows hold (`operators/migration.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from thalweg.operators.inlet import Inlet
from thalweg.operators.outlet import Outlet
from thalweg.operators.program import KeyGroup, Placed, Program, Route
from thalweg.operators.spec import (
    JoinSpec,
    KeepSpec,
    KeysSpec,
    ProbeSpec,
    RelaySpec,
    SourceSpec,
    Spec,
    stores,
)


def with_keepers(program: Program, keeps: Mapping[str, KeepSpec], generation: int) -> Program:
    """The program with keepers; `keeps` says what is kept behind each source that ships its stream."""
    placing = _Placing(program, keeps)
    placing.at_home()
    placing.at_arrival()
    placing.beside_other_sources()
    groups = tuple(
        replace(g, operators=tuple(_stamped(p, generation) for p in placing.operators[g.groups[0]]))
        for g in program.groups
    )
    names = [p.name for g in groups for p in g.operators]
    assert len(names) == len(set(names))  # state and channels go by them
    return replace(program, groups=groups, routes=tuple(placing.routes))


def _stamped(placed: Placed, generation: int) -> Placed:
    """Say with which change all of it begins."""
    spec = replace(placed.spec, copy=generation) if isinstance(placed.spec, KeepSpec) else placed.spec
    return replace(
        placed,
        spec=spec,
        inlets=tuple(replace(i, fresh=generation) for i in placed.inlets),
        outlets=tuple(replace(o, fresh=generation) for o in placed.outlets),
    )


@dataclass
class _Placing:
    program: Program
    keeps: Mapping[str, KeepSpec]

    def __post_init__(self) -> None:
        self.operators = {g.groups[0]: list(g.operators) for g in self.program.groups}
        self.routes = list(self.program.routes)
        self.home: dict[str, tuple[KeyGroup, str]] = {}  # by stream: the group and the name of its source
        self.kept: dict[str, tuple[KeepSpec, Outlet]] = {}  # by channel: what a keeper sends over it

    def at_home(self) -> None:
        """A keeper behind each source that ships: all goes through it, but counts and progress."""
        for group in self.program.groups:
            own = self.operators[group.groups[0]]
            for source in [p for p in own if p.name in self.keeps]:
                spec, name = self.keeps[source.name], _keeper(source.name)
                passed = [o for o in source.outlets if o.to == "count" or o.form == "bounds"]
                behind = [o for o in source.outlets if o not in passed]
                keeper = Placed(name, spec, (Inlet(name, 0, raw=True),), tuple(behind))
                at = own.index(source)
                own[at] = replace(source, outlets=(*passed, Outlet(name, "here")))
                own.insert(at + 1, keeper)
                self.home[spec.stream] = (group, source.name)
                self._note(keeper)

    def _note(self, keeper: Placed) -> None:
        assert isinstance(keeper.spec, KeepSpec)
        self.kept |= {o.channel: (keeper.spec, o) for o in keeper.outlets if o.form == "tuples"}

    def at_arrival(self) -> None:
        """A keeper wherever what a keeper sends arrives, if anybody there remembers it."""
        waiting = list(self.routes)
        while route := next((r for r in waiting if r.outlet in self.kept), None):
            waiting.remove(route)
            spec, outlet = self.kept[route.outlet]
            spec = replace(spec, rows=tuple(r for r in spec.rows if r.end in outlet.fields), fields=())
            own = self.operators[route.groups[0]]
            readers = [(p, i) for p in own for i in p.inlets if i.channel == route.channel]
            if any(isinstance(p.spec, RelaySpec) for p, _ in readers):
                ((relay, _),) = readers
                own[own.index(relay)] = keeper = replace(relay, spec=spec)
                self._note(keeper)
            elif any(stores(p.spec, i.port) for p, i in readers):
                group = self.program.by_group[route.groups[0]]  # a channel may arrive at several of a site
                name = f"{_keeper(route.channel)} {group.key} in stage {group.stage}"
                inlet = Inlet(route.channel, 0, raw=True)
                for n, p in enumerate(own):
                    inlets = [replace(i, channel=name) if i.channel == route.channel else i for i in p.inlets]
                    own[n] = replace(p, inlets=tuple(inlets))
                own.insert(0, Placed(name, spec, (inlet,), (Outlet(name, "here"),)))
            else:
                continue
            self._send_past(route.outlet)

    def _send_past(self, channel: str) -> None:
        for own in self.operators.values():
            for n, placed in enumerate(own):
                if any(o.channel == channel for o in placed.outlets):
                    outlets = [replace(o, past="too") if o.channel == channel else o for o in placed.outlets]
                    own[n] = replace(placed, outlets=tuple(outlets))

    def beside_other_sources(self) -> None:
        """Operators that read a stream from a source of their own get its past from the stream's keeper."""
        packed = {r.channel: r for packing in self.program.streams for r in packing.routes}
        for group in self.program.groups:
            for source in group.operators:
                if not isinstance(source.spec, SourceSpec) or source.name in self.keeps:
                    continue
                home, first = self.home[source.spec.stream]
                here = packed[source.name]
                for outlet in source.outlets:
                    if outlet.to != "here" or not self._fill(group, outlet.channel):
                        continue
                    any_of = outlet.any_of or here.any_of
                    past = replace(
                        outlet,
                        channel=_past(outlet.channel),
                        to="stage" if home.stage < group.stage else "site",
                        site="" if home.stage < group.stage else group.site,
                        shipment=-1 if home.stage < group.stage else self._shipments(),
                        any_of=() if any_of == packed[first].any_of else any_of,
                        past="only",
                    )
                    own = self.operators[home.groups[0]]
                    (n,) = (n for n, p in enumerate(own) if p.name == _keeper(first))
                    own[n] = replace(own[n], outlets=(*own[n].outlets, past))
                    self.routes.append(Route(past.channel, past.channel, group.groups, here.key))

    def _shipments(self) -> int:
        """The number of the next shipment."""
        return sum(o.to == "site" for own in self.operators.values() for p in own for o in p.outlets)

    def _fill(self, group: KeyGroup, channel: str) -> bool:
        """Let the operators that remember a channel read its past as well; whether there are any."""
        own, found = self.operators[group.groups[0]], False
        for n, placed in enumerate(own):
            inlets, spec = list(placed.inlets), placed.spec
            for inlet in placed.inlets:
                if inlet.channel == channel and stores(spec, inlet.port):
                    feed, spec = _one_more(spec, inlet.port)
                    inlets.append(replace(inlet, channel=_past(channel), feed=feed))
                    found = True
            own[n] = replace(placed, spec=spec, inlets=tuple(inlets))
        return found


def _keeper(of: str) -> str:
    """The name of a keeper, and of what it hands on."""
    return f"{of} kept"


def _past(channel: str) -> str:
    """The channel over which a copy of what went over another one comes."""
    return f"{channel} before"


def _one_more(spec: Spec, port: int) -> tuple[int, Spec]:
    """The number of a further feed of a port, and the operator that has it."""
    if isinstance(spec, KeysSpec):
        return spec.port.feeds, replace(spec, port=replace(spec.port, feeds=spec.port.feeds + 1))
    assert isinstance(spec, JoinSpec | ProbeSpec)
    feed = spec.ports[port].feeds
    ports = [replace(p, feeds=feed + 1) if n == port else p for n, p in enumerate(spec.ports)]
    if isinstance(spec, ProbeSpec):
        return feed, replace(spec, ports=(ports[0], ports[1]))
    return feed, replace(spec, ports=tuple(ports))
