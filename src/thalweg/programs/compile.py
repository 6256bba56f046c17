"""From queries to operator programs: join specs by group, and how each stream is packed for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from thalweg.errors import UserError
from thalweg.kernel.columns import fixed_dtype, is_bytes, stored_type
from thalweg.kernel.keys import is_exact
from thalweg.kernel.window import NEVER
from thalweg.plan.deployment import Deployment
from thalweg.programs.alias import Alias, restorable, share
from thalweg.programs.job import Job, QueryPlan, StreamInfo, StreamPlan, TypedQuery
from thalweg.programs.pack import TIME, KeyPart, PackPort, PackSpec
from thalweg.programs.spec import KEY, SEQ, START, Field, JoinSpec, OutputField, Port, Target, Watched
from thalweg.programs.trees import planned_tree
from thalweg.query import classes
from thalweg.query.model import Expr, Query, WindowKind, quoted
from thalweg.query.rename import unqualified
from thalweg.query.tree import Node, join_tree

Labels = Callable[[int], Sequence[int]]
"""Labels for groups of packets: given n, at least n of them, all different, always the same ones first."""


def compile_job(
    queries: Sequence[TypedQuery],
    streams: Mapping[str, StreamInfo],
    *,
    buckets: int,
    labels: Labels,
    keep_late: bool,
    deployments: Sequence[Deployment] = (),
) -> Job:
    """Everything that is decided before the first tuple arrives; without plans, by the queries alone."""
    builder = _Builder(streams, buckets, labels, keep_late)
    for number, query in enumerate(queries):
        builder.add(number, query, deployments[number] if deployments else None)
    return builder.job()


@dataclass
class _Builder:
    infos: Mapping[str, StreamInfo]
    buckets: int
    labels: Labels
    keep_late: bool
    stages: list[dict[int, JoinSpec]] = field(default_factory=list)
    select: dict[str, dict[str, str]] = field(default_factory=dict)
    ports: dict[str, list[tuple[int, PackPort]]] = field(default_factory=dict)
    watchers: dict[str, list[tuple[int, int, int]]] = field(default_factory=dict)  # stage, group, port
    plans: list[QueryPlan] = field(default_factory=list)
    used: int = 0
    reported: set[str] = field(default_factory=set)

    def add(self, number: int, typed: TypedQuery, deployment: Deployment | None) -> None:
        query = typed.query
        self._classes = classes(typed.equalities)
        aliases = self._aliases(typed)
        if deployment is None:
            tree = join_tree(query.aliases, self._classes)
        else:
            tree = planned_tree(deployment, query.aliases, self._classes)
        rows = any(i.window.kind is WindowKind.ROWS for i in query.inputs)
        # A window of rows counts its whole stream, so one bucket must see all of it.
        buckets = 1 if rows else self.buckets
        fresh = self.labels(self.used + buckets * len(tree))
        groups = [
            tuple(fresh[self.used + n * buckets : self.used + (n + 1) * buckets]) for n in range(len(tree))
        ]
        self.used += buckets * len(tree)
        depth: list[int] = []
        for node in tree:
            depth.append(1 + max((depth[i] for i in node.inputs if isinstance(i, int)), default=-1))
        needed = self._needed(query, aliases, tree)
        for n, node in enumerate(tree):
            parent = next(((m, p) for m, p in enumerate(tree) if n in p.inputs), None)
            target = None
            if parent is not None:
                m, above = parent
                key = tuple(self._carrier(aliases, node, c).word(c) for c in above.classes)
                target = Target(groups[m], above.inputs.index(n), key)
            ports = tuple(self._port(aliases, tree, node, i, needed) for i in range(len(node.inputs)))
            output = tuple(
                OutputField(f.name, f.kind, i, f.name)
                for i, port in enumerate(ports)
                for f in port.fields
                if f.name in needed[n]
            )
            watched = self._watch(aliases, node, groups[n], depth[n])
            slide = None if target else query.slide
            spec = JoinSpec(f"{query.name}.{n}", ports, output, target, slide, number, watched)
            while len(self.stages) <= depth[n]:
                self.stages.append({})
            self.stages[depth[n]].update(dict.fromkeys(groups[n], spec))
            for i, source in enumerate(node.inputs):
                if isinstance(source, str):
                    self._pack(aliases[source], node, ports[i], i, groups[n], depth[n], query)
        fields = tuple((a.alias, c, a.info.columns[c]) for a in aliases.values() for c in a.sent)
        same = {(a.alias, c): carrier for a in aliases.values() for c, carrier in a.same.items()}
        times = tuple((a.alias, a.info.time) for a in aliases.values())
        self.plans.append(QueryPlan(query, fields, same, times))

    def _aliases(self, typed: TypedQuery) -> dict[str, Alias]:
        out = {}
        for i in typed.query.inputs:
            keys = {c: members[i.alias][0] for c, members in enumerate(self._classes) if i.alias in members}
            types = {c: typed.kinds[e.sql] for c, e in keys.items()}
            columns = typed.query.columns_after_join(i.alias)
            out[i.alias] = Alias(i.alias, self.infos[i.stream], i.window, keys, types, columns)
        for c in range(len(self._classes)):
            share(c, [a for a in out.values() if c in a.keys])
        return out

    def _watch(
        self, aliases: Mapping[str, Alias], node: Node, groups: Sequence[int], stage: int
    ) -> tuple[Watched, ...]:
        """Streams of the query that are no inputs of this join; where any may fall idle, it hears of them."""
        if all(a.info.idle is None for a in aliases.values()):
            return ()
        own = {aliases[i].info.name for i in node.inputs if isinstance(i, str)}
        infos = {a.info.name: a.info for a in aliases.values() if a.info.name not in own}
        for i, name in enumerate(infos):
            heard = self.watchers.setdefault(name, [])
            heard += [(stage, group, len(node.inputs) + i) for group in groups]
        return tuple(Watched(info.lateness, info.idle) for info in infos.values())

    def _carrier(self, aliases: Mapping[str, Alias], node: Node, c: int) -> Alias:
        """The member of a node's result that brings the key of a class to the next join."""
        return next(a for a in aliases.values() if a.alias in node.aliases and c in a.keys)

    def _exact(self, a: Alias, classes_: Sequence[int]) -> bool:
        return len(classes_) == 1 and is_exact(a.types[classes_[0]])

    def _verify(self, a: Alias, c: int) -> str:
        return a.word(c) if is_exact(a.types[c]) else a.value(c)

    def _needed(self, query: Query, aliases: Mapping[str, Alias], tree: Sequence[Node]) -> list[set[str]]:
        """For each node, the fields that anything after it still reads."""
        out: list[set[str]] = []
        for n, node in enumerate(tree):
            fields = {f"{a}.{c}" for a in node.aliases for c in aliases[a].sent}
            later = [m for m in tree[n + 1 :] if m.aliases > node.aliases]
            for m in later:
                for c in m.classes:
                    # Only what crosses from this node into a later join on c.
                    if any(c in aliases[a].keys for a in node.aliases):
                        carrier = self._carrier(aliases, node, c)
                        fields |= {carrier.word(c), carrier.value(c)}
            if later:
                fields |= {f"{SEQ}.{a}" for a in node.aliases}
            out.append(fields)
        return out

    def _port(
        self,
        aliases: Mapping[str, Alias],
        tree: Sequence[Node],
        node: Node,
        index: int,
        needed: Sequence[set[str]],
    ) -> Port:
        source = node.inputs[index]
        n = tree.index(node)
        if isinstance(source, int):
            below = tree[source]
            carriers = {c: self._carrier(aliases, below, c) for c in node.classes}
            exact = all(self._exact(a, node.classes) for a in carriers.values())
            verify = () if exact else tuple(self._verify(a, c) for c, a in carriers.items())
            fields = [
                Field(f.name, f.kind)
                for a in aliases
                if a in below.aliases
                for f in self._fields(aliases[a], None, needed[n] | set(verify))
            ]
            open_ends = any(aliases[a].window.kind is WindowKind.ROWS for a in below.aliases)
            return Port(f"#{source}", tuple(fields), None, open_ends=open_ends, verify=verify)
        a = aliases[source]
        exact = self._exact(a, node.classes)
        verify = () if exact else tuple(self._verify(a, c) for c in node.classes)
        fields = self._fields(a, node.classes if exact else None, needed[n] | set(verify), True)
        late: tuple[str, ...] = ()
        reports = a.info.name not in self.reported
        self.reported.add(a.info.name)
        if reports and self.keep_late:
            late = tuple(f"{a.alias}.{c}" for c in a.info.columns)
        rows = a.window.size if a.window.kind is WindowKind.ROWS else None
        span = {WindowKind.RANGE: min(a.window.size, NEVER), WindowKind.UNBOUNDED: NEVER}.get(a.window.kind)
        order = tuple(f"{a.alias}.{c}" for c in a.info.order) if rows else ()
        for c in a.info.order if rows else ():
            if stored_type(a.info.columns[c]) != a.info.columns[c]:
                raise UserError(
                    f"stream {a.info.name}: its `order` column {c!r} is an array, a struct or a map",
                    remedy="order by a number, a string or a time",
                )
        return Port(
            a.alias,
            tuple(fields),
            span,
            stream=self._stream_number(a.info.name),
            lateness=a.info.lateness,
            idle=a.info.idle,
            rows=rows,
            order=order,
            open_ends=rows is not None,
            verify=verify,
            late=late,
            reports=reports,
        )

    def _stream_number(self, name: str) -> int:
        return list(self.infos).index(name)

    def _fields(
        self,
        a: Alias,
        exact: Sequence[int] | None,
        wanted: set[str],
        source: bool = False,
    ) -> list[Field]:
        """The fields of one alias that are stored at a port; those that key or start stand for are not."""
        out = []
        for c in a.columns if source else a.sent:
            kind = a.info.columns[c]
            held = ""
            if source and c == a.info.time:
                held = START
            elif source and exact and a.plain.get(exact[0]) == c and restorable(kind):
                held = KEY
            out.append(Field(f"{a.alias}.{c}", kind if held else stored_type(kind), held))
        for n, kind in a.types.items():
            if a.word(n) in wanted:
                out.append(Field(a.word(n), pa.int64()))
            if not is_exact(kind) and a.value(n) in wanted and a.value(n) not in {f.name for f in out}:
                out.append(Field(a.value(n), kind if is_bytes(kind) or fixed_dtype(kind) else pa.binary()))
        if a.window.kind is WindowKind.ROWS:
            out.append(Field(f"{SEQ}.{a.alias}", pa.int64()))
        return out

    def _pack(
        self,
        a: Alias,
        node: Node,
        port: Port,
        index: int,
        groups: tuple[int, ...],
        stage: int,
        query: Query,
    ) -> None:
        select = self.select.setdefault(a.info.name, {quoted(a.info.time): TIME})

        def column(sql: str) -> str:
            return select.setdefault(sql, f"c{len(select)}")

        names = {f.name: f for f in port.fields}
        filters = list(query.input(a.alias).filters)
        keys = []
        for c in (*node.classes, *(c for c in a.keys if c not in node.classes)):
            word = a.word(c) if a.word(c) in names else None
            value = a.value(c) if a.value(c) in names and a.value(c).startswith("#") else None
            key = unqualified(a.keys[c])
            if filters and c not in a.plain:  # a cast may fail on rows that a filter was to keep from it
                key = f"CASE WHEN {_all(filters)} THEN {key} END"
            keys.append(KeyPart(column(key), word, value))
        wanted = [c for c in a.columns if not names[f"{a.alias}.{c}"].held]
        held = {c for c in a.columns if names[f"{a.alias}.{c}"].held}
        late = [c.split(".", 1)[1] for c in port.late]
        extra = [c for c in late if c not in held] + [c.split(".", 1)[1] for c in port.order]
        wanted += [c for c in dict.fromkeys(extra) if c not in wanted]
        filters += [
            Expr(f"{members[a.alias][0].sql} = {other.sql}")
            for members in self._classes
            for other in members.get(a.alias, [])[1:]
        ]
        keep = None
        if filters:
            keep = column(_all(filters))
        pack = PackPort(
            port=index,
            groups=groups,
            keys=tuple(keys),
            key_parts=len(node.classes),
            columns=tuple((column(quoted(c)), f"{a.alias}.{c}") for c in wanted),
            keep=keep,
            reports=port.reports,
            late=tuple((column(quoted(c.split(".", 1)[1])), c) for c in port.late),
            rows=port.rows is not None,
        )
        self.ports.setdefault(a.info.name, []).append((stage, pack))

    def job(self) -> Job:
        plans = []
        for name, ports in self.ports.items():
            watchers = self.watchers.get(name, [])
            pack = PackSpec(
                tuple(p for _, p in ports),
                self.infos[name].max_ahead,
                tuple((group, port) for _, group, port in watchers),
            )
            stage = min([stage for stage, _ in ports] + [stage for stage, _, _ in watchers])
            plans.append(StreamPlan(name, tuple(self.select[name].items()), pack, stage))
        return Job(tuple(self.stages), tuple(plans), tuple(self.plans))


def _all(filters: Sequence[Expr]) -> str:
    return " AND ".join(f"({unqualified(f)})" for f in filters)
