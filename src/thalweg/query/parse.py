"""Reads a query: SQL text in, checked model out."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from thalweg.errors import UserError
from thalweg.names import LIVE, NAMING, SLOT, TIMELESS, is_name, suggestion
from thalweg.query.conditions import Conditions, check_key
from thalweg.query.cross import connect, constant_key
from thalweg.query.expressions import parse_tree, read_expression
from thalweg.query.groups import Grouping
from thalweg.query.lexer import Lexed
from thalweg.query.model import (
    Expr,
    Groups,
    Input,
    Outer,
    OuterKind,
    Output,
    Query,
    Window,
    WindowKind,
)
from thalweg.query.names import Scope, UnresolvedError
from thalweg.query.outer import outer_join, outer_order
from thalweg.query.result_id import RESULT_ID, result_id
from thalweg.query.statement import Span, Statement, StreamRef, read_statement
from thalweg.query.windows import windows_of

if TYPE_CHECKING:
    from thalweg.catalog.model import Catalog

MOST_OUTPUTS = 10_000
"""The most output columns of a query."""

Schemas = Mapping[str, Mapping[str, str]]
"""The columns of every stream and their Spark SQL types."""


def parse(
    text: str,
    *,
    name: str,
    schemas: Schemas,
    times: Mapping[str, str] | None = None,
    tables: Collection[str] = (),
    refreshed: Collection[str] = (),
    where: str | None = None,
) -> Query:
    """Read a query over streams with the given columns; `where` is the file for messages.

    `times` are the columns with the streams' times: conditions on them can take the place of windows. Those
    of the streams that are `tables` have no window; some of these are `refreshed`.

    >>> query = parse(
    ...     "SELECT a.x FROM s [RANGE 5 MINUTES] a JOIN t [ROWS 10] b ON a.x = b.x WHERE b.y > 1",
    ...     name="q",
    ...     schemas={"s": {"x": "int"}, "t": {"x": "int", "y": "int"}},
    ... )
    >>> query.equalities[0].right.sql, query.inputs[1].filters[0].sql
    ('`b`.`x`', '`b`.`y` > 1')
    """
    where = where or f"query {name}"
    if not is_name(name):
        raise UserError(f"{name[:80]!r} can't be the name of a query", where=where, remedy=NAMING)
    try:
        return _parse(text, name, schemas, times or {}, frozenset(tables), frozenset(refreshed), where)
    except RecursionError:
        raise UserError("the query is nested too deeply", where=f"{where}, line 1, column 1") from None


def parse_over(catalog: Catalog, text: str, *, name: str, where: str | None = None) -> Query:
    """Read a query over the streams and tables of a catalog."""
    return parse(
        text,
        name=name,
        schemas=catalog.schemas,
        times=catalog.times,
        tables=catalog.tables,
        refreshed=catalog.refreshed,
        where=where,
    )


def _parse(
    text: str,
    name: str,
    schemas: Schemas,
    times: Mapping[str, str],
    tables: frozenset[str],
    refreshed: frozenset[str],
    where: str,
) -> Query:
    statement = read_statement(text, where)
    lexed = statement.lexed
    streams = _streams(statement, schemas)
    timeless = _tables(statement, streams, tables)
    scope = Scope(
        {ref.alias: schemas[stream] for ref, stream in zip(statement.streams, streams, strict=True)}
    )
    of_aliases = {
        ref.alias: times[stream]
        for ref, stream in zip(statement.streams, streams, strict=True)
        if stream in times
    }
    conditions = Conditions()
    outer = {n: Conditions() for n, ref in enumerate(statement.streams) if ref.joined}
    _using(statement, scope, conditions, outer)
    for number, span in statement.on.items():
        outer[number].add(lexed, span, scope)
    visible = Scope(
        {r.alias: scope.columns[r.alias] for r in statement.streams if r.joined not in ("semi", "anti")},
        scope.merged,
    )
    for span in statement.conditions:
        conditions.add(lexed, span, visible)
    outputs, groups = _outputs(statement, visible)
    every = Conditions(
        [e for one in (conditions, *outer.values()) for e in one.equalities],
        others=[e for one in (conditions, *outer.values()) for e in one.others],
        tumbling=[e for one in (conditions, *outer.values()) for e in one.tumbling],
    )
    windows = windows_of(statement, scope, every, of_aliases, timeless)
    order = outer_order(statement)
    key = partial(constant_key, scope)
    joins = _outer_joins(statement, order, outer, conditions, key)
    inner = [ref.alias for ref in order[: len(order) - len(joins)]]
    if timeless.issuperset(inner):
        raise lexed.error(
            statement.streams[0].token, "a table joins a stream", "put the stream first, then LEFT JOIN"
        )
    connect(statement, inner, conditions, key)
    named = {ref.alias: stream for ref, stream in zip(statement.streams, streams, strict=True)}
    changing = [ref for ref in order if named[ref.alias] in refreshed]
    if changing:
        timed = {alias: of_aliases[alias] for alias in inner if alias not in timeless}
        for ref in changing:
            windows[ref.alias] = Window(WindowKind.ROWS, 1, by=(SLOT,))
            conditions.filters.setdefault(ref.alias, []).append(Expr.column(ref.alias, LIVE))
        joins = _in_force(statement, changing, timed, joins, conditions)
    return Query(
        name=name,
        text=text,
        inputs=tuple(
            Input(
                ref.alias,
                named[ref.alias],
                windows[ref.alias],
                tuple(conditions.filters.get(ref.alias, ())),
            )
            for ref in order
        ),
        equalities=tuple(dict.fromkeys(conditions.equalities)),
        conditions=tuple(dict.fromkeys(conditions.others)),
        outputs=outputs,
        outer=joins,
        groups=groups,
        where=where,
    )


def _in_force(
    statement: Statement,
    changing: Sequence[StreamRef],
    timed: Mapping[str, str],
    joins: Sequence[Outer],
    conditions: Conditions,
) -> tuple[Outer, ...]:
    """The outer joins, where a combination meets only the version of a table in force when it came to be.

    `timed` are the streams of the inner part, and their times.
    """
    before = [Expr.column(alias, time).sql for alias, time in timed.items()]
    found = {one.alias: one for one in joins}
    for ref in changing:
        begun = Expr.column(ref.alias, TIMELESS).sql
        if ref.alias not in found:
            conditions.others.append(Expr(" OR ".join(f"{begun} <= {time}" for time in before)))
            continue
        if len(before) > 1 or joins[0].alias != ref.alias:
            raise statement.lexed.error(
                ref.token,
                f"{ref.stream!r} is a table that is refreshed, and several streams come before it",
                "write JOIN, or a query of one stream and the table",
            )
        own = found[ref.alias]
        found[ref.alias] = replace(own, conditions=(*own.conditions, Expr(f"{begun} <= {before[0]}")))
    return tuple(found.values())


def _outer_joins(
    statement: Statement,
    order: Sequence[StreamRef],
    found: Mapping[int, Conditions],
    where: Conditions,
    key: Callable[[str], Expr],
) -> tuple[Outer, ...]:
    """The outer joins of a query. What WHERE says of a stream that may be missing holds for whole results."""
    joins: list[Outer] = []
    filters: dict[str, list[Expr]] = {}
    before = [ref.alias for ref in order[: len(order) - len(found)]]
    for number, conditions in found.items():
        optional = [one.alias for one in joins if one.brings]
        one, own = outer_join(statement, number, before, optional, conditions, key)
        joins.append(one)
        before.append(one.alias)
        filters[one.alias] = own
    full = any(one.kind is OuterKind.FULL for one in joins)
    missing = set(before) if full else set(filters)
    for alias in [a for a in where.filters if a in missing]:
        where.others += where.filters.pop(alias)
    for equality in [e for e in where.equalities if (e.left.aliases | e.right.aliases) & missing]:
        where.equalities.remove(equality)
        where.others.append(Expr(f"({equality.left.sql}) = ({equality.right.sql})"))
    where.filters |= {alias: own for alias, own in filters.items() if own}
    return tuple(joins)


def _streams(statement: Statement, schemas: Schemas) -> list[str]:
    """The declared name of each stream; aliases must differ."""
    lexed = statement.lexed
    found: list[str] = []
    seen: set[str] = set()
    for ref in statement.streams:
        same = [s for s in schemas if s == ref.stream] or [
            s for s in schemas if s.lower() == ref.stream.lower()
        ]
        if len(same) != 1:
            what = "ambiguous" if same else "unknown"
            remedy = suggestion(ref.stream, same or schemas)
            raise lexed.error(ref.token, f"{what} stream {ref.stream[:80]!r}", remedy)
        found.append(same[0])
        if ref.alias.lower() in seen:
            raise lexed.error(
                ref.token, f"two streams are called {ref.alias!r}", f"write {ref.stream} AS another_name"
            )
        seen.add(ref.alias.lower())
    if len(found) < 2:
        raise lexed.error(statement.streams[0].token, "a join needs two streams or more", "add one to FROM")
    return found


def _tables(statement: Statement, streams: Sequence[str], tables: frozenset[str]) -> frozenset[str]:
    """The aliases of tables."""
    found = set()
    for ref, stream in zip(statement.streams, streams, strict=True):
        if stream not in tables:
            continue
        if ref.window is not None or ref.asof:
            raise statement.lexed.error(
                ref.token, f"{stream!r} is a table: its rows are alive always", "leave the window out"
            )
        if ref.joined == "full":
            raise statement.lexed.error(ref.token, "FULL JOIN is for two streams", "write LEFT JOIN")
        found.add(ref.alias)
    return frozenset(found)


def _using(
    statement: Statement, scope: Scope, conditions: Conditions, outer: Mapping[int, Conditions]
) -> None:
    """USING (x) is the equality of x before and after the JOIN, and makes it one name."""
    order = [ref.alias for ref in statement.streams]
    for number, token in statement.using:
        lexed, column = statement.lexed, token.text.lower()
        joined, having = order[number], scope.having(column)
        before = [alias for alias in having if order.index(alias) < number]
        if joined not in having or not before:
            lacking = joined if joined not in having else "no stream before it"
            what = f"{lacking!r} has no column" if joined not in having else f"{lacking} has a column"
            raise lexed.error(token, f"{what} {token.text[:80]!r}", suggestion(column, scope.columns[joined]))
        merged = scope.merged.setdefault(column, [])
        if len(before) > 1 and not set(before) <= set(merged):
            choices = " or ".join(f"{alias}.{token.text}" for alias in before)
            raise lexed.error(token, f"the column {token.text!r} is ambiguous", f"use ON with {choices}")
        left, right = scope.column(before[0], column), scope.column(joined, column)
        for side in (left, right):
            index = lexed.tokens.index(token)
            check_key(lexed, (index, index + 1), side)
        outer.get(number, conditions).equate(left, right)
        merged.extend(a for a in (before[0], joined) if a not in merged)


def _outputs(statement: Statement, scope: Scope) -> tuple[tuple[Output, ...], Groups | None]:
    grouping = Grouping(statement, scope)
    found: dict[str, Output] = {}
    at: dict[str, Token] = {}
    for span in statement.items:
        for output in _item(statement.lexed, span, scope, grouping):
            if output.name.lower() in found:
                raise statement.lexed.error(
                    statement.lexed.tokens[span[0]],
                    f"two output columns are called {output.name!r}",
                    "name one of them with AS",
                )
            found[output.name.lower()] = output
            at[output.name] = statement.lexed.tokens[span[0]]
            if len(found) > MOST_OUTPUTS:
                raise statement.lexed.error(
                    statement.lexed.tokens[span[0]],
                    f"a query has at most {MOST_OUTPUTS:,} output columns",
                    "select the columns that you need",
                )
    return grouping.checked(tuple(found.values()), at)


def _item(lexed: Lexed, span: Span, scope: Scope, grouping: Grouping) -> list[Output]:
    start, end = span
    if (
        lexed.tokens[end - 1].token_type is TokenType.STAR
        and end - start in (1, 3)
        and lexed.word(start) != "SELECT"
    ):
        return _star(lexed, span, scope)
    alias, span = _alias(lexed, span)
    if (item := grouping.item(span)) is not None:
        if (name := item.name if alias is None else alias.text) is None:
            raise _nameless(lexed, span)
        return [Output(name, item.expr, item.aggregate)]
    word = lexed.tokens[span[0]]
    if span[1] - span[0] == 1 and word.text.lower() == RESULT_ID and not scope.having(RESULT_ID):
        own = result_id([(Expr.column(a, column), kind) for a, column, kind in scope.all()])
        return [Output(RESULT_ID if alias is None else alias.text, own, is_id=True)]
    expression = read_expression(lexed, span, scope, output=True)
    if alias is not None:
        return [Output(alias.text, expression.expr)]
    if expression.plain is not None:
        return [Output(expression.plain.name, expression.expr)]
    last = expression.tree.unnest()
    if isinstance(last, exp.Dot) and isinstance(last.expression, exp.Identifier):
        return [Output(last.expression.name, expression.expr)]
    raise _nameless(lexed, span)


def _nameless(lexed: Lexed, span: Span) -> UserError:
    shown = lexed.write(*span)[:60]
    return lexed.error(
        lexed.tokens[span[0]], f"the output column {shown} has no name", f"write {shown} AS name"
    )


def _star(lexed: Lexed, span: Span, scope: Scope) -> list[Output]:
    aliases = list(scope.columns)
    if span[1] - span[0] == 3:
        if lexed.tokens[span[0] + 1].token_type is not TokenType.DOT:
            raise lexed.error(lexed.tokens[span[0]], f"not an expression: {lexed.write(*span)[:80]}")
        try:
            aliases = [scope.alias(lexed.tokens[span[0]].text)]
        except UnresolvedError as error:
            raise lexed.error(lexed.tokens[span[0]], error.what, error.remedy) from None
    return [Output(f"{a}_{column}", Expr.column(a, column)) for a in aliases for column in scope.columns[a]]


def _alias(lexed: Lexed, span: Span) -> tuple[Token | None, Span]:
    """The name given to an output column, with or without AS, and the tokens that it names."""
    start, end = span
    i = start
    while i < end:
        if lexed.word(i) == "AS":
            if i == start or i + 2 != end or not lexed.is_name(i + 1) or not lexed.tokens[i + 1].text.strip():
                raise lexed.error(lexed.tokens[i], "AS is followed by one name", "write expression AS name")
            return lexed.tokens[i + 1], (start, i)
        i = lexed.skip(i)
    if end - start > 1 and lexed.is_name(end - 1) and lexed.ends_operand(end - 2):
        tree = parse_tree(lexed, span)
        if isinstance(tree, exp.Alias) and tree.alias == lexed.tokens[end - 1].text:
            return lexed.tokens[end - 1], (start, end - 1)
    return None, span
