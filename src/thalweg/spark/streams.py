"""The streams of a catalog as DataFrames."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as t

from thalweg.catalog.model import Stream
from thalweg.compile.inputs import StreamInfo
from thalweg.errors import UserError
from thalweg.operators.spec import UNDECODED
from thalweg.spark.checkpoint import check_name
from thalweg.spark.decode import declared, raw_schema
from thalweg.spark.error_messages import in_our_words, reason
from thalweg.spark.session import session
from thalweg.spark.typing import stream_info

_ANY_AGE = "36500d"
_FILES = {"parquet", "json", "csv", "orc", "text", "avro", "xml"}


def schema_of(stream: Stream) -> t.StructType:
    """The declared columns as a Spark schema."""
    ddl = ", ".join(f"`{name.replace('`', '``')}` {kind}" for name, kind in stream.columns.items())
    try:
        schema = t.StructType.fromDDL(ddl)
    except ParseException as error:
        raise UserError(f"streams.{stream.name}.schema: {reason(error)}") from None
    assert isinstance(schema, t.StructType)
    return schema


def kept_schema(stream: Stream) -> t.StructType:
    """The columns that tuples are kept aside with: also a value that can't be decoded."""
    schema = schema_of(stream)
    more = [t.StructField(UNDECODED, t.StringType())] if stream.source.value is not None else []
    return t.StructType([*schema.fields, *more])


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
    )


def live(spark: SparkSession, stream: Stream) -> DataFrame:
    """The stream as it arrives."""
    reader = spark.readStream
    if stream.source.format.lower() in _FILES:
        # By default Spark never reads a file that is a week older than the newest one it has seen.
        reader = reader.option("maxFileAge", _ANY_AGE)
    return _load(reader, stream)


def empty_files(stream: Stream) -> list[Path]:
    """Files without any content among those of a local source: Spark takes them as read for good."""
    found = []
    for file in _files(stream):
        with contextlib.suppress(FileNotFoundError):  # removed meanwhile
            found += [file] if file.stat().st_size == 0 else []
    return found


def check_names(stream: Stream) -> None:
    """Refuse a local source that has a file whose name Spark takes for a pattern."""
    for file in _files(stream):
        check_name(str(file), "rename it")


def _files(stream: Stream) -> list[Path]:
    """The files of a source that is a local folder."""
    path = next((v for k, v in stream.source.options.items() if k.lower() == "path"), "")
    if stream.source.format.lower() not in _FILES or "://" in path or not Path(path).is_dir():
        return []
    return [f for f in sorted(Path(path).iterdir()) if f.name[0] not in "._" and f.is_file()]


def read_table(stream: Stream) -> pa.Table:
    """All that the stream's source holds now."""
    frame = _load(session(log=Path(os.devnull)).read, stream)
    try:
        return frame.toArrow()
    except (PySparkException, Py4JJavaError) as error:
        raise in_our_words(error, f"streams.{stream.name}") from error


def _load(reader: Any, stream: Stream) -> DataFrame:
    schema, source = schema_of(stream), stream.source
    reader = reader.format(source.format).options(**source.options)
    typed = source.format.lower() in _FILES and source.value is None
    if typed:
        reader = reader.schema(raw_schema(stream, schema))
    try:
        frame: DataFrame = reader.load()
        if not typed or stream.raw_time is not None:
            frame = declared(frame, stream, schema)
    except (AnalysisException, ParseException) as error:
        raise UserError(reason(error), where=f"streams.{stream.name}.source") from None
    except Exception as error:
        if "ClassNotFoundException" in str(error) or "DATA_SOURCE_NOT_FOUND" in str(error):
            raise UserError(
                f"Spark has no source of the format {source.format!r}",
                where=f"streams.{stream.name}.source.format",
                remedy="such as parquet, json, csv or kafka (with its package)",
            ) from None
        raise
    return frame
