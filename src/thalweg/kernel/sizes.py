"""How many bytes of memory a tuple takes in a window, as a budget counts them.

A tuple takes its key and start (8 bytes each), its end where it brings its own (8), its place in a chain and
its slot in the hash table (4 each), and its stored columns: their width, or for strings where the value lies
(12) and the value itself. Room to spare in the arrays, at most two fifths, is not counted.
"""

from __future__ import annotations

import numpy as np
import pyarrow.compute as pc

from thalweg.kernel.columns import BytesColumn, fixed_dtype
from thalweg.kernel.nway import Delta, InputSpec
from thalweg.kernel.window import Window


def fixed_bytes(spec: InputSpec) -> int:
    """What each tuple of an input takes, without the bytes of its strings."""
    total = 24 if spec.span is not None else 32
    for _, kind in spec.columns:
        fixed = fixed_dtype(kind)
        total += 12 if fixed is None else fixed[0].itemsize * fixed[1]
    return total


def delta_bytes(spec: InputSpec, delta: Delta) -> np.ndarray:
    """What new tuples will take, one by one."""
    total = np.full(len(delta), fixed_bytes(spec), np.int64)
    for column in delta.columns:
        if fixed_dtype(column.type) is None:
            total += pc.fill_null(pc.binary_length(column), 0).to_numpy()
    return total


def window_bytes(spec: InputSpec, window: Window, rows: np.ndarray) -> np.ndarray:
    """What some tuples of a window take, one by one."""
    total = np.full(len(rows), fixed_bytes(spec), np.int64)
    for column in window.columns:
        if isinstance(column, BytesColumn):
            total += np.maximum(column.length[rows], 0)
    return total
