"""From plans to what sites run: the one compiler, whether there is one site or many."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from thalweg.compile.graph import Graph, Op, View
from thalweg.compile.inputs import ResultPlan, StreamInfo, TypedQuery
from thalweg.compile.keepers import with_keepers
from thalweg.compile.needs import Needs
from thalweg.compile.ports import Ports
from thalweg.compile.query_fields import FLAG, QueryFields, column_of, field_of
from thalweg.compile.reader import add
from thalweg.compile.shipments import Flags, Shipments, fields_of, source_name
from thalweg.compile.stages import Instance, Place, Placement, Shape
from thalweg.errors import UserError
from thalweg.kernel.columns import stored_type
from thalweg.kernel.window import NEVER
from thalweg.observe.joins import keys
from thalweg.operators.inlet import Inlet
from thalweg.operators.outlet import Outlet
from thalweg.operators.pack import TIME, VALUE, Flag, Packing, PackRoute
from thalweg.operators.program import KeyGroup, Placed, Program, Route
from thalweg.operators.spec import END, KEY, SEQ, START, Field, KeepSpec, SourceSpec, Watched
from thalweg.plan.deployment import Deployment
from thalweg.query.model import WindowKind, quoted
from thalweg.query.rename import unqualified

Labels = Callable[[str, int], Sequence[int]]
"""Labels for the buckets of a place: given its name, so many of them, always the same ones."""


@dataclass(frozen=True)
class Selection:
    """What Spark evaluates of the rows of a stream, by the queries alone: (SQL, column), and the flags."""

    stream: str
    columns: tuple[tuple[str, str], ...]
    fields: Mapping[str, str]  # field -> column
    flags: tuple[Flag, ...]
    joined: tuple[str, ...] = ()  # the fields that queries read, beside those that late tuples are kept with


@dataclass(frozen=True)
class Compiled:
    """What runs, what Spark must evaluate for it, what is fixed in the Spark query, and what comes out."""

    program: Program
    selections: tuple[Selection, ...]
    shape: Shape
    results: tuple[ResultPlan, ...]


def compile_plan(
    queries: Sequence[tuple[TypedQuery, Deployment]],
    streams: Mapping[str, StreamInfo],
    at: Mapping[str, str],
    *,
    buckets: int,
    labels: Labels,
    keep_late: bool,
    shape: Shape | None = None,
    begin: Mapping[str, Sequence[Sequence[int]]] | None = None,
    generation: int = 0,
    numbers: Sequence[int] | None = None,
    keep: bool = False,
) -> Compiled:
    """Compile the deployments of some queries; `at` is where each stream arises.

    A program that takes over from another one while it runs keeps to the `shape` of the first, begins where
    its streams have come to (`begin`, as `Report.progress` says), and has names of its own by its
    `generation`. `numbers` are those of the queries; without them they are counted from 0. With `keep`, what
    is alive of the streams is kept for a program that takes over later.
    """
    graph = Graph(streams, at, buckets)
    for number, (typed, deployment) in zip(numbers or range(len(queries)), queries, strict=True):
        add(graph, QueryFields(number, typed, streams), deployment)
    _watch(graph)
    needs = Needs(graph)
    for op in needs.ops:
        if op.role in ("sink", "relay"):
            op.buckets = 1
    selections = {name: _selection(graph, name, keep_late) for name in _streams(graph)}
    building = _Building(
        needs,
        Placement(needs, buckets, shape, keep=keep),
        labels,
        selections,
        keep_late,
        begin or {},
        generation,
    )
    return Compiled(
        building.program(),
        tuple(selections.values()),
        shape or building.placement.found,
        tuple(_results(names) for names in graph.queries),
    )


def label_of(place: str, bucket: int, buckets: int, partition: Callable[[int], int]) -> int:
    """A label for a bucket of a place: each bucket is in the partition after that of the one before it.

    The first label is the same whatever the number of partitions.
    """
    first = zlib.crc32(f"{place}/0".encode()) & 0x3FFFFFFF
    label = first if bucket == 0 else zlib.crc32(f"{place}/{bucket}".encode()) & 0x3FFFFFFF
    while partition(label) != (partition(first) + bucket) % buckets:
        label += 1
    return label


def _streams(graph: Graph) -> list[str]:
    return list(dict.fromkeys(i.stream for n in graph.queries for i in n.query.inputs))


def _results(names: QueryFields) -> ResultPlan:
    query = names.query
    fields = tuple(
        (a, c, f"{a}.{field_of(c)}", names.info(a).columns[c]) for a in query.aliases for c in names.sent(a)
    )
    absent = {one.alias for one in query.outer if not one.brings}
    absent |= {one.alias for one in query.inputs if one.is_table}  # never the latest
    times = tuple((a, names.info(a).time) for a in query.aliases if a not in absent)
    return ResultPlan(query, fields, names.same, times)


def _watch(graph: Graph) -> None:
    """A stream that may fall idle, or follows the others of its queries, hears how far these have come."""
    for names in graph.queries:
        together = list(dict.fromkeys(i.stream for i in names.query.inputs))
        for stream in together:
            op = graph.source(stream)
            if graph.infos[stream].idle is None and not graph.infos[stream].follows:
                continue
            known = {f.view.op.stream for f in op.feeds}
            for other in together:
                # A table says nothing of how far the streams have come.
                if other != stream and other not in known and not _is_table(graph.infos[other]):
                    source = graph.source(other)
                    op.reads(View(source, source.site, {"": ""}), 1 + len(op.feeds), form="bounds")


def _is_table(info: StreamInfo) -> bool:
    return info.follows or info.lateness < 0


def _selection(graph: Graph, stream: str, keep_late: bool) -> Selection:
    """Depends on the queries only: a plan may use any of it."""
    info = graph.infos[stream]
    select: dict[str, str] = {quoted(info.time): TIME}
    fields: dict[str, str] = {field_of(info.time): TIME}
    flags: dict[str, Flag] = {}

    def column(sql: str) -> str:
        return select.setdefault(sql, f"c{len(select)}")

    wanted: dict[str, None] = {}
    for names in graph.queries:
        for one in (i for i in names.query.inputs if i.stream == stream):
            keys = [names.key(one.alias, c).split(".", 1)[1] for c in names.classes_with(one.alias)]
            wanted |= dict.fromkeys([*(field_of(c) for c in names.query.columns_read(one.alias)), *keys])
            if one.window.kind is WindowKind.ROWS:
                wanted |= dict.fromkeys(field_of(c) for c in _counted(info, one.window.by))
    joined = tuple(name for name in wanted if name != field_of(info.time))
    if keep_late:
        wanted |= dict.fromkeys(map(field_of, info.columns))
    for name in wanted:
        sql = name[len(VALUE) :] if name.startswith(VALUE) else quoted(column_of(name))
        fields[name] = column(sql)
    for names in graph.queries:
        for one in (i for i in names.query.inputs if i.stream == stream):
            condition = names.condition(one.alias)
            keys = [names.key(one.alias, c).split(".", 1)[1] for c in names.required(one.alias)]
            name = names.flag(one.alias)
            flags[name] = Flag(name, None if condition is None else column(condition), tuple(keys))
            for text in (unqualified(f) for f in one.filters if len(graph.queries) > 1):
                flags[FLAG + text] = Flag(FLAG + text, column(text))
    return Selection(stream, tuple(select.items()), fields, tuple(flags.values()), joined)


def _ordered(info: StreamInfo) -> tuple[str, ...]:
    """The columns that order tuples of one time, which the time itself does not."""
    return tuple(c for c in info.order if c != info.time)


def _counted(info: StreamInfo, by: Sequence[str]) -> tuple[str, ...]:
    """The columns that a window of rows needs: those that order tuples, and those that it is counted by."""
    if info.time in by:
        raise UserError(
            f"stream {info.name}: PARTITION BY {info.time} counts nothing, since it is the time",
            remedy="partition by another column",
        )
    columns = (*_ordered(info), *by)
    for c in columns:
        if stored_type(info.columns[c]) != info.columns[c]:
            what = "PARTITION BY" if c in by else "`order`"
            raise UserError(
                f"stream {info.name}: its {what} column {c!r} is an array, a struct or a map",
                remedy="take a number, a string or a time",
            )
    return columns


@dataclass
class _Building:
    needs: Needs
    placement: Placement
    labels: Labels
    selections: Mapping[str, Selection]
    keep_late: bool
    begin: Mapping[str, Sequence[Sequence[int]]]
    generation: int

    def __post_init__(self) -> None:
        self.prefix = f"{self.generation}:" if self.generation else ""
        self.keeps: dict[str, KeepSpec] = {}
        self._labels: dict[Place, Sequence[int]] = {}
        self.ports = Ports(self.needs)
        self.shipments = Shipments(self.needs, self.ports, self.placement)
        self.infos = self.needs.graph.infos

    def program(self) -> Program:
        placed: dict[Place, list[Placed]] = {}
        packings = []
        for op in self.needs.ops:
            if op.role == "source":
                packings.append(self._stream(op, placed))
        for op in self.needs.ops:
            if op.role != "source" and (inlets := self.shipments.inlets[id(op)]):
                spec = self.ports.spec(op, keyed=id(op) in self.shipments.keyed, ends=END in op.needs)
                outlets = self.shipments.outlets(op)
                one = Placed(op.name, spec, tuple(inlets), tuple(outlets))
                placed.setdefault(self.placement.of(op), []).append(one)
        names = [one.name for operators in placed.values() for one in operators]
        assert len(names) == len(set(names))  # state and channels go by them
        groups = tuple(
            KeyGroup(p.site, p.kind, p.stage, tuple(self._groups(p)), tuple(map(self._named, operators)))
            for p, operators in placed.items()
        )
        routes = tuple(
            Route(
                self.prefix + a.outlet,
                self.prefix + a.channel,
                tuple(self._groups(a.place)),
                a.key,
                a.keyless,
            )
            for a in self.shipments.arrivals
        )
        program = Program(groups, routes, tuple(packings))
        return with_keepers(program, self.keeps, self.generation) if self.placement.keep else program

    def _groups(self, place: Place) -> Sequence[int]:
        """The labels of a place's buckets; labels are hashes, so two places may have to give way."""
        if place not in self._labels:
            taken, name = (
                {label for found in self._labels.values() for label in found},
                "/".join(map(str, place)),
            )
            while not taken.isdisjoint(
                found := self.labels(name, 1 if place.whole else self.placement.buckets)
            ):
                name += "+"
            self._labels[place] = found
        return self._labels[place]

    def _named(self, placed: Placed) -> Placed:
        """Its names as they are in this generation."""
        if not self.prefix:
            return placed
        return replace(
            placed,
            name=self.prefix + placed.name,
            inlets=tuple(replace(i, channel=self.prefix + i.channel) for i in placed.inlets),
            outlets=tuple(replace(o, channel=self.prefix + o.channel) for o in placed.outlets),
        )

    def _stream(self, op: Op, placed: dict[Place, list[Placed]]) -> Packing:
        """The source operators of a stream, and how its rows get to them."""
        selection, routes = self.selections[op.stream], []
        for n, instance in enumerate(self.placement.instances[op.stream]):
            source, route = self._source(op, instance, reports=n == 0)
            placed.setdefault(instance.place, []).append(source)
            routes.append(route)
        routes += self._times(op)
        return Packing(
            op.stream,
            tuple(selection.fields.items()),
            selection.flags,
            tuple(replace(r, channel=self.prefix + r.channel) for r in routes),
            self.infos[op.stream].max_ahead,
        )

    def _source(self, op: Op, instance: Instance, *, reports: bool) -> tuple[Placed, PackRoute]:
        info, rows = self.infos[op.stream], self.needs.rows.get(op.stream, ())
        name = source_name(instance)
        sent = self.shipments.of(instance)
        chosen: Flags = ()
        base = self.placement.keep and reports
        if base:
            chosen = self._any_alias(op)
        elif not rows:  # a window of rows counts every tuple, so all of them go
            accept = [self.shipments.any_of(s) for s in sent if s.feeds[0].form != "bounds"]
            chosen = () if () in accept else tuple(dict.fromkeys(a for any_of in accept for a in any_of))
        outlets: list[Outlet] = self.shipments.outlets(instance, chosen)
        # First: their order is part of it.
        every = self._kept(op, self.prefix + name, chosen, instance.key) if base else []
        fields = dict.fromkeys((*every, *fields_of(sent, self.shipments, chosen)))
        if reports and len({o.site for o in self.needs.ops}) > 1:
            counted = self.shipments.counted(op, chosen)
            fields |= dict.fromkeys(f for o in counted for all_of in o.any_of for f in all_of)
            outlets += counted
        if rows:
            fields |= dict.fromkeys(field_of(c) for c in _ordered(info))
            fields |= dict.fromkeys(name for window in rows for name in window.by)
        kept: tuple[Field, ...] = ()
        if reports and self.keep_late:
            fields |= dict.fromkeys(field_of(c) for c in info.columns)
            kept = tuple(
                Field(field_of(c), k, START) if c == info.time else Field(field_of(c), stored_type(k))
                for c, k in info.columns.items()
            )
        observed = self._observed(op) if base and not _is_table(info) else ()  # a table has no rate
        fields |= dict.fromkeys(field for field, _ in observed)
        skipped = (SEQ, END)
        travel = [f for f in fields if f != field_of(info.time) and not f.startswith(skipped)]
        watched = [
            Watched(0 if f.view.op.site != op.site or info.follows else other.lateness, other.idle)
            for f in op.feeds
            for other in (self.infos[f.view.op.stream],)
        ]
        spec = SourceSpec(
            op.stream,
            info.lateness,
            info.idle,
            rows,
            tuple(map(field_of, _ordered(info))) if rows else (),
            kept,
            reports,
            self._begin(op.stream, 1 + len(watched)),
            tuple(watched),
            observed,
            keys(n.query for n in self.needs.graph.queries)[op.stream] if base else (),
            info.follows,
        )
        route = PackRoute(
            name,
            tuple(self._groups(instance.place)),
            instance.key,
            tuple(travel),
            chosen,
            reports,
            tuple(f.name for f in kept),
        )
        inlets = [Inlet(name, 0, raw=True)]
        inlets += [Inlet(_time(f.view.op), f.port) for f in op.feeds if f.view.op.site == op.site]
        inlets += self.shipments.inlets[id(op)]
        return Placed(name, spec, tuple(inlets), tuple(outlets)), route

    def _begin(self, stream: str, ports: int) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
        """How far a stream has come, and those that it watches if they are the same ones."""
        if stream not in self.begin:
            return None
        bounds, walls = map(tuple, self.begin[stream])
        if len(bounds) != ports:
            bounds, walls = (bounds[0],) + (-NEVER,) * (ports - 1), (walls[0],) + (0,) * (ports - 1)
        return bounds, walls

    def _observed(self, op: Op) -> tuple[tuple[str, str], ...]:
        """The columns of a stream that statistics are taken of: all that are read, for whatever reason."""
        info, selection = self.infos[op.stream], self.selections[op.stream]
        read = [c for c in info.columns if c != info.time and field_of(c) in selection.fields]
        return tuple((field_of(c), c) for c in read)

    def _any_alias(self, op: Op) -> Flags:
        """The flags of tuples that any query may want, by any plan."""
        if self.needs.rows.get(op.stream):
            return ()
        queries = self.needs.graph.queries
        flags = (n.flag(i.alias) for n in queries for i in n.query.inputs if i.stream == op.stream)
        return tuple((flag,) for flag in dict.fromkeys(flags))

    def _kept(self, op: Op, name: str, chosen: Flags, key: tuple[str, ...]) -> list[str]:
        """All fields that any plan may read of a stream, which its keeper keeps, with the key they have."""
        selection, rows = self.selections[op.stream], self.needs.rows.get(op.stream, ())
        fields = list(selection.joined)
        windows = [
            i.window for n in self.needs.graph.queries for i in n.query.inputs if i.stream == op.stream
        ]
        # Readers of one shipment may want different tuples, even if all that is packed has the same flag.
        if len(windows) > 1 or not chosen:
            fields += [flag.name for flag in selection.flags]
        spans = [
            NEVER if w.kind in (WindowKind.UNBOUNDED, WindowKind.ALWAYS) else min(w.size, NEVER)
            for w in windows
            if w.kind is not WindowKind.ROWS
        ]
        places = [SEQ, *(window.end for window in rows)] if rows else []
        kept = tuple(dict.fromkeys((*fields, *places, *((KEY,) if key else ()))))
        self.keeps[name] = KeepSpec(op.stream, max(spans, default=None), rows, kept)
        return fields

    def _times(self, op: Op) -> list[PackRoute]:
        """The time of a stream goes to all source operators of its site that watch it."""
        groups: dict[int, None] = {}
        for other in self.needs.ops:
            if other.role == "source" and other.site == op.site and any(f.view.op is op for f in other.feeds):
                for instance in self.placement.instances[other.stream]:
                    groups |= dict.fromkeys(self._groups(instance.place))
        return [PackRoute(_time(op), tuple(groups), bounds=True)] if groups else []


def _time(op: Op) -> str:
    """The channel of a stream's time."""
    return f"{op.stream}/time"
