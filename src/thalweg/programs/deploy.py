"""From plans to what sites run: the fields that travel, the groups of buckets, and every operator's spec."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from thalweg.errors import UserError
from thalweg.kernel.columns import stored_type
from thalweg.kernel.window import NEVER
from thalweg.plan.deployment import Deployment
from thalweg.programs.alias import restorable
from thalweg.programs.compile import Labels
from thalweg.programs.graph import FLAG, Feed, Graph, Names, Op, View
from thalweg.programs.inlet import Inlet, Narrow
from thalweg.programs.job import QueryPlan, StreamInfo, TypedQuery
from thalweg.programs.outlet import Outlet, Part
from thalweg.programs.pack import TIME
from thalweg.programs.presence import BITS
from thalweg.programs.probe import SENT
from thalweg.programs.sites import SiteOperator, Sites, SourceStream
from thalweg.programs.source import VALUE, SourcePack, end_of
from thalweg.programs.spec import (
    END,
    KEY,
    SEQ,
    START,
    Field,
    JoinSpec,
    KeysSpec,
    OutputField,
    Port,
    ProbeSpec,
    RelaySpec,
    SinkSpec,
    SourceSpec,
    Spec,
    Target,
    Watched,
)
from thalweg.query.model import WindowKind, quoted

WORD = "#w:"
"""A field with the key word of another field, which decides equality where several make a key."""


@dataclass(frozen=True)
class Deployed:
    """What runs, and what comes out of it."""

    sites: Sites
    queries: tuple[QueryPlan, ...]


def deploy(
    queries: Sequence[tuple[TypedQuery, Deployment]],
    streams: Mapping[str, StreamInfo],
    at: Mapping[str, str],
    *,
    buckets: int,
    labels: Labels,
    keep_late: bool,
) -> Deployed:
    """Compile the deployments of some queries; `at` is where each stream arises."""
    graph = Graph(streams, at, buckets)
    for typed, deployment in queries:
        graph.add(typed, deployment)
    _watch(graph)
    builder = _Builder(graph, labels, keep_late)
    return Deployed(builder.build(), tuple(_plan(n) for n in graph.names))


def _plan(names: Names) -> QueryPlan:
    query = names.query
    fields = tuple(
        (a, c, names.info(a).columns[c]) for a in query.aliases for c in query.columns_after_join(a)
    )
    return QueryPlan(query, fields, {}, tuple((a, names.info(a).time) for a in query.aliases))


def _watch(graph: Graph) -> None:
    """A stream that may fall idle hears how far the others of its queries have come."""
    for names in graph.names:
        together = list(dict.fromkeys(i.stream for i in names.query.inputs))
        for stream in together:
            op = graph.source(stream)
            if graph.infos[stream].idle is None:
                continue
            known = {f.view.op.stream for f in op.feeds}
            for other in together:
                if other != stream and other not in known:
                    source = graph.source(other)
                    op.reads(View(source, source.site, {"": ""}), 1 + len(op.feeds), form="bounds")


@dataclass
class _Shipment:
    """What goes from an operator to a site for some readers."""

    outlet: str
    feeds: list[Feed] = field(default_factory=list)


class _Builder:
    def __init__(self, graph: Graph, labels: Labels, keep_late: bool) -> None:
        self.graph, self.keep_late = graph, keep_late
        self.numbers = {name: i for i, name in enumerate(graph.infos)}
        ops = self.ops = graph.ordered()
        rows = self._rows_of_streams()
        for op in ops:
            if op.role == "source" and rows.get(op.stream):
                op.buckets = 1  # a window of rows counts its whole stream
            if op.role in ("sink", "relay"):
                op.buckets = 1
        fresh = labels(sum(op.buckets for op in ops))
        self.groups: dict[int, tuple[int, ...]] = {}
        used = 0
        for op in ops:
            self.groups[id(op)] = tuple(fresh[used : used + op.buckets])
            used += op.buckets
        self.rows = rows

    def build(self) -> Sites:
        for op in reversed(self.ops):
            self._want(op)
        shipments = self._shipments()
        operators = []
        inlets = []
        for op in self.ops:
            outlets = []
            for shipment in shipments.get(id(op), {}).values():
                outlet = self._outlet(shipment)
                outlets.append(outlet)
                inlets += [self._inlet(feed, outlet) for feed in shipment.feeds]
            if op.role == "source":
                outlets += self._counted(op)
            operators.append(
                SiteOperator(op.name, op.site, self.groups[id(op)], self._spec(op), tuple(outlets))
            )
        streams = tuple(self._stream(op) for op in self.ops if op.role == "source")
        return Sites(tuple(operators), tuple(inlets), streams)

    def _rows_of_streams(self) -> dict[str, tuple[int, ...]]:
        found: dict[str, dict[int, None]] = {}
        for names in self.graph.names:
            for i in names.query.inputs:
                if (size := names.rows(i.alias)) is not None:
                    found.setdefault(i.stream, {})[size] = None
        return {stream: tuple(sizes) for stream, sizes in found.items()}

    # --- which fields travel

    def _want(self, op: Op) -> None:
        """What an operator needs of its inputs for what others need of it."""
        names = op.query
        for feed in op.feeds:
            view = feed.view
            if op.role == "relay":
                feed.wants = dict.fromkeys(op.needs)
            elif feed.form == "tuples":
                assert names is not None
                feed.wants = dict.fromkeys(self._fields(op, feed, names))
            wanted = dict.fromkeys((*feed.wants, *(feed.key if feed.form != "rows" else ())))
            needed = [n if op.role == "relay" or n.startswith("#") else view.field(n) for n in wanted]
            if view.part is not None:
                needed.append(view.part[0])
            if op.role != "relay" and names is not None and not view.base:
                wide = [a for a in view.aliases if view.theirs[a] in view.op.wide and a not in op.wide]
                only = tuple(f"{view.theirs[a]}.{names.flag(a)}" for a in wide)
                feed.accept = [(*flags, *only) for flags in feed.accept]
            flags = [f for all_of in feed.accept for f in all_of]
            for name in (
                *needed,
                *flags,
                *(view.field(f"{a}.{self._time(names, a)}") for a, _ in view.narrow),
            ):
                if not (view.base and name == self._source_time(view.op)):
                    view.op.needs.setdefault(name)

    def _source_time(self, op: Op) -> str:
        return self.graph.infos[op.stream].time

    def _time(self, names: Names | None, alias: str) -> str:
        assert names is not None
        return names.info(alias).time

    def _fields(self, op: Op, feed: Feed, names: Names) -> list[str]:
        view = feed.view
        own = set(view.aliases)
        if op.role == "sink":
            query = names.query
            return [f"{a}.{c}" for a in view.aliases for c in query.columns_after_join(a)]
        wants = [n for n in op.needs if not n.startswith("#") and n.split(".", 1)[0] in own]
        if op.role == "keys" or op.about.get("interest"):
            wants = []
        if op.role == "probe" and op.about["mode"] == "fetch" and feed.port == 0:
            wants = []
        if op.role == "probe" and op.about["mode"] == "pass" and feed.port == 1:
            wants = []
        if self._ordered_end(op, feed):
            wants += [END, *(f"{SEQ}.{a}" for a in view.aliases if names.rows(a) is not None)]
        return wants

    def _ordered_end(self, op: Op, feed: Feed) -> bool:
        """Whether tuples bring their own end, from an operator (a stream's are made where it arises)."""
        if feed.view.base:
            return False
        if op.role == "join":
            return True
        names = op.query
        assert names is not None
        rows = any(names.rows(a) is not None for a in feed.view.aliases)
        return op.role == "probe" and feed.port == 1 and rows

    # --- shipments

    def _shipments(self) -> dict[int, dict[Hashable, _Shipment]]:
        found: dict[int, dict[Hashable, _Shipment]] = {}
        for reader in self.ops:
            for feed in reader.feeds:
                view = feed.view
                key: Hashable = (reader.site, feed.form, view.group, repr(view.part))
                if feed.form in ("keys", "bloom"):
                    key = (key, tuple(view.field(k) for k in feed.key), feed.slot)
                mine = found.setdefault(id(view.op), {})
                if key not in mine:
                    mine[key] = _Shipment(f"{view.op.name}/{len(mine)}>{reader.site}")
                mine[key].feeds.append(feed)
        return found

    def _outlet(self, shipment: _Shipment) -> Outlet:
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
            part = Part(name, self._kind(view.op, name), selector, named)
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
        )

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
                if not n.startswith("#") and not (view.base and self._is_time(feed, n))
            ]
            names += [n for n in feed.wants if n.startswith("#")]
        names += self._flags(feed, any_of)
        names += [view.field(f"{a}.{self._time(op.query, a)}") for a, _ in view.narrow]
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

    def _is_time(self, feed: Feed, name: str) -> bool:
        alias, column = name.split(".", 1)
        return column == self._time(feed.reader.query, alias)

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
        port = self._port(op, feed.port)
        held = {f.name for f in port.fields if f.held}
        words = tuple((view.field(v.removeprefix(WORD)), v) for v in port.verify if v.startswith(WORD))
        columns = [
            (view.field(n), n)
            for n in dict.fromkeys((*feed.wants, *(v for v in port.verify if not v.startswith(WORD))))
            if not n.startswith("#") and n not in held and not (view.base and self._is_time(feed, n))
        ]
        time = next(
            (
                n
                for n in feed.wants
                if view.base and not n.startswith("#") and self._is_time(feed, n) and n not in held
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
            names.info(view.aliases[0]).columns[self._time(names, view.aliases[0])] if time else None,
            self._flags(feed, outlet.any_of),
            rows,
            resolves,
            END in feed.wants,
            tuple(Narrow(view.field(f"{a}.{self._time(names, a)}"), span) for a, span in view.narrow),
            words,
        )

    # --- specs

    def _kind(self, op: Op, name: str) -> pa.DataType:
        """The type of a field of an operator's output."""
        if name in (END, START, KEY, SENT) or name.startswith((SEQ, WORD, END)):
            return pa.int64()
        source = op.role == "source" or (op.role == "relay" and bool(op.stream))
        alias, rest = ("", name) if source else name.split(".", 1)
        if rest.startswith(FLAG):
            return pa.bool_()
        if source:
            if rest.startswith(VALUE):
                return self._values(op.stream)[rest]
            return stored_type(self.graph.infos[op.stream].columns[rest])
        assert op.query is not None
        if rest.startswith(VALUE):
            return self._values(op.query.query.input(alias).stream)[rest]
        return stored_type(op.query.info(alias).columns[rest])

    def _values(self, stream: str) -> dict[str, pa.DataType]:
        """The key expressions over a stream, and their types."""
        return {
            n.key(i.alias, c).split(".", 1)[1]: n.value_kind(i.alias, c)
            for n in self.graph.names
            for i in n.query.inputs
            if i.stream == stream
            for c in range(len(n.classes))
            if i.alias in n.classes[c]
        }

    def _port(self, op: Op, number: int) -> Port:
        """A port of a join or a probe."""
        names = op.query
        assert names is not None
        feeds = [f for f in op.feeds if f.port == number]
        feed = feeds[0]
        view = feed.view
        shared = op.about.get("classes", ())
        window = op.role == "join" or number == 1
        exact = len(shared) <= 1 and all(names.exact(names.carrier(view.aliases, c), c) for c in shared)
        verify = () if exact else tuple(self._verify(names, view.aliases, c) for c in shared)
        fields = []
        for name in dict.fromkeys((*feed.wants, *verify)):
            if name == END:
                continue
            kind = self._kind(op, name)
            held = ""
            if window and not name.startswith("#"):
                if view.base and self._is_time(feed, name):
                    held = START
                elif exact and len(shared) == 1 and name == feed.key[0] and restorable(kind):
                    held = KEY
            if held:
                alias, column = name.split(".", 1)
                kind = names.info(alias).columns[column]
            fields.append(Field(name, kind, held))
        if op.role == "probe" and op.about["mode"] == "fetch" and number == 1:
            fields.append(Field(SENT, pa.int64()))
        label = view.aliases[0] if len(view.aliases) == 1 else " ".join(view.aliases)
        rows = any(names.rows(a) is not None for a in view.aliases)
        if rows and view.base and not any(f.name.startswith(SEQ) for f in fields):
            fields.append(Field(f"{SEQ}.{view.aliases[0]}", pa.int64()))
        span: int | None = None
        single = len(view.aliases) == 1 and not view.narrow
        if single and not rows and op.role in ("join", "probe", "keys"):
            own = names.query.input(view.aliases[0]).window
            span = NEVER if own.kind is WindowKind.UNBOUNDED else min(own.size, NEVER)
        return Port(
            label,
            tuple(fields),
            span,
            rows=names.rows(view.aliases[0]) if op.role == "keys" else None,
            open_ends=rows and window,
            verify=verify,
            rewritten=op.role == "probe" and op.about["mode"] == "fetch" and number == 1,
            feeds=len(feeds),
        )

    def _verify(self, names: Names, aliases: Sequence[str], c: int) -> str:
        alias = names.carrier(aliases, c)
        field_ = names.key(alias, c)
        return WORD + field_ if names.exact(alias, c) else field_

    def _spec(self, op: Op) -> Spec:
        if op.role == "source":
            return self._source(op)
        if op.role == "relay":
            return RelaySpec(op.name, Port(op.name, (), None))
        assert op.query is not None
        if op.role == "sink":
            port = Port(op.name, (), None, feeds=len(op.feeds))
            return SinkSpec(op.name, op.query.number, port, op.query.query.slide)
        if op.role == "keys":
            return KeysSpec(op.name, self._port(op, 0), op.about["slot"])
        if op.role == "join":
            ports = tuple(self._port(op, i) for i in range(1 + max(f.port for f in op.feeds)))
            return JoinSpec(op.name, ports, self._output(op, ports), Target((), 0, ()))
        return self._probe(op)

    def _output(self, op: Op, ports: Sequence[Port]) -> tuple[OutputField, ...]:
        found = []
        for name in op.needs:
            for i, port in enumerate(ports):
                if any(f.name == name for f in port.fields):
                    found.append(OutputField(name, port.field(name).kind, i, name))
                    break
        return tuple(found)

    def _probe(self, op: Op) -> ProbeSpec:
        about = op.about
        flags: dict[str, Any] = {
            k: about[k] for k in ("strict", "ranges", "standing", "closes", "interest", "bloom") if k in about
        }
        if about["mode"] == "join":
            ports = (self._port(op, 0), self._port(op, 1))
            return ProbeSpec(op.name, ports, "join", self._output(op, ports), **flags)
        probes = Port("probes", (), None, feeds=sum(f.port == 0 for f in op.feeds))
        keys = Port("keys", (), None, open_ends=True)
        if about["mode"] == "fetch":
            window = self._port(op, 1) if not about.get("interest") else keys
            if about.get("interest"):
                window = Port("keys", (Field(SENT, pa.int64()),), None, open_ends=True)
            output = self._output(op, (probes, window))
            return ProbeSpec(op.name, (probes, window), "fetch", output, **flags)
        if about.get("ranges"):  # SM-D2: which keys match
            return ProbeSpec(op.name, (probes, self._port(op, 1)), "pass", (), **flags)
        current = self._port(op, 0)
        matches = keys if about.get("closes") else Port("matches", (), None)
        return ProbeSpec(op.name, (current, matches), "pass", self._output(op, (current,)), **flags)

    # --- sources

    def _source(self, op: Op) -> SourceSpec:
        info = self.graph.infos[op.stream]
        watched = [f.view.op.stream for f in op.feeds]
        fields = [
            Field(c, k, START) if c == info.time else Field(c, stored_type(k))
            for c, k in info.columns.items()
        ]
        rows = self.rows.get(op.stream, ())
        for c in info.order if rows else ():
            if stored_type(info.columns[c]) != info.columns[c]:
                raise UserError(
                    f"stream {info.name}: its `order` column {c!r} is an array, a struct or a map",
                    remedy="order by a number, a string or a time",
                )
        port = Port(
            op.stream,
            tuple(fields),
            0,
            stream=self.numbers[op.stream],
            lateness=info.lateness,
            idle=info.idle,
            order=info.order if rows else (),
            late=tuple(info.columns) if self.keep_late else (),
            reports=True,
        )
        others = tuple(Watched(0, None) for _ in watched)
        return SourceSpec(op.name, port, rows, others)

    def _stream(self, op: Op) -> SourceStream:
        info = self.graph.infos[op.stream]
        select: dict[str, str] = {quoted(info.time): TIME}
        columns = []
        wanted = dict.fromkeys(n for n in op.needs if not n.startswith((SEQ, END)))
        if self.keep_late:
            wanted |= dict.fromkeys(c for c in info.columns if c != info.time)
        for c in info.order if self.rows.get(op.stream) else ():
            wanted.setdefault(c)
        for name in wanted:
            sql = name[len(VALUE) :] if name.startswith((VALUE, FLAG)) else quoted(name)
            columns.append((select.setdefault(sql, f"c{len(select)}"), name))
        pack = SourcePack(self.groups[id(op)], tuple(columns), info.max_ahead)
        return SourceStream(op.stream, op.site, tuple(select.items()), pack)
