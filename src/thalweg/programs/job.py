"""A compiled job: its operators by stage and group, the streams that feed them, what comes out of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from thalweg.programs.pack import PackSpec
from thalweg.programs.spec import JoinSpec
from thalweg.query.model import Equality, Query


@dataclass(frozen=True)
class StreamInfo:
    """What operators must know of a stream: its columns and how its time runs, in microseconds."""

    name: str
    columns: Mapping[str, pa.DataType]
    time: str
    lateness: int
    idle: int | None = None
    max_ahead: int | None = None
    order: tuple[str, ...] = ()


@dataclass(frozen=True)
class TypedQuery:
    """A query whose equalities compare values of one type on both sides, and the types of those sides."""

    query: Query
    equalities: tuple[Equality, ...]
    kinds: Mapping[str, pa.DataType]  # by the text of a side


@dataclass(frozen=True)
class StreamPlan:
    """How one stream enters: what Spark evaluates of each row, and how it is packed; at which stage."""

    stream: str
    select: tuple[tuple[str, str], ...]  # (Spark SQL, column name)
    pack: PackSpec
    stage: int


@dataclass(frozen=True)
class QueryPlan:
    """What comes out for one query: the columns of its result packets."""

    query: Query
    fields: tuple[tuple[str, str, pa.DataType], ...]  # alias, column, type
    same: Mapping[tuple[str, str], tuple[str, str]]  # columns that are not sent: equal to one that is
    times: tuple[tuple[str, str], ...]  # the time columns of all aliases; the greatest is the result's time


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
