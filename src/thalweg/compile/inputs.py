"""What the compiler is given, and what it says of the results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from thalweg.query.model import Equality, Query


@dataclass(frozen=True)
class StreamInfo:
    """What operators must know of a stream: its columns and how its time runs, in microseconds.

    Columns of text that are `folded` may be equal though their bytes differ. A stream that `follows` the
    others of its queries has come as far as the first of them: a table whose versions begin after all else.
    """

    name: str
    columns: Mapping[str, pa.DataType]
    time: str
    lateness: int
    idle: int | None = None
    max_ahead: int | None = None
    order: tuple[str, ...] = ()
    folded: frozenset[str] = frozenset()
    follows: bool = False


@dataclass(frozen=True)
class TypedQuery:
    """A query whose equalities compare values of one type on both sides, and the types of those sides.

    `outer` are those of each outer join.
    """

    query: Query
    equalities: tuple[Equality, ...]
    kinds: Mapping[str, pa.DataType]  # by the text of a side
    outer: tuple[tuple[Equality, ...], ...] = ()


@dataclass(frozen=True)
class ResultPlan:
    """What comes out for one query: the columns of its results.

    A column that equals another one in every result is not sent; `same` says which one it equals. A result's
    time is the greatest of the `times` of all aliases.
    """

    query: Query
    fields: tuple[tuple[str, str, str, pa.DataType], ...]  # alias, column, field, type
    same: Mapping[tuple[str, str], tuple[str, str]]
    times: tuple[tuple[str, str], ...]
