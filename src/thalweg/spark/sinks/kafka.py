"""Results as records of a Kafka topic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn
from pyspark.sql import types as t

from thalweg.query.model import quoted
from thalweg.query.result_id import RESULT_ID
from thalweg.spark.sinks.encode import as_avro, as_json
from thalweg.spark.sinks.sink import key_of
from thalweg.spark.sinks.writer import WriterSink


@dataclass(frozen=True)
class KafkaSink(WriterSink):
    """A record for each result: its columns as the value, some of them as the key."""

    guarantee: ClassVar[str] = "at least once: a batch that a crash interrupts is sent again"

    def records(self, results: DataFrame) -> DataFrame:
        names = results.columns
        value = as_avro(names) if self.to.value == "avro" else as_json(names, self.to.value_options)
        columns = [value.alias("value")]
        if key := key_of(self.to, results):
            columns.append(_key(key, results).alias("key"))
        if (own := self.setting.query.id_column) is not None:
            columns.append(_header(own).alias("headers"))
        return results.select(*columns)


def _header(column: str) -> Column:
    """The result's id, so that a consumer that reads a record twice can tell."""
    text = fn.encode(fn.col(quoted(column)), "UTF-8")
    return fn.array(fn.struct(fn.lit(RESULT_ID).alias("key"), text.alias("value")))


def _key(names: Sequence[str], results: DataFrame) -> Column:
    """One column as it is or as text; several as a JSON object."""
    if len(names) > 1:
        return as_json(names, {})
    column, kind = fn.col(quoted(names[0])), results.schema[names[0]].dataType
    return column if isinstance(kind, t.BinaryType) else column.cast("string")
