"""Which fields of each operator's output anybody reads, and their types."""

from __future__ import annotations

import pyarrow as pa

from thalweg.compile.graph import Feed, Graph, Op
from thalweg.compile.query_fields import FLAG, QueryFields, column_of, field_of
from thalweg.kernel.columns import stored_type
from thalweg.operators.pack import VALUE
from thalweg.operators.probe import SENT
from thalweg.operators.spec import END, KEY, SEQ, START, RowWindow

WORD = "#w:"
"""Before the name of a field: its key word, which decides equality where several fields make a key."""


class Needs:
    """Goes from the last operators to the first, and notes for each what those after it need of it."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.ops = graph.ordered()
        self.rows = self._rows_of_streams()
        for op in reversed(self.ops):
            self._want(op)

    def _rows_of_streams(self) -> dict[str, tuple[RowWindow, ...]]:
        found: dict[str, dict[RowWindow, None]] = {}
        for names in self.graph.queries:
            for i in names.query.inputs:
                if (window := names.rows(i.alias)) is not None:
                    found.setdefault(i.stream, {})[window] = None
        return {stream: tuple(windows) for stream, windows in found.items()}

    def only_key(self, stream: str) -> tuple[str, ...]:
        """The field by which every query reads a stream; none where that depends on the plan."""
        found = {
            tuple(names.key(i.alias, c).split(".", 1)[1] for c in names.classes_with(i.alias))
            for names in self.graph.queries
            for i in names.query.inputs
            if i.stream == stream
        }
        (key,) = found if len(found) == 1 else ((),)
        return key if len(key) == 1 else ()

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
            needed += [name for pair in view.equal for name in pair]
            if view.op.role == "relay" and view.base and op.role != "relay" and feed.form == "tuples":
                assert names is not None
                if (rows := names.rows(view.aliases[0])) is not None:
                    needed += [SEQ, rows.end]
            if op.role != "relay" and names is not None and not view.base:
                wide = [a for a in view.aliases if view.theirs[a] in view.op.wide and a not in op.wide]
                only = tuple(f"{view.theirs[a]}.{names.flag(a)}" for a in wide)
                feed.accept = [(*flags, *only) for flags in feed.accept]
            flags = [f for all_of in feed.accept for f in all_of]
            for name in (
                *needed,
                *flags,
                *(view.field(f"{a}.{self.time(names, a)}") for a, _ in view.narrow),
            ):
                if not (view.base and name == self.source_time(view.op)):
                    view.op.needs.setdefault(name)

    def _fields(self, op: Op, feed: Feed, names: QueryFields) -> list[str]:
        view = feed.view
        own = set(view.aliases)
        if op.role == "sink":
            return [f"{a}.{field_of(c)}" for a in view.aliases for c in names.sent(a)]
        wants = [n for n in op.needs if not n.startswith("#") and n.split(".", 1)[0] in own]
        if op.role == "keys" or op.about.get("interest"):
            wants = []
        if op.role == "probe" and op.about["mode"] == "fetch" and feed.port == 0:
            wants = []
        if op.role == "probe" and op.about["mode"] == "pass" and feed.port == 1:
            wants = []
        if op.role == "join" and feed.keyless:
            wants += [n for n in feed.key if n not in wants]
        wants += [n for n in op.about.get("compared", ()) if n.split(".", 1)[0] in own and n not in wants]
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

    def source_time(self, op: Op) -> str:
        """The field of a stream's time."""
        return field_of(self.graph.infos[op.stream].time)

    def time(self, names: QueryFields | None, alias: str) -> str:
        """The field of an alias's time."""
        assert names is not None
        return field_of(names.info(alias).time)

    def is_time(self, feed: Feed, name: str) -> bool:
        """Whether a field is its stream's time, which START stands for as long as it is not joined."""
        alias, column = name.split(".", 1)
        return column == self.time(feed.reader.query, alias)

    def kind(self, op: Op, name: str) -> pa.DataType:
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
            return stored_type(self.graph.infos[op.stream].columns[column_of(rest)])
        assert op.query is not None
        if rest.startswith(VALUE):
            return self._values(op.query.query.input(alias).stream)[rest]
        return stored_type(op.query.info(alias).columns[column_of(rest)])

    def _values(self, stream: str) -> dict[str, pa.DataType]:
        """The key expressions over a stream, and their types."""
        return {
            n.key(i.alias, c).split(".", 1)[1]: n.value_kind(i.alias, c)
            for n in self.graph.queries
            for i in n.query.inputs
            if i.stream == stream
            for c in n.classes_with(i.alias)
        }
