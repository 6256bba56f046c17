"""Which expressions a query makes equal."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable

from thalweg.query.model import Equality, Expr


def _text(expr: Expr) -> Hashable:
    return expr.sql


def classes(
    equalities: Iterable[Equality], key: Callable[[Expr], Hashable] = _text
) -> list[dict[str, list[Expr]]]:
    """The classes of expressions that are equal in every result: for each, alias -> its expressions.

    An alias has several expressions in a class when the query implies that they are equal.

    >>> x, y, z = Expr.column("a", "x"), Expr.column("a", "y"), Expr.column("b", "z")
    >>> [{a: [e.sql for e in es] for a, es in c.items()} for c in classes([Equality(x, z), Equality(y, z)])]
    [{'a': ['`a`.`x`', '`a`.`y`'], 'b': ['`b`.`z`']}]
    """
    member: dict[Hashable, dict[Hashable, Expr]] = {}
    for equality in equalities:
        for side in (equality.left, equality.right):
            member.setdefault(key(side), {key(side): side})
        left, right = member[key(equality.left)], member[key(equality.right)]
        if left is not right:
            larger, smaller = sorted((left, right), key=len, reverse=True)
            larger.update(smaller)
            member.update(dict.fromkeys(smaller, larger))
    order = {k: n for n, k in enumerate(member)}
    found: list[dict[str, list[Expr]]] = []
    for group in {id(g): g for g in member.values()}.values():
        by_alias: dict[str, list[Expr]] = {}
        for expr in (group[k] for k in sorted(group, key=order.__getitem__)):
            (alias,) = expr.aliases
            by_alias.setdefault(alias, []).append(expr)
        found.append(by_alias)
    return found


def equated(text: str, keys: Collection[str]) -> tuple[str, str] | None:
    """The two keys that a text compares; None where it is no equality of keys, which may hold a `=` too.

    >>> equated("`a`.`x` = 1 = `b`.`y`", {"`a`.`x` = 1", "`b`.`y`"})
    ('`a`.`x` = 1', '`b`.`y`')
    """
    for left in keys:
        if text.startswith(f"{left} = ") and (right := text[len(left) + 3 :]) in keys:
            return left, right
    return None
