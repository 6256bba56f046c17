"""The process that Spark forks its Python workers from, with what each of them needs loaded once.

Importing Numba, PyArrow and pandas and loading the compiled kernel takes seconds, in every worker if it is
not done here.
"""

from __future__ import annotations

from importlib import import_module

import numpy as np
import pyarrow as pa
from pyspark.daemon import manager

from thalweg.kernel.keys import buckets, combine, split, words
from thalweg.kernel.nway import Delta, InputSpec, NWayJoin
from thalweg.observe.column import Column
from thalweg.operators.bloom import contains, make
from thalweg.spark.worker import settle

LOADED = ("thalweg.spark.calls", "thalweg.spark.inbox")
"""What workers run, and by that all that they need."""


def warm() -> None:
    """Call every compiled function once, so that workers inherit the machine code."""
    word = words(pa.array(["a", "b"]))
    split(buckets(combine([word, word]), 2), 2)
    moments = np.arange(2)
    columns = (pa.array(moments), pa.array(["a", "b"]))
    spec = InputSpec("", (("n", pa.int64()), ("s", pa.string())), 1, key_columns=(1,))
    join = NWayJoin([spec, spec])
    for found in join.push([Delta(word, moments, None, columns)] * 2):
        for window, rows in zip(join.windows, found.rows, strict=True):
            window.keys(rows)
            for column in window.columns:
                column.take(rows)
    join.expire([5, 5])
    contains(make(word), word)
    Column.of(pa.array(["a", "b"]))


if __name__ == "__main__":
    for module in LOADED:
        import_module(module)
    warm()
    settle()
    manager()
