"""Messages as rows of Spark: their schema, which can be loaded without anything else."""

from __future__ import annotations

from pyspark.sql import types as t

MESSAGE = t.StructType(
    [
        t.StructField("group", t.IntegerType()),
        t.StructField("channel", t.StringType()),
        t.StructField("kind", t.IntegerType()),
        t.StructField("n", t.LongType()),
        t.StructField("bound", t.LongType()),
        t.StructField("wall", t.LongType()),
        t.StructField("sender", t.IntegerType()),
        t.StructField("data", t.BinaryType()),
    ]
)
