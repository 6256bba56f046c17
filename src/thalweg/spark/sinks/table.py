"""All kinds of sinks, by format."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from thalweg.catalog.model import Destination
from thalweg.spark.sinks.console import ConsoleSink
from thalweg.spark.sinks.jdbc import JdbcSink
from thalweg.spark.sinks.kafka import KafkaSink
from thalweg.spark.sinks.sink import Setting, Sink
from thalweg.spark.sinks.writer import WriterSink

KINDS: Mapping[str, Callable[[Destination, Setting], Sink]] = {
    "console": ConsoleSink,
    "jdbc": JdbcSink,
    "kafka": KafkaSink,
}
"""The formats that have a sink of their own, beside parquet: its sink is the run's folder."""


def sink_of(to: Destination, setting: Setting) -> Sink:
    """The sink of a format; any other format is a batch writer of Spark."""
    return KINDS.get(to.format, WriterSink)(to, setting)
