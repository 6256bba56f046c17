"""From what a source brings to the declared columns: encoded values, record fields, times in other forms."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql import types as t

from thalweg.catalog.model import Stream
from thalweg.errors import UserError
from thalweg.operators.spec import UNDECODED
from thalweg.query.model import quoted

_VALUE = "value"  # as Kafka, text files and sockets have it
_DECODED = "#decoded"
_CORRUPT = "_corrupt_record"
_HEADER = "headers."
_MICROS = {"seconds": 1_000_000, "milliseconds": 1_000, "microseconds": 1}
_NUMBER = r"^\\s*[-+]?[0-9]+([.][0-9]*)?([eE][-+]?[0-9]+)?\\s*$"


def raw_schema(stream: Stream, schema: t.StructType) -> t.StructType:
    """The columns as the source has them: the time may be a number or a text there."""
    if stream.raw_time is None:
        return schema
    (raw,) = _struct(f"x {stream.raw_time}").fields
    return t.StructType(
        [t.StructField(one.name, raw.dataType) if one.name == stream.time else one for one in schema.fields]
    )


def _struct(ddl: str) -> t.StructType:
    found = t.StructType.fromDDL(ddl)
    assert isinstance(found, t.StructType)
    return found


def declared(frame: DataFrame, stream: Stream, schema: t.StructType) -> DataFrame:
    """The declared columns of what a source has brought; with encoded values, also those that are none."""
    raw, source = raw_schema(stream, schema), stream.source
    columns = {one.name: quoted(one.name) for one in raw.fields}
    undecoded = []
    if source.value is not None:
        if _VALUE not in frame.columns:
            raise UserError(
                f"the source has no column {_VALUE!r} to decode, only {', '.join(frame.columns)}",
                where=f"streams.{stream.name}.source.value",
                remedy="leave `value` out",
            )
        inside = t.StructType([one for one in raw.fields if one.name not in source.columns])
        frame = frame.withColumn(_DECODED, _decoded(stream, inside))
        bad = f"({quoted(_DECODED)} IS NULL OR {quoted(_DECODED)}.{quoted(_CORRUPT)} IS NOT NULL)"
        columns = {name: f"{quoted(_DECODED)}.{quoted(name)}" for name in columns}
        columns[stream.time] = f"CASE WHEN NOT {bad} THEN {columns[stream.time]} END"
        undecoded = [f"CASE WHEN {bad} THEN CAST({_VALUE} AS STRING) END AS {quoted(UNDECODED)}"]
    columns |= {name: _field(place) for name, place in source.columns.items()}
    kinds = {one.name: one.dataType.simpleString() for one in raw.fields}
    chosen = [f"CAST({sql} AS {kinds[name]}) AS {quoted(name)}" for name, sql in columns.items()]
    frame = frame.selectExpr(*chosen, *undecoded)
    if stream.raw_time is None:
        return frame
    kind = schema[stream.time].dataType.simpleString()
    return frame.withColumn(stream.time, f.expr(f"CAST({_moment(stream)} AS {kind})"))


def _decoded(stream: Stream, columns: t.StructType) -> Column:
    """The value as a struct, which also has the value as it was where it is not what it should be."""
    source = stream.source
    schema = t.StructType([*columns.fields, t.StructField(_CORRUPT, t.StringType())])
    options = {**source.value_options, "mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    text = f.col(_VALUE).cast("string")
    if source.value == "json":
        return f.from_json(text, schema, options)
    ddl = ", ".join(f"{quoted(one.name)} {one.dataType.simpleString()}" for one in schema.fields)
    return f.from_csv(text, ddl, options)


def _field(place: str) -> str:
    """A field of a record: a column of the source, or one of Kafka's headers. Bytes are text."""
    if not place.startswith(_HEADER):
        return f"CAST({quoted(place)} AS STRING)" if place == "key" else quoted(place)
    name = place.removeprefix(_HEADER).replace("\\", "\\\\").replace("'", "\\'")
    return f"CAST(try_element_at(filter(headers, h -> h.key = '{name}'), 1).value AS STRING)"


def _moment(stream: Stream) -> str:
    """The time of a tuple; NULL where there is none, and the tuple is kept aside."""
    column = quoted(stream.time)
    if stream.time_format is not None:
        pattern = stream.time_format.replace("\\", "\\\\").replace("'", "\\'")
        return f"try_to_timestamp({column}, '{pattern}')"
    if stream.time_unit is not None:
        exact = f"try_multiply(try_cast({column} AS DECIMAL(38, 6)), {_MICROS[stream.time_unit]})"
        return f"timestamp_micros(try_cast({exact} AS BIGINT))"
    # Spark would take a number in JSON for seconds, and milliseconds for a time in fifty thousand years.
    what = (
        f"thalweg.errors.UserError: streams.{stream.name}.time: the column {stream.time} has a number; "
        "write time_unit: seconds, milliseconds or microseconds beside `time`"
    ).replace("'", "\\'")
    number = f"WHEN {column} RLIKE '{_NUMBER}' THEN raise_error('{what}')"
    return f"CASE {number} ELSE try_cast({column} AS TIMESTAMP) END"
