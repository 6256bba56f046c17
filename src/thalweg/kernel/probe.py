"""One probe step: find, for each combination so far, the tuples of one more window that are alive with it."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from thalweg.kernel.window import _GOLDEN, Window

CHUNK = 1 << 16
"""How many combinations one step hands on at a time: what they take stays in the cache of one core."""

_AHEAD = 16  # how many probes ahead to ask memory for a slot; half of it for the slot's newest tuple


@intrinsic
def _prefetch(typingctx: Any, array: Any, row: Any) -> Any:
    """Ask for the cache line of array[row], and do not wait for it."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = signature.args[0]
        struct = cgutils.create_struct_proxy(kind)(context, builder, value=args[0])
        stride = ir.Constant(ir.IntType(64), context.get_abi_sizeof(context.get_data_type(kind.dtype)))
        if kind.ndim == 2:
            stride = builder.mul(stride, ir.Constant(ir.IntType(64), 2))
        byte = ir.IntType(8).as_pointer()
        where = builder.gep(builder.bitcast(struct.data, byte), [builder.mul(args[1], stride)])
        word = ir.IntType(32)
        f = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(ir.VoidType(), [byte, word, word, word]), "llvm.prefetch.p0"
        )
        builder.call(f, [where, ir.Constant(word, 0), ir.Constant(word, 3), ir.Constant(word, 1)])
        return context.get_dummy_value()

    return types.void(array, types.int64), generate


class Step:
    """The buffers of one step: for each combination found, the one it extends, the row, key and interval."""

    def __init__(self) -> None:
        self.left = np.empty(CHUNK, np.int64)
        self.row = np.empty(CHUNK, np.int64)
        self.key = np.empty(CHUNK, np.int64)
        self.start = np.empty(CHUNK, np.int64)
        self.end = np.empty(CHUNK, np.int64)


def probe(
    key: np.ndarray, start: np.ndarray, end: np.ndarray, window: Window, step: Step, at: tuple[int, int]
) -> tuple[int, int, int]:
    """Fill the step's buffers from position `at`; returns how many were found and where to go on.

    A position is (combination, number of the tuple to look at next, or -1 for the newest of its slot).
    It is the end when the combination is len(key).
    """
    first = window.first
    n, i, number = _probe(
        key,
        start,
        end,
        window.node,
        window.older,
        window.end,
        -1 if window.span is None else window.span,
        window.heads,
        window.shift,
        np.uint32(first & 0xFFFFFFFF),
        window.row(first),
        window.linked - first,
        window.slack,
        at[0],
        at[1],
        step.left,
        step.row,
        step.key,
        step.start,
        step.end,
    )
    return int(n), int(i), int(number)


@njit(cache=True, nogil=True, boundscheck=False)
def _probe(
    key: np.ndarray,
    start: np.ndarray,
    end: np.ndarray,
    node: np.ndarray,
    older: np.ndarray,
    ends: np.ndarray,
    span: int,
    heads: np.ndarray,
    shift: int,
    first: np.uint32,
    row0: int,
    alive: int,
    slack: int,
    i: int,
    resume: int,
    out_left: np.ndarray,
    out_row: np.ndarray,
    out_key: np.ndarray,
    out_start: np.ndarray,
    out_end: np.ndarray,
) -> tuple[int, int, int]:
    n, room = 0, len(out_left)
    total = len(key)
    s = np.uint64(shift)
    if alive <= 0:
        return 0, total, -1
    while i < total:
        k, lo, hi = key[i], start[i], end[i]
        if i + _AHEAD < total:
            _prefetch(heads, np.int64((np.uint64(key[i + _AHEAD]) * _GOLDEN) >> s))
            near = np.int64(np.uint32(heads[(np.uint64(key[i + _AHEAD // 2]) * _GOLDEN) >> s] - first))
            if near < alive:
                _prefetch(node, row0 + near)
                _prefetch(older, row0 + near)
        if resume >= 0:
            age = np.int64(np.uint32(np.uint32(resume) - first))
            resume = -1
        else:
            age = np.int64(np.uint32(heads[(np.uint64(k) * _GOLDEN) >> s] - first))
        while age < alive:
            row = row0 + age
            t = node[row, 1]
            e = t + span if span >= 0 else ends[row]
            if e + slack < lo:
                break
            if node[row, 0] == k and t <= hi and e >= lo:
                if n == room:
                    return n, i, np.int64(np.uint32(np.uint32(age) + first))
                out_left[n] = i
                out_row[n] = row
                out_key[n] = k
                out_start[n] = max(t, lo)
                out_end[n] = min(e, hi)
                n += 1
            age = np.int64(np.uint32(older[row] - first))
        i += 1
    return n, i, -1
