"""What each operator is told: its ports, what it puts out, how it works."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from thalweg.compile.graph import Op
from thalweg.compile.needs import WORD, Needs
from thalweg.compile.query_fields import QueryFields, field_named, restorable
from thalweg.errors import UserError
from thalweg.kernel.window import NEVER
from thalweg.operators.comparisons import Comparison, comparison
from thalweg.operators.probe import SENT
from thalweg.operators.spec import (
    END,
    KEY,
    PLACE,
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
    Spec,
)
from thalweg.query.model import WindowKind
from thalweg.query.null_safe import is_null_safe


class Ports:
    """Makes the specs of operators other than sources from what they read and what is read of them."""

    def __init__(self, needs: Needs) -> None:
        self.needs = needs

    def spec(self, op: Op, *, keyed: bool, ends: bool) -> Spec:
        """What an operator is told. `keyed`: its readers need the key word. `ends`: and a result's end."""
        if op.role == "relay":
            return RelaySpec(Port(op.name, (), None))
        assert op.query is not None
        if op.role == "sink":
            port = Port(op.name, (), None, feeds=sum(not f.handed_out for f in op.feeds))
            return SinkSpec(op.query.number, port, op.query.query.slide)
        if op.role == "keys":
            return KeysSpec(op.name, self.port(op, 0), op.about["slot"])
        if op.role == "join":
            ports = tuple(self.port(op, i) for i in range(1 + max(f.port for f in op.feeds)))
            outer = op.about.get("outer", "")
            output = self._output(op, ports)
            return JoinSpec(op.name, ports, output, ends, keyed, outer=outer, on=self._on(op))
        return self._probe(op, keyed)

    def port(self, op: Op, number: int) -> Port:
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
            kind = self.needs.kind(op, name)
            held = ""
            if window and not name.startswith("#"):
                if view.base and self.needs.is_time(feed, name):
                    held = START
                elif feed.keyless:
                    pass  # NULLs must be told apart
                elif exact and len(shared) == 1 and name == feed.key[0] and restorable(kind):
                    held = KEY
            fields.append(Field(name, kind, held))
        if op.role == "probe" and op.about["mode"] == "fetch" and number == 1:
            fields.append(Field(SENT, pa.int64()))
        if feed.keyless:
            fields.append(Field(PLACE, pa.int64()))
        label = view.aliases[0] if len(view.aliases) == 1 else " ".join(view.aliases)
        rows = any(names.rows(a) is not None for a in view.aliases)
        if rows and view.base and not any(f.name.startswith(SEQ) for f in fields):
            fields.append(Field(f"{SEQ}.{view.aliases[0]}", pa.int64()))
        span: int | None = None
        single = len(view.aliases) == 1 and not view.narrow
        own = names.query.input(view.aliases[0]).window
        brings = rows or own.kind is WindowKind.TUMBLE
        if single and not brings and op.role in ("join", "probe", "keys"):
            unending = own.kind in (WindowKind.UNBOUNDED, WindowKind.ALWAYS)
            span = NEVER if unending else min(own.size, NEVER)
        return Port(
            label,
            tuple(fields),
            span,
            lateness=names.info(view.aliases[0]).lateness if view.base else 0,
            rows=rows and op.role == "keys",
            open_ends=rows and window,
            verify=verify,
            rewritten=op.role == "probe" and op.about["mode"] == "fetch" and number == 1,
            feeds=len(feeds),
            nullable=feed.key if feed.keyless else (),
        )

    def _on(self, op: Op) -> tuple[Comparison, ...]:
        """The comparisons, beside equalities, by which an outer join tells partners."""
        found = []
        for condition in op.about.get("conditions", ()):
            one = comparison(condition, field_named, lambda name: self.needs.kind(op, name))
            if one is None:
                raise UserError(
                    f"{condition.sql} can't be decided while partners are looked for",
                    remedy="compare two numbers of one kind, or two times of one type",
                )
            found.append(one)
        return tuple(found)

    def _verify(self, names: QueryFields, aliases: Sequence[str], c: int) -> str:
        alias = names.carrier(aliases, c)
        field_ = names.key(alias, c)
        return WORD + field_ if names.exact(alias, c) else field_

    def _output(self, op: Op, ports: Sequence[Port]) -> tuple[OutputField, ...]:
        found = []
        for name in op.needs:
            for i, port in enumerate(ports):
                if any(f.name == name for f in port.fields):
                    absent = "" if op.about.get("outer") and self._null_safe(op, name) else None
                    found.append(OutputField(name, port.field(name).kind, i, name, absent))
                    break
        return tuple(found)

    def _null_safe(self, op: Op, name: str) -> bool:
        """Whether a field is a key in which NULL equals NULL: a tuple that is missing has that of NULL."""
        alias, names = name.split(".", 1)[0], op.query
        if names is None or name.startswith("#"):
            return False
        return any(
            names.key(alias, c) == name and is_null_safe(names.expr(alias, c))
            for c in names.classes_with(alias)
        )

    def _probe(self, op: Op, keyed: bool) -> ProbeSpec:
        about = op.about
        flags: dict[str, Any] = {
            k: about[k] for k in ("strict", "ranges", "standing", "closes", "interest", "bloom") if k in about
        } | {"keyed": keyed}
        if about["mode"] == "join":
            ports = (self.port(op, 0), self.port(op, 1))
            return ProbeSpec(op.name, ports, "join", self._output(op, ports), **flags)
        probes = Port("probes", (), None, feeds=sum(f.port == 0 for f in op.feeds))
        keys = Port("keys", (), None, open_ends=True)
        if about["mode"] == "fetch":
            window = Port("keys", (Field(SENT, pa.int64()),), None, open_ends=True)
            if not about.get("interest"):
                window = self.port(op, 1)
            output = self._output(op, (probes, window))
            return ProbeSpec(op.name, (probes, window), "fetch", output, **flags)
        if about.get("ranges"):  # SM-D2: which keys match
            return ProbeSpec(op.name, (probes, self.port(op, 1)), "pass", (), **flags)
        current = self.port(op, 0)
        matches = keys if about.get("closes") else Port("matches", (), None)
        return ProbeSpec(op.name, (current, matches), "pass", self._output(op, (current,)), **flags)
