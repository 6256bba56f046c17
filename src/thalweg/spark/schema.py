"""Packets as rows of Spark: their schema, which can be loaded without anything else."""

from __future__ import annotations

from pyspark.sql import types as t

PACKET = t.StructType(
    [
        t.StructField("group", t.IntegerType()),
        t.StructField("port", t.IntegerType()),
        t.StructField("kind", t.IntegerType()),
        t.StructField("n", t.LongType()),
        t.StructField("top", t.LongType()),
        t.StructField("wall", t.LongType()),
        t.StructField("feed", t.IntegerType()),
        t.StructField("data", t.BinaryType()),
    ]
)
