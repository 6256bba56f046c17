"""What goes from which operator to which site, and how it gets to the ports of its readers there."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field

from thalweg.programs.comparisons import Comparison, comparison
from thalweg.programs.fields import WORD, Fields
from thalweg.programs.graph import Feed, Op
from thalweg.programs.inlet import Inlet, Narrow
from thalweg.programs.outlet import Outlet, Part
from thalweg.programs.presence import BITS
from thalweg.programs.source import end_of
from thalweg.programs.spec import END, KEY, SEQ
from thalweg.programs.specs import Specs


@dataclass
class Shipment:
    """What goes from an operator to a site for some readers."""

    outlet: str
    feeds: list[Feed] = field(default_factory=list)


class Wiring:
    """Shipments: what several operators at a site read of one operator is sent there once."""

    def __init__(self, fields: Fields, specs: Specs, groups: Mapping[int, tuple[int, ...]]) -> None:
        self.fields, self.specs, self.groups = fields, specs, groups
        self.ops = fields.ops
        self.shipments = self._shipments()

    def of(self, op: Op) -> tuple[list[Outlet], list[Inlet]]:
        """What an operator sends, and who reads it."""
        outlets, inlets = [], []
        for shipment in self.shipments.get(id(op), {}).values():
            outlet = self._outlet(shipment)
            outlets.append(outlet)
            if outlet.form != "results":
                inlets += [self._inlet(feed, outlet) for feed in shipment.feeds]
        if op.role == "source":
            outlets += self._counted(op)
        return outlets, inlets

    def _shipments(self) -> dict[int, dict[Hashable, Shipment]]:
        found: dict[int, dict[Hashable, Shipment]] = {}
        for reader in self.ops:
            for feed in reader.feeds:
                view = feed.view
                key: Hashable = (reader.site, feed.form, view.group, repr(view.part))
                if _handed_out(feed):
                    key = ("results", id(feed))
                if feed.form in ("keys", "bloom"):
                    key = (key, tuple(view.field(k) for k in feed.key), feed.slot)
                mine = found.setdefault(id(view.op), {})
                if key not in mine:
                    mine[key] = Shipment(f"{view.op.name}/{len(mine)}>{reader.site}")
                mine[key].feeds.append(feed)
        return found

    def _outlet(self, shipment: Shipment) -> Outlet:
        feed = shipment.feeds[0]
        view = feed.view
        accept = [a for f in shipment.feeds for a in f.accept]
        any_of = () if any(not a for a in accept) else tuple(dict.fromkeys(accept))
        fields: dict[str, None] = {}
        if feed.form == "tuples":
            for f in shipment.feeds:
                fields |= dict.fromkeys(self._shipped(f, any_of))
        part = None
        if view.part is not None:
            name, selector, named = view.part
            part = Part(name, self.fields.kind(view.op, name), selector, named)
        if _handed_out(feed):
            assert feed.reader.query is not None
            own = tuple(feed.wants)
            number, where = feed.reader.query.number, self._decided(view.op)
            return Outlet(shipment.outlet, "", "results", 0.0, own, any_of, query=number, where=where)
        return Outlet(
            shipment.outlet,
            feed.reader.site,
            feed.form,
            max(f.width for f in shipment.feeds),
            tuple(fields),
            any_of,
            part,
            tuple(view.field(k) for k in feed.key) if feed.form in ("keys", "bloom") else (),
            feed.slot,
            where=self._decided(view.op),
        )

    def _decided(self, op: Op) -> tuple[Comparison, ...]:
        """The conditions of its query that an operator can decide on what it puts out.

        Who reuses an operator has all of them too, or it could not.
        """
        if op.query is None or op.role not in ("join", "probe"):
            return ()
        found = []
        for condition in op.query.typed.query.conditions:
            if all(f"{alias}.{column}" in op.needs for alias, column in condition.columns):
                one = comparison(condition, lambda name: self.fields.kind(op, name))
                found += [one] if one else []
        return tuple(found)

    def _counted(self, op: Op) -> list[Outlet]:
        """What of a stream would be shipped if it went to another site as it is, filtered."""
        widths: dict[Hashable, tuple[float, dict[tuple[str, ...], None]]] = {}
        for reader in self.ops:
            for feed in reader.feeds:
                if feed.view.op is op and feed.form != "bounds":
                    width, flags = widths.setdefault(feed.view.filters, (0.0, {}))
                    whole = feed.width if feed.form == "tuples" else 0.0
                    widths[feed.view.filters] = max(width, whole), flags | {feed.view.flags: None}
        return [
            Outlet(f"{op.name}/whole{i}", "", "count", width, any_of=tuple(flags))
            for i, (width, flags) in enumerate(widths.values())
        ]

    def _shipped(self, feed: Feed, any_of: tuple[tuple[str, ...], ...]) -> list[str]:
        """The fields of an operator's output that a reader needs in a shipment."""
        view, op = feed.view, feed.reader
        if op.role == "relay":
            names = list(feed.wants)
        else:
            names = [
                view.field(n)
                for n in (*feed.wants, *feed.key)
                if not n.startswith("#") and not (view.base and self.fields.is_time(feed, n))
            ]
            names += [n for n in feed.wants if n.startswith("#")]
        names += self._flags(feed, any_of)
        names += [view.field(f"{a}.{self.fields.time(op.query, a)}") for a, _ in view.narrow]
        if view.base and op.query is not None and (rows := op.query.rows(view.aliases[0])) is not None:
            names += [SEQ, end_of(rows)]
        return names

    def _flags(self, feed: Feed, any_of: tuple[tuple[str, ...], ...]) -> tuple[str, ...]:
        """The flags that a reader checks itself: those that a shipment is not already chosen by."""
        own = tuple(feed.accept)
        if not own or any(not a for a in own) or any_of == own:
            return ()
        if len(own) > 1:  # a widened reader takes all that any of its queries wants
            return ()
        return own[0]

    def _inlet(self, feed: Feed, outlet: Outlet) -> Inlet:
        view, op, names = feed.view, feed.reader, feed.reader.query
        groups = self.groups[id(op)]
        if op.role == "relay":
            return Inlet(outlet.stream, groups, 0, raw=True)
        if feed.form == "bounds":
            return Inlet(outlet.stream, groups, feed.port, feed.number)
        if feed.form != "tuples":
            bits = feed.form == "bloom" or (feed.form == "rows" and view.op.about.get("slot"))
            carried = ((BITS, BITS),) if bits else ()
            key = () if bits else (KEY,)
            return Inlet(outlet.stream, groups, feed.port, feed.number, key, carried, ends=True)
        assert names is not None
        port = self.specs.port(op, feed.port)
        held = {f.name for f in port.fields if f.held}
        words = tuple((view.field(v.removeprefix(WORD)), v) for v in port.verify if v.startswith(WORD))
        columns = [
            (view.field(n), n)
            for n in dict.fromkeys((*feed.wants, *(v for v in port.verify if not v.startswith(WORD))))
            if not n.startswith("#") and n not in held and not (view.base and self.fields.is_time(feed, n))
        ]
        time = next(
            (
                n
                for n in feed.wants
                if view.base and not n.startswith("#") and self.fields.is_time(feed, n) and n not in held
            ),
            None,
        )
        size = names.rows(view.aliases[0]) if view.base else None
        rows = None if size is None else (view.aliases[0], size)
        resolves = (
            () if rows else tuple((view.theirs[a], a) for a in view.aliases if names.rows(a) is not None)
        )
        columns += [(n, n) for n in feed.wants if n.startswith(SEQ)]
        return Inlet(
            outlet.stream,
            groups,
            feed.port,
            feed.number,
            tuple(view.field(k) for k in feed.key),
            tuple(columns),
            time,
            names.info(view.aliases[0]).columns[self.fields.time(names, view.aliases[0])] if time else None,
            self._flags(feed, outlet.any_of),
            rows,
            resolves,
            END in feed.wants,
            tuple(Narrow(view.field(f"{a}.{self.fields.time(names, a)}"), span) for a, span in view.narrow),
            words,
        )


def _handed_out(feed: Feed) -> bool:
    """Whether what a sink reads can be handed out where it is made: nothing is left to do for the sink."""
    view, sink = feed.view, feed.reader
    same = all(alias == theirs for alias, theirs in view.theirs.items())
    if sink.role != "sink" or sink.site != view.op.site or not same or view.narrow or view.part is not None:
        return False
    assert sink.query is not None
    return sink.query.query.slide is None
