"""Expressions: the user's own text with every column spelled out, checked with sqlglot.

sqlglot says what an expression is made of. The text that Spark gets is the user's, so that nothing
changes its meaning on the way.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ErrorLevel, ParseError, SqlglotError
from sqlglot.tokenizer_core import TokenType

from thalweg.query.lexer import Lexed
from thalweg.query.model import Expr, quoted
from thalweg.query.names import Resolved, Scope, UnresolvedError
from thalweg.query.refused import FUNCTIONS, LATER, WITH_GROUPS, WITHOUT_PARENTHESES
from thalweg.query.statement import Span

_SPECIAL_TIMES = ("now", "today", "yesterday", "tomorrow")
_NOT_HERE: tuple[tuple[tuple[type, ...], str, str], ...] = (
    ((exp.Query, exp.Subquery), "a subquery", "join the stream itself"),
    ((exp.Window, exp.WindowSpec), "OVER (a window function)", LATER),
    ((exp.AggFunc,), "an aggregate", WITH_GROUPS),
    ((exp.Explode, exp.Posexplode, exp.Inline), "a generator", "explode arrays over the results"),
    ((exp.Placeholder, exp.Parameter, exp.SessionParameter), "a parameter", "write the value"),
    ((exp.Star,), "*", "use it alone: SELECT * or SELECT alias.*"),
)


@dataclass(frozen=True)
class Expression:
    """A checked expression; `plain` is the column it is, when it is nothing more."""

    expr: Expr
    aliases: frozenset[str]
    plain: Resolved | None
    tree: exp.Expression


def read_expression(lexed: Lexed, span: Span, scope: Scope, *, output: bool = False) -> Expression:
    """Check the expression in a span of tokens and spell out its columns."""
    _check_functions(lexed, span)
    tree = parse_tree(lexed, span)
    _check_tree(lexed, span, tree)
    replaced: dict[int, tuple[int, str]] = {}
    found: list[Resolved] = []
    lambdas = tree.find(exp.Lambda) is not None
    for column in tree.find_all(exp.Column):
        parts = column.parts
        start, end = parts[0].meta.get("start"), parts[-1].meta.get("end")
        name = ".".join(p.name for p in parts)
        if start is None or end is None:
            raise lexed.error(lexed.tokens[span[0]], f"{name!r} can't stand here", "put names in backticks")
        variables = _variables(column) if lambdas else {}
        if (variable := variables.get(parts[0].name.lower())) is not None:
            replaced[start] = parts[0].meta["end"], variable
            continue
        try:
            resolved = scope.resolve([p.name for p in parts], result_time=output)
        except UnresolvedError as error:
            if len(parts) == 1 and name.lower() in WITHOUT_PARENTHESES and lexed.text[start] != "`":
                why, remedy = FUNCTIONS[name.lower()]
                raise lexed.error(start, f"{name.upper()} is refused: it is {why}", remedy) from None
            raise lexed.error(start, error.what, error.remedy) from None
        for hidden in (resolved.alias, resolved.column):
            # Columns go under names of either kind on their way; a variable must not catch them.
            if hidden.lower() in variables:
                what = f"the variable {variables[hidden.lower()]} hides {hidden!r} of the column {name!r}"
                raise lexed.error(start, what, "give the variable another name")
        replaced[start] = end, resolved.sql
        found.append(resolved)
    _check_bare_words(lexed, span, scope, replaced)
    bare = tree.unnest()
    plain = found[0] if len(found) == 1 and isinstance(bare, exp.Column) else None
    expr = Expr(lexed.write(*span, replaced))
    try:
        _ = expr.columns
    except SqlglotError as error:  # two points in a row are other words once names before them are longer
        raise lexed.error(lexed.tokens[span[0]], f"not an expression: {expr.sql[:80]}") from error
    return Expression(expr, frozenset(r.alias for r in found if r.alias), plain, tree)


def parse_tree(lexed: Lexed, span: Span) -> exp.Expression:
    """One expression as sqlglot reads it; its names keep their offsets in the whole text."""
    tokens = [lexed.tokens[0], *lexed.tokens[span[0] : span[1]]]  # SELECT and the expression
    first = lexed.tokens[span[0]]
    try:
        (tree,) = Spark().parser(error_level=ErrorLevel.IMMEDIATE).parse(tokens, lexed.text)
    except ParseError as error:
        raise _parse_error(lexed, span, error) from None
    except RecursionError:
        raise lexed.error(first, "the expression is nested too deeply") from None
    except (SqlglotError, ValueError, TypeError, AttributeError, IndexError, KeyError) as error:
        # sqlglot builds some functions without checking their arguments first
        raise lexed.error(first, f"not an expression: {lexed.write(*span)[:80]}") from error
    if not isinstance(tree, exp.Select) or len(tree.expressions) != 1:
        raise lexed.error(first, f"not one expression: {lexed.write(*span)[:80]}")
    if any(value for key, value in tree.args.items() if key not in ("expressions", "kind")):
        raise lexed.error(first, f"not an expression: {lexed.write(*span)[:80]}")
    found: exp.Expression = tree.expressions[0]
    return found.pop()


def _parse_error(lexed: Lexed, span: Span, error: ParseError) -> Exception:
    detail = error.errors[0] if error.errors else {}
    highlight = detail.get("highlight") or ""
    at = lexed.tokens[span[0]].start
    for token in lexed.tokens[span[0] : span[1]]:
        if token.line == detail.get("line") and token.col == detail.get("col"):
            at = token.start
    near = f" near {highlight[:40]!r}" if highlight else ""
    return lexed.error(at, f"not a Spark SQL expression{near}")


def _check_functions(lexed: Lexed, span: Span) -> None:
    for i in range(*span):
        following = lexed.at(i + 1) if i + 1 < span[1] else None
        if following is None or following.token_type is not TokenType.L_PAREN or not lexed.is_name(i):
            continue
        token = lexed.tokens[i]
        name = token.text.lower()
        if lexed.word(i - 1) in ("LIKE", "ILIKE"):
            continue  # LIKE ANY (...) is a predicate
        if name in FUNCTIONS:
            why, remedy = FUNCTIONS[name]
            raise lexed.error(token, f"{name.upper()} is refused: it is {why}", remedy)
        if name in ("unix_timestamp", "to_unix_timestamp") and lexed.closing.get(i + 1) == i + 2:
            why, remedy = FUNCTIONS["now"]
            raise lexed.error(token, f"{name.upper()}() is refused: it is {why}", remedy)


def _check_bare_words(lexed: Lexed, span: Span, scope: Scope, replaced: dict[int, tuple[int, str]]) -> None:
    """Refuse words that call a function, and a column that sqlglot takes for the start of a literal."""
    for i in range(*span):
        token, name = lexed.tokens[i], lexed.word(i).lower()
        if name == "interval" and token.start not in replaced and scope.having(name):
            following = lexed.at(i + 1) if i + 1 < span[1] else None
            if following is None or following.token_type not in (TokenType.STRING, TokenType.NUMBER):
                raise lexed.error(
                    token, "'interval' may be a column or a literal here", "write alias.interval"
                )
        if name in WITHOUT_PARENTHESES and token.start not in replaced and lexed.word(i - 1) != "AS":
            why, remedy = FUNCTIONS[name]
            raise lexed.error(
                token,
                f"{name.upper()} is refused: it is {why}",
                f"{remedy}; a column of that name needs its alias",
            )


def _check_tree(lexed: Lexed, span: Span, tree: exp.Expression) -> None:
    first = lexed.tokens[span[0]]
    if isinstance(tree, exp.Alias) and isinstance(tree.args["alias"], exp.Placeholder):
        raise lexed.error(
            first, "a path after ':' is not supported", "use variant_get(column, '$.path', 'type')"
        )
    if isinstance(tree, exp.Alias | exp.Aliases):
        raise lexed.error(
            first, f"not one expression: {lexed.write(*span)[:80]}", "an operator may be missing"
        )
    for node in tree.walk():
        for kinds, what, remedy in _NOT_HERE:
            if isinstance(node, kinds):
                raise lexed.error(first, f"{what} is not supported in {lexed.write(*span)[:60]}", remedy)
        if isinstance(node, exp.Literal) and node.is_string and _is_clock(node):
            raise lexed.error(
                first, f"the time {node.name!r} is refused: it is the current time", "write a date"
            )


def _is_clock(node: exp.Literal) -> bool:
    """Whether it is the 'now' of TIMESTAMP 'now', of CAST('now' AS TIMESTAMP) or of to_date('now')."""
    word = node.name.strip().lower().split(" ")[0]
    parent = type(node.parent).__name__
    return word in _SPECIAL_TIMES and any(part in parent for part in ("Cast", "Date", "Time"))


def _variables(column: exp.Column) -> dict[str, str]:
    """The variables of the lambdas around a column, by name in lower case: Spark ignores their case."""
    found: dict[str, str] = {}
    node = column.parent
    while node is not None:
        if isinstance(node, exp.Lambda):
            for variable in node.expressions:
                written = quoted(variable.name) if variable.args.get("quoted") else str(variable.name)
                found.setdefault(variable.name.lower(), written)
        node = node.parent
    return found
