"""Values in Protobuf: each kind of field, what is no message, and descriptors that do not fit."""

from __future__ import annotations

import datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2
from pyspark.sql import types as t
from pyspark.sql.pandas.types import to_arrow_type

from thalweg.errors import UserError
from thalweg.spark.protobuf import Messages

F = descriptor_pb2.FieldDescriptorProto
SCALARS = {
    "i": (F.TYPE_INT32, t.IntegerType(), -3),
    "s64": (F.TYPE_SINT64, t.LongType(), -(2**60)),
    "u": (F.TYPE_UINT32, t.LongType(), 2**32 - 1),
    "u64": (F.TYPE_FIXED64, t.DecimalType(20, 0), 2**64 - 1),
    "d": (F.TYPE_DOUBLE, t.DoubleType(), 0.5),
    "f": (F.TYPE_FLOAT, t.FloatType(), 0.25),
    "b": (F.TYPE_BOOL, t.BooleanType(), True),
    "t": (F.TYPE_STRING, t.StringType(), "ä"),
    "y": (F.TYPE_BYTES, t.BinaryType(), b"\xff"),
}


def field(message, name, kind, *, type_name=None, repeated=False, optional=False):
    one = message.field.add(name=name, number=len(message.field) + 1, type=kind)
    one.label = F.LABEL_REPEATED if repeated else F.LABEL_OPTIONAL
    if type_name:
        one.type_name = type_name
    if optional:
        one.proto3_optional, one.oneof_index = True, len(message.oneof_decl)
        message.oneof_decl.add(name=f"_{name}")


def descriptors(*, complete=True):
    """A set of descriptors as protoc writes it."""
    found = descriptor_pb2.FileDescriptorSet()
    if complete:
        timestamp_pb2.DESCRIPTOR.CopyToProto(found.file.add())
    file = found.file.add(name="m.proto", package="demo", syntax="proto3")
    file.dependency.append("google/protobuf/timestamp.proto")
    color = file.enum_type.add(name="Color")
    for number, name in enumerate(("RED", "GREEN")):
        color.value.add(name=name, number=number)
    inner = file.message_type.add(name="Inner")
    field(inner, "n", F.TYPE_INT32)
    outer = file.message_type.add(name="Outer")
    for name, (kind, _, _) in SCALARS.items():
        field(outer, name, kind)
    field(outer, "color", F.TYPE_ENUM, type_name=".demo.Color")
    field(outer, "at", F.TYPE_MESSAGE, type_name=".google.protobuf.Timestamp")
    field(outer, "inner", F.TYPE_MESSAGE, type_name=".demo.Inner")
    field(outer, "many", F.TYPE_MESSAGE, type_name=".demo.Inner", repeated=True)
    field(outer, "maybe", F.TYPE_INT32, optional=True)
    entry = outer.nested_type.add(name="ByNameEntry")
    field(entry, "key", F.TYPE_STRING)
    field(entry, "value", F.TYPE_INT32)
    entry.options.map_entry = True
    field(outer, "by_name", F.TYPE_MESSAGE, type_name=".demo.Outer.ByNameEntry", repeated=True)
    loop = file.message_type.add(name="Loop")
    field(loop, "next", F.TYPE_MESSAGE, type_name=".demo.Loop")
    field(loop, "n", F.TYPE_INT32)
    return found.SerializeToString()


def message_class(name):
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(descriptors()).file:
        pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


MORE = ("color", "at", "inner", "many", "maybe", "by_name")


def test_every_kind_of_field():
    outer = message_class("demo.Outer")
    full = outer(color=1, inner={"n": 4}, many=[{"n": 5}, {}], maybe=0, by_name={"x": 6})
    for name, (_, _, value) in SCALARS.items():
        setattr(full, name, value)
    moment = datetime.datetime(2026, 1, 2, 3, 4, 5, 678901, datetime.UTC)
    full.at.FromDatetime(moment.replace(tzinfo=None))
    messages = Messages(descriptors(), "Outer")
    fields = messages.fields([*map(str.upper, SCALARS), *MORE])
    assert {one.name: one.dataType for one in fields if one.name in SCALARS} == {
        name: kind for name, (_, kind, _) in SCALARS.items()
    }
    values = pa.array([full.SerializeToString(), b"", None, b"\xff\xff"], pa.binary())
    first, second, *others = messages.arrow(
        values, fields.names, to_arrow_type(fields, timezone="UTC")
    ).to_pylist()
    assert {name: first[name] for name in SCALARS} == {name: value for name, (_, _, value) in SCALARS.items()}
    assert {name: first[name] for name in MORE} == {
        "color": "GREEN",
        "at": moment,
        "inner": {"n": 4},
        "many": [{"n": 5}, {"n": 0}],
        "maybe": 0,
        "by_name": [("x", 6)],
    }
    # Proto3 does not send zeros; only a message or an optional field can be missing.
    assert (second["i"], second["t"], second["color"], second["many"]) == (0, "", "RED", [])
    assert (second["at"], second["inner"], second["maybe"]) == (None, None, None)
    assert others == [None, None]


@pytest.mark.parametrize(
    ("content", "name", "wanted", "what"),
    [
        (b"\xff", "Outer", [], "this is not a set of Protobuf descriptors"),
        (descriptors(), "demo.Outre", [], "no message 'demo.Outre'; did you mean 'demo.Outer'"),
        (descriptors(), "demo.Outer", ["nn"], "message demo.Outer has no field 'nn'"),
        (descriptors(), "Loop", ["n", "next"], "the field 'next' holds messages of the kind that it is in"),
        (descriptors(complete=False), "Outer", [], "the descriptors are not complete"),
    ],
)
def test_descriptors_that_do_not_fit(content, name, wanted, what):
    with pytest.raises(UserError, match=what):
        Messages(content, name, "here").fields(wanted)


CATALOG = """sites: {n1: {}}
streams:
  a:
    site: n1
    time: at
    schema: {at: timestamp, i: TYPE, d: double}
    source:
      format: parquet
      value: protobuf
      value_options: {descriptor: m.desc, message: demo.Outer}
      options: {path: a}
  b: {site: n1, time: ts, schema: {ts: timestamp, k: int}, source: {format: parquet, options: {path: b}}}
"""


def test_messages_in_a_run_and_what_is_none(tmp_path, thalweg):
    outer = message_class("demo.Outer")
    (tmp_path / "m.desc").write_bytes(descriptors())
    (tmp_path / "q.sql").write_text(
        "SELECT a.i, a.d FROM a [RANGE 5 SECONDS], b [RANGE 5 SECONDS] WHERE a.i = b.k"
    )
    values = []
    for n in range(6):
        message = outer(i=n, d=n / 2)
        message.at.FromSeconds(n)
        values.append(message.SerializeToString())
    values += [outer(i=9).SerializeToString(), b"\xff\xff", None]
    for name, table in {
        "a": {"value": pa.array(values, pa.binary())},
        "b": {
            "ts": pa.array([2_000_000] * 6, pa.timestamp("us", "UTC")),
            "k": pa.array(range(6), pa.int32()),
        },
    }.items():
        (tmp_path / name).mkdir()
        pq.write_table(pa.table(table), tmp_path / name / "0.parquet")
    (tmp_path / "catalog.yaml").write_text(CATALOG.replace("TYPE", "string"))
    (tmp_path / "q.sql").write_text(
        "SELECT a.i, a.d FROM a [RANGE 5 SECONDS], b [RANGE 5 SECONDS] WHERE cast(a.i AS int) = b.k"
    )
    given = ("q.sql", "--catalog", "catalog.yaml", "--out", "out")
    code, _, err = thalweg("run", *given, "--once", cwd=tmp_path)
    assert code == 0, err
    code, out, err = thalweg("verify", *given, cwd=tmp_path)
    assert code == 0, out + err
    found = pq.read_table(tmp_path / "out" / "results" / "q").to_pylist()
    assert sorted((row["i"], row["d"]) for row in found) == [(str(n), n / 2) for n in range(6)]
    aside = pq.read_table(tmp_path / "out" / "late" / "a").to_pylist()
    assert sorted((row["_late_reason"], row["_undecoded"]) for row in aside if row["_undecoded"]) == [
        ("not decoded", "//8="),
        ("not decoded", "NULL"),
    ]
    assert [row["i"] for row in aside if row["_late_reason"] == "no time"] == ["9"]


def test_a_number_as_time_asks_for_its_unit(tmp_path, thalweg):
    (tmp_path / "m.desc").write_bytes(descriptors())
    (tmp_path / "catalog.yaml").write_text(
        CATALOG.replace("time: at", "time: i").replace("{at: timestamp, i: TYPE,", "{i: timestamp,")
    )
    for name, table in {
        "a": {"value": pa.array([b""])},
        "b": {"ts": pa.array([0], pa.timestamp("us"))},
    }.items():
        (tmp_path / name).mkdir()
        pq.write_table(pa.table(table), tmp_path / name / "0.parquet")
    (tmp_path / "q.sql").write_text(
        "SELECT a.d FROM a [RANGE 5 SECONDS], b [RANGE 5 SECONDS] WHERE a.d = b.k"
    )
    code, _, err = thalweg(
        "run", "q.sql", "--catalog", "catalog.yaml", "--out", "out", "--once", cwd=tmp_path
    )
    assert code == 2
    assert "streams.a.time: the column i has a number; write time_unit: seconds, milliseconds" in err
