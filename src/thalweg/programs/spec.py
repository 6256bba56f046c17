"""What an N-way join operator is told: its inputs, what it puts out, and where that goes."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

KEY, START, END = "#key", "#start", "#end"
"""Columns that every tuple brings: its key word and its interval."""

PART, SEQ = "#part", "#seq"
"""In a window of rows: whether a tuple takes part or is only counted, and its place in the stream."""


@dataclass(frozen=True)
class Field:
    """A column of an input. `held` says where its values are: in KEY, in START, or else in a column."""

    name: str
    kind: pa.DataType
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
    kind: pa.DataType
    port: int
    field: str


@dataclass(frozen=True)
class Target:
    """The operator that the results go to: its groups by bucket, the port, the columns that make the key."""

    groups: tuple[int, ...]
    port: int
    key: tuple[str, ...]


@dataclass(frozen=True)
class Watched:
    """A stream that only other joins of the query read: how far it has come tells which streams are idle."""

    lateness: int
    idle: int | None


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
