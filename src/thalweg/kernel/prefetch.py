"""Asking for memory before it is needed. A walk through a large hash table is mostly waiting otherwise."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic


@intrinsic
def prefetch(typingctx: Any, array: Any, row: Any) -> Any:
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
