"""Reads a deployment: the operators that each operator of the plan becomes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from thalweg.compile.graph import Feed, Graph, Op, View
from thalweg.compile.query_fields import FLAG, QueryFields, field_named
from thalweg.errors import UserError
from thalweg.plan import operators as ops
from thalweg.plan.deployment import Deployment
from thalweg.query.model import Expr, OuterKind, Query, WindowKind
from thalweg.query.rename import unqualified
from thalweg.query.tree import join_tree

_SLOT_S = 0.1  # of a plan that does not say for how long keys are sent only once


def add(graph: Graph, names: QueryFields, deployment: Deployment) -> None:
    """Take in the deployment of a further query."""
    graph.queries.append(names)
    reader = Reader(graph, names, deployment)
    for operator in in_order(deployment):
        view = reader.view(operator)
        if view is not None:
            graph.views[names.query.name, operator.id] = view


def in_order(deployment: Deployment) -> list[ops.Operator]:
    """The operators of a deployment, inputs before those that read them."""
    done: dict[str, ops.Operator] = {}
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


class Reader:
    """Reads one deployment."""

    def __init__(self, graph: Graph, names: QueryFields, deployment: Deployment) -> None:
        self.graph, self.names, self.deployment = graph, names, deployment
        self.query: Query = names.query

    def view(self, operator: ops.Operator) -> View | None:
        """The output of an operator of the plan, and the operators that make it."""
        match operator:
            case ops.Source():
                return self._source(operator)
            case ops.Split():
                return self._split(operator)
            case ops.Reuse():
                return self._reuse(operator)
            case ops.Filter():
                return self._filter(operator)
            case ops.Join():
                return self._join(operator)
            case ops.Outer():
                return self._outer(operator)
            case ops.Step():
                return self._step(operator)
            case ops.Match():
                return self._match(operator)
            case ops.Reduce():
                return self._reduce(operator)
            case ops.Sink():
                self._sink(operator)
        return None  # the readers of keys choose the key attributes; a reference says what it widens

    def _input(self, operator: ops.Operator, i: int = 0) -> View:
        return self.graph.view(self.query.name, operator.inputs[i])

    def _op(self, operator: ops.Operator, role: str, suffix: str = "", **about: Any) -> Op:
        name = f"{self.query.name}.{operator.id}{suffix}"
        return self.graph.op(Op(name, operator.site, role, self.names, about=about))

    def _own(self, op: Op, aliases: Iterable[str]) -> View:
        return View(op, op.site, {a: a for a in aliases})

    def _feed(
        self, op: Op, operator: ops.Operator, i: int, port: int, view: View | None = None, **more: Any
    ) -> Feed:
        """An operator's input by a plan's edge."""
        edge = self.deployment.edge(operator.inputs[i], operator.id)
        width = edge.bytes_per_s / edge.tuples_per_s if edge.tuples_per_s else 0.0
        view = self._input(operator, i) if view is None else view
        return op.reads(self.graph.at(view, op.site), port, width=width, **more)

    def _source(self, operator: ops.Source) -> View:
        alias = operator.id
        return View(
            self.graph.source(operator.stream),
            operator.site,
            {alias: ""},
            (self.names.flag(alias),),
            group=self.names.filters(alias),
            filters=self.names.filters(alias),
        )

    def _split(self, operator: ops.Split) -> View:
        whole = self._input(operator)
        key = Expr(operator.key)
        (alias,) = key.aliases
        found = self.names.classes_of(alias, [key.sql])
        if len(found) != 1:
            raise UserError(
                f"the plan parts the key space by {key.sql}, which the query compares as values of two types",
                remedy="cast the keys of the query to one type, or choose another planner",
            )
        (c,) = found
        splits = [o for o in self.deployment.operators if isinstance(o, ops.Split)]
        beside = [o.selector for o in splits if (o.inputs, o.key) == (operator.inputs, operator.key)]
        named = tuple(dict.fromkeys(v for selector in beside for v in selector.values))
        part = (whole.field(self.names.key(alias, c)), operator.selector, named)
        return replace(whole, part=part, group=(whole.group, operator.id))

    def _reuse(self, operator: ops.Reuse) -> View:
        theirs = self.graph.view(operator.query, operator.operator)
        own = [a for a in self.query.aliases if a in operator.streams]
        names = next(n for n in self.graph.queries if n.query.name == operator.query)
        mapping = _paired(
            self.query, own, names.query, [a for a in names.query.aliases if a in theirs.aliases]
        )
        if theirs.base:
            (alias,) = own
            flags, filters = (self.names.flag(alias),), self.names.filters(alias)
            return View(theirs.op, operator.site, {alias: ""}, flags, group=theirs.group, filters=filters)
        assert theirs.op.query is not None
        wider = _widened(operator.filters_widened, self.query, own)
        for alias in own:
            # A tuple without a key that only the other query joins on is none of its tuples, but one of ours.
            # What was widened for a third query lacks the tuples without a key that only that one joins on.
            their = theirs.theirs[mapping[alias]]
            asked = theirs.op.query.implied(their)
            if alias in wider or their in theirs.op.wide or not set(asked) <= set(self.names.implied(alias)):
                self._widen(theirs.op, their, self.names.flag(alias))
        view = replace(theirs, site=operator.site, theirs={a: theirs.theirs[mapping[a]] for a in own})
        within = tuple(view.field(f"{a}.{self.names.flag(a)}") for a in own if self.names.compares_within(a))
        return replace(view, flags=(*view.flags, *within), group=(view.group, within)) if within else view

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

    def _filter(self, operator: ops.Filter) -> View:
        view = self._input(operator)
        if view.base:
            return view  # a stream's view asks for this query's own filters anyway
        flags: list[str] = []
        equal: dict[tuple[str, str], None] = {}
        for text in operator.filters:
            expr = Expr(text)
            if self.names.equates(expr):
                same = self.names.equal(view.aliases)
                equal |= {(view.field(a), view.field(b)): None for a, b in same}
                continue
            if len(expr.aliases) > 1:
                continue
            (alias,) = expr.aliases
            flags.append(view.field(f"{alias}.{FLAG}{unqualified(expr)}"))
        narrow: tuple[tuple[str, int], ...] = ()
        if operator.windows:
            windows = {a: self.query.input(a).window for a in view.aliases}  # those of rows are the same
            narrow = tuple((a, w.size) for a, w in windows.items() if w.kind is WindowKind.RANGE)
        group = (view.group, tuple(flags), tuple(equal), narrow)
        return replace(
            view, flags=(*view.flags, *flags), equal=(*view.equal, *equal), narrow=narrow, group=group
        )

    def _join(self, operator: ops.Join) -> View:
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

    def _outer(self, operator: ops.Outer) -> View:
        """The join of the results before it with one more stream, which is its last input."""
        number, outer = next((n, o) for n, o in enumerate(self.query.outer) if o.alias == operator.stream)
        shared = self.names.outer_classes(number)
        last = len(operator.inputs) - 1
        before = self._input(operator).aliases
        aliases = (*before, outer.alias) if outer.brings else before
        compared = tuple(field_named(a, c) for e in outer.conditions for a, c in e.columns)
        op = self._op(
            operator,
            "join",
            aliases=aliases,
            classes=tuple(shared),
            outer=str(outer.kind),
            conditions=outer.conditions,
            compared=compared,
        )
        for i in range(last):
            own = self._input(operator, i).aliases
            self._feed(op, operator, i, 0, key=self.names.key_of(own, shared), keyless=True)
        key = self.names.key_of([outer.alias], shared)
        self._feed(op, operator, last, 1, key=key, keyless=outer.kind is OuterKind.FULL)
        return self._own(op, aliases)

    def _between(self, operator: ops.OneWay) -> tuple[View, str, list[int]]:
        """The current stream of a step, the stream it meets, and the attributes that they share."""
        stream = operator.stream
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

    def _slot(self, operator: ops.Helper | ops.Keys) -> int:
        return max(1, round((operator.interval_s or _SLOT_S) * 1e6))

    def _step(self, operator: ops.Step) -> View:
        current, stream, shared = self._between(operator)
        order = self.query.aliases
        strict = order.index(stream) > order.index(operator.head)
        aliases = tuple(a for a in order if a in {*current.aliases, stream})
        op = self._op(
            operator, "probe", mode="join", aliases=aliases, classes=shared, strict=strict, stream=stream
        )
        self._feed(op, operator, 0, 0, key=self.names.key_of(current.aliases, shared))
        self._feed(op, operator, 1, 1, key=self.names.key_of([stream], shared))
        return self._own(op, aliases)

    def _told(self, op: Op, operator: ops.Helper, stream: str, shared: Sequence[int]) -> None:
        """The keys of a stream's window into port 1, by the attributes that its reader looks for."""
        keys = self.deployment.operator(operator.inputs[1])
        if not isinstance(keys, ops.Keys):
            raise UserError(f"the plan's operator {operator.id} reads {keys.id}, which has no keys")
        name = (self.query.name, f"{keys.id} {list(shared)}")
        if name not in self.graph.views:
            slot = self._slot(keys) if keys.bloom else None
            made = self._op(keys, "keys", "".join(f".{c}" for c in shared), stream=stream, slot=slot)
            if slot is not None:
                made.buckets = 1  # one filter of all keys is smaller than several
            self._feed(made, keys, 0, 0, key=self.names.key_of([stream], shared))
            self.graph.views[name] = View(made, made.site, {stream: stream})
        self._feed(op, operator, 1, 1, self.graph.views[name], form="rows")

    def _match(self, operator: ops.Match) -> View:
        """SM-S2: which keys of the stream are wanted. SM-D2: which keys of the current stream match."""
        current, stream, shared = self._between(operator)
        key, slot = self.names.key_of(current.aliases, shared), self._slot(operator)
        if operator.method == "SM-S2":
            op = self._op(
                operator, "probe", mode="fetch", ranges=True, closes=True, interest=True, stream=stream
            )
            self._feed(op, operator, 0, 0, form="keys", key=key, slot=slot)
            self._told(op, operator, stream, shared)
        else:
            op = self._op(operator, "probe", mode="pass", ranges=True, stream=stream)
            self._feed(op, operator, 0, 0, form="keys", key=key, slot=slot)
            self._feed(op, operator, 1, 1, key=self.names.key_of([stream], shared))
        return View(op, op.site, {a: a for a in current.aliases})

    def _reduce(self, operator: ops.Reduce) -> View:
        """Semijoins: the stream's tuples that are wanted (-S), or the current stream's that match (-D)."""
        current, stream, shared = self._between(operator)
        method = operator.method
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
        if method == "SM-D2":
            self._feed(op, operator, 1, 1, form="rows")
        else:
            self._told(op, operator, stream, shared)
        return self._own(op, current.aliases)

    def _sink(self, operator: ops.Sink) -> None:
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


def _widened(labels: Iterable[str], query: Query, own: Sequence[str]) -> list[str]:
    """The aliases whose filters upstream are to be widened; they are told by stream, numbered if several."""
    out = []
    for label in labels:
        stream, _, number = label.partition("#")
        same = [a for a in own if query.input(a).stream == stream]
        out.append(same[int(number) - 1 if number else 0])
    return out
