"""A plan's operators as they will run: which programs at which sites, and what each reads of which other.

A deployment's sources, parts of key spaces, filters and references to other queries are no programs of their
own: they say what of another operator's output is meant (a `View`). A join on several attributes becomes a
tree of joins at its site. What several queries read is here once.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from graphlib import TopologicalSorter
from typing import Any

import pyarrow as pa

from thalweg.errors import UserError
from thalweg.kernel.columns import fixed_dtype, is_bytes
from thalweg.kernel.keys import is_exact
from thalweg.plan.deployment import Deployment, Operator
from thalweg.programs.job import StreamInfo, TypedQuery
from thalweg.programs.outlet import Form
from thalweg.programs.source import VALUE
from thalweg.query import classes
from thalweg.query.model import Expr, Query, WindowKind
from thalweg.query.rename import unqualified
from thalweg.query.tree import join_tree

FLAG = "#f:"
"""Before the SQL of conditions on a stream: a field that says whether they hold."""
_SLOT_S = 0.1  # of a plan that does not say for how long keys are sent only once


@dataclass(eq=False)
class Op:
    """An operator while a plan is compiled. `needs` are the fields of its output that anybody reads."""

    name: str
    site: str
    role: str  # source, join, probe, keys, sink, relay
    query: Names | None = None
    feeds: list[Feed] = field(default_factory=list)
    needs: dict[str, None] = field(default_factory=dict)
    about: dict[str, Any] = field(default_factory=dict)
    stream: str = ""
    buckets: int = 0
    wide: set[str] = field(default_factory=set)
    """Aliases of which it lets more pass than its query asks for, since another one needs it."""

    def reads(self, view: View, port: int, **more: Any) -> Feed:
        number = sum(f.port == port for f in self.feeds)
        self.feeds.append(Feed(self, view, port, number, [view.flags], **more))
        return self.feeds[-1]


@dataclass(frozen=True, eq=False)
class View:
    """An operator's output as operators of a query see it.

    `theirs` gives for each of the query's aliases its name in the output; for a stream itself that is ''.
    Only tuples with all of `flags` are meant. Views of one `group` are one shipment. `narrow` are windows
    that are narrower than those of the operator.
    """

    op: Op
    site: str
    theirs: Mapping[str, str]
    flags: tuple[str, ...] = ()
    group: Hashable = ()
    part: tuple[str, Mapping[str, Any], tuple[Any, ...]] | None = None  # field, selector, all values named
    narrow: tuple[tuple[str, int], ...] = ()
    filters: tuple[str, ...] = ()  # of a stream, as text

    @property
    def aliases(self) -> tuple[str, ...]:
        return tuple(self.theirs)

    @property
    def base(self) -> bool:
        """Whether these are the tuples of one stream, as they arose."""
        return "" in self.theirs.values()

    def field(self, name: str) -> str:
        """What a field of the reader's is called in the output."""
        alias, rest = name.split(".", 1)
        their = self.theirs[alias]
        return f"{their}.{rest}" if their else rest


@dataclass(eq=False)
class Feed:
    """One stream into a port of an operator: of which view, in which form, with which fields and key.

    `accept` are alternatives: a tuple comes if all flags of one of them hold.
    """

    reader: Op
    view: View
    port: int
    number: int
    accept: list[tuple[str, ...]]
    form: Form = "tuples"
    key: tuple[str, ...] = ()
    wants: dict[str, None] = field(default_factory=dict)
    slot: int = 0
    width: float = 0.0


class Names:
    """The fields of one query: its keys, and the types of everything."""

    def __init__(self, number: int, typed: TypedQuery, infos: Mapping[str, StreamInfo]) -> None:
        self.number, self.typed, self.query = number, typed, typed.query
        self.infos = infos
        self.classes = classes(typed.equalities)

    def left_over(self, condition: Expr) -> None:
        """A comparison between streams that no join of the plan decides is one for who hands out results."""
        if condition not in self.query.conditions:
            self.query = replace(self.query, conditions=(*self.query.conditions, condition))

    def info(self, alias: str) -> StreamInfo:
        return self.infos[self.query.input(alias).stream]

    def rows(self, alias: str) -> int | None:
        window = self.query.input(alias).window
        return window.size if window.kind is WindowKind.ROWS else None

    def expr(self, alias: str, c: int) -> Expr:
        return self.classes[c][alias][0]

    def key(self, alias: str, c: int) -> str:
        """The field with the key of an alias in a class: a column, where that will do."""
        expr, info = self.expr(alias, c), self.info(alias)
        column = expr.plain_column
        if column is not None and column != info.time and expr.sql in self.typed.kinds:
            kind = info.columns[column]
            if is_exact(kind) or is_bytes(kind):
                return f"{alias}.{column}"
        return f"{alias}.{VALUE}{self.value_sql(alias, c)}"

    def value_sql(self, alias: str, c: int) -> str:
        """A key as Spark evaluates it; a cast may fail on rows that a filter was to keep from it."""
        key, filters = unqualified(self.expr(alias, c)), self.query.input(alias).filters
        if filters and self.expr(alias, c).plain_column is None:
            return f"CASE WHEN {_all(filters)} THEN {key} END"
        return key

    def exact(self, alias: str, c: int) -> bool:
        return is_exact(self.typed.kinds[self.expr(alias, c).sql])

    def value_kind(self, alias: str, c: int) -> pa.DataType:
        kind = self.typed.kinds[self.expr(alias, c).sql]
        return kind if is_bytes(kind) or fixed_dtype(kind) else pa.binary()

    def flag(self, alias: str) -> str:
        """Whether a tuple takes part under an alias: its filters hold, and no key of it is NULL."""
        filters = [f"({unqualified(f)})" for f in self.query.input(alias).filters]
        return FLAG + " AND ".join((*filters, *self.implied(alias)))

    def implied(self, alias: str) -> tuple[str, ...]:
        """What the equalities of the query ask of a tuple by itself."""
        own = [c for c in range(len(self.classes)) if alias in self.classes[c]]
        same = []
        for c in own:
            first, *others = self.classes[c][alias]
            same += [f"({unqualified(Expr(f'{first.sql} = {other.sql}'))})" for other in others]
        return (*same, *(f"({self.value_sql(alias, c)}) IS NOT NULL" for c in own))

    def filters(self, alias: str) -> tuple[str, ...]:
        return tuple(sorted(unqualified(f) for f in self.query.input(alias).filters))

    def shared(self, *sides: Iterable[str]) -> list[int]:
        """The classes with a member on every side."""
        return [c for c, m in enumerate(self.classes) if all(not m.keys().isdisjoint(s) for s in sides)]

    def carrier(self, aliases: Sequence[str], c: int) -> str:
        """The alias of a joined tuple that brings the key of a class."""
        return next(a for a in aliases if a in self.classes[c])

    def key_of(self, aliases: Sequence[str], shared: Sequence[int]) -> tuple[str, ...]:
        return tuple(self.key(self.carrier(aliases, c), c) for c in shared)


def _all(filters: Iterable[Expr]) -> str:
    return " AND ".join(f"({unqualified(f)})" for f in filters)


class Graph:
    """All operators of some queries' deployments, inputs before those that read them."""

    def __init__(self, infos: Mapping[str, StreamInfo], sites: Mapping[str, str], buckets: int) -> None:
        self.infos, self.sites, self.buckets = infos, sites, buckets
        self.ops: list[Op] = []
        self.names: list[Names] = []
        self._sources: dict[str, Op] = {}
        self._views: dict[tuple[str, str], View] = {}
        self._relays: dict[tuple[int, str, Hashable], Op] = {}

    def add(self, typed: TypedQuery, deployment: Deployment) -> None:
        """Take in the deployment of a further query."""
        names = Names(len(self.names), typed, self.infos)
        self.names.append(names)
        for operator in in_order(deployment):
            if operator.kind != "widen":
                view = _Reader(self, names, deployment).view(operator)
                if view is not None:
                    self._views[typed.query.name, operator.id] = view

    def view(self, query: str, operator: str) -> View:
        try:
            return self._views[query, operator]
        except KeyError:
            raise UserError(
                f"the plan refers to {operator} of query {query!r}, which does not exist"
            ) from None

    def ordered(self) -> list[Op]:
        """All operators, inputs before those that read them; who only watches a stream does not read it."""
        order = TopologicalSorter[Op]()
        for op in self.ops:
            order.add(op, *(f.view.op for f in op.feeds if f.form != "bounds"))
        return list(order.static_order())

    def source(self, stream: str) -> Op:
        if stream not in self._sources:
            self._sources[stream] = self.op(Op(stream, self.sites[stream], "source", stream=stream))
        return self._sources[stream]

    def op(self, op: Op) -> Op:
        op.buckets = op.buckets or self.buckets
        self.ops.append(op)
        return op

    def at(self, view: View, site: str) -> View:
        """A view for a reader at a site; what is used where it was shipped goes on from there."""
        if view.site in (view.op.site, site):
            return view
        key = (id(view.op), view.site, (view.group, view.part and repr(view.part)))
        if key not in self._relays:
            relay = self.op(
                Op(f"{view.op.name} at {view.site}", view.site, "relay", view.op.query, buckets=1)
            )
            relay.stream = view.op.stream
            relay.reads(view, 0)
            self._relays[key] = relay
        return replace(view, op=self._relays[key], part=None, group=())


def in_order(deployment: Deployment) -> list[Operator]:
    """The operators of a deployment, inputs before those that read them."""
    done: dict[str, Operator] = {}
    waiting = [o.id for o in reversed(deployment.operators)]
    while waiting:
        operator = deployment.operator(waiting[-1])
        missing = [i for i in operator.inputs if i not in done]
        if operator.id in done or not missing:
            done.setdefault(operator.id, operator)
            waiting.pop()
        else:
            waiting += missing
    return list(done.values())


class _Reader:
    """Reads one deployment."""

    def __init__(self, graph: Graph, names: Names, deployment: Deployment) -> None:
        self.graph, self.names, self.deployment = graph, names, deployment
        self.query: Query = names.query

    def view(self, operator: Operator) -> View | None:
        """What an operator's output is, with the programs that make it."""
        return {
            "source": self._source,
            "split": self._split,
            "reuse": self._reuse,
            "filter": self._filter,
            "join": self._join,
            "step": self._step,
            "keys": self._keys,
            "match": self._match,
            "reduce": self._reduce,
            "sink": self._sink,
        }[operator.kind](operator)

    def _input(self, operator: Operator, i: int = 0) -> View:
        return self.graph.view(self.query.name, operator.inputs[i])

    def _op(self, operator: Operator, role: str, suffix: str = "", **about: Any) -> Op:
        name = f"{self.query.name}.{operator.id}{suffix}"
        return self.graph.op(Op(name, operator.site, role, self.names, about=about))

    def _own(self, op: Op, aliases: Iterable[str]) -> View:
        return View(op, op.site, {a: a for a in aliases})

    def _feed(self, op: Op, operator: Operator, i: int, port: int, **more: Any) -> Feed:
        """An operator's input by a plan's edge."""
        edge = self.deployment.edge(operator.inputs[i], operator.id)
        width = edge.bytes_per_s / edge.tuples_per_s if edge.tuples_per_s else 0.0
        return op.reads(self.graph.at(self._input(operator, i), op.site), port, width=width, **more)

    def _source(self, operator: Operator) -> View:
        alias = operator.id
        return View(
            self.graph.source(operator.details["stream"]),
            operator.site,
            {alias: ""},
            (self.names.flag(alias),),
            self.names.filters(alias),
            filters=self.names.filters(alias),
        )

    def _split(self, operator: Operator) -> View:
        whole = self._input(operator)
        key = Expr(operator.details["key"])
        (alias,) = key.aliases
        c = next(
            c
            for c, members in enumerate(self.names.classes)
            if any(e.columns == key.columns for e in members.get(alias, ()))
        )
        selector = {
            k: operator.details[k]
            for k in ("part", "of", "buckets", "ranges", "values", "others")
            if k in operator.details
        }
        beside = [o for o in self.deployment.operators if o.kind == "split" and o.inputs == operator.inputs]
        named = tuple(dict.fromkeys(v for o in beside for v in o.details.get("values", ())))
        part = (whole.field(self.names.key(alias, c)), selector, named)
        return replace(whole, part=part, group=(whole.group, operator.id))

    def _reuse(self, operator: Operator) -> View:
        about = operator.details
        theirs = self.graph.view(about["query"], about["operator"])
        own = [a for a in self.query.aliases if a in about["streams"]]
        names = next(n for n in self.graph.names if n.query.name == about["query"])
        mapping = _paired(
            self.query, own, names.query, [a for a in names.query.aliases if a in theirs.aliases]
        )
        if theirs.base:
            (alias,) = own
            flags, filters = (self.names.flag(alias),), self.names.filters(alias)
            return View(theirs.op, operator.site, {alias: ""}, flags, theirs.group, filters=filters)
        assert theirs.op.query is not None
        wider = _widened(about, self.query, own)
        for alias in own:
            # A tuple without a key that only the other query joins on is none of its tuples, but one of ours.
            asked = theirs.op.query.implied(theirs.theirs[mapping[alias]])
            if alias in wider or not set(asked) <= set(self.names.implied(alias)):
                self._widen(theirs.op, theirs.theirs[mapping[alias]], self.names.flag(alias))
        return replace(theirs, site=operator.site, theirs={a: theirs.theirs[mapping[a]] for a in own})

    def _widen(self, op: Op, alias: str, flag: str) -> None:
        """Let an operator, and all that it reads, pass what this query's filter passes as well."""
        op.wide.add(alias)
        for feed in op.feeds:
            view = feed.view
            if alias not in view.aliases:
                continue
            if view.base:
                feed.accept.append((flag,))
                continue
            if () not in feed.accept:  # what this operator's query has filtered of another's
                feed.accept.append((view.field(f"{alias}.{flag}"),))
            self._widen(view.op, view.theirs[alias], flag)

    def _filter(self, operator: Operator) -> View:
        view = self._input(operator)
        if view.base:
            return view  # a stream's view asks for this query's own filters anyway
        flags = []
        for text in operator.details.get("filters", ()):
            expr = Expr(text)
            if len(expr.aliases) > 1:
                self.names.left_over(expr)
                continue
            (alias,) = expr.aliases
            flags.append(view.field(f"{alias}.{FLAG}{unqualified(expr)}"))
        narrow: tuple[tuple[str, int], ...] = ()
        if operator.details.get("windows"):
            narrow = tuple((a, self.query.input(a).window.size) for a in view.aliases)
        group = (view.group, tuple(flags), narrow)
        return replace(view, flags=(*view.flags, *flags), narrow=narrow, group=group)

    def _join(self, operator: Operator) -> View:
        """An N-way join; on several attributes, several of them at the same site."""
        ports: dict[frozenset[str], list[int]] = {}  # parts of a key space are one input
        for i in range(len(operator.inputs)):
            ports.setdefault(frozenset(self._input(operator, i).aliases), []).append(i)
        labels = {f"{n}": (aliases, inputs) for n, (aliases, inputs) in enumerate(ports.items())}
        members: list[dict[str, list[Expr]]] = [
            {label: [] for label, (aliases, _) in labels.items() if not aliases.isdisjoint(by_alias)}
            for by_alias in self.names.classes
        ]
        nothing = len(members)  # what no attribute connects meets all the same: the plan may have its reasons
        tree = join_tree(list(labels), [*members, {label: [] for label in labels}])
        made: list[tuple[Op, tuple[str, ...]]] = []
        for n, node in enumerate(tree):
            inside = frozenset[str]().union(*(labels[a][0] for a in node.aliases))
            aliases = tuple(a for a in self.query.aliases if a in inside)
            last = n + 1 == len(tree)
            shared = tuple(c for c in node.classes if c != nothing)
            op = self._op(operator, "join", "" if last else f".{n}", aliases=aliases, classes=shared)
            if not shared:
                op.buckets = 1
            for port, source in enumerate(node.inputs):
                if isinstance(source, int):
                    below, own = made[source]
                    op.reads(self._own(below, own), port, key=self.names.key_of(own, shared))
                    continue
                for i in labels[source][1]:
                    own = self._input(operator, i).aliases
                    self._feed(op, operator, i, port, key=self.names.key_of(own, shared))
            made.append((op, aliases))
        return self._own(*made[-1])

    def _between(self, operator: Operator) -> tuple[View, str, list[int]]:
        """The current stream of a step, the stream it meets, and the attributes that they share."""
        stream = operator.details["stream"]
        current = self._input(operator)
        if set(current.aliases) == {stream}:
            raise UserError(f"the plan's operator {operator.id} has no current stream")
        shared = self.names.shared(current.aliases, [stream])
        if not shared:
            raise UserError(
                f"the plan joins {' '.join(current.aliases)} with {stream}, but nothing of one type connects "
                "them",
                remedy="cast the keys of the query to one type, or choose another planner",
            )
        return current, stream, shared

    def _slot(self, operator: Operator) -> int:
        return max(1, round(float(operator.details.get("interval_s", _SLOT_S)) * 1e6))

    def _step(self, operator: Operator) -> View:
        current, stream, shared = self._between(operator)
        order = self.query.aliases
        strict = order.index(stream) > order.index(operator.details["head"])
        aliases = tuple(a for a in order if a in {*current.aliases, stream})
        op = self._op(
            operator, "probe", mode="join", aliases=aliases, classes=shared, strict=strict, stream=stream
        )
        self._feed(op, operator, 0, 0, key=self.names.key_of(current.aliases, shared))
        self._feed(op, operator, 1, 1, key=self.names.key_of([stream], shared))
        return self._own(op, aliases)

    def _keys(self, operator: Operator) -> View:
        (stream,) = self._input(operator).aliases
        columns = [Expr(k).columns for k in operator.details["key"]]
        shared = [
            c
            for c, members in enumerate(self.names.classes)
            if stream in members and any(e.columns in columns for e in members[stream])
        ]
        slot = self._slot(operator) if operator.details.get("bloom") else None
        op = self._op(operator, "keys", stream=stream, slot=slot)
        if slot is not None:
            op.buckets = 1  # one filter of all keys is smaller than several
        self._feed(op, operator, 0, 0, key=self.names.key_of([stream], shared))
        return View(op, op.site, {stream: stream})

    def _match(self, operator: Operator) -> View:
        """SM-S2: which keys of the stream are wanted. SM-D2: which keys of the current stream match."""
        current, stream, shared = self._between(operator)
        key, slot = self.names.key_of(current.aliases, shared), self._slot(operator)
        if operator.details["method"] == "SM-S2":
            op = self._op(
                operator, "probe", mode="fetch", ranges=True, closes=True, interest=True, stream=stream
            )
            self._feed(op, operator, 0, 0, form="keys", key=key, slot=slot)
            self._feed(op, operator, 1, 1, form="rows")
        else:
            op = self._op(operator, "probe", mode="pass", ranges=True, stream=stream)
            self._feed(op, operator, 0, 0, form="keys", key=key, slot=slot)
            self._feed(op, operator, 1, 1, key=self.names.key_of([stream], shared))
        return View(op, op.site, {a: a for a in current.aliases})

    def _reduce(self, operator: Operator) -> View:
        """Semijoins: the stream's tuples that are wanted (-S), or the current stream's that match (-D)."""
        current, stream, shared = self._between(operator)
        method = operator.details["method"]
        key, slot = self.names.key_of(current.aliases, shared), self._slot(operator)
        if method in ("SM-S1", "SB-S1", "SM-S2"):
            form = {"SM-S1": "keys", "SB-S1": "bloom", "SM-S2": "rows"}[method]
            op = self._op(
                operator,
                "probe",
                mode="fetch",
                ranges=True,
                standing=method == "SM-S2",
                bloom=0 if method == "SB-S1" else None,
                stream=stream,
                aliases=(stream,),
            )
            self._feed(op, operator, 0, 0, form=form, key=() if form == "rows" else key, slot=slot)
            self._feed(op, operator, 1, 1, key=self.names.key_of([stream], shared))
            return self._own(op, [stream])
        op = self._op(
            operator,
            "probe",
            mode="pass",
            closes=method == "SM-D1",
            bloom=1 if method == "SB-D1" else None,
            aliases=current.aliases,
            stream=stream,
        )
        self._feed(op, operator, 0, 0, key=key)
        self._feed(op, operator, 1, 1, form="rows")
        return self._own(op, current.aliases)

    def _sink(self, operator: Operator) -> None:
        op = self._op(operator, "sink")
        for i in range(len(operator.inputs)):
            self._feed(op, operator, i, 0)


def _paired(query: Query, own: Sequence[str], other: Query, theirs: Sequence[str]) -> dict[str, str]:
    """For each alias the one of another query that reads the same stream; several of one stream in order."""
    left = list(theirs)
    found = {}
    for alias in own:
        stream = query.input(alias).stream
        found[alias] = next(a for a in left if other.input(a).stream == stream)
        left.remove(found[alias])
    return found


def _widened(about: Mapping[str, Any], query: Query, own: Sequence[str]) -> list[str]:
    """The aliases whose filters upstream are to be widened; they are told by stream, numbered if several."""
    out = []
    for label in about.get("filters_widened", {}):
        stream, _, number = label.partition("#")
        same = [a for a in own if query.input(a).stream == stream]
        out.append(same[int(number) - 1 if number else 0])
    return out
