"""The streams of a catalog as DataFrames."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, IllegalArgumentException, ParseException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as t

from thalweg.catalog.model import Source, Stream
from thalweg.compile.inputs import StreamInfo
from thalweg.errors import UserError
from thalweg.operators.spec import UNDECODED
from thalweg.spark import packages
from thalweg.spark.checkpoint import check_name
from thalweg.spark.decode import declared, raw_schema, record_schema
from thalweg.spark.error_messages import in_our_words, reason
from thalweg.spark.session import session
from thalweg.spark.typing import stream_info
from thalweg.storage import folder, scheme_of

_ANY_AGE = "36500d"
_FILES = {"parquet", "json", "csv", "orc", "text", "avro", "xml"}
_HIDDEN = {"timestamp": t.TimestampType(), "bigint": t.LongType(), "boolean": t.BooleanType()}
_RECORD_FILES = {"parquet", "orc", "avro"}
"""Files that can hold records of a topic, with their keys and encoded values."""


def _place(stream: Stream) -> str:
    """Where a stream or table is in the catalog."""
    return f"{'tables' if stream.table else 'streams'}.{stream.name}"


def schema_of(stream: Stream) -> t.StructType:
    """The declared columns as a Spark schema."""
    ddl = ", ".join(f"`{name.replace('`', '``')}` {kind}" for name, kind in stream.columns.items())
    try:
        schema = t.StructType.fromDDL(ddl)
    except ParseException as error:
        raise UserError(f"{_place(stream)}.schema: {reason(error)}") from None
    assert isinstance(schema, t.StructType)
    return schema


def kept_schema(stream: Stream) -> t.StructType:
    """The columns that tuples are kept aside with: also a value that can't be decoded, or a table's own."""
    more = [t.StructField(name, _HIDDEN[kind]) for name, kind in stream.hidden.items()]
    more += [t.StructField(UNDECODED, t.StringType())] if stream.source.value is not None else []
    return t.StructType([*schema_of(stream).fields, *more])


def info_of(stream: Stream) -> StreamInfo:
    """What operators must know of the stream."""
    return stream_info(
        stream.name,
        kept_schema(stream),
        stream.time,
        stream.lateness,
        stream.idle,
        stream.max_ahead,
        stream.order,
        follows=stream.refresh is not None,
    )


def live(spark: SparkSession, stream: Stream) -> DataFrame:
    """The stream as it arrives."""
    reader = spark.readStream
    if stream.source.format.lower() in _FILES:
        # By default Spark never reads a file that is a week older than the newest one it has seen.
        reader = reader.option("maxFileAge", _ANY_AGE)
    return load(reader, stream)


def empty_files(stream: Stream) -> list[Path]:
    """Files without any content among those of a local source: Spark takes them as read for good."""
    found: list[Path] = []
    for file in () if stream.table else _files(stream):
        with contextlib.suppress(FileNotFoundError):  # removed meanwhile
            found += [file] if file.stat().st_size == 0 else []
    return found


def check_names(stream: Stream) -> None:
    """Refuse a local source that has a file whose name Spark takes for a pattern."""
    for file in () if stream.table else _files(stream):
        check_name(str(file), "rename it")


def _files(stream: Stream) -> list[Path]:
    """The files of a source that is a local folder."""
    path = next((v for k, v in stream.source.options.items() if k.lower() == "path"), "")
    if stream.source.format.lower() not in _FILES or scheme_of(path) not in ("", "file"):
        return []
    root = folder(path)
    if not root.is_dir():
        return []
    return [f for f in sorted(root.iterdir()) if f.name[0] not in "._" and f.is_file()]


def read_table(stream: Stream, every: Iterable[Stream]) -> pa.Table:
    """All that the stream's source holds now.

    Spark gets packages only when it starts, so it starts with those of `every` stream that may be read.
    """
    begins = stream.source.option("startingOffsets")
    if stream.source.is_kafka and begins == "latest":
        raise UserError(
            "with startingOffsets: latest, nobody knows later where a run began to read",
            where=f"{_place(stream)}.source.options",
            remedy="write startingOffsets: earliest, or the offset of each partition",
        )
    spark = session(None, Path(os.devnull), **packages.conf(every))
    frame = load(spark.read, stream)
    try:
        return frame.toArrow()
    except (PySparkException, Py4JJavaError) as error:
        raise in_our_words(error, _place(stream)) from error


def load(reader: Any, stream: Stream) -> DataFrame:
    """The declared columns of a source, by a reader for streams or for what the source holds now."""
    schema, source = schema_of(stream), stream.source
    reader = reader.format(source.format).options(**_kafka_defaults(source), **source.options)
    typed = source.format.lower() in _FILES and source.value is None
    if typed:
        reader = reader.schema(raw_schema(stream, schema))
    elif source.format.lower() in _RECORD_FILES:
        reader = reader.schema(record_schema(source))
    try:
        frame: DataFrame = reader.load()
        if not typed or stream.raw_time is not None:
            frame = declared(frame, stream, schema)
    except UserError:
        raise
    except Exception as error:
        if found := packages.missing(error, source):
            raise UserError(found[0], where=f"{_place(stream)}.source", remedy=found[1]) from None
        if isinstance(error, AnalysisException | IllegalArgumentException | ParseException):
            raise UserError(reason(error), where=f"{_place(stream)}.source") from None
        raise
    return frame


def _kafka_defaults(source: Source) -> dict[str, str]:
    """A topic is read from its beginning, as a folder is, unless the catalog says otherwise."""
    if not source.is_kafka:
        return {}
    defaults = {"startingOffsets": "earliest"}
    if any(place.startswith("headers.") for place in source.columns.values()):
        defaults["includeHeaders"] = "true"
    return {k: v for k, v in defaults.items() if source.option(k) is None}
