"""Outer joins: what the ON of a LEFT, RIGHT, FULL, SEMI or ANTI JOIN says of partners."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import NoReturn

from sqlglot import exp

from thalweg.query.conditions import Conditions
from thalweg.query.model import Equality, Expr, Outer, OuterKind
from thalweg.query.null_safe import is_null_safe
from thalweg.query.shifts import shifted
from thalweg.query.statement import Statement, StreamRef

_KINDS = {"right": OuterKind.LEFT}  # the other way round
_COMPARED = (exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NEQ)
_OF_NULL = (
    *(exp.Array, exp.Case, exp.Coalesce, exp.ConcatWs, exp.DecodeCase, exp.EqualNull, exp.Greatest, exp.If),
    *(exp.Is, exp.IsNan, exp.Least, exp.Map, exp.NullSafeEQ, exp.NullSafeNEQ, exp.Nvl2, exp.Struct),
    exp.Typeof,
)
_NAMED_OF_NULL = ("isnull", "isnotnull", "zeroifnull", "hash", "xxhash64")
"""What has a value for NULL."""

_HOW = (
    "write equalities, comparisons of two columns (of times also with an INTERVAL added), and conditions on "
    "one stream; other conditions on results go to WHERE"
)


def outer_order(statement: Statement) -> list[StreamRef]:
    """The streams of a query with those that are kept first: RIGHT JOIN is LEFT JOIN the other way round."""
    streams = statement.streams
    return streams[::-1] if any(s.joined == "right" for s in streams) else list(streams)


def outer_join(
    statement: Statement,
    number: int,
    before: Sequence[str],
    missing: Collection[str],
    found: Conditions,
    key: Callable[[str], Expr],
) -> tuple[Outer, list[Expr]]:
    """The outer join of a stream, and the conditions of its ON that are filters of the stream alone.

    `found` are the conditions of its ON; `key` gives the key of a stream where there is no equality. A
    condition on a side of which nothing may be lost takes away its key: a tuple that fails it has no partner.
    Of the streams `before`, earlier outer joins may leave those out that are `missing`.
    """
    reader = _Reader(statement, number, before, found)
    reader.check(missing)
    return reader.read(key)


class _Reader:
    def __init__(self, statement: Statement, number: int, before: Sequence[str], found: Conditions) -> None:
        self.statement, self.before, self.found = statement, before, found
        self.ref = statement.streams[number]
        order = outer_order(statement)
        self.alias = order[-1].alias if self.ref.joined in ("right", "full") else self.ref.alias
        self.kind = _KINDS.get(self.ref.joined) or OuterKind(self.ref.joined)

    def check(self, missing: Collection[str]) -> None:
        """Refuse what has a value also where a stream is missing: keys are made of its tuples."""
        sides = [side for e in self.found.equalities for side in (e.left, e.right)]
        filters = [f for alias in missing for f in self.found.filters.get(alias, ())]
        for expr in (*(s for s in sides if s.aliases & {*missing}), *filters):
            # What <=> makes of a side has the text of NULL there; within it, the same holds as elsewhere.
            tree = expr.tree.this if is_null_safe(expr) else expr.tree
            for node in tree.walk():
                name = node.name.lower() if isinstance(node, exp.Anonymous) else ""
                if isinstance(node, _OF_NULL) or name in _NAMED_OF_NULL:
                    self._fail(f"{expr.sql} has a value also where {', '.join(expr.aliases)} is missing")

    def read(self, key: Callable[[str], Expr]) -> tuple[Outer, list[Expr]]:
        pairs = [self._oriented(e) for e in self.found.equalities] or self._all_pairs(key)
        own = list(self.found.filters.get(self.alias, ()))
        guards = {a: fs for a, fs in self.found.filters.items() if a != self.alias}
        if self.kind is OuterKind.FULL and own:
            guards[self.alias], own = own, []
        if any(not f.aliases for fs in (own, *guards.values()) for f in fs):
            self._fail("a condition without a column decides nothing")
        for alias, filters in guards.items():
            pairs = self._guarded(pairs, alias, filters)
        conditions = tuple(one for e in self.found.others for one in self._comparisons(e))
        return Outer(self.alias, self.kind, tuple(dict.fromkeys(pairs)), conditions), own

    def _oriented(self, equality: Equality) -> Equality:
        if equality.right.aliases == {self.alias}:
            return equality
        if equality.left.aliases == {self.alias}:
            return Equality(equality.right, equality.left)
        self._fail(f"{equality.left.sql} = {equality.right.sql} says nothing of {self.alias!r}")

    def _all_pairs(self, key: Callable[[str], Expr]) -> list[Equality]:
        """The key of a join that has only other comparisons."""
        for condition in self.found.others:
            if self.alias in condition.aliases:
                near = next(a for a in self.before if a in condition.aliases)
                return [Equality(key(near), key(self.alias))]
        self._fail("nothing compares it with a stream before it")

    def _guarded(self, pairs: list[Equality], alias: str, filters: list[Expr]) -> list[Equality]:
        """Equalities in which a key of an alias is NULL where its conditions do not hold."""
        condition = " AND ".join(f"({f.sql})" for f in filters)
        for n, pair in enumerate(pairs):
            for side in (pair.left, pair.right):
                if side.aliases == {alias}:
                    key = Expr(f"CASE WHEN {condition} THEN {side.sql} END")
                    left, right = (key, pair.right) if side is pair.left else (pair.left, key)
                    return [*pairs[:n], Equality(left, right), *pairs[n + 1 :]]
        self._fail(f"{filters[0].sql} is a condition on {alias!r}, with which there is no equality")

    def _comparisons(self, condition: Expr) -> Iterator[Expr]:
        """A condition on pairs as comparisons that an operator can decide."""
        tree = condition.tree.unnest()
        parts = [tree]
        if isinstance(tree, exp.Between):
            low, high = tree.args["low"], tree.args["high"]
            parts = [
                exp.GTE(this=tree.this.copy(), expression=low.copy()),
                exp.LTE(this=tree.this.copy(), expression=high.copy()),
            ]
        for part in parts:
            sides = [shifted(side) for side in (part.args.get("this"), part.args.get("expression"))]
            if not isinstance(part, _COMPARED) or None in sides:
                self._fail(f"{condition.sql} can't be decided while partners are looked for")
            yield Expr(part.sql(dialect="spark", identify=True))

    def _fail(self, why: str) -> NoReturn:
        raise self.statement.lexed.error(
            self.ref.token, f"{self.ref.joined.upper()} JOIN of {self.ref.stream!r}: {why}"[:300], _HOW
        )
