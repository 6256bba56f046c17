"""From what a source brings to the declared columns: encoded values, record fields, times in other forms."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql import types as t

from thalweg.catalog.model import Source, Stream
from thalweg.errors import UserError
from thalweg.names import suggestion
from thalweg.operators.spec import UNDECODED
from thalweg.query.model import quoted
from thalweg.spark import avro
from thalweg.spark.protobuf import Messages

_VALUE = "value"  # as Kafka, text files and sockets have it
_DECODED = "#decoded"
_CORRUPT = "_corrupt_record"
_HEADER = "headers."
_RECORD = {
    "key": "BINARY",
    _VALUE: "BINARY",
    "topic": "STRING",
    "partition": "INT",
    "offset": "BIGINT",
    "timestamp": "TIMESTAMP",
    "headers": "ARRAY<STRUCT<key: STRING, value: BINARY>>",
}
_INTEGERS = ("tinyint", "smallint", "int", "bigint")
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


def record_schema(source: Source) -> t.StructType:
    """The fields of a record that are read, where files hold records as Kafka has them."""
    used = {_VALUE, *map(_place, source.columns.values())}
    return _struct(", ".join(f"{name} {kind}" for name, kind in _RECORD.items() if name in used))


def declared(frame: DataFrame, stream: Stream, schema: t.StructType) -> DataFrame:
    """The declared columns of what a source has brought; with encoded values, also those that are none."""
    raw, source = raw_schema(stream, schema), stream.source
    kinds = {one.name: one.dataType.simpleString() for one in raw.fields}
    if source.value is None:
        frame = frame.select([f.expr(f"CAST({quoted(n)} AS {kind})").alias(n) for n, kind in kinds.items()])
    else:
        frame = _from_record(frame, stream, raw, kinds)
    if stream.raw_time is None:
        return frame
    kind = schema[stream.time].dataType.simpleString()
    return frame.withColumn(stream.time, f.expr(f"CAST({_moment(stream)} AS {kind})"))


def _from_record(frame: DataFrame, stream: Stream, raw: t.StructType, kinds: Mapping[str, str]) -> DataFrame:
    """The columns inside the value and from the other fields of a record, and the value where it has none.

    A record that is not what it should be has no time, so it is kept aside.
    """
    where, source = f"streams.{stream.name}.source", stream.source
    if missing := [c for c in (_VALUE, *map(_place, source.columns.values())) if not _has(frame, c)]:
        raise UserError(
            f"the source has no column {missing[0]!r}, only {', '.join(frame.columns)}",
            where=f"{where}.{'value' if missing[0] == _VALUE else 'columns'}",
            remedy="leave `value` out" if missing[0] == _VALUE else None,
        )
    inside = t.StructType([one for one in raw.fields if one.name not in source.columns])
    binary = source.value in ("avro", "protobuf")
    frame, bad = _decoded_messages(frame, stream, inside) if binary else _decoded_text(frame, stream, inside)
    columns = {one.name: f"{quoted(_DECODED)}.{quoted(one.name)}" for one in inside.fields}
    columns |= {name: _field(place) for name, place in source.columns.items()}
    # The fields of a text have the declared types. All others can hold something that is none of that type.
    loose = [name for name in columns if binary or name in source.columns]
    others = [f"({columns[n]} IS NOT NULL AND try_cast({columns[n]} AS {kinds[n]}) IS NULL)" for n in loose]
    columns |= {name: f"try_cast({columns[name]} AS {kinds[name]})" for name in loose}
    bad = f"({' OR '.join([bad, *others])})"
    columns[stream.time] = f"CASE WHEN NOT {bad} THEN {columns[stream.time]} END"
    value = f"base64({_VALUE})" if binary else f"CAST({_VALUE} AS STRING)"
    return frame.selectExpr(
        *(f"CAST({columns[name]} AS {kind}) AS {quoted(name)}" for name, kind in kinds.items()),
        f"CASE WHEN {bad} THEN coalesce({value}, 'NULL') END AS {quoted(UNDECODED)}",
    )


def _has(frame: DataFrame, column: str) -> bool:
    return column.lower() in (name.lower() for name in frame.columns)


def _decoded_text(frame: DataFrame, stream: Stream, columns: t.StructType) -> tuple[DataFrame, str]:
    """JSON or CSV as a struct, which also has the value as it was where it is not what it should be."""
    source = stream.source
    schema = t.StructType([*columns.fields, t.StructField(_CORRUPT, t.StringType())])
    options = {**source.value_options, "mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    text = f.col(_VALUE).cast("string")
    if source.value == "json":
        decoded = f.from_json(text, schema, options)
    else:
        ddl = ", ".join(f"{quoted(one.name)} {one.dataType.simpleString()}" for one in schema.fields)
        decoded = f.from_csv(text, ddl, options)
    bad = f"{quoted(_DECODED)} IS NULL OR {quoted(_DECODED)}.{quoted(_CORRUPT)} IS NOT NULL"
    return frame.withColumn(_DECODED, decoded), bad


def _decoded_messages(frame: DataFrame, stream: Stream, columns: t.StructType) -> tuple[DataFrame, str]:
    """Avro or Protobuf as a struct with the types that its schema says."""
    source, where = stream.source, f"streams.{stream.name}.source.value_options"
    bad = f"{quoted(_DECODED)} IS NULL"
    if source.value == "avro":
        given = {k: v for k, v in source.value_options.items() if k != "schema"}
        schema = _file(source.value_options["schema"], where).decode("utf-8", errors="replace")
        frame = frame.withColumn(_DECODED, avro.decoded(_VALUE, schema, given, where))
        bad += f" OR {quoted(_DECODED)}.{quoted(avro.DECODED)} IS NULL"
        kinds = frame.schema[_DECODED].dataType
    else:
        content = _file(source.value_options["descriptor"], where)
        messages = Messages(content, source.value_options["message"], where)
        kinds = messages.fields(columns.names)
        frame = frame.withColumn(_DECODED, messages.decoded(_VALUE, kinds))
    assert isinstance(kinds, t.StructType)
    _check_fields(stream, columns, {one.name.lower(): one.dataType for one in kinds.fields})
    return frame, bad


def _check_fields(stream: Stream, columns: t.StructType, kinds: Mapping[str, t.DataType]) -> None:
    for name in columns.names:
        if name.lower() not in kinds:
            raise UserError(
                f"the {stream.source.value} value has no field {name!r}",
                where=f"streams.{stream.name}.schema",
                remedy=suggestion(name, kinds),
            )
    time = kinds.get(stream.time.lower())
    if isinstance(time, t.NumericType) and stream.time_unit is None:
        raise UserError(
            f"the column {stream.time} has a number",
            where=f"streams.{stream.name}.time",
            remedy="write time_unit: seconds, milliseconds or microseconds beside `time`",
        )


def _file(path: str, where: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise UserError(f"can't read {path}: {error.strerror}", where=where) from None


def _place(place: str) -> str:
    """The column of a source that a field of a record is in."""
    return "headers" if place.startswith(_HEADER) else place


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
        # A decimal is exact for any number, and costs as much as the rest of the decoding.
        wide = "BIGINT" if (stream.raw_time or "").lower() in _INTEGERS else "DECIMAL(38, 6)"
        exact = f"try_multiply(try_cast({column} AS {wide}), {_MICROS[stream.time_unit]})"
        return f"timestamp_micros(try_cast({exact} AS BIGINT))"
    # Spark would take a number in JSON for seconds, and milliseconds for a time in fifty thousand years.
    what = (
        f"thalweg.errors.UserError: streams.{stream.name}.time: the column {stream.time} has a number; "
        "write time_unit: seconds, milliseconds or microseconds beside `time`"
    ).replace("'", "\\'")
    number = f"WHEN {column} RLIKE '{_NUMBER}' THEN raise_error('{what}')"
    return f"CASE {number} ELSE try_cast({column} AS TIMESTAMP) END"
