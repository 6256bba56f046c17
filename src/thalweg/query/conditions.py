"""Conditions: split on AND, then sorted into equalities, filters and the rest."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from sqlglot.tokenizer_core import Token, TokenType

from thalweg.errors import UserError
from thalweg.query.expressions import Expression, read_expression
from thalweg.query.lexer import Lexed
from thalweg.query.model import Equality, Expr
from thalweg.query.names import Resolved, Scope
from thalweg.query.null_safe import null_safe
from thalweg.query.statement import Span
from thalweg.units import parse_duration

_COMPARING = frozenset(
    {
        TokenType.EQ,
        TokenType.NEQ,
        TokenType.LT,
        TokenType.LTE,
        TokenType.GT,
        TokenType.GTE,
        TokenType.NULLSAFE_EQ,
        TokenType.NOT,
    }
)
_PREDICATES = frozenset({"AND", "OR", "NOT", "IS", "IN", "LIKE", "ILIKE", "RLIKE", "REGEXP", "BETWEEN"})
MOST = 2_000
"""The most conditions of a query."""
_NO_KEYS = ("map", "variant")


@dataclass(frozen=True)
class Unconnecting:
    """A comparison of some streams that could be taken for an equality: what to say of it."""

    token: Token
    aliases: frozenset[str]
    what: str
    remedy: str


@dataclass(frozen=True)
class Tumbling:
    """One side of window(a.ts, '5 minutes') = window(b.ts, '5 minutes'): a column and a length."""

    token: Token
    column: Resolved
    size: int


@dataclass
class Conditions:
    """A query's conditions, by kind."""

    equalities: list[Equality] = field(default_factory=list)
    filters: dict[str, list[Expr]] = field(default_factory=dict)
    others: list[Expr] = field(default_factory=list)
    unconnecting: list[Unconnecting] = field(default_factory=list)
    tumbling: list[Tumbling] = field(default_factory=list)
    _count: int = 0

    def add(self, lexed: Lexed, span: Span, scope: Scope) -> None:
        """Take in a whole condition of WHERE or ON."""
        parts = list(conjuncts(lexed, span))
        self._count += len(parts)
        if self._count > MOST:
            raise lexed.error(lexed.tokens[span[0]], f"a query has at most {MOST:,} conditions")
        for part in parts:
            self._add_one(lexed, part, scope)

    def equate(self, left: Resolved, right: Resolved) -> None:
        """Take in the equality of two columns."""
        self.equalities.append(Equality(Expr(left.sql), Expr(right.sql)))

    def _add_one(self, lexed: Lexed, span: Span, scope: Scope) -> None:
        if (at := _equals(lexed, span)) is not None:
            sides = _unwrapped(lexed, (span[0], at)), _unwrapped(lexed, (at + 1, span[1]))
            if all(lexed.word(side[0]) == "WINDOW" for side in sides):
                self._tumble(lexed, [_tumbling(lexed, side, scope) for side in sides])
                return
            left, right = (read_expression(lexed, side, scope) for side in sides)
            if len(left.aliases) == len(right.aliases) == 1 and left.aliases != right.aliases:
                for side in (left, right):
                    check_key(lexed, span, side.plain)
                self.equalities.append(Equality(left.expr, right.expr))
                return
        why = None
        if (pair := _null_safe(lexed, span)) is not None:
            left, right = (read_expression(lexed, _unwrapped(lexed, side), scope) for side in pair)
            if len(left.aliases) == len(right.aliases) == 1 and left.aliases != right.aliases:
                try:
                    self.equalities.append(null_safe(left, right))
                    return
                except ValueError as error:
                    why = str(error)
        self.equalities += _common(lexed, span, scope)
        whole = read_expression(lexed, span, scope)
        expr = Expr(f"({whole.expr.sql})") if _has_or(lexed, span) else whole.expr
        if len(whole.aliases) > 1:
            self.others.append(expr)
            self._note(lexed, span, whole, why)
        else:
            # A condition over no stream at all holds for every tuple of any one of them.
            alias = next(iter(whole.aliases), next(iter(scope.columns)))
            self.filters.setdefault(alias, []).append(expr)

    def _tumble(self, lexed: Lexed, sides: list[Tumbling]) -> None:
        left, right = sides
        if left.size != right.size or left.column.alias == right.column.alias:
            raise lexed.error(
                left.token,
                "windows of two streams are equal only if they are equally long",
                "write window(a.time, '5 minutes') = window(b.time, '5 minutes')",
            )
        self.tumbling += sides

    def _note(self, lexed: Lexed, span: Span, whole: Expression, why: str | None) -> None:
        """Keep in mind what looks like an equality but connects no streams."""
        if why is not None:
            what = f"{lexed.write(*span)[:60]!r} does not connect streams"
            self.unconnecting.append(Unconnecting(lexed.tokens[span[0]], whole.aliases, what, why))


def _common(lexed: Lexed, span: Span, scope: Scope) -> list[Equality]:
    """The equalities of two streams that are in every branch of an OR: they hold wherever it does."""
    branches = list(_branches(lexed, span))
    if len(branches) < 2:
        return []
    found: dict[frozenset[str], Equality] = {}
    for n, branch in enumerate(branches):
        own: dict[frozenset[str], Equality] = {}
        for part in conjuncts(lexed, branch):
            if (at := _equals(lexed, part)) is None:
                continue
            sides = (_unwrapped(lexed, side) for side in ((part[0], at), (at + 1, part[1])))
            left, right = (read_expression(lexed, side, scope) for side in sides)
            if len(left.aliases) == len(right.aliases) == 1 and left.aliases != right.aliases:
                for side in (left, right):
                    check_key(lexed, part, side.plain)
                own[frozenset((left.expr.sql, right.expr.sql))] = Equality(left.expr, right.expr)
        found = own if n == 0 else {sides: found[sides] for sides in found if sides in own}
        if not found:
            return []
    return list(found.values())


def _tumbling(lexed: Lexed, span: Span, scope: Scope) -> Tumbling:
    """A call of window with a column and a length."""
    start, end = span
    token, inside = lexed.tokens[start], _level(lexed, (start + 2, end - 1))
    commas = [i for i in inside if lexed.tokens[i].token_type is TokenType.COMMA]
    length = lexed.at(end - 2)
    if (
        lexed.closing.get(start + 1) != end - 1
        or len(commas) != 1
        or commas[0] + 1 != end - 2
        or length is None
        or length.token_type is not TokenType.STRING
    ):
        raise lexed.error(
            token, "only window(time, 'length') is taken", "write [TUMBLE 5 MINUTES] after each stream"
        )
    column = read_expression(lexed, (start + 2, commas[0]), scope).plain
    if column is None:
        raise lexed.error(
            token, "window takes the time column of a stream", "write window(a.time, '5 minutes')"
        )
    try:
        size = parse_duration(length.text)
    except UserError as error:
        raise lexed.error(length, error.what, error.remedy) from None
    if size == 0:
        raise lexed.error(length, "a tumbling window must be longer than zero")
    return Tumbling(token, column, size)


def check_key(lexed: Lexed, span: Span, column: Resolved | None) -> None:
    """Refuse a key whose type has no equality."""
    if column is None or column.type is None:
        return
    for part in column.type.within():
        if part.name in _NO_KEYS:
            name = ".".join((column.alias, column.column, *column.fields))
            raise lexed.error(
                lexed.tokens[span[0]],
                f"{name} can't be a key: it is of type {column.type.sql}",
                f"compare a part of it; a {part.name} has no equality",
            )


def conjuncts(lexed: Lexed, span: Span) -> Iterator[Span]:
    """The parts of a condition that AND joins, also those in parentheses."""
    pending = [span]
    while pending:
        span = _unwrapped(lexed, pending.pop())
        cuts: list[int] = []
        between = 0
        for i in _level(lexed, span):
            word = lexed.word(i)
            if word == "BETWEEN":
                between += 1
            elif word == "AND" and between:
                between -= 1
            elif word == "AND":
                cuts.append(i)
        if not cuts or _has_or(lexed, span):
            yield span
            continue
        starts, ends = [span[0], *(c + 1 for c in cuts)], [*cuts, span[1]]
        for start, end in zip(starts, ends, strict=True):
            if start == end:
                raise lexed.error(lexed.at(end), "a condition was expected here")
        pending.extend(reversed(list(zip(starts, ends, strict=True))))


def _level(lexed: Lexed, span: Span) -> Iterator[int]:
    """The tokens of a span that are in no bracket or CASE inside it."""
    i = span[0]
    while i < span[1]:
        yield i
        i = lexed.skip(i)


def _branches(lexed: Lexed, span: Span) -> Iterator[Span]:
    """The parts of a condition that OR joins, also those in parentheses."""
    pending = [span]
    while pending:
        span = _unwrapped(lexed, pending.pop())
        cuts = [i for i in _level(lexed, span) if lexed.word(i) == "OR"]
        if not cuts:
            yield span
            continue
        starts, ends = [span[0], *(c + 1 for c in cuts)], [*cuts, span[1]]
        pending += [one for one in reversed(list(zip(starts, ends, strict=True))) if one[0] < one[1]]


def _unwrapped(lexed: Lexed, span: Span) -> Span:
    """A span without the parentheses around the whole of it."""
    start, end = span
    while (
        start < end - 2
        and lexed.tokens[start].token_type is TokenType.L_PAREN
        and lexed.closing.get(start) == end - 1
        and not any(
            lexed.tokens[i].token_type is TokenType.COMMA for i in _level(lexed, (start + 1, end - 1))
        )
    ):
        start, end = start + 1, end - 1
    return start, end


def _has_or(lexed: Lexed, span: Span) -> bool:
    return any(lexed.word(i) == "OR" for i in _level(lexed, span))


def _null_safe(lexed: Lexed, span: Span) -> tuple[Span, Span] | None:
    """The two sides of `<=>` or IS NOT DISTINCT FROM, if that is all that is compared."""
    found = None
    for i in _level(lexed, span):
        if found is not None and i < found[1][0]:
            continue
        words = [lexed.word(j) for j in range(i, i + 4)]
        length = 4 if words == ["IS", "NOT", "DISTINCT", "FROM"] else 1
        if length == 4 or lexed.tokens[i].token_type is TokenType.NULLSAFE_EQ:
            if found is not None or not span[0] < i < span[1] - length:
                return None
            found = (span[0], i), (i + length, span[1])
        elif lexed.tokens[i].token_type in _COMPARING or lexed.word(i) in _PREDICATES:
            return None
    return found


def _equals(lexed: Lexed, span: Span) -> int | None:
    """Where the = of a plain equality stands; anything else that compares makes it something else."""
    found = None
    for i in _level(lexed, span):
        kind = lexed.tokens[i].token_type
        if kind is TokenType.EQ and found is None and span[0] < i < span[1] - 1:
            found = i
        elif kind in _COMPARING or lexed.word(i) in _PREDICATES:
            return None
    return found
