"""A stateful processor that Spark can load without what it runs.

Before the first batch Spark loads a query's processor in a process of its own, only to ask which state it
declares. That process ends then; loading NumPy, pandas and the kernel there would take seconds for nothing.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any, Protocol

from pyspark import cloudpickle
from pyspark.sql import types as t
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

STATE = "thalweg"
KEY = t.StructType([t.StructField("k", t.LongType())])
VALUE = t.StructType([t.StructField("v", t.BinaryType())])


class Hosted(Protocol):
    """What is done with the rows of a group."""

    def rows(self, key: Any, rows: Iterator[Any], state: Any) -> Iterator[Any]:
        """The rows that come out. `state` is a MapState."""


class Lazy(StatefulProcessor):
    """Declares one map of numbers to bytes; the rest is loaded when rows come."""

    def __init__(self, hosted: Hosted) -> None:
        self._pickled: bytes = cloudpickle.dumps(hosted)  # type: ignore[no-untyped-call]
        self._hosted: Hosted | None = None

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._state = handle.getMapState(STATE, KEY, VALUE)

    def handleInputRows(  # noqa: N802
        self,
        key: Any,
        rows: Iterator[Any],
        timerValues: Any,  # noqa: N803
    ) -> Iterator[Any]:
        if self._hosted is None:
            self._hosted = pickle.loads(self._pickled)
        return self._hosted.rows(key, rows, self._state)

    def close(self) -> None:
        """Nothing to let go: what is cached stays for the next batch."""
