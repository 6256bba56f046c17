"""What each operator is told: its inputs, its output, and how it works. Plain data."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Literal

import pyarrow as pa
from pydantic import PlainSerializer, PlainValidator

from thalweg.kernel.window import NEVER
from thalweg.operators.comparisons import Comparison


def _type_to_text(kind: pa.DataType) -> str:
    return base64.b64encode(pa.schema([pa.field("", kind)]).serialize().to_pybytes()).decode()


def _text_to_type(text: str | pa.DataType) -> pa.DataType:
    if isinstance(text, pa.DataType):
        return text
    if not isinstance(text, str):
        raise ValueError(f"{text!r} is not a type")
    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text))).field(0).type


ArrowType = Annotated[pa.DataType, PlainValidator(_text_to_type), PlainSerializer(_type_to_text)]
"""An Arrow type that can be written as JSON: what a site runs arrives as data."""

KEY, START, END = "#key", "#start", "#end"
"""Columns of tuples: the key word and the interval on which a tuple is alive."""

REASON = "#reason"
"""Of tuples that are kept aside: why."""

UNDECODED = "_undecoded"
"""A further column of a stream with encoded values: the value, where it can't be decoded."""

SEQ = "#seq"
"""In a window of rows: the place of a tuple in its stream."""


PLACE = "#place"
"""In an outer join: the number of a tuple, or its complement once the tuple has met a partner."""


@dataclass(frozen=True)
class RowWindow:
    """A window of rows: its size and the fields that tuples are counted by, if any.

    >>> RowWindow(3).end, RowWindow(1, ("k",)).end
    ('#end.3', '#end.1 by k')
    """

    size: int
    by: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.size} by {', '.join(self.by)}" if self.by else str(self.size)

    @property
    def end(self) -> str:
        """The column with the last moments of tuples in it."""
        return f"{END}.{self.name}"


@dataclass(frozen=True)
class Field:
    """A column of an input. `held` says where its values are: in KEY, in START, or else in a column."""

    name: str
    kind: ArrowType
    held: str = ""


@dataclass(frozen=True)
class Port:
    """One input of an operator.

    `span` is the length of its window; without one, tuples bring their ends. `open_ends` says that an end may
    be learnt later (a window of rows, or a join with one among its members). `feeds` is the number of streams
    that come in here: the port has come as far as the last of them. `nullable` are the fields of the key, of
    an input that an outer join keeps: a tuple with a NULL there has no partner.
    """

    name: str
    fields: tuple[Field, ...]
    span: int | None
    lateness: int = 0
    rows: bool = False  # with `open_ends`: of one stream, so its tuples have places
    open_ends: bool = False
    verify: tuple[str, ...] = ()
    rewritten: bool = False  # stored tuples change, so the window is written whole each time
    feeds: int = 1
    nullable: tuple[str, ...] = ()

    @property
    def stored(self) -> tuple[Field, ...]:
        """The fields with a column of their own."""
        return tuple(f for f in self.fields if not f.held)

    def index(self, name: str) -> int:
        """The place of a field among the stored ones."""
        return [f.name for f in self.stored].index(name)

    def field(self, name: str) -> Field:
        return next(f for f in self.fields if f.name == name)


@dataclass(frozen=True)
class OutputField:
    """A column of an operator's output: from which input, and under which name there.

    `absent` is its text where an outer join has no tuple of that input; without it, NULL.
    """

    name: str
    kind: ArrowType
    port: int
    field: str
    absent: str | None = None


@dataclass(frozen=True)
class Watched:
    """Another stream of the same queries, whose progress tells how far an idle stream may be taken to be."""

    lateness: int
    idle: int | None


@dataclass(frozen=True)
class SourceSpec:
    """A stream where it arises: late tuples are put aside; for windows of rows, tuples are put in order.

    `rows` are all windows of rows over it, `order` the columns that order tuples of one time.
    `kept` are the columns that a late tuple is kept with; with none it is only counted. Of several sources of
    one stream, by different keys, one `reports`. `begin` is how far the stream, and those that it watches,
    had come before this source was deployed, and when each was last heard of: all sources of a stream judge
    alike. The progress of `watched` streams comes in at ports after its own. `observed` are columns that are
    sketched, under the names of their fields, and `keys` those of them that are joined on. One that `follows`
    has come as far as the first of those that it watches.
    """

    stream: str
    lateness: int
    idle: int | None = None
    rows: tuple[RowWindow, ...] = ()
    order: tuple[str, ...] = ()
    kept: tuple[Field, ...] = ()
    reports: bool = True
    begin: tuple[tuple[int, ...], tuple[int, ...]] | None = None
    watched: tuple[Watched, ...] = ()
    observed: tuple[tuple[str, str], ...] = ()  # (field, column)
    keys: tuple[str, ...] = ()
    follows: bool = False
    type: Literal["source"] = "source"

    @property
    def waits(self) -> bool:
        """Whether tuples wait for event time to pass."""
        return bool(self.rows)


@dataclass(frozen=True)
class Limit:
    """How much memory the windows of an operator's bucket may take, in bytes.

    Tuples that there is no room for may wait for so long, in microseconds of event time, to be joined. If the
    bounds of all buckets must be `even`, each announces the one by which tuples may wait, whether any do.
    """

    budget: int
    delay: int = 0
    even: bool = False


def _check_output(name: str, output: tuple[OutputField, ...], ports: tuple[Port, ...]) -> None:
    brought = [{f.name for f in port.fields} for port in ports]
    for out in output:
        if not 0 <= out.port < len(ports) or out.field not in brought[out.port]:
            raise ValueError(f"{name}: {out.name} reads {out.field}, which input {out.port} does not bring")


@dataclass(frozen=True)
class JoinSpec:
    """An N-way join. Its output brings the end of each result with `ends`, and its key word with `keyed`.

    An `outer` join has two inputs. Partners must pass the comparisons `on`, too.
    """

    name: str
    ports: tuple[Port, ...]
    output: tuple[OutputField, ...]
    ends: bool = True
    keyed: bool = False
    limit: Limit | None = None
    outer: Literal["", "left", "full", "semi", "anti"] = ""
    on: tuple[Comparison, ...] = ()
    type: Literal["join"] = "join"

    def __post_init__(self) -> None:
        if len(self.ports) < 2:
            raise ValueError(f"{self.name}: a join has two inputs or more")
        _check_output(self.name, self.output, self.ports)
        if self.outer and (len(self.ports) > 2 or self.limit is not None):
            raise ValueError(f"{self.name}: an outer join has two inputs, and all of its windows in memory")

    @property
    def kept(self) -> tuple[int, ...]:
        """The inputs whose tuples have a place: they come out by themselves."""
        return {"": (), "full": (0, 1)}.get(self.outer, (0,))

    @property
    def held(self) -> bool:
        """Whether tuples wait until no window of rows can change below their time."""
        return any(p.open_ends for p in self.ports)

    @property
    def waits(self) -> bool:
        """Whether results may wait for event time to pass."""
        return self.held or bool(self.outer) or (self.limit is not None and self.limit.delay > 0)


@dataclass(frozen=True)
class ProbeSpec:
    """A one-way join, or one half of a semijoin: probes come in at port 0, the window at port 1.

    `join` puts out each probe with each tuple it finds; `pass`, the probes that find anything; `fetch`, the
    tuples that are found, each once. A probe waits until its window can get nothing more up to its time.
    `strict`: it finds only older tuples. `ranges`: probes bring an END, and find what is alive at any time up
    to it. `standing`: probes also find what comes later, as long as their key is in the window. `closes`:
    entries of the window are closed later, by further rows with the same key and START. `bloom`: at this
    port come Bloom filters in place of keys. `interest`: the output is not tuples but their keys, from the
    first probe on.
    """

    name: str
    ports: tuple[Port, Port]
    mode: Literal["join", "pass", "fetch"]
    output: tuple[OutputField, ...] = ()
    strict: bool = False
    ranges: bool = False
    standing: bool = False
    closes: bool = False
    interest: bool = False
    bloom: int | None = None
    keyed: bool = False
    type: Literal["probe"] = "probe"

    def __post_init__(self) -> None:
        _check_output(self.name, self.output, self.ports)

    @cached_property
    def join(self) -> JoinSpec:
        """The join that keeps the window: only the state of its second input is used."""
        return JoinSpec(self.name, (Port("", (), None), self.ports[1]), ())

    @property
    def waits(self) -> bool:
        """Probes wait for their window."""
        return True


@dataclass(frozen=True)
class KeysSpec:
    """The keys in a stream's window as they come and go; with `slot`, as Bloom filters of so long a time."""

    name: str
    port: Port
    slot: int | None = None
    type: Literal["keys"] = "keys"

    @property
    def waits(self) -> bool:
        """A key is told to have left when event time has passed it."""
        return True


@dataclass(frozen=True)
class KeepSpec:
    """Keeps what is alive of a stream's windows where the stream arises or arrives, and hands all of it on.

    This is `update` of a node operator set (adaptive, table 2). Operators that start later get a copy of it.
    `span` is the length of the longest window over the stream, `rows` are its windows of rows.
    With `fields`, only those are handed on. `copy` is the number of the last change for which a copy is made,
    of what is alive at `since` or later.
    """

    stream: str
    span: int | None
    rows: tuple[RowWindow, ...] = ()
    fields: tuple[str, ...] = ()
    copy: int = 0
    since: int = -NEVER
    type: Literal["keep"] = "keep"

    @property
    def waits(self) -> bool:
        """Nothing waits here."""
        return False


@dataclass(frozen=True)
class SinkSpec:
    """Where the results of a query end; with a slide they are handed out at that interval of event time.

    Results before `since` are another plan's to hand out.
    """

    query: int
    port: Port
    slide: int | None = None
    since: int | None = None
    type: Literal["sink"] = "sink"

    @property
    def waits(self) -> bool:
        """Whether results wait for their slide."""
        return self.slide is not None


@dataclass(frozen=True)
class RelaySpec:
    """What arrives at a site goes on to another."""

    port: Port
    type: Literal["relay"] = "relay"

    @property
    def waits(self) -> bool:
        """Nothing waits here."""
        return False


Spec = SourceSpec | KeepSpec | JoinSpec | ProbeSpec | KeysSpec | SinkSpec | RelaySpec


def stores(spec: Spec, port: int) -> bool:
    """Whether an operator remembers the tuples of an input: new ones find them later."""
    return isinstance(spec, JoinSpec | KeysSpec | KeepSpec) or (isinstance(spec, ProbeSpec) and port == 1)
