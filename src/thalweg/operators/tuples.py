"""Record batches of tuples: their columns as NumPy arrays, and their way into the kernel."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from thalweg.kernel.columns import fixed_array, fixed_dtype
from thalweg.kernel.nway import Delta
from thalweg.kernel.window import Window
from thalweg.operators.spec import END, KEY, START, Field, Port


def ints(batch: pa.RecordBatch, name: str) -> np.ndarray:
    """A column of 64-bit integers without NULLs, not copied."""
    column = batch.column(name)
    if len(column) == 0:
        return np.empty(0, np.int64)
    return np.frombuffer(column.buffers()[1], np.int64)[column.offset : column.offset + len(column)]


def restored(values: np.ndarray, kind: pa.DataType) -> pa.Array:
    """Key words or starts as values of the column they stand for."""
    fixed = fixed_dtype(kind)
    assert fixed is not None
    return fixed_array(kind, values.astype(fixed[0]), None)


def read(window: Window, port: Port, f: Field, rows: np.ndarray) -> pa.Array:
    """A field of some rows of a window."""
    if f.held:
        return restored(window.keys(rows) if f.held == KEY else window.starts(rows), f.kind)
    return window.columns[port.index(f.name)].take(rows)


def delta(port: Port, batch: pa.RecordBatch) -> Delta:
    """Tuples in the form in which the kernel takes them."""
    end = ints(batch, END) if port.span is None else None
    columns = tuple(batch.column(f.name) for f in port.stored)
    return Delta(ints(batch, KEY), ints(batch, START), end, columns).ordered()


def batch_of(port: Port, tuples: Delta) -> pa.RecordBatch:
    """The inverse of `delta`."""
    columns = {KEY: pa.array(tuples.key), START: pa.array(tuples.start)}
    if tuples.end is not None:
        columns[END] = pa.array(tuples.end)
    columns |= {f.name: c for f, c in zip(port.stored, tuples.columns, strict=True)}
    return pa.record_batch(list(columns.values()), names=list(columns))


def tuples_in(window: Window, rows: np.ndarray) -> Delta:
    """The tuples in some rows of a window."""
    end = window.end[rows] if window.span is None else None
    return Delta(window.keys(rows), window.starts(rows), end, tuple(c.take(rows) for c in window.columns))


def ends_of(port: Port, tuples: Delta) -> np.ndarray:
    """When each tuple's interval ends."""
    if port.span is not None:
        return tuples.start + port.span
    assert tuples.end is not None
    return tuples.end
