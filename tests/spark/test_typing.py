"""The type in which Spark compares two types, by questions that a Connect session answers as well."""

from __future__ import annotations

import pytest
from pyspark.sql import types as t

from thalweg.errors import UserError
from thalweg.query.model import Equality, Expr
from thalweg.spark.typing import Typer

ANSI = "spark.sql.ansi.enabled"
SIDES = Expr.column("a", "k"), Expr.column("b", "k")


def compared(spark, left: str, right: str) -> list[str]:
    """The types that both sides are cast to; nothing where a side stays as it is."""
    schemas = {"a": t.StructType.fromDDL(f"k {left}"), "b": t.StructType.fromDDL(f"k {right}")}
    typed = Typer(spark, schemas).typed(Equality(*SIDES))
    found = []
    for plain, side in zip(SIDES, (typed.left, typed.right), strict=True):
        before, after = f"CAST({plain.sql} AS ", ")"
        found.append(side.sql.removeprefix(before).removesuffix(after) if side != plain else "")
    return found


@pytest.mark.parametrize(
    ("left", "right", "kinds"),
    [
        ("int", "bigint", ["", ""]),
        ("string", "int", ["bigint", ""]),
        ("string", "decimal(5,2)", ["double", "double"]),
        ("string", "date", ["date", ""]),
        ("decimal(12,3)", "int", ["decimal(13,3)", "decimal(13,3)"]),
        ("tinyint", "decimal(12,3)", ["decimal(12,3)", ""]),
        ("decimal(20,0)", "bigint", ["", "decimal(20,0)"]),
        ("decimal(38,20)", "bigint", ["decimal(38,18)", "decimal(38,18)"]),
        ("decimal(30,2)", "decimal(38,10)", ["decimal(38,10)", ""]),
        ("float", "decimal(10,2)", ["double", "double"]),
        ("float", "bigint", ["double", "double"]),
        ("date", "timestamp_ntz", ["timestamp_ntz", ""]),
        ("array<int>", "array<bigint>", ["array<bigint>", ""]),
        ("struct<f:int>", "struct<f:bigint>", ["struct<f:bigint>", "struct<f:bigint>"]),
    ],
)
def test_both_sides_get_the_type_in_which_spark_compares_them(spark, left, right, kinds):
    assert compared(spark, left, right) == kinds


@pytest.mark.parametrize(
    ("left", "right", "kinds"),
    [("string", "int", ["bigint", ""]), ("string", "decimal(5,2)", ["double", "double"])],
)
def test_without_the_rules_of_ansi(spark, left, right, kinds):
    before = spark.conf.get(ANSI)
    spark.conf.set(ANSI, "false")
    try:
        assert compared(spark, left, right) == kinds
    finally:
        spark.conf.set(ANSI, before)


@pytest.mark.parametrize(("left", "right"), [("date", "int"), ("struct<f:int>", "struct<g:int>")])
def test_what_spark_does_not_compare_is_told(spark, left, right):
    with pytest.raises(UserError, match=r"^`a`\.`k` = `b`\.`k`: \[.*; cast one side"):
        compared(spark, left, right)
