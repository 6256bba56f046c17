"""From queries to what Spark's workers are told: join specs by group, and how each stream is packed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import types as t

from thalweg.errors import UserError
from thalweg.kernel.columns import fixed_dtype, is_bytes, stored_type
from thalweg.kernel.keys import is_exact
from thalweg.kernel.window import NEVER
from thalweg.programs.spec import KEY, SEQ, START, Field, JoinSpec, OutputField, Port, Target
from thalweg.query import classes
from thalweg.query.model import Expr, Query, Window, WindowKind
from thalweg.query.tree import Node, join_tree
from thalweg.spark.pack import TIME, KeyPart, PackPort, PackSpec
from thalweg.spark.packets import labels
from thalweg.spark.typing import Typer, arrow_type, unqualified


@dataclass(frozen=True)
class StreamInfo:
    """What the host must know of a stream. Durations are in microseconds."""

    name: str
    schema: t.StructType
    time: str
    lateness: int
    idle: int | None = None
    max_ahead: int | None = None
    order: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.time not in self.schema.names:
            raise UserError(
                f"stream {self.name} has no column {self.time!r} for its time",
                remedy=f"it has {', '.join(self.schema.names)}",
            )
        kind = self.schema[self.time].dataType
        if not isinstance(kind, t.TimestampType | t.TimestampNTZType):
            raise UserError(
                f"stream {self.name}: the time column {self.time!r} is a {kind.simpleString()}",
                remedy="it must be a timestamp: cast it first",
            )


@dataclass(frozen=True)
class StreamPlan:
    """How one stream enters: what Spark evaluates of each row, and how it is packed; at which stage."""

    stream: str
    select: tuple[tuple[str, str], ...]  # (Spark SQL, column name)
    pack: PackSpec
    stage: int
    late: t.StructType | None


@dataclass(frozen=True)
class QueryPlan:
    """What comes out for one query: the columns of its result packets, in Arrow's and Spark's types."""

    query: Query
    fields: tuple[tuple[str, str, t.DataType], ...]  # alias, column, type


@dataclass(frozen=True)
class Job:
    """All operators of a set of queries: by stage and group, and the streams that feed them."""

    stages: tuple[Mapping[int, JoinSpec], ...]
    streams: tuple[StreamPlan, ...]
    queries: tuple[QueryPlan, ...]

    @property
    def held(self) -> bool:
        """Whether anything waits for event time to pass, so that the end of the streams must be told."""
        return any(spec.held or spec.slide is not None for stage in self.stages for spec in stage.values())


def compile_job(
    spark: SparkSession,
    queries: Sequence[Query],
    streams: Mapping[str, StreamInfo],
    *,
    partitions: int,
    keep_late: bool,
) -> Job:
    """Everything that is decided before the first tuple arrives."""
    builder = _Builder(spark, streams, partitions, keep_late)
    for number, query in enumerate(queries):
        builder.add(number, query)
    return builder.job()


@dataclass
class _Alias:
    """One alias while its query is being compiled."""

    alias: str
    info: StreamInfo
    window: Window
    keys: dict[int, Expr]
    types: dict[int, pa.DataType]
    columns: tuple[str, ...]

    def plain(self, c: int) -> str | None:
        """The column that is this alias's key in a class, when the key is just a column."""
        for name in self.info.schema.names:
            if self.keys[c].sql == Expr(f"`{self.alias}`.`{name}`").sql:
                return name
        return None

    def word(self, c: int) -> str:
        return f"#word.{self.alias}.{c}"

    def value(self, c: int) -> str:
        """The field that holds the comparable value: the column itself where that is stored anyway."""
        name = self.plain(c)
        if name in self.columns and is_bytes(self.types[c]):
            return f"{self.alias}.{name}"
        return f"#value.{self.alias}.{c}"


@dataclass
class _Builder:
    spark: SparkSession
    infos: Mapping[str, StreamInfo]
    partitions: int
    keep_late: bool
    stages: list[dict[int, JoinSpec]] = field(default_factory=list)
    select: dict[str, dict[str, str]] = field(default_factory=dict)
    ports: dict[str, list[tuple[int, PackPort]]] = field(default_factory=dict)
    plans: list[QueryPlan] = field(default_factory=list)
    used: int = 0

    def add(self, number: int, query: Query) -> None:
        aliases = self._aliases(query)
        tree = join_tree(query.aliases, self._classes)
        rows = any(i.window.kind is WindowKind.ROWS for i in query.inputs)
        buckets = 1 if rows else self.partitions
        fresh = labels(self.used + buckets * len(tree), self.partitions)
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
            spec = JoinSpec(
                f"{query.name}.{n}", ports, output, target, None if target else query.slide, number
            )
            while len(self.stages) <= depth[n]:
                self.stages.append({})
            self.stages[depth[n]].update(dict.fromkeys(groups[n], spec))
            for i, source in enumerate(node.inputs):
                if isinstance(source, str):
                    self._pack(aliases[source], node, ports[i], i, groups[n], depth[n], query)
        fields = tuple(
            (a.alias, c, a.info.schema[c].dataType) for a in aliases.values() for c in a.columns
        )
        self.plans.append(QueryPlan(query, fields))

    def _aliases(self, query: Query) -> dict[str, _Alias]:
        schemas = {i.alias: self.infos[i.stream].schema for i in query.inputs}
        typer = Typer(self.spark, schemas)
        self._classes = classes([typer.typed(e) for e in query.equalities])
        out = {}
        for i in query.inputs:
            keys = {c: members[i.alias][0] for c, members in enumerate(self._classes) if i.alias in members}
            types = {c: arrow_type(typer.type_of(e)) for c, e in keys.items()}
            for f in i.filters:
                kind = typer.type_of(f) if f.aliases else t.BooleanType()
                if not isinstance(kind, t.BooleanType):
                    raise UserError(f"{f.sql} is a {kind.simpleString()}, not a condition")
            columns = query.columns_after_join(i.alias)
            out[i.alias] = _Alias(i.alias, self.infos[i.stream], i.window, keys, types, columns)
        return out

    def _carrier(self, aliases: Mapping[str, _Alias], node: Node, c: int) -> _Alias:
        """The member of a node's result that brings the key of a class to the next join."""
        return next(a for a in aliases.values() if a.alias in node.aliases and c in a.keys)

    def _exact(self, a: _Alias, classes_: Sequence[int]) -> bool:
        return len(classes_) == 1 and is_exact(a.types[classes_[0]])

    def _verify(self, a: _Alias, c: int) -> str:
        return a.word(c) if is_exact(a.types[c]) else a.value(c)

    def _needed(
        self, query: Query, aliases: Mapping[str, _Alias], tree: Sequence[Node]
    ) -> list[set[str]]:
        """For each node, the fields that anything after it still reads."""
        out: list[set[str]] = []
        for n, node in enumerate(tree):
            fields = {f"{a}.{c}" for a in node.aliases for c in aliases[a].columns}
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
        aliases: Mapping[str, _Alias],
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
                for f in self._fields(aliases[a], None, needed[n] | set(verify), node.classes)
            ]
            open_ends = any(aliases[a].window.kind is WindowKind.ROWS for a in below.aliases)
            return Port(
                f"#{source}", tuple(fields), None, open_ends=open_ends, verify=verify
            )
        a = aliases[source]
        exact = self._exact(a, node.classes)
        verify = () if exact else tuple(self._verify(a, c) for c in node.classes)
        fields = self._fields(a, node.classes if exact else None, needed[n] | set(verify), node.classes, True)
        late: tuple[str, ...] = ()
        reports = not any(p.reports for _, p in self.ports.get(a.info.name, []))
        if reports and self.keep_late:
            late = tuple(f"{a.alias}.{c}" for c in a.info.schema.names)
        rows = a.window.size if a.window.kind is WindowKind.ROWS else None
        span = {WindowKind.RANGE: min(a.window.size, NEVER), WindowKind.UNBOUNDED: NEVER}.get(a.window.kind)
        order = tuple(f"{a.alias}.{c}" for c in a.info.order) if rows else ()
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
        a: _Alias,
        exact: Sequence[int] | None,
        wanted: set[str],
        joined_on: Sequence[int],
        source: bool = False,
    ) -> list[Field]:
        """The fields of one alias that are stored at a port; those that key or start stand for are not."""
        out = []
        for c in a.columns:
            kind = arrow_type(a.info.schema[c].dataType)
            held = ""
            if source and c == a.info.time:
                held = START
            elif source and exact and a.plain(exact[0]) == c and _restorable(kind):
                held = KEY
            out.append(Field(f"{a.alias}.{c}", kind if held else stored_type(kind), held))
        for c, kind in a.types.items():
            if a.word(c) in wanted:
                out.append(Field(a.word(c), pa.int64()))
            if not is_exact(kind) and a.value(c) in wanted and a.value(c) not in {f.name for f in out}:
                out.append(Field(a.value(c), kind if is_bytes(kind) or fixed_dtype(kind) else pa.binary()))
        if a.window.kind is WindowKind.ROWS:
            out.append(Field(f"{SEQ}.{a.alias}", pa.int64()))
        return out

    def _pack(
        self,
        a: _Alias,
        node: Node,
        port: Port,
        index: int,
        groups: tuple[int, ...],
        stage: int,
        query: Query,
    ) -> None:
        select = self.select.setdefault(a.info.name, {f"`{a.info.time}`": TIME})

        def column(sql: str) -> str:
            return select.setdefault(sql, f"c{len(select)}")

        names = {f.name: f for f in port.fields}
        keys = []
        for c in (*node.classes, *(c for c in a.keys if c not in node.classes)):
            word = a.word(c) if a.word(c) in names else None
            value = a.value(c) if a.value(c) in names and a.value(c).startswith("#") else None
            keys.append(KeyPart(column(unqualified(a.keys[c])), word, value))
        wanted = [c for c in a.columns if not names[f"{a.alias}.{c}"].held]
        extra = [c.split(".", 1)[1] for c in (*port.late, *port.order)]
        held = {c for c in a.columns if names[f"{a.alias}.{c}"].held}
        for c in extra:
            if c not in wanted and c not in held:
                wanted.append(c)
        filters = list(query.input(a.alias).filters)
        filters += [
            Expr(f"{members[a.alias][0].sql} = {other.sql}")
            for members in self._classes
            for other in members.get(a.alias, [])[1:]
        ]
        keep = None
        if filters:
            keep = column(" AND ".join(f"({unqualified(f)})" for f in filters))
        pack = PackPort(
            port=index,
            groups=groups,
            keys=tuple(keys),
            key_parts=len(node.classes),
            columns=tuple((column(f"`{c}`"), f"{a.alias}.{c}") for c in wanted),
            keep=keep,
            reports=port.reports,
            late=tuple((column(f"`{c.split('.', 1)[1]}`"), c) for c in port.late),
            rows=port.rows is not None,
        )
        self.ports.setdefault(a.info.name, []).append((stage, pack))

    def job(self) -> Job:
        plans = []
        for name, ports in self.ports.items():
            info = self.infos[name]
            plans.append(
                StreamPlan(
                    name,
                    tuple(self.select[name].items()),
                    PackSpec(tuple(p for _, p in ports), info.max_ahead),
                    min(stage for stage, _ in ports),
                    info.schema if self.keep_late else None,
                )
            )
        return Job(tuple(self.stages), tuple(plans), tuple(self.plans))


def _restorable(kind: pa.DataType) -> bool:
    """Whether a value can be had back from its key word: floats can't (their zeros and NaNs were made one)."""
    return is_exact(kind) and not pa.types.is_floating(kind) and not pa.types.is_decimal(kind)
