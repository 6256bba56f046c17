"""From plans to what sites run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from thalweg.errors import UserError
from thalweg.plan.deployment import Deployment
from thalweg.programs.compile import Labels
from thalweg.programs.fields import Fields
from thalweg.programs.graph import Graph, Op, View
from thalweg.programs.job import QueryPlan, StreamInfo, TypedQuery
from thalweg.programs.names import FLAG, Names
from thalweg.programs.pack import TIME
from thalweg.programs.reading import add
from thalweg.programs.sites import SiteOperator, Sites, SourceStream
from thalweg.programs.source import VALUE, SourcePack
from thalweg.programs.spec import END, SEQ
from thalweg.programs.specs import Specs
from thalweg.programs.wiring import Wiring
from thalweg.query.model import quoted


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
    for info in streams.values():
        if odd := [c for c in info.columns if c.startswith("#")]:
            raise UserError(
                f"stream {info.name}: its column {odd[0]!r} begins with #, which is kept for what travels "
                "between sites",
                remedy="rename the column, or put all streams at one site",
            )
    graph = Graph(streams, at, buckets)
    for typed, deployment in queries:
        add(graph, Names(len(graph.names), typed, streams), deployment)
    _watch(graph)
    return Deployed(_sites(graph, labels, keep_late), tuple(_plan(n) for n in graph.names))


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


def _sites(graph: Graph, labels: Labels, keep_late: bool) -> Sites:
    fields = Fields(graph)
    groups = _groups(fields, labels)
    specs = Specs(fields, keep_late)
    wiring = Wiring(fields, specs, groups)
    operators, inlets = [], []
    for op in fields.ops:
        sent, read = wiring.of(op)
        operators.append(SiteOperator(op.name, op.site, groups[id(op)], specs.spec(op), tuple(sent)))
        inlets += read
    streams = [_stream(op, fields, groups[id(op)], keep_late) for op in fields.ops if op.role == "source"]
    return Sites(tuple(operators), tuple(inlets), tuple(streams))


def _groups(fields: Fields, labels: Labels) -> dict[int, tuple[int, ...]]:
    """The groups of each operator's buckets."""
    for op in fields.ops:
        if op.role in ("sink", "relay") or (op.role == "source" and fields.rows.get(op.stream)):
            op.buckets = 1  # a window of rows counts its whole stream
    fresh = labels(sum(op.buckets for op in fields.ops))
    found: dict[int, tuple[int, ...]] = {}
    used = 0
    for op in fields.ops:
        found[id(op)] = tuple(fresh[used : used + op.buckets])
        used += op.buckets
    return found


def _stream(op: Op, fields: Fields, groups: tuple[int, ...], keep_late: bool) -> SourceStream:
    """How a stream enters: what Spark evaluates of its rows, and the groups they go to."""
    info = fields.graph.infos[op.stream]
    select: dict[str, str] = {quoted(info.time): TIME}
    columns = []
    wanted = dict.fromkeys(n for n in op.needs if not n.startswith((SEQ, END)))
    if keep_late:
        wanted |= dict.fromkeys(c for c in info.columns if c != info.time)
    for c in info.order if fields.rows.get(op.stream) else ():
        wanted.setdefault(c)
    for name in wanted:
        sql = name[len(VALUE) :] if name.startswith((VALUE, FLAG)) else quoted(name)
        columns.append((select.setdefault(sql, f"c{len(select)}"), name))
    pack = SourcePack(groups, tuple(columns), info.max_ahead)
    return SourceStream(op.stream, op.site, tuple(select.items()), pack)
