"""Joins without an equality: streams that only another condition connects, or a CROSS JOIN.

They get a key that is the same for all tuples. So they are planned, shipped and joined as others are, in one
bucket, where every two tuples meet; the conditions then choose among the pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from thalweg.query.conditions import Conditions
from thalweg.query.model import Equality, Expr, connected
from thalweg.query.names import Scope
from thalweg.query.statement import Statement


def connect(
    statement: Statement, aliases: Sequence[str], found: Conditions, key: Callable[[str], Expr]
) -> None:
    """Connect those streams of the inner part that no equality connects; an error names what nothing does.

    `key` gives the key of a stream in a join without an equality.
    """
    for together in _together(statement, aliases, found):
        first, *others = (p for p in connected(aliases, found.equalities) if not together.isdisjoint(p))
        # Of each part the stream that the condition reads, so that it is the pairs that are compared.
        heads = [next(a for a in part if a in together) for part in (first, *others)]
        found.equalities += [Equality(key(heads[0]), key(other)) for other in heads[1:]]
    parts = connected(aliases, found.equalities)
    if len(parts) == 1:
        return
    shown = " and ".join(f"({', '.join(part)})" for part in parts)
    raise statement.lexed.error(
        statement.streams[0].token,
        f"no equality connects {shown}",
        f"add one, for example {parts[0][0]}.column = {parts[1][0]}.column; to compare all pairs, on one "
        "core, write CROSS JOIN",
    )


def constant_key(scope: Scope, alias: str) -> Expr:
    """The key of a stream in a join without an equality."""
    return Expr.constant(alias, next(iter(scope.columns[alias])))


def _together(statement: Statement, aliases: Sequence[str], found: Conditions) -> Iterator[frozenset[str]]:
    """Sets of streams that a condition, or CROSS JOIN, brings together."""
    for near in found.unconnecting:
        if sum(not near.aliases.isdisjoint(part) for part in connected(aliases, found.equalities)) > 1:
            raise statement.lexed.error(near.token, near.what, near.remedy)
    yield from (c.aliases for c in found.others if c.aliases <= {*aliases})
    order = [ref.alias for ref in statement.streams]
    for n, ref in enumerate(statement.streams):
        if ref.cross and n and {ref.alias, order[n - 1]} <= {*aliases}:
            yield frozenset((ref.alias, order[n - 1]))
