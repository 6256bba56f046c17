"""A plan's operators as they will run: which ones at which sites, and what each reads of which other.

Parts of key spaces, filters and references to other queries are operators of a deployment, but not of what
runs: each selects some of another operator's output (a `View`). A join on several attributes becomes a tree
of joins at its site. An operator that several queries read is here once.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace
from graphlib import TopologicalSorter
from typing import Any

from thalweg.compile.inputs import StreamInfo
from thalweg.compile.query_fields import QueryFields
from thalweg.errors import UserError
from thalweg.operators.outlet import Form
from thalweg.plan.selectors import Selector


@dataclass(eq=False)
class Op:
    """An operator while a plan is compiled. `needs` are the fields of its output that anybody reads."""

    name: str
    site: str
    role: str  # source, join, probe, keys, sink, relay
    query: QueryFields | None = None
    feeds: list[Feed] = field(default_factory=list)
    needs: dict[str, None] = field(default_factory=dict)
    about: dict[str, Any] = field(default_factory=dict)
    stream: str = ""
    buckets: int = 0
    wide: set[str] = field(default_factory=set)
    """Aliases of which it lets more pass than its query asks for, since another one needs it."""

    def reads(self, view: View, port: int, **more: Any) -> Feed:
        number = sum(f.port == port and not f.handed_out for f in self.feeds)
        self.feeds.append(Feed(self, view, port, number, [view.flags], **more))
        return self.feeds[-1]


@dataclass(frozen=True, eq=False)
class View:
    """An operator's output as operators of a query see it.

    `theirs` gives for each of the query's aliases its name in the output; for a stream itself that is ''.
    Only tuples with all of `flags`, and with the same value in both fields of each pair of `equal`, are
    meant. Views of one `group` are one shipment. `narrow` are windows that are narrower than those of the
    operator.
    """

    op: Op
    site: str
    theirs: Mapping[str, str]
    flags: tuple[str, ...] = ()
    equal: tuple[tuple[str, str], ...] = ()
    group: Hashable = ()
    part: tuple[str, Selector, tuple[Any, ...]] | None = None  # field, selector, all values named
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

    `accept` are alternatives: a tuple comes if all flags of one of them hold. With `keyless`, tuples without
    a key come, too: an outer join keeps them.
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
    keyless: bool = False

    @property
    def handed_out(self) -> bool:
        """Whether results can be handed out where they are made: nothing is left to do for the sink."""
        view, sink = self.view, self.reader
        same = all(alias == theirs for alias, theirs in view.theirs.items())
        if sink.role != "sink" or sink.site != view.op.site or not same or view.narrow or view.part:
            return False
        assert sink.query is not None
        return sink.query.query.slide is None


class Graph:
    """All operators of some queries' deployments, inputs before those that read them."""

    def __init__(self, infos: Mapping[str, StreamInfo], sites: Mapping[str, str], buckets: int) -> None:
        self.infos, self.sites, self.buckets = infos, sites, buckets
        self.ops: list[Op] = []
        self.queries: list[QueryFields] = []
        self._sources: dict[str, Op] = {}
        self.views: dict[tuple[str, str], View] = {}
        self._relays: dict[tuple[int, str, Hashable], Op] = {}

    def view(self, query: str, operator: str) -> View:
        try:
            return self.views[query, operator]
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
            before = sum(other[:2] == key[:2] for other in self._relays)
            name = f"{view.op.name} at {view.site}" + (f", {before + 1}" if before else "")
            relay = self.op(Op(name, view.site, "relay", view.op.query, buckets=1))
            relay.stream = view.op.stream
            relay.reads(view, 0)
            self._relays[key] = relay
        elif view.flags not in (accept := self._relays[key].feeds[0].accept):
            accept.append(view.flags)
        return replace(view, op=self._relays[key], equal=(), part=None, group=())
