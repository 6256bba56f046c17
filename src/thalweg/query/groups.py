"""GROUP BY and SELECT DISTINCT: results in the same tumbling window of their time become groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sqlglot.tokenizer_core import Token, TokenType

from thalweg.errors import UserError
from thalweg.query.expressions import parse_tree, read_expression
from thalweg.query.lexer import Lexed
from thalweg.query.model import AGGREGATES, RESULT_TIME, Expr, Groups, Output, quoted
from thalweg.query.names import Scope
from thalweg.query.shifts import interval
from thalweg.query.statement import Span, Statement
from thalweg.units import parse_duration

_TUMBLE = "TUMBLE(result_time, INTERVAL '1' MINUTE)"
_TUMBLES = ("TUMBLE", "TUMBLE_START", "TUMBLE_END", "WINDOW")
_NAMES = {name.upper(): name for name in AGGREGATES} | {"MEAN": "avg"}


@dataclass(frozen=True)
class Item:
    """An output column that only groups have; `name` is the one that it has without AS."""

    expr: Expr
    aggregate: str = ""
    name: str | None = None


class Grouping:
    """What a query says of groups: read in GROUP BY first, then in the output columns."""

    def __init__(self, statement: Statement, scope: Scope) -> None:
        self.statement, self.lexed, self.scope = statement, statement.lexed, scope
        self.window: Groups | None = None
        self.grouped = False
        """Whether GROUP BY has the window."""
        self._first: Token | None = None
        self._keys = [span for span in statement.groups if not self._is_window(span)]

    def item(self, span: Span) -> Item | None:
        """A bound of the window, or an aggregate; None where it is another expression."""
        lexed, (start, end) = self.lexed, span
        if self.window is not None and not self.scope.having("window"):
            words = [t.text.lower() for t in lexed.tokens[start:end]]
            if words in (["window", ".", "start"], ["window", ".", "end"]):
                return Item(self._bound(words[2]), name=words[2])
        if not self._calls(span):
            return None
        word = lexed.word(start)
        if word in _NAMES:
            self._first = self._first or lexed.tokens[start]
            return Item(self._argument(span), _NAMES[word])
        if word in _TUMBLES[:3]:
            self._first = self._first or lexed.tokens[start]
            self._take(span)
            return Item(self._bound("end" if word == "TUMBLE_END" else "start"))
        return None

    def checked(
        self, outputs: tuple[Output, ...], at: Mapping[str, Token]
    ) -> tuple[tuple[Output, ...], Groups | None]:
        """The output columns, and the groups if there are any; `at` is where each column is written."""
        distinct, groups = self.statement.distinct, self.statement.groups
        if not groups and distinct is None:
            if self._first is not None:
                raise self.lexed.error(
                    self._first, f"{self._first.text.upper()} without GROUP BY", f"add GROUP BY {_TUMBLE}"
                )
            return outputs, None
        if groups and distinct is not None:
            raise self.lexed.error(
                distinct, "SELECT DISTINCT with GROUP BY is not supported", "leave DISTINCT out"
            )
        keys = [self._key(span, outputs) for span in self._keys]
        if self.window is None or not (self.grouped or distinct):
            token = distinct or self.lexed.tokens[groups[0][0] - 1]
            what = "SELECT DISTINCT" if distinct else "GROUP BY"
            where = f"SELECT DISTINCT {_TUMBLE} AS w, ..." if distinct else f"GROUP BY {_TUMBLE}, ..."
            raise self.lexed.error(
                token, f"{what} needs a window of {RESULT_TIME}: a group must end some time", f"write {where}"
            )
        window = self.window
        bounds = (window.start, window.end)
        own = Expr(quoted(RESULT_TIME))
        outputs = tuple(
            replace(o, expr=window.end) if o.expr == own and not o.aggregate else o for o in outputs
        )
        if distinct is not None:
            if aggregate := next((o for o in outputs if o.aggregate), None):
                raise self.lexed.error(
                    at[aggregate.name],
                    f"{aggregate.aggregate.upper()} in SELECT DISTINCT",
                    f"write GROUP BY {_TUMBLE}, ... in place of DISTINCT",
                )
            keys = [o.expr for o in outputs if o.expr.columns]
        trees = [key.tree for key in (*bounds, *keys)]
        for o in outputs:
            if not o.aggregate and o.expr.columns and o.expr.tree not in trees:
                raise self.lexed.error(
                    at[o.name],
                    f"the output column {o.name!r} is neither in GROUP BY nor an aggregate",
                    "add it to GROUP BY, or write one of count, sum, min, max and avg",
                )
        keys = [key for key in dict.fromkeys(keys) if key not in bounds]
        return outputs, replace(window, keys=tuple(keys))

    def _key(self, span: Span, outputs: tuple[Output, ...]) -> Expr:
        """What GROUP BY names: an expression, or an output column by its name."""
        start, end = span
        if end - start == 1 and self.lexed.is_name(start):
            name = self.lexed.tokens[start].text
            same = [o for o in outputs if o.name.lower() == name.lower()]
            if same and not self.scope.having(name):
                if same[0].aggregate:
                    raise self.lexed.error(
                        self.lexed.tokens[start], f"{name!r} is an aggregate", "leave it out of GROUP BY"
                    )
                if self.window is not None and same[0].expr in (self.window.start, self.window.end):
                    self.grouped = True
                return same[0].expr
        if (found := self.item(span)) is not None:
            what = f"{found.aggregate.upper()} in GROUP BY" if found.aggregate else "a bound in GROUP BY"
            raise self.lexed.error(self.lexed.tokens[start], what, f"write GROUP BY {_TUMBLE}, ...")
        key = read_expression(self.lexed, span, self.scope, output=True)
        if key.plain is not None and not key.plain.alias:
            what = f"GROUP BY {RESULT_TIME} has no windows"
            raise self.lexed.error(self.lexed.tokens[start], what, f"write GROUP BY {_TUMBLE}")
        if not key.expr.columns:
            raise self.lexed.error(
                self.lexed.tokens[start],
                f"{self.lexed.write(*span)[:40]!r} in GROUP BY is no column",
                "repeat the expression",
            )
        return key.expr

    def _is_window(self, span: Span) -> bool:
        if not self._calls(span) or self.lexed.word(span[0]) not in ("TUMBLE", "WINDOW"):
            return False
        self._take(span)
        self.grouped = True
        return True

    def _calls(self, span: Span) -> bool:
        """Whether it is the call of one of these functions, and nothing else."""
        start, end = span
        after = self.lexed.at(start + 1)
        named = self.lexed.word(start) in (*_TUMBLES, *_NAMES)
        opens = after is not None and after.token_type is TokenType.L_PAREN
        return named and opens and self.lexed.closing.get(start + 1) == end - 1

    def _take(self, span: Span) -> None:
        """Read the arguments of TUMBLE; all have the same length."""
        found = Groups(_length(self.lexed, span, self.scope))
        if self.window is not None and self.window != found:
            raise self.lexed.error(
                self.lexed.tokens[span[0]], "windows of two lengths", "a query has groups of one length"
            )
        self.window = found

    def _bound(self, which: str) -> Expr:
        assert self.window is not None
        return self.window.end if which == "end" else self.window.start

    def _argument(self, span: Span) -> Expr:
        lexed, (start, end) = self.lexed, (span[0] + 2, span[1] - 1)
        token = lexed.tokens[span[0]]
        if lexed.word(start) in ("DISTINCT", "ALL"):
            raise lexed.error(
                token,
                f"{token.text.upper()}({lexed.word(start)} ...) is not supported",
                "group by the column with SELECT DISTINCT, and count those results",
            )
        star = end - start == 1 and lexed.tokens[start].token_type is TokenType.STAR
        if star and token.text.lower() == "count":
            return Expr("1")
        if start == end:
            raise lexed.error(token, f"{token.text.upper()} of nothing", "name a column")
        return read_expression(lexed, (start, end), self.scope, output=True).expr


def _length(lexed: Lexed, span: Span, scope: Scope) -> int:
    """The microseconds of TUMBLE(result_time, INTERVAL '1' MINUTE) or window(result_time, '1 minute')."""
    start, end = span
    token, how = lexed.tokens[start], f"write {_TUMBLE}"
    inside = (start + 2, end - 1)
    comma = next((i for i in range(*inside) if lexed.tokens[i].token_type is TokenType.COMMA), None)
    if comma is None or comma in (inside[0], inside[1] - 1):
        raise lexed.error(token, f"{token.text} takes {RESULT_TIME} and a length", how)
    time = read_expression(lexed, (inside[0], comma), scope, output=True)
    if time.expr != Expr(quoted(RESULT_TIME)):
        raise lexed.error(token, f"results are grouped by their time, {RESULT_TIME}", how)
    given = lexed.tokens[comma + 1]
    if given.token_type is TokenType.STRING and comma + 2 == inside[1]:
        try:
            size: int | None = parse_duration(given.text)
        except UserError as error:
            raise lexed.error(given, error.what, error.remedy) from None
    else:
        size = interval(parse_tree(lexed, (comma + 1, inside[1])))
    if not size:
        raise lexed.error(given, "a window has one length, which is fixed and more than zero", how)
    return size
