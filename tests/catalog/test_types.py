"""Spark SQL's type names and durations."""

from __future__ import annotations

import pytest

from thalweg.catalog import parse_type
from thalweg.errors import UserError


@pytest.mark.parametrize(
    ("written", "sql"),
    [
        ("boolean", "boolean"),
        ("BYTE", "tinyint"),
        ("short", "smallint"),
        ("integer", "int"),
        ("Long", "bigint"),
        ("real", "float"),
        ("double", "double"),
        ("date", "date"),
        ("timestamp", "timestamp"),
        ("timestamp_ltz", "timestamp"),
        ("timestamp(6)", "timestamp"),
        ("timestamp without time zone", "timestamp_ntz"),
        ("timestamp with local time zone", "timestamp"),
        ("struct<1a: int>", "struct<`1a`: int>"),
        ("timestamp_ntz", "timestamp_ntz"),
        ("string", "string"),
        ("string collate UNICODE", "string collate UNICODE"),
        ("char(3)", "char(3)"),
        ("character(3)", "char(3)"),
        ("varchar( 20 )", "varchar(20)"),
        ("binary", "binary"),
        ("decimal", "decimal(10, 0)"),
        ("dec(5)", "decimal(5, 0)"),
        ("numeric(38, 38)", "decimal(38, 38)"),
        ("interval", "interval"),
        ("interval year to month", "interval year to month"),
        ("INTERVAL DAY", "interval day"),
        ("interval hour to second", "interval hour to second"),
        ("variant", "variant"),
        ("void", "void"),
        ("array<int>", "array<int>"),
        ("map<string,array<decimal(3,1)>>", "map<string, array<decimal(3, 1)>>"),
        ("struct<>", "struct<>"),
        ("struct<a: int, b string>", "struct<`a`: int, `b`: string>"),
        ("struct<`a b`:int not null comment 'x, y'>", "struct<`a b`: int>"),
        (" struct < a : struct<b:int> > ", "struct<`a`: struct<`b`: int>>"),
    ],
)
def test_types_that_spark_knows(written: str, sql: str) -> None:
    assert parse_type(written).sql == sql
    assert parse_type(sql).sql == sql


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ("", "the type is empty"),
        ("   ", "the type is empty"),
        ("strnig", "did you mean 'string'?"),
        ("int64", "did you mean 'bigint'?"),
        ("datetime", "did you mean 'timestamp'?"),
        ("zzz", "Spark has no type 'zzz'"),
        ("char", "char needs a length"),
        ("varchar(0)", "varchar needs a length"),
        ("decimal(39)", "decimal(39) is out of range"),
        ("decimal(0)", "out of range"),
        ("decimal(3, 4)", "out of range"),
        ("decimal(3, 1, 1)", "out of range"),
        ("decimal(3,-1)", "not a length"),
        ("decimal(99999999999999999999)", "not a length"),
        ("decimal(", "ends where"),
        ("array", "ends where '<' was expected"),
        ("array int", "expected '<' after array"),
        ("array<int", "ends where '>' was expected"),
        ("array<int>>", "unexpected '>'"),
        ("map<int>", "expected ','"),
        ("struct<a>", "Spark has no type '>'"),
        ("struct<a:int, A:int>", "two fields of one name"),
        ("struct<:int>", "not a field name"),
        ("interval month to year", "there is no type"),
        ("int int", "unexpected 'int'"),
        ("timestamp(3)", "6 digits of a second"),
        ("timestamp_ntz(6)", "unexpected '('"),
        ("timestamp with time zone", "expected 'local'"),
        ("struct<5:int>", "not a field name"),
        ("array<" * 500 + "int" + ">" * 500, "nested too deeply"),
        ("é", "Spark has no type"),
    ],
)
def test_types_that_it_does_not_know(written: str, says: str) -> None:
    with pytest.raises(UserError) as raised:
        parse_type(written, where="here")
    assert says in str(raised.value)
    assert str(raised.value).startswith("here: ")


def test_fields_are_found_in_any_case() -> None:
    struct = parse_type("struct<City: string>")
    assert struct.field("city") == ("City", parse_type("string"))
    assert struct.field("town") is None
    assert [t.name for t in parse_type("array<map<int, date>>").within()] == ["array", "map", "int", "date"]
