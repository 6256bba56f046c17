"""Conditions between streams that an operator can decide by itself: one field compared with another, or an OR
of such comparisons.

Spark decides every condition of a query, but not its equalities, where results are handed out. What fails one
of these before is not sent there. So an inequality may let pass what Spark will not, and must never keep back
what Spark would let pass. An equality that is no branch of an OR is decided here for good.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from thalweg.kernel.columns import fixed_values, is_bytes
from thalweg.kernel.keys import comparable, is_exact, words
from thalweg.query.model import Expr
from thalweg.query.shifts import shifted

Operator = Literal["<", "<=", ">", ">=", "<>", "="]
_OPERATORS: dict[type[exp.Expr], Operator] = {
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.NEQ: "<>",
}


@dataclass(frozen=True)
class Comparison:
    """One field of a tuple compared with another; `by` is added to the right one, if both are times.

    `others` are the other branches of an OR.
    """

    left: str
    operator: Operator
    right: str
    by: int = 0
    others: tuple[Comparison, ...] = ()

    def holds(self, batch: pa.RecordBatch) -> np.ndarray:
        """For each tuple, whether it may hold; with NULL it does not."""
        found = self._holds(batch)
        for one in self.others:
            found |= one.holds(batch)
        return found

    def _holds(self, batch: pa.RecordBatch) -> np.ndarray:
        left, right = batch.column(self.left), batch.column(self.right)
        if self.operator == "=":
            return _equal(left, right)
        found = _DECIDE[self.operator](_values(left), _values(right) + self.by)
        for column in (left, right):
            if column.null_count:
                found &= np.asarray(column.is_valid())
        return found


def comparison(
    condition: Expr, named: Callable[[str, str], str], kind: Callable[[str], pa.DataType]
) -> Comparison | None:
    """A condition as a comparison, if it is one between two numbers or two times.

    `named` gives the field of an alias's column, `kind` the type of a field.
    """
    return _one(condition.tree.unnest(), named, kind)


def either(
    condition: Expr, named: Callable[[str, str], str], kind: Callable[[str], pa.DataType]
) -> Comparison | None:
    """The same for an OR, of equalities too: of each branch one comparison that it implies.

    Its columns of text are compared byte by byte.
    """
    found: list[Comparison] = []
    if not isinstance(condition.tree.unnest(), exp.Or):
        return None
    for branch in _parts(condition.tree, exp.Or):
        implied = (_one(part, named, kind, equal=True) for part in _parts(branch, exp.And))
        if (one := next(filter(None, implied), None)) is None:
            return None
        found.append(one)
    return replace(found[0], others=tuple(found[1:]))


def _parts(tree: exp.Expr, of: type[exp.Or | exp.And]) -> Iterator[exp.Expr]:
    """The operands of a chain of OR or of AND."""
    pending = [tree]
    while pending:
        tree = pending.pop().unnest()
        if isinstance(tree, of):
            pending += [tree.right, tree.left]
        else:
            yield tree


def _one(
    tree: exp.Expr,
    named: Callable[[str, str], str],
    kind: Callable[[str], pa.DataType],
    *,
    equal: bool = False,
) -> Comparison | None:
    operator = "=" if equal and isinstance(tree, exp.EQ) else _OPERATORS.get(type(tree))
    sides = [shifted(tree.args.get(name)) for name in ("this", "expression")]
    if operator is None or sides[0] is None or sides[1] is None:
        return None
    left, right = (named(s.alias, s.column) for s in sides if s is not None)
    kinds, by = (kind(left), kind(right)), sides[1].by - sides[0].by
    if operator == "=" and by:
        return None
    if kinds[0] == kinds[1] and (
        pa.types.is_timestamp(kinds[0])
        or (pa.types.is_temporal(kinds[0]) and not by)
        or (operator == "=" and is_bytes(kinds[0]))
    ):
        return Comparison(left, operator, right, by)
    if by:
        return None
    if all(pa.types.is_integer(k) for k in kinds) or (
        all(pa.types.is_floating(k) for k in kinds) and (operator != "=" or kinds[0] == kinds[1])
    ):
        return Comparison(left, operator, right)
    return None


def _values(column: pa.Array) -> np.ndarray:
    if pa.types.is_floating(column.type):
        return np.asarray(column.fill_null(0.0) if column.null_count else column).astype(np.float64)
    return fixed_values(column).astype(np.int64)


def _less(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """As Spark orders: NaN after every other number."""
    if a.dtype.kind != "f":
        return np.asarray(a < b)
    return np.asarray((a < b) | (np.isnan(b) & ~np.isnan(a)))


def _equal(left: pa.Array, right: pa.Array) -> np.ndarray:
    """As a join compares keys: by their words, and by the values where a word is a hash."""
    a, b = comparable(left), comparable(right)
    found = np.asarray(words(a) == words(b))
    if not (is_exact(a.type) and is_exact(b.type)):
        found &= np.asarray(pc.equal(a, b).fill_null(False))
    for column in (a, b):
        if column.null_count:
            found &= np.asarray(column.is_valid())
    return found


_DECIDE: dict[Operator, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "<": _less,
    ">": lambda a, b: _less(b, a),
    "<=": lambda a, b: ~_less(b, a),
    ">=": lambda a, b: ~_less(a, b),
    "<>": lambda a, b: _less(a, b) | _less(b, a),
}
