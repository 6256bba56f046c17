"""What an application runs: the operators of its sites, by key group, and how tuples get to them. Plain data.

A plan is compiled to this, written down as JSON, and read by whatever hosts the sites; so it can be exchanged
for another between two batches.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Literal

import pyarrow as pa
from pydantic import Field, TypeAdapter

from thalweg.errors import UserError
from thalweg.kernel.keys import buckets, split
from thalweg.operators.inlet import Inlet, keyed
from thalweg.operators.outlet import Outlet, settled
from thalweg.operators.pack import Packing
from thalweg.operators.spec import KEY, JoinSpec, KeepSpec, Limit, ProbeSpec, SinkSpec, SourceSpec, Spec
from thalweg.operators.state import FORMAT
from thalweg.operators.tuples import ints
from thalweg.wire.codec import decode
from thalweg.wire.message import Message
from thalweg.wire.parcel import Kind, Parcel


@dataclass(frozen=True)
class Placed:
    """An operator: its work, the channels it reads, and where its output goes."""

    name: str
    spec: Annotated[Spec, Field(discriminator="type")]
    inlets: tuple[Inlet, ...]
    outlets: tuple[Outlet, ...]


@dataclass(frozen=True)
class KeyGroup:
    """The operators of a site that share a key, inputs before their readers: they are called together.

    `groups` are the labels of its buckets. A group of a later `stage` gets messages from earlier stages
    within the same batch.
    """

    site: str
    key: str
    stage: int
    groups: tuple[int, ...]
    operators: tuple[Placed, ...]

    def without(self, gone: Collection[str]) -> KeyGroup:
        """Without some operators; keepers stay while others restore windows from what these have stored."""
        stay = [p for p in self.operators if p.name not in gone]
        read = {i.channel for p in stay for i in p.inlets}
        needed = [p for p in self.operators if isinstance(p.spec, KeepSpec) and not read.isdisjoint(_sent(p))]
        return replace(self, operators=tuple(p for p in self.operators if p in stay or p in needed))


def _sent(placed: Placed) -> Collection[str]:
    return {o.channel for o in placed.outlets if o.to == "here"}


@dataclass(frozen=True)
class Route:
    """How a channel gets to the buckets of a key group, which knows it by the name `channel`.

    `key` are the fields that make the key word; without them every bucket gets everything. With `keyless`,
    tuples with a NULL in their key go along.
    """

    outlet: str
    channel: str
    groups: tuple[int, ...]
    key: tuple[str, ...] = ()
    keyless: bool = False

    def messages(
        self,
        batch: pa.RecordBatch | None,
        bound: int | None,
        wall: int,
        sender: int = 0,
        kind: Kind = Kind.TUPLES,
    ) -> Iterator[Message]:
        """One message for each bucket: buckets are always called together."""
        parts: Sequence[pa.RecordBatch | None] = [batch] * len(self.groups)
        if batch is not None and self.key and kind in (Kind.TUPLES, Kind.PAST):
            batch = batch if self.key == (KEY,) else keyed(batch, self.key, keyless=self.keyless)
            parts = [batch]
            if len(self.groups) > 1:
                order, begin = split(buckets(ints(batch, KEY), len(self.groups)), len(self.groups))
                parts = [
                    batch.take(pa.array(order[begin[b] : begin[b + 1]])) for b in range(len(self.groups))
                ]
        for group, part in zip(self.groups, parts, strict=True):
            n = 0 if part is None else part.num_rows
            yield Message(group, self.channel, kind, n, bound, wall, sender, part if n else None)


@dataclass(frozen=True)
class Program:
    """All operators of an application, and how tuples get to them.

    `ending` are operators of an earlier program that only finish what is on its way to them. `starting` are
    operators of a later one, which hand out nothing before they have their windows; `leaving` are those that
    they will replace. `change` is the number of the plan in force, `coming` that of the plan that is on its
    way, or 0.
    """

    groups: tuple[KeyGroup, ...]
    routes: tuple[Route, ...]
    streams: tuple[Packing, ...]
    ending: frozenset[str] = frozenset()
    starting: frozenset[str] = frozenset()
    leaving: frozenset[str] = frozenset()
    change: int = 0
    coming: int = 0

    @cached_property
    def by_group(self) -> Mapping[int, KeyGroup]:
        """The key group of each label."""
        return {label: group for group in self.groups for label in group.groups}

    @property
    def operators(self) -> Iterator[Placed]:
        return (operator for group in self.groups for operator in group.operators)

    @cached_property
    def routes_of(self) -> Mapping[str, Sequence[Route]]:
        """The routes of each outlet."""
        found: dict[str, list[Route]] = {}
        for route in self.routes:
            found.setdefault(route.outlet, []).append(route)
        return found

    @cached_property
    def shipments(self) -> Mapping[int, Outlet]:
        """What goes between sites, by number."""
        return {o.shipment: o for p in self.operators for o in p.outlets if o.to == "site"}

    @cached_property
    def _packings(self) -> Mapping[str, Packing]:
        return {packing.stream: packing for packing in self.streams}

    def packing(self, stream: str) -> Packing:
        """How a stream is packed; a stream that no operator reads goes nowhere."""
        return self._packings.get(stream) or Packing(stream, (), (), ())

    @property
    def queries(self) -> set[int]:
        """The queries that can still have results."""
        sinks = {p.spec.query for p in self.operators if isinstance(p.spec, SinkSpec)}
        return sinks | {o.query for p in self.operators for o in p.outlets if o.to == "results"}

    @property
    def waits(self) -> bool:
        """Whether anything waits for event time to pass, so that the end of the streams must be told."""
        return any(operator.spec.waits for operator in self.operators)

    def arriving(self, parcel: Parcel, sender: Program) -> Iterator[Message]:
        """A parcel as messages for all that read it; `sender` is the program by which it was sent."""
        outlet = sender.shipments[parcel.shipment]
        batch = decode(parcel.data, outlet.schema_of(parcel)) if parcel.n else None
        for route in self.routes_of.get(outlet.channel, ()):
            yield from route.messages(batch, parcel.bound, parcel.wall, kind=parcel.kind)

    def told(self, kind: Kind, wall: int, ending: bool = False) -> Iterator[Message]:
        """Messages to all groups that must hear that streams have ended, or that what waits must not."""
        for group in self.groups:
            sources = [p.name for p in group.operators if isinstance(p.spec, SourceSpec)]
            if kind == Kind.END and not any((name in self.ending) or not ending for name in sources):
                continue
            for label in group.groups:
                yield Message(label, ENDING if ending else "", kind, wall=wall)

    def settled(self, drafts: Sequence[Parcel]) -> list[Parcel]:
        """The parcels of one batch from one site to another, ready to be sent."""
        return settled(drafts, self.shipments)

    def limited(self, budget: int, delay: int) -> Program:
        """The same, with windows that take no more memory than this on a machine, all together.

        Tuples wait only in joins whose output is all results, or goes to a sink that is called with them.
        Which ones wait depends on whether windows were at hand or rebuilt, and where a batch is repeated, an
        operator elsewhere has had what was sent before. A sink that holds results lets those of all its
        buckets go in one batch, so these must have the same bound.
        """
        joins = sum(len(g.groups) for g in self.groups for p in g.operators if isinstance(p.spec, JoinSpec))
        share = budget // max(1, joins)
        passed_on = {i.channel for p in self.operators if not isinstance(p.spec, SinkSpec) for i in p.inlets}
        together = {
            i.channel
            for g in self.groups
            for p in g.operators
            if len(g.groups) > 1 and isinstance(p.spec, SinkSpec) and p.spec.waits
            for i in p.inlets
        }

        def one(placed: Placed) -> Placed:
            if isinstance(placed.spec, ProbeSpec):
                raise UserError(
                    f"a memory budget is not possible with probe sequences ({placed.spec.name})",
                    remedy="choose a planner of the families tree or partitioned, such as --planner optimal",
                )
            if not isinstance(placed.spec, JoinSpec):
                return placed
            if placed.spec.outer:
                raise UserError(
                    "a memory budget is not possible with outer joins",
                    where=placed.spec.name.split(".", 1)[0],
                    remedy="leave the budget out",
                )
            if placed.spec.held:
                raise UserError(
                    "a memory budget is not possible with windows of rows",
                    where=placed.spec.name.split(".", 1)[0],
                    remedy="their size is in the query: leave the budget out, or use RANGE windows",
                )
            last = all(
                o.to == "results" or (o.to == "here" and o.channel not in passed_on) for o in placed.outlets
            )
            even = any(o.channel in together for o in placed.outlets)
            return replace(placed, spec=replace(placed.spec, limit=Limit(share, delay if last else 0, even)))

        groups = tuple(replace(g, operators=tuple(map(one, g.operators))) for g in self.groups)
        return replace(self, groups=groups)

    def unlimited(self) -> Program:
        """The same, without limits."""

        def one(placed: Placed) -> Placed:
            if not isinstance(placed.spec, JoinSpec):
                return placed
            return replace(placed, spec=replace(placed.spec, limit=None))

        return replace(
            self, groups=tuple(replace(g, operators=tuple(map(one, g.operators))) for g in self.groups)
        )

    def after(self, before: Program, ended: Collection[str] = ()) -> Program:
        """This program, and the operators of those before it until they have ended.

        Streams go to the new operators only. `ended` are buckets of operators, as `Report.ended` names them.
        """
        merged = {(g.site, g.key, g.stage, g.groups): g for g in self.groups}
        old = set()
        for group in before.groups:
            kept = group.without(
                {p.name for p in group.operators if before._has_ended(group, p, ended)}
            ).operators
            old |= {p.name for p in kept}
            place = (group.site, group.key, group.stage, group.groups)
            now = merged.get(place, replace(group, operators=()))
            merged[place] = replace(now, operators=(*now.operators, *kept))
        groups = tuple(g for g in merged.values() if g.operators)
        read = {
            (label, i.channel) for g in groups for label in g.groups for p in g.operators for i in p.inlets
        }
        routes = [r for r in before.routes if (r.groups[0], r.channel) in read]
        return numbered(Program(groups, (*self.routes, *routes), self.streams, frozenset(old)))

    def _has_ended(self, group: KeyGroup, placed: Placed, ended: Collection[str]) -> bool:
        return placed.name in self.ending and all(bucket_of(g, placed.name) in ended for g in group.groups)

    def to_json(self) -> bytes:
        return _ADAPTER.dump_json(_File(FORMAT, self))

    @classmethod
    def from_json(cls, data: bytes) -> Program:
        return _ADAPTER.validate_json(data).program


@dataclass(frozen=True)
class _File:
    """A program as it is written. One of another format is refused, as is the state that goes with it."""

    format: Literal[6]
    program: Program


def format_of(text: str) -> int | None:
    """The format of a program that is written down; None for anything else."""
    try:
        found = json.loads(text)["format"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return found if isinstance(found, int) else None


ENDING = "#ending"
"""The channel over which only the operators of an earlier program are told to end."""

_ADAPTER = TypeAdapter(_File)


def bucket_of(label: int, operator: str) -> str:
    """The name of a bucket of an operator in reports."""
    return f"{label}/{operator}"


def numbered(program: Program) -> Program:
    """The same, with shipments that are numbered without a gap."""
    numbers = itertools.count()

    def one(placed: Placed) -> Placed:
        outlets = [replace(o, shipment=next(numbers)) if o.to == "site" else o for o in placed.outlets]
        return replace(placed, outlets=tuple(outlets))

    groups = tuple(replace(g, operators=tuple(map(one, g.operators))) for g in program.groups)
    return replace(program, groups=groups)


class Unchanged:
    """Leaves out parcels that say nothing new: no tuples, and the bound that was sent before.

    It forgets when a run is started again; then a bound is sent once more, which changes nothing.
    """

    def __init__(self) -> None:
        self._said: dict[str, tuple[int, int]] = {}

    def left_out(self, program: Program, parcels: Sequence[Parcel]) -> list[Parcel]:
        """The parcels that are worth sending."""
        kept = []
        for parcel in parcels:
            outlet = program.shipments[parcel.shipment]
            if parcel.bound is None:
                kept += [parcel] if parcel.n else []
                continue
            # A bound for streams that watch for idle ones also says when tuples last came.
            said = parcel.bound, parcel.wall if outlet.form == "bounds" else 0
            if parcel.n or said != self._said.get(outlet.channel):
                kept.append(parcel)
                self._said[outlet.channel] = said
        return kept
