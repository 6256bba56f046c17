"""What goes from which operator to which others: outlets of the one, inlets of the others, routes between."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

from thalweg.compile.graph import Feed, Op
from thalweg.compile.needs import WORD, Needs
from thalweg.compile.ports import Ports
from thalweg.compile.query_fields import field_named
from thalweg.compile.stages import Instance, Place, Placement
from thalweg.operators.comparisons import Comparison, comparison, either
from thalweg.operators.inlet import Inlet, Narrow
from thalweg.operators.outlet import Outlet, Part, To
from thalweg.operators.spec import END, KEY, SEQ
from thalweg.operators.window_keys import BITS

Producer = Op | Instance
"""An operator, or one of the source operators of a stream."""

Flags = tuple[tuple[str, ...], ...]


@dataclass
class Shipment:
    """What one operator sends to one destination, for some readers."""

    outlet: str
    to: To
    site: str
    feeds: list[Feed] = field(default_factory=list)


@dataclass(frozen=True)
class Arrival:
    """A channel as it comes to the operators of a place: by which outlet, and by which key."""

    outlet: str
    channel: str
    place: Place
    key: tuple[str, ...]
    keyless: bool = False


class Shipments:
    """Outlets, inlets and arrivals. Tuples that several operators at a site read are sent there once."""

    def __init__(self, needs: Needs, ports: Ports, placement: Placement) -> None:
        self.needs, self.ports, self.placement = needs, ports, placement
        self.sent: dict[Hashable, dict[Hashable, Shipment]] = {}
        self.inlets: dict[int, list[Inlet]] = {id(op): [] for op in needs.ops}
        self.arrivals: dict[Arrival, None] = {}
        self.keyed: set[int] = set()  # operators whose readers take the key word from them
        for reader in needs.ops:
            for feed in reader.feeds:
                self._add(feed)
        self.numbers = {
            s.outlet: n
            for n, s in enumerate(s for of in self.sent.values() for s in of.values() if s.to == "site")
        }
        self._read()

    def of(self, producer: Producer) -> list[Shipment]:
        return list(self.sent.get(_identity(producer), {}).values())

    def _add(self, feed: Feed) -> None:
        view, reader = feed.view, feed.reader
        producer, to, site = self._destination(feed)
        if to is None:
            return
        key: Hashable = (to, site, feed.form, view.group, view.equal, repr(view.part))
        if to == "results":
            key = (to, id(feed))
        elif feed.form in ("keys", "bloom"):
            key = (key, tuple(view.field(k) for k in feed.key), feed.slot)
        mine = self.sent.setdefault(_identity(producer), {})
        if key not in mine:
            where = {"here": "here", "stage": "stage", "results": "results"}.get(to, reader.site)
            mine[key] = Shipment(f"{_name(producer)}/{len(mine)}>{where}", to, site)
        mine[key].feeds.append(feed)

    def _destination(self, feed: Feed) -> tuple[Producer, To | None, str]:
        """Who sends it, and where it goes; the time of a stream at the same site comes with its rows."""
        view, reader, placement = feed.view, feed.reader, self.placement
        source = view.op.role == "source"
        if feed.form == "bounds" and view.op.site == reader.site:
            return placement.primary(view.op.stream), None, ""
        if source and placement.beside(feed):
            place = placement.of(reader)
            key = () if place.whole else tuple(view.field(k) for k in feed.key)
            return Instance(view.op.stream, place, key), "here", ""
        producer: Producer = placement.primary(view.op.stream) if source else view.op
        if feed.handed_out:
            return producer, "results", ""
        if placement.beside(feed):
            return producer, "here", ""
        if placement.staged(feed):
            return producer, "stage", ""
        return producer, "site", reader.site

    def _read(self) -> None:
        """The inlets of all readers, and how channels arrive at their places."""
        for of in self.sent.values():
            for shipment in of.values():
                any_of = self.any_of(shipment)
                for feed in shipment.feeds:
                    if shipment.to != "results":
                        self._inlets(shipment, feed, any_of)

    def _inlets(self, shipment: Shipment, feed: Feed, any_of: Flags) -> None:
        reader = feed.reader
        if reader.role == "source":  # every source operator of a stream watches the others
            for instance in self.placement.instances[reader.stream]:
                self._arrival(shipment, instance.place, ())
            self.inlets[id(reader)].append(Inlet(shipment.outlet, feed.port))
            return
        place = self.placement.of(reader)
        if shipment.to == "here":
            channel, key = shipment.outlet, tuple(feed.view.field(k) for k in feed.key) if place.whole else ()
            if feed.form != "tuples" or reader.role in ("sink", "relay"):
                key = ()
            if not place.whole:
                self.keyed.add(id(feed.view.op))
        else:
            key = ()
            routed = tuple(feed.view.field(k) for k in feed.key)
            if feed.form != "tuples":
                routed = () if self._bits(feed) else (KEY,)
            channel = self._arrival(shipment, place, routed, feed.keyless)
        self.inlets[id(reader)].append(self._inlet(feed, channel, key, any_of))

    def _arrival(self, shipment: Shipment, place: Place, key: tuple[str, ...], keyless: bool = False) -> str:
        channel = shipment.outlet + "".join(f"|{k}" for k in key) + ("|NULL" if keyless else "")
        self.arrivals[Arrival(shipment.outlet, channel, place, key, keyless)] = None
        return channel

    def any_of(self, shipment: Shipment) -> Flags:
        """The flags by which tuples are chosen for a shipment; none where all tuples go."""
        accept = [a for f in shipment.feeds for a in f.accept]
        return () if any(not a for a in accept) else tuple(dict.fromkeys(accept))

    def outlets(self, producer: Producer, chosen: Flags | None = None) -> list[Outlet]:
        """What a producer sends. `chosen` are the flags by which its tuples are chosen already."""
        return [self._outlet(shipment, chosen) for shipment in self.of(producer)]

    def _outlet(self, shipment: Shipment, chosen: Flags | None) -> Outlet:
        feed = shipment.feeds[0]
        view = feed.view
        any_of = self.any_of(shipment)
        fields: dict[str, None] = {}
        if feed.form == "tuples":
            for f in shipment.feeds:
                fields |= dict.fromkeys(self.shipped(f, any_of))
        part = None
        if view.part is not None:
            name, selector, named = view.part
            part = Part(name, self.needs.kind(view.op, name), selector, named)
        common: dict[str, Any] = {
            "any_of": () if any_of == chosen else any_of,
            "part": part,
            "where": (*self._decided(view.op), *(Comparison(a, "=", b) for a, b in view.equal)),
        }
        if shipment.to == "results":
            assert feed.reader.query is not None
            return Outlet(
                shipment.outlet,
                "results",
                fields=tuple(feed.wants),
                query=feed.reader.query.number,
                **common,
            )
        return Outlet(
            shipment.outlet,
            shipment.to,
            feed.form,
            shipment.site,
            self.numbers.get(shipment.outlet, -1),
            max(f.width for f in shipment.feeds),
            tuple(fields),
            tuple(self.needs.kind(view.op, name) for name in fields),
            key=tuple(view.field(k) for k in feed.key) if feed.form in ("keys", "bloom") else (),
            slot=feed.slot,
            bits=self._bits(feed),
            **common,
        )

    def _bits(self, feed: Feed) -> bool:
        """Whether Bloom filters are sent."""
        return feed.form == "bloom" or (feed.form == "rows" and bool(feed.view.op.about.get("slot")))

    def _decided(self, op: Op) -> tuple[Comparison, ...]:
        """The conditions of its query that an operator can decide on its output.

        An operator that is reused has them in common with all its readers.
        """
        if op.query is None or op.role not in ("join", "probe"):
            return ()
        found = []
        for condition in op.query.typed.query.conditions:
            if all(field_named(alias, column) in op.needs for alias, column in condition.columns):
                one = comparison(condition, field_named, lambda name: self.needs.kind(op, name))
                if one is None and not any(c in op.query.info(a).folded for a, c in condition.columns):
                    one = either(condition, field_named, lambda name: self.needs.kind(op, name))
                found += [one] if one else []
        return tuple(found)

    def counted(self, op: Op, chosen: Flags) -> list[Outlet]:
        """What of a stream would be shipped if it went to another site as it is, filtered."""
        widths: dict[Hashable, tuple[float, dict[tuple[str, ...], None]]] = {}
        for reader in self.needs.ops:
            for feed in reader.feeds:
                if feed.view.op is op and feed.form != "bounds":
                    width, flags = widths.setdefault(feed.view.filters, (0.0, {}))
                    whole = feed.width if feed.form == "tuples" else 0.0
                    widths[feed.view.filters] = max(width, whole), flags | {feed.view.flags: None}
        return [
            Outlet(
                f"{op.name}/whole{i}", "count", width=w, any_of=() if tuple(flags) == chosen else tuple(flags)
            )
            for i, (w, flags) in enumerate(widths.values())
        ]

    def shipped(self, feed: Feed, any_of: Flags) -> list[str]:
        """The fields of an operator's output that a reader needs."""
        view, op = feed.view, feed.reader
        if op.role == "relay":
            names = list(feed.wants)
        else:
            names = [
                view.field(n)
                for n in (*feed.wants, *feed.key)
                if not n.startswith("#") and not (view.base and self.needs.is_time(feed, n))
            ]
            names += [n for n in feed.wants if n.startswith("#")]
        names += self._flags(feed, any_of)
        names += [view.field(f"{a}.{self.needs.time(op.query, a)}") for a, _ in view.narrow]
        if view.base and op.query is not None and (rows := op.query.rows(view.aliases[0])) is not None:
            names += [SEQ, rows.end]
        return names

    def _flags(self, feed: Feed, any_of: Flags) -> tuple[str, ...]:
        """The flags that a reader checks itself: those that a shipment is not already chosen by."""
        own = tuple(feed.accept)
        if not own or any(not a for a in own) or any_of == own:
            return ()
        if len(own) > 1:  # a widened reader takes all that any of its queries wants
            return ()
        return own[0]

    def _inlet(self, feed: Feed, channel: str, key: tuple[str, ...], any_of: Flags) -> Inlet:
        view, op, names = feed.view, feed.reader, feed.reader.query
        if op.role == "relay":
            return Inlet(channel, 0, raw=True)
        if feed.form != "tuples":
            carried = ((BITS, BITS),) if self._bits(feed) else ()
            return Inlet(channel, feed.port, feed.number, columns=carried, ends=True)
        assert names is not None
        port = self.ports.port(op, feed.port)
        held = {f.name for f in port.fields if f.held}
        words = tuple((view.field(v.removeprefix(WORD)), v) for v in port.verify if v.startswith(WORD))
        columns = [
            (view.field(n), n)
            for n in dict.fromkeys((*feed.wants, *(v for v in port.verify if not v.startswith(WORD))))
            if not n.startswith("#") and n not in held and not (view.base and self.needs.is_time(feed, n))
        ]
        time = next(
            (
                n
                for n in feed.wants
                if view.base and not n.startswith("#") and self.needs.is_time(feed, n) and n not in held
            ),
            None,
        )
        first = view.aliases[0]
        window = names.rows(first) if view.base else None
        rows = None if window is None else (first, window)
        tumble = names.tumble(first) if len(view.aliases) == 1 and not view.narrow else None
        resolves = (
            () if rows else tuple((view.theirs[a], a) for a in view.aliases if names.rows(a) is not None)
        )
        columns += [(n, n) for n in feed.wants if n.startswith(SEQ)]
        info = names.info(first)
        return Inlet(
            channel,
            feed.port,
            feed.number,
            key,
            tuple(columns),
            time,
            info.columns[info.time] if time else None,
            self._flags(feed, any_of),
            rows,
            resolves,
            END in feed.wants,
            tumble,
            tuple(Narrow(view.field(f"{a}.{self.needs.time(names, a)}"), span) for a, span in view.narrow),
            words,
            keyless=feed.keyless,
        )


def _identity(producer: Producer) -> Hashable:
    return producer if isinstance(producer, Instance) else id(producer)


def _name(producer: Producer) -> str:
    return source_name(producer) if isinstance(producer, Instance) else producer.name


def source_name(instance: Instance) -> str:
    """The name of a source operator."""
    stage = f" in stage {instance.place.stage}" if instance.place.stage > 1 else ""
    by = f" by {', '.join(instance.key)}" if instance.key else " as a whole" if instance.place.whole else ""
    return f"{instance.stream}{stage}{by}"


def fields_of(shipments: Sequence[Shipment], of: Shipments, chosen: Flags) -> list[str]:
    """The fields that some shipments of a source read."""
    found: dict[str, None] = {}
    for shipment in shipments:
        any_of = of.any_of(shipment)
        for feed in shipment.feeds:
            if feed.form == "tuples":
                found |= dict.fromkeys(of.shipped(feed, any_of))
            elif feed.form in ("keys", "bloom"):
                found |= dict.fromkeys(feed.view.field(k) for k in feed.key)
            if feed.view.part is not None:
                found[feed.view.part[0]] = None
        if any_of != chosen:
            found |= dict.fromkeys(flag for all_of in any_of for flag in all_of)
    return list(found)
