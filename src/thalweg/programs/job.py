"""A compiled job: its operators by stage and group, the streams that feed them, what comes out of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from thalweg.errors import UserError
from thalweg.programs.pack import PackSpec
from thalweg.programs.spec import JoinSpec, Limit
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
        return any(spec.waits for stage in self.stages for spec in stage.values())

    def limited(self, budget: int, delay: int) -> Job:
        """The same, with windows that take no more memory than this on a machine, all together.

        Tuples wait only in joins that feed no other: which ones wait depends on whether windows were at hand
        or rebuilt, and where only a part of a batch is repeated, another join has had what was sent before.
        """
        share = budget // sum(map(len, self.stages))
        stages = [
            {g: limited(s, Limit(share, 0 if s.target else delay)) for g, s in stage.items()}
            for stage in self.stages
        ]
        return replace(self, stages=tuple(stages))


def limited(spec: JoinSpec, limit: Limit) -> JoinSpec:
    """A join with a limit to the memory of its windows."""
    if spec.held:
        raise UserError(
            "a memory budget is not possible with windows of rows",
            where=spec.name.rsplit(".", 1)[0],
            remedy="their size is in the query: leave the budget out, or use RANGE windows",
        )
    return replace(spec, limit=limit)
