"""What Spark calls for each bucket of a key group.

Spark also loads a query's processor into a process of its own before the first batch, only to ask for the
state it declares. Loading NumPy, pandas and the kernel there would take seconds for nothing. So this module
is light: the work is in `calls`, and what it needs stays pickled until rows come.
"""

from __future__ import annotations

import functools
import pickle
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyspark import cloudpickle
from pyspark.sql import types as t
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from thalweg.spark.program_files import Programs

if TYPE_CHECKING:
    import pandas as pd

    from thalweg.spark.late import LateFiles
    from thalweg.spark.results import Outgoing

KEY = t.StructType([t.StructField("k", t.LongType())])
VALUE = t.StructType([t.StructField("v", t.BinaryType())])


@dataclass(frozen=True)
class Hosting:
    """What the buckets of one query share: programs, folders, and how results leave. Only data."""

    job: str
    programs: Programs
    memory: str = field(default_factory=secrets.token_hex)  # the name of its folder in shared memory
    late: LateFiles | None = None
    exchange: str | None = None  # the folder of exchanges
    spill: str | None = None  # the folder for tuples that memory has no room for


class MapStore:
    """A bucket's state in a MapState of Spark."""

    def __init__(self, state: Any) -> None:
        self._state = state

    def get(self, key: int) -> bytes | None:
        row = self._state.getValue((key,))
        return None if row is None else bytes(row[0])

    def put(self, key: int, value: bytes) -> None:
        self._state.updateValue((key,), (value,))

    def remove(self, key: int) -> None:
        self._state.removeKey((key,))


class KeyGroups(StatefulProcessor):
    """Calls the operators of each bucket. Messages for a later stage pass through.

    `output` is how results leave the last stage.
    """

    def __init__(self, hosting: Hosting, stage: int, output: Outgoing | None) -> None:
        self._pickled: bytes = cloudpickle.dumps((hosting, stage, output))  # type: ignore[no-untyped-call]

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._state = handle.getMapState("thalweg", KEY, VALUE)

    def handleInputRows(  # noqa: N802
        self,
        key: Any,
        rows: Iterator[pd.DataFrame],
        timerValues: Any,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        from thalweg.spark.calls import frames

        return frames(*_loaded(self._pickled), int(key[0]), rows, MapStore(self._state))

    def close(self) -> None:
        """Nothing to let go: caches stay for the next batch."""


@functools.lru_cache(maxsize=16)
def _loaded(pickled: bytes) -> tuple[Hosting, int, Outgoing | None]:
    found: tuple[Hosting, int, Outgoing | None] = pickle.loads(pickled)
    return found
