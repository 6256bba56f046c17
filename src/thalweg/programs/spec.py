"""What operators are told: their inputs, what they put out, and where that goes."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Annotated, Literal

import pyarrow as pa
from pydantic import PlainSerializer, PlainValidator


def _type_to_text(kind: pa.DataType) -> str:
    return base64.b64encode(pa.schema([pa.field("", kind)]).serialize().to_pybytes()).decode()


def _text_to_type(text: str | pa.DataType) -> pa.DataType:
    if isinstance(text, pa.DataType):
        return text
    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text))).field(0).type


ArrowType = Annotated[pa.DataType, PlainValidator(_text_to_type), PlainSerializer(_type_to_text)]
"""An Arrow type that can be written as JSON: what a site runs arrives as data."""

KEY, START, END = "#key", "#start", "#end"
"""Columns that every tuple brings: its key word and its interval."""

PART, SEQ = "#part", "#seq"
"""In a window of rows: whether a tuple takes part or is only counted, and its place in the stream."""


@dataclass(frozen=True)
class Field:
    """A column of an input. `held` says where its values are: in KEY, in START, or else in a column."""

    name: str
    kind: ArrowType
    held: str = ""


@dataclass(frozen=True)
class Port:
    """One input of an operator.

    A source port belongs to a stream, has a lateness and judges it. A port without a stream is fed by another
    operator. `rows` is the size of a window of rows; `open_ends` says that a tuple's end may be learnt later
    (a window of rows, or a join that has one among its members).
    """

    name: str
    fields: tuple[Field, ...]
    span: int | None
    stream: int | None = None
    lateness: int = 0
    idle: int | None = None
    rows: int | None = None
    order: tuple[str, ...] = ()
    open_ends: bool = False
    verify: tuple[str, ...] = ()
    late: tuple[str, ...] = ()  # the fields a late tuple is kept with; none: it is only counted
    reports: bool = False  # of several ports of one stream, the one that counts
    rewritten: bool = False  # what is stored of a tuple changes, so the window is written whole each time
    feeds: int = 1  # how many streams come in here; the port has come as far as the last of them

    @property
    def stored(self) -> tuple[Field, ...]:
        """The fields with a column of their own."""
        return tuple(f for f in self.fields if not f.held)

    def index(self, name: str) -> int:
        """Which of the stored fields this one is."""
        return [f.name for f in self.stored].index(name)

    def field(self, name: str) -> Field:
        return next(f for f in self.fields if f.name == name)


@dataclass(frozen=True)
class OutputField:
    """A column of what comes out: from which input, and under which name there."""

    name: str
    kind: ArrowType
    port: int
    field: str


@dataclass(frozen=True)
class Target:
    """The operator that the results go to: its groups by bucket, the port, the columns that make the key.

    Without groups the results leave with their interval for whoever reads them, wherever that is.
    """

    groups: tuple[int, ...]
    port: int
    key: tuple[str, ...]


@dataclass(frozen=True)
class Watched:
    """A stream that only other joins of the query read: how far it has come tells which streams are idle."""

    lateness: int
    idle: int | None


@dataclass(frozen=True)
class Limit:
    """How much memory the windows of an operator's bucket may take, in bytes.

    Tuples that there is no room for may wait for so long, in microseconds of event time, to be joined.
    """

    budget: int
    delay: int = 0


@dataclass(frozen=True)
class JoinSpec:
    """An N-way join. Without a target its results are final, and belong to the query of that number.

    The bounds of `watched` streams come at ports after its own.
    """

    name: str
    ports: tuple[Port, ...]
    output: tuple[OutputField, ...]
    target: Target | None = None
    slide: int | None = None
    query: int = 0
    watched: tuple[Watched, ...] = ()
    limit: Limit | None = None
    type: Literal["join"] = "join"

    def __post_init__(self) -> None:
        if len(self.ports) < 2:
            raise ValueError(f"{self.name}: a join has two inputs or more")
        for out in self.output:
            if out.field not in {f.name for f in self.ports[out.port].fields}:
                raise ValueError(f"{self.name}: {out.name} reads {out.field}, which no input brings")

    @property
    def held(self) -> bool:
        """Whether tuples wait until no window of rows can change below their time."""
        return any(p.open_ends for p in self.ports)

    @property
    def waits(self) -> bool:
        """Whether results may wait for event time to pass."""
        return self.held or self.slide is not None or self.limit is not None


@dataclass(frozen=True)
class SourceSpec:
    """A stream where it arises: its tuples are judged and, for windows of rows, put in order and counted.

    `rows` are the sizes of all windows of rows over it. The bounds of `watched` streams come at ports after
    its own; where it has fallen idle, they tell how far it may be taken to have come.
    """

    name: str
    port: Port
    rows: tuple[int, ...] = ()
    watched: tuple[Watched, ...] = ()
    type: Literal["source"] = "source"


@dataclass(frozen=True)
class ProbeSpec:
    """A one-way join, or one half of a semijoin: probes come in at port 0, what they look for at port 1.

    `join` puts out each probe with each tuple it finds; `pass`, the probes that find anything; `fetch`, what
    is found, each once. A probe waits until its window can get nothing more up to its time. `strict`: it
    finds only what is older than it. `ranges`: probes bring an END, and look for what is alive at any time
    up to it. `standing`: probes also find what comes later, as long as their key is in the window. `closes`:
    entries of the window are closed later, by further rows with the same key and START. `bloom`: at this
    port come Bloom filters in place of keys. `interest`: what is put out are not tuples but their keys, from
    the first probe on.
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
    type: Literal["probe"] = "probe"

    @property
    def join(self) -> JoinSpec:
        """What keeps the window: a join that is only asked for the state of its second input."""
        return JoinSpec(self.name, (Port("", (), None), self.ports[1]), ())


@dataclass(frozen=True)
class KeysSpec:
    """The keys in a stream's window as they come and go; with `slot`, as Bloom filters of so long a time."""

    name: str
    port: Port
    slot: int | None = None
    type: Literal["keys"] = "keys"


@dataclass(frozen=True)
class SinkSpec:
    """Where the results of a query end; with a slide they are handed out at that interval of event time."""

    name: str
    query: int
    port: Port
    slide: int | None = None
    type: Literal["sink"] = "sink"


@dataclass(frozen=True)
class RelaySpec:
    """What arrives at a site goes on to another."""

    name: str
    port: Port
    type: Literal["relay"] = "relay"


Spec = SourceSpec | JoinSpec | ProbeSpec | KeysSpec | SinkSpec | RelaySpec
