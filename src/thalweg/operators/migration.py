"""From one program to another while both run: adaptive's distributed track strategy (4.3), with a time t*.

    begin    new operators start beside the old ones. Keepers send them copies of the windows they need. They
             hand out nothing yet.
    commit   all of them have their windows. Results before t* come from the old operators, the others from
             the new ones. t* is after all that has been read, so neither has handed out any of the other's.
    undo     instead of commit: the new operators are removed, and nothing has happened.
    finish   old operators that have put out all before t* are removed.

Operators that both programs have stay as they are. Each step makes a program of a program, between two
batches, so a batch that is repeated after a crash repeats it in the same program.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace

from thalweg.kernel.window import NEVER
from thalweg.operators.inlet import Inlet
from thalweg.operators.outlet import Outlet
from thalweg.operators.pack import PackRoute
from thalweg.operators.program import KeyGroup, Placed, Program, Route, bucket_of, numbered
from thalweg.operators.spec import JoinSpec, KeepSpec, ProbeSpec, SinkSpec, SourceSpec, Spec, stores
from thalweg.operators.wiring import Wiring


def begin(before: Program, target: Program, change: int, since: int) -> Program:
    """Both programs side by side; `change` is the number that the target was compiled with.

    `since` is after all that has been read: of windows, what is alive then or later is copied.
    """
    assert not before.coming
    return _Union(before, target, change, since).program()


def ready(program: Program, said: Collection[str]) -> bool:
    """Whether all operators that have started have their windows; `said` is `Report.ready` of all batches."""
    return not any(True for _ in missing(program, said))


def missing(program: Program, said: Collection[str]) -> Iterator[tuple[str, str]]:
    """The operators that have started and lack windows: site and name."""
    for group in program.groups:
        for placed in group.operators:
            if placed.name in program.starting and any(
                bucket_of(label, placed.name) not in said for label in group.groups
            ):
                yield group.site, placed.name


def commit(program: Program, moment: int) -> Program:
    """Results from this moment on come from the operators that have started, the others from the old ones."""
    wiring, old = Wiring(program), program.leaving | program.ending

    def one(group: KeyGroup, placed: Placed) -> Placed:
        if placed.name in program.starting:
            return _since(placed, moment)
        if placed.name in program.ending:
            return placed
        if placed.name not in program.leaving:
            outlets = [
                replace(o, upto=moment) if o.upto is None and _only_for(wiring, group, o, old) else o
                for o in placed.outlets
            ]
            return replace(placed, outlets=tuple(outlets))
        inlets = []
        for inlet in placed.inlets:
            feeding = wiring.producer(group, inlet)
            stays = feeding is not None and feeding.placed.name not in program.leaving
            inlets.append(replace(inlet, upto=moment) if stays else inlet)
        return replace(placed, inlets=tuple(inlets))

    return _tidy(
        replace(
            program,
            groups=_each(program, one),
            starting=frozenset(),
            leaving=frozenset(),
            ending=program.ending | program.leaving,
            change=program.coming,
            coming=0,
        )
    )


def undo(program: Program) -> Program:
    """Without the operators that have started."""
    groups = tuple(
        replace(g, operators=tuple(p for p in g.operators if p.name not in program.starting))
        for g in program.groups
    )
    return _tidy(replace(program, groups=groups, starting=frozenset(), leaving=frozenset(), coming=0))


def finish(program: Program, ended: Collection[str]) -> Program:
    """Without the old operators that have put out all they will; `ended` is `Report.ended` of all batches."""
    gone = {
        p.name
        for g in program.groups
        for p in g.operators
        if p.name in program.ending and all(bucket_of(label, p.name) in ended for label in g.groups)
    }
    groups = tuple(g.without(gone) for g in program.groups)
    return _tidy(replace(program, groups=groups)) if groups != program.groups else program


def step(
    program: Program, said: Collection[str], ended: Collection[str], moment: int, *, late: bool = False
) -> tuple[Program, str]:
    """The next step of a move after a batch, if it can be taken, and which one it was.

    `moment` is a time after all that has been read: the next t*. With `late`, a move that is not ready is
    given up.
    """
    done = ""
    if program.coming and ready(program, said):
        program, done = commit(program, moment), "commit"
    elif program.coming and late:
        program, done = undo(program), "undo"
    return finish(program, ended), done


class _Identities:
    """What operators and outlets are, whatever their names: by their work, their place and their inputs."""

    def __init__(self, wiring: Wiring) -> None:
        self.wiring = wiring
        self._known: dict[str, str] = {}

    def of(self, group: KeyGroup, placed: Placed) -> str:
        if placed.name not in self._known:
            inputs = sorted(self._input(group, i) for i in placed.inlets if self._counts(group, placed, i))
            place = (group.site, group.key, group.stage, group.groups)
            self._known[placed.name] = _hashed(place, _bare(placed.spec), inputs)
        return self._known[placed.name]

    def _counts(self, group: KeyGroup, placed: Placed, inlet: Inlet) -> bool:
        """Streams watch each other, in a circle; and where a copy came from does not matter any more."""
        if isinstance(placed.spec, SourceSpec):
            return inlet.port == 0
        feeding = self.wiring.producer(group, inlet)
        return feeding is not None and feeding.outlet.past != "only"

    def outlet(self, group: KeyGroup, placed: Placed, outlet: Outlet) -> str:
        bare = replace(outlet, channel="", shipment=-1, width=0.0, since=None, upto=None, fresh=0, past="")
        return _hashed(self.of(group, placed), bare)

    def _input(self, group: KeyGroup, inlet: Inlet) -> str:
        bare = replace(inlet, channel="", fresh=0, upto=None)
        feeding = self.wiring.producer(group, inlet)
        if feeding is None:
            stream, route = self.wiring.packed[inlet.channel]
            return _hashed(stream, replace(route, channel=""), bare)
        way = feeding.route and replace(feeding.route, outlet="", channel="")
        return _hashed(self.outlet(feeding.group, feeding.placed, feeding.outlet), way, bare)


def _hashed(*parts: object) -> str:
    return hashlib.blake2b(repr(parts).encode(), digest_size=16).hexdigest()


def _bare(spec: Spec) -> Spec:
    """What an operator is told, without what a change adds to it."""
    match spec:
        case SourceSpec():
            return replace(spec, begin=None)
        case KeepSpec():
            return replace(spec, copy=0, since=-NEVER)
        case JoinSpec():
            return replace(spec, name="", limit=None)
        case ProbeSpec():
            return replace(spec, name="")
        case SinkSpec():
            return replace(spec, since=None)
    return spec


@dataclass
class _Union:
    before: Program
    target: Program
    change: int
    since: int

    def __post_init__(self) -> None:
        self.old, self.new = Wiring(self.before), Wiring(self.target)
        known, asked = _Identities(self.old), _Identities(self.new)
        mine: dict[str, list[tuple[KeyGroup, Placed]]] = {}
        for group, placed in _all(self.before):
            if placed.name not in self.before.ending:
                mine.setdefault(known.of(group, placed), []).append((group, placed))
        self.stays: dict[str, tuple[KeyGroup, Placed]] = {}  # by the name in the target
        for group, placed in _all(self.target):
            if found := mine.get(asked.of(group, placed)):
                self.stays[placed.name] = found.pop(0)
        self.outlets: dict[str, Outlet] = {}  # by the channel in the target: the same outlet of before
        for group, placed in _all(self.target):
            if placed.name not in self.stays:
                continue
            other, there = self.stays[placed.name]
            # What goes to operators that end is cut off at their last moment: others can't read it.
            same = {known.outlet(other, there, o): o for o in there.outlets if o.upto is None}
            for outlet in placed.outlets:
                if (found_outlet := same.get(asked.outlet(group, placed, outlet))) is not None:
                    self.outlets[outlet.channel] = found_outlet
        while self._less():
            pass

    def _less(self) -> bool:
        """Take one out that can't stay; whether there was one."""
        for group, placed in _all(self.target):
            for outlet in placed.outlets:
                if outlet.channel in self.outlets and not self._shared(group, placed, outlet):
                    del self.outlets[outlet.channel]
                    return True
            if placed.name in self.stays and not self._can_stay(group, placed):
                del self.stays[placed.name]
                for outlet in placed.outlets:
                    self.outlets.pop(outlet.channel, None)
                return True
        return False

    def _shared(self, group: KeyGroup, placed: Placed, outlet: Outlet) -> bool:
        """Whether new readers can read what is sent already: they get the past from a keeper behind it."""
        if outlet.past == "only":
            return False
        if outlet.form == "bounds" or (isinstance(placed.spec, KeepSpec) and outlet.to == "here"):
            return True
        keeps = isinstance(placed.spec, KeepSpec)
        return all(
            r.placed.name in self.stays or (keeps and not stores(r.placed.spec, r.inlet.port))
            for r in self.new.readers(group, outlet)
        )

    def _can_stay(self, group: KeyGroup, placed: Placed) -> bool:
        if self.new.base(group, placed):
            return True
        for inlet in placed.inlets:
            feeding = self.new.producer(group, inlet)
            if feeding is None or feeding.outlet.past == "only" or feeding.outlet.form == "bounds":
                continue
            if feeding.outlet.channel not in self.outlets:
                return False
        if isinstance(placed.spec, KeepSpec):
            return True
        return all(o.channel in self.outlets for o in placed.outlets if o.to != "count")

    def program(self) -> Program:
        names = {placed.name for _, placed in self.stays.values()}
        merged = {g.groups: list(g.operators) for g in self.before.groups}
        places = {g.groups: replace(g, operators=()) for g in (*self.before.groups, *self.target.groups)}
        starting = set()
        for group, placed in _all(self.target):
            own = merged.setdefault(group.groups, [])
            if placed.name in self.stays:
                _, there = self.stays[placed.name]
                (at,) = (n for n, p in enumerate(own) if p.name == there.name)
                own[at] = self._more(group, placed, own[at])
            else:
                starting.add(placed.name)
                own.append(_since(self._started(group, placed), NEVER))
        groups = tuple(replace(places[of], operators=tuple(own)) for of, own in merged.items())
        leaving = {
            p.name
            for _, p in _all(self.before)
            if p.name not in names and p.name not in self.before.ending and not isinstance(p.spec, SourceSpec)
        }
        program = Program(
            groups,
            (*self.before.routes, *self._routes()),
            tuple(
                replace(
                    before,
                    routes=(*before.routes, *(r for r in self.target.packing(before.stream).routes)),
                )
                for before in self.before.streams
            ),
            self.before.ending,
            frozenset(starting),
            frozenset(leaving),
            self.before.change,
            self.change,
        )
        return _tidy(program)

    def _more(self, group: KeyGroup, placed: Placed, there: Placed) -> Placed:
        """An operator that stays, with its new outlets; a keeper copies what it has for new readers."""
        new = [o for o in placed.outlets if o.channel not in self.outlets and o.to != "count"]
        if isinstance(placed.spec, SourceSpec) or not isinstance(there.spec, KeepSpec):
            return there
        readers = [r for o in placed.outlets if o.to == "here" for r in self.new.readers(group, o)]
        if not new and all(r.placed.name in self.stays for r in readers):
            return there
        spec = replace(there.spec, copy=self.change, since=self.since)
        return replace(there, spec=spec, outlets=(*there.outlets, *new))

    def _started(self, group: KeyGroup, placed: Placed) -> Placed:
        """A new operator, which reads of those that stay what they send already."""
        return replace(
            placed, inlets=tuple(replace(i, channel=self._channel(group, i)) for i in placed.inlets)
        )

    def _channel(self, group: KeyGroup, inlet: Inlet) -> str:
        feeding = self.new.producer(group, inlet)
        if feeding is None or feeding.outlet.channel not in self.outlets:
            return inlet.channel
        same = self.outlets[feeding.outlet.channel]
        if feeding.route is None:
            return same.channel
        for route in self.before.routes_of.get(same.channel, ()):
            if (route.groups, route.key) == (feeding.route.groups, feeding.route.key):
                return route.channel
        return inlet.channel

    def _routes(self) -> Iterator[Route]:
        """How channels get to new operators, where they don't get there already."""
        for route in self.target.routes:
            same = self.outlets.get(route.outlet)
            if same is None:
                yield route
            elif all(
                (r.groups, r.key) != (route.groups, route.key)
                for r in self.before.routes_of.get(same.channel, ())
            ):
                yield replace(route, outlet=same.channel)


def _all(program: Program) -> Iterator[tuple[KeyGroup, Placed]]:
    return ((g, p) for g in program.groups for p in g.operators)


def _each(program: Program, one) -> tuple[KeyGroup, ...]:  # type: ignore[no-untyped-def]
    return tuple(replace(g, operators=tuple(one(g, p) for p in g.operators)) for g in program.groups)


def _since(placed: Placed, moment: int) -> Placed:
    """An operator that hands out only results from a moment on."""
    spec = replace(placed.spec, since=moment) if isinstance(placed.spec, SinkSpec) else placed.spec
    outlets = [replace(o, since=moment) if o.to == "results" else o for o in placed.outlets]
    return replace(placed, spec=spec, outlets=tuple(outlets))


def _only_for(wiring: Wiring, group: KeyGroup, outlet: Outlet, names: Collection[str]) -> bool:
    readers = list(wiring.readers(group, outlet))
    return bool(readers) and all(r.placed.name in names for r in readers)


def _tidy(program: Program) -> Program:
    """Without what nobody reads any more."""
    while (less := _less(program)) != program:
        program = less
    there = {p.name for p in program.operators}
    # A keeper goes with its last reader, and has not said that it ended: nobody must wait for it.
    return numbered(
        replace(
            program,
            ending=program.ending & there,
            starting=program.starting & there,
            leaving=program.leaving & there,
        )
    )


def _less(program: Program) -> Program:
    wiring = Wiring(program)

    def needed(group: KeyGroup, outlet: Outlet) -> bool:
        return outlet.to in ("results", "count") or any(True for _ in wiring.readers(group, outlet))

    groups = []
    for group in program.groups:
        kept = []
        for placed in group.operators:
            outlets = tuple(o for o in placed.outlets if needed(group, o))
            idle = isinstance(placed.spec, SourceSpec | KeepSpec) and all(o.to == "count" for o in outlets)
            if not idle or wiring.base(group, placed):
                kept.append(replace(placed, outlets=outlets))
        groups.append(replace(group, operators=tuple(kept)))
    labels = {label: g for g in groups for label in g.groups}

    def read(labels_: Iterable[int], channel: str) -> bool:
        return any(label in labels and wiring.read(labels[label], channel) for label in labels_)

    def _read(route: PackRoute) -> PackRoute:
        """The time of a stream goes to the groups that watch it, wherever; some of them may be gone."""
        if not route.bounds:
            return route
        return replace(route, groups=tuple(g for g in route.groups if read((g,), route.channel)))

    return replace(
        program,
        groups=tuple(g for g in groups if g.operators),
        # Who has sent something may be gone while it is still on its way.
        routes=tuple(r for r in program.routes if read(r.groups[:1], r.channel)),
        streams=tuple(
            replace(s, routes=tuple(_read(r) for r in s.routes if read(r.groups, r.channel)))
            for s in program.streams
        ),
    )
