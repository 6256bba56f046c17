"""Values in Protobuf: messages become structs.

Protobuf's own Python library does it, which Thalweg needs anyway: no package of Spark's has to be had.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from typing import Any

import pyarrow as pa
from google.protobuf import (  # type: ignore[import-untyped]
    descriptor_pb2,
    descriptor_pool,
    message_factory,
)
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from pyspark.sql import Column
from pyspark.sql import functions as f
from pyspark.sql import types as t
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.pandas.types import to_arrow_type

from thalweg.errors import UserError
from thalweg.names import suggestion

_TIMESTAMP = "google.protobuf.Timestamp"


@dataclass(frozen=True)
class Messages:
    """Messages of one kind, by a set of descriptors as `protoc --descriptor_set_out` writes it."""

    descriptors: bytes
    name: str
    where: str = ""

    def fields(self, wanted: Iterable[str]) -> t.StructType:
        """The wanted fields with the types that Spark has for them; the case of names does not count."""
        known = {field.name.lower(): field for field in self._kind().DESCRIPTOR.fields}
        found = []
        for name in wanted:
            if (field := known.get(name.lower())) is None:
                raise UserError(
                    f"message {self.name} has no field {name!r}",
                    where=self.where,
                    remedy=suggestion(name, [one.name for one in known.values()]),
                )
            found.append(t.StructField(field.name, _type(field, (self.name,), self.where)))
        return t.StructType(found)

    def decoded(self, value: str, fields: t.StructType) -> Column:
        """A column of messages as structs; NULL where it holds something else."""
        kind = to_arrow_type(fields, timezone="UTC")
        names = fields.names
        own = Messages(self.descriptors, self.name)

        def decode(values: pa.Array) -> pa.Array:
            return own.arrow(values, names, kind)

        decode.__annotations__ = {"values": pa.Array, "return": pa.Array}
        # PySpark's stubs lack this form, which its documentation has.
        function: Any = arrow_udf(decode, fields)  # type: ignore[call-overload]
        done: Column = function(f.col(value).cast("binary"))
        return done

    def arrow(self, values: pa.Array, names: Sequence[str], kind: pa.StructType) -> pa.StructArray:
        """Encoded messages as structs of some of their fields."""
        made = self._kind()
        by_name = {field.name: field for field in made.DESCRIPTOR.fields}
        messages = [_message(made, value) for value in values.to_pylist()]
        arrays = []
        for name, child in zip(names, kind, strict=True):
            read = _reader(by_name[name])
            arrays.append(pa.array([None if m is None else read(m) for m in messages], child.type))
        mask = pa.array([m is None for m in messages], pa.bool_())
        return pa.StructArray.from_arrays(arrays, fields=list(kind), mask=mask)

    def _kind(self) -> Any:
        return _message_class(self.descriptors, self.name, self.where)


@cache
def _message_class(descriptors: bytes, name: str, where: str) -> Any:
    pool = descriptor_pool.DescriptorPool()
    try:
        files = descriptor_pb2.FileDescriptorSet.FromString(descriptors).file
        for file in files:
            pool.Add(file)
        messages = [f"{file.package}.{m.name}".strip(".") for file in files for m in file.message_type]
        named = [one for one in messages if one.rsplit(".", 1)[-1] == name]
        return message_factory.GetMessageClass(
            pool.FindMessageTypeByName(named[0] if len(named) == 1 else name)
        )
    except DecodeError:
        raise UserError(
            "this is not a set of Protobuf descriptors",
            where=where,
            remedy="make it with protoc --include_imports --descriptor_set_out",
        ) from None
    except KeyError:
        raise UserError(f"no message {name!r}", where=where, remedy=suggestion(name, messages)) from None
    except TypeError as error:
        raise UserError(
            f"the descriptors are not complete: {str(error).splitlines()[0]}",
            where=where,
            remedy="make the set with protoc --include_imports",
        ) from None


def _message(kind: Any, value: bytes | None) -> Any:
    if value is None:
        return None
    try:
        return kind.FromString(value)
    except DecodeError:
        return None


def _repeated(field: Any) -> bool:
    found = field.is_repeated if hasattr(field, "is_repeated") else field.label == field.LABEL_REPEATED
    return bool(found)


def _is_map(field: Any) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def _type(field: Any, outer: tuple[str, ...], where: str) -> t.DataType:
    if _is_map(field):
        key, value = (field.message_type.fields_by_name[n] for n in ("key", "value"))
        return t.MapType(_type(key, outer, where), _type(value, outer, where))
    one = _single_type(field, outer, where)
    return t.ArrayType(one) if _repeated(field) else one


def _single_type(field: Any, outer: tuple[str, ...], where: str) -> t.DataType:
    simple: dict[int, t.DataType] = {
        field.CPPTYPE_INT32: t.IntegerType(),
        field.CPPTYPE_INT64: t.LongType(),
        field.CPPTYPE_UINT32: t.LongType(),
        field.CPPTYPE_UINT64: t.DecimalType(20, 0),
        field.CPPTYPE_DOUBLE: t.DoubleType(),
        field.CPPTYPE_FLOAT: t.FloatType(),
        field.CPPTYPE_BOOL: t.BooleanType(),
        field.CPPTYPE_ENUM: t.StringType(),
        field.CPPTYPE_STRING: t.BinaryType() if field.type == field.TYPE_BYTES else t.StringType(),
    }
    if field.cpp_type in simple:
        return simple[field.cpp_type]
    inner = field.message_type
    if inner.full_name == _TIMESTAMP:
        return t.TimestampType()
    if inner.full_name in outer:
        raise UserError(f"the field {field.name!r} holds messages of the kind that it is in", where=where)
    within = (*outer, inner.full_name)
    return t.StructType([t.StructField(one.name, _type(one, within, where)) for one in inner.fields])


def _reader(field: Any) -> Callable[[Any], Any]:
    """Reads a field of a message: NULL only where the message says that there is none."""
    name = field.name
    if _is_map(field):
        value = _value(field.message_type.fields_by_name["value"])
        return lambda message: [(k, value(v)) for k, v in getattr(message, name).items()]
    one = _value(field)
    if _repeated(field):
        return lambda message: [one(v) for v in getattr(message, name)]
    if field.has_presence:
        return lambda message: one(getattr(message, name)) if message.HasField(name) else None
    return lambda message: one(getattr(message, name))


def _value(field: Any) -> Callable[[Any], Any]:
    if field.cpp_type == field.CPPTYPE_UINT64:
        return Decimal
    if field.cpp_type == field.CPPTYPE_ENUM:
        names = {v.number: v.name for v in field.enum_type.values}
        return lambda number: names.get(number, str(number))
    if field.cpp_type != field.CPPTYPE_MESSAGE:
        return lambda value: value
    if field.message_type.full_name == _TIMESTAMP:
        return lambda moment: moment.seconds * 1_000_000 + moment.nanos // 1000
    readers = [(one.name, _reader(one)) for one in field.message_type.fields]
    return lambda message: {name: read(message) for name, read in readers}
