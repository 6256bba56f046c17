"""The clauses of a query: SELECT, FROM and WHERE."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NoReturn

from sqlglot.tokenizer_core import Token, TokenType

from thalweg.query.lexer import Lexed, lex
from thalweg.query.model import Window
from thalweg.query.refused import CLAUSES, JOINS
from thalweg.query.window_syntax import read_window, read_within

Span = tuple[int, int]
"""Tokens from the first index up to, but without, the second."""

_OUTER_WORDS = ("LEFT", "RIGHT", "FULL", "OUTER", "SEMI", "ANTI")
_JOIN_WORDS = frozenset({"JOIN", "INNER", "CROSS", "ASOF", *_OUTER_WORDS, *JOINS})
_OUTER: Mapping[tuple[str, ...], str] = {
    (): "",
    ("LEFT",): "left",
    ("LEFT", "OUTER"): "left",
    ("RIGHT",): "right",
    ("RIGHT", "OUTER"): "right",
    ("FULL",): "full",
    ("FULL", "OUTER"): "full",
    ("LEFT", "SEMI"): "semi",
    ("SEMI",): "semi",
    ("LEFT", "ANTI"): "anti",
    ("ANTI",): "anti",
}
"""The outer joins, by their words."""

_AFTER_STREAM = _JOIN_WORDS | {"ON", "USING", "WHERE"} | set(CLAUSES)


@dataclass(frozen=True)
class StreamRef:
    """A stream of the FROM clause as it is written.

    With `asof` and no window, the latest row of each key is alive. `joined` is how it is joined to those
    before it: "", or "left", "right", "full", "semi" or "anti". After a CROSS JOIN, no condition is needed.
    """

    token: Token
    stream: str
    alias: str
    window: Window | None
    asof: bool = False
    joined: str = ""
    cross: bool = False


@dataclass
class Statement:
    """A query's clauses; expressions are still spans of tokens."""

    lexed: Lexed
    items: list[Span] = field(default_factory=list)
    streams: list[StreamRef] = field(default_factory=list)
    conditions: list[Span] = field(default_factory=list)
    on: dict[int, Span] = field(default_factory=dict)  # of outer joins, by the number of the joined stream
    using: list[tuple[int, Token]] = field(default_factory=list)  # number of the joined stream, column
    within: Window | None = None
    distinct: Token | None = None
    groups: list[Span] = field(default_factory=list)


def read_statement(text: str, where: str) -> Statement:
    """Split a query into its clauses; any other clause is refused by name."""
    lexed = lex(text, where)
    while lexed.tokens and lexed.tokens[-1].token_type is TokenType.SEMICOLON:
        lexed.tokens.pop()
    return _Clauses(lexed).read()


class _Clauses:
    def __init__(self, lexed: Lexed) -> None:
        self.lexed = lexed
        self.at = 0
        self.end = len(lexed.tokens)
        self.statement = Statement(lexed)

    def read(self) -> Statement:
        self.check_whole()
        self.select()
        self.from_()
        self.within()
        if self.take("WHERE"):
            self.statement.conditions.append(self.expression("after WHERE"))
        if self.take("GROUP BY"):
            self.statement.groups.append(self.expression("after GROUP BY"))
            while self.is_(TokenType.COMMA):
                self.at += 1
                self.statement.groups.append(self.expression("after the comma"))
        if self.at < self.end:
            self.refuse()
        return self.statement

    def check_whole(self) -> None:
        """Refuse anything but a single SELECT, wherever it stands."""
        lexed, first = self.lexed, self.lexed.at(0)
        if first is None:
            raise lexed.error(None, "the query is empty", "write SELECT ... FROM ... WHERE ...")
        if lexed.word(0) == "WITH":
            self.fail(
                first, "WITH (common table expressions) is not supported", "write one SELECT over streams"
            )
        if lexed.word(0) != "SELECT":
            self.fail(first, f"a query begins with SELECT, not {lexed.raw(first)[:40]!r}")
        for i, token in enumerate(lexed.tokens):
            kind = token.token_type
            if kind is TokenType.SEMICOLON:
                self.fail(token, "several statements", "put each query in a file of its own")
            if kind is TokenType.HINT:
                self.fail(token, "hints are not supported", "leave it out; the planner chooses the plan")
            if kind in (TokenType.PLACEHOLDER, TokenType.PARAMETER):
                self.fail(
                    token, f"parameters and variables ({token.text}) are not supported", "write the value"
                )
            if kind in (TokenType.L_BRACE, TokenType.BLOCK_START):
                self.fail(token, "templates are not supported", "write the query out")
            if lexed.word(i) == "SELECT" and i and lexed.tokens[i - 1].token_type is TokenType.L_PAREN:
                self.fail(
                    token, "subqueries are not supported", "join the stream itself, or make it a stream first"
                )

    def select(self) -> None:
        self.at = 1
        if self.word() == "DISTINCT":
            self.statement.distinct = self.token()
            self.at += 1
        if self.word() == "ALL" and self.lexed.word(self.at + 1) != "FROM":
            self.at += 1
        start = self.at
        while self.at < self.end and not (
            self.word() == "FROM" and self.lexed.word(self.at - 1) != "DISTINCT"
        ):
            if self.is_(TokenType.COMMA):
                self.item(start)
                start = self.at + 1
            elif self.word() in CLAUSES and self.lexed.ends_operand(self.at - 1) and not self.after_star():
                self.refuse()
            self.at = self.lexed.skip(self.at)
        if self.at >= self.end:
            raise self.lexed.error(None, "FROM is missing", "a query is SELECT ... FROM ... WHERE ...")
        self.item(start)
        self.at += 1

    def item(self, start: int) -> None:
        if start == self.at:
            self.fail(
                self.token(), "an output column was expected here", "leave out the comma, or write a column"
            )
        after_star = self.lexed.tokens[start : self.at]
        for token, after in pairwise(after_star):
            if token.token_type is TokenType.STAR and after.text.upper() in ("EXCEPT", "EXCLUDE", "REPLACE"):
                self.fail(after, f"* {after.text.upper()} is not supported", "list the columns")
        self.statement.items.append((start, self.at))

    def after_star(self) -> bool:
        return self.lexed.tokens[self.at - 1].token_type is TokenType.STAR

    def from_(self) -> None:
        self.stream()
        waiting: list[int] = []  # the joined streams whose ON has not come yet
        while self.at < self.end:
            if self.is_(TokenType.COMMA):
                self.check_outer(waiting, "")
                self.at += 1
                self.stream()
            elif self.word() in _JOIN_WORDS:
                first = self.at
                words, joined = self.join_words()
                self.check_outer(waiting, joined, self.lexed.tokens[first])
                self.stream("ASOF" in words, joined, "CROSS" in words)
                waiting.append(len(self.statement.streams) - 1)
            elif self.word() in ("ON", "USING"):
                if not waiting:
                    self.fail(self.token(), f"{self.word()} without a JOIN", "use WHERE with the comma form")
                self.join_condition(waiting.pop())
            else:
                break
        self.check_outer(waiting, "", end=True)

    def check_outer(
        self, waiting: list[int], joined: str, token: Token | None = None, *, end: bool = False
    ) -> None:
        """Outer joins come last, each with its ON, and those that keep the new stream are of two streams."""
        streams = self.statement.streams
        token = token or self.lexed.at(self.at)
        for number in waiting:
            if streams[number].joined:
                shown = streams[number].joined.upper()
                self.fail(
                    streams[number].token,
                    f"the {shown} JOIN of {streams[number].stream!r} has no ON",
                    "write ON and its condition right after the stream",
                )
        before = next((s.joined for s in streams if s.joined), "")
        if (before in ("right", "full") and not end) or (joined in ("right", "full") and len(streams) > 1):
            shown = (before if before in ("right", "full") else joined).upper()
            self.fail(
                token,
                f"{shown} JOIN joins two streams, and no more",
                "put the stream that is kept first, and write LEFT JOIN",
            )
        if before and not joined and not end:
            self.fail(
                token,
                f"an inner join after a {before.upper()} JOIN is not supported",
                "put the inner joins first",
            )

    def within(self) -> None:
        """WITHIN n unit, which is the window of all streams that have none of their own."""
        if not self.at_within():
            return
        start = self.at = self.at + 1
        while self.at < self.end and self.word() not in _AFTER_STREAM:
            self.at += 1
        self.statement.within = read_within(self.lexed, start, self.at)

    def at_within(self) -> bool:
        number = self.lexed.at(self.at + 1)
        return self.word() == "WITHIN" and number is not None and number.token_type is TokenType.NUMBER

    def join_words(self) -> tuple[list[str], str]:
        """The words of a join, up to its stream, and which outer join it is."""
        first, words = self.token(), []
        while self.word() in _JOIN_WORDS and self.word() != "JOIN":
            words.append(self.word())
            self.at += 1
        joins = self.take("JOIN")
        if self.word() in JOINS:
            words.append(self.word())
        for word in JOINS:
            if word in words:
                shown = " ".join(w for w in words if w != "LATERAL") + " JOIN" if word != "LATERAL" else word
                what, remedy = JOINS[word]
                self.fail(first, f"{shown} is not supported{what}", remedy)
        if not joins:
            self.fail(self.lexed.at(self.at), "JOIN was expected here")
        kinds = tuple(w for w in words if w in _OUTER_WORDS)
        if kinds not in _OUTER or (kinds and {"INNER", "CROSS"} & set(words)):
            self.fail(
                first,
                f"{' '.join(words)} JOIN is no join",
                "write LEFT, RIGHT, FULL, LEFT SEMI or LEFT ANTI before JOIN",
            )
        return words, _OUTER[kinds]

    def join_condition(self, number: int) -> None:
        joined = self.statement.streams[number].joined
        if self.take("ON"):
            span = self.expression("after ON")
            if joined:
                self.statement.on[number] = span
            else:
                self.statement.conditions.append(span)
            return
        if joined in ("right", "full"):
            self.fail(
                self.token(), f"USING after a {joined.upper()} JOIN is not supported", "write ON a.x = b.x"
            )
        self.at += 1
        if not self.is_(TokenType.L_PAREN):
            self.fail(self.lexed.at(self.at), "USING needs columns in parentheses", "write USING (column)")
        close = self.lexed.closing[self.at]
        inside = range(self.at + 1, close)
        for n, i in enumerate(inside):
            if n % 2 and self.lexed.tokens[i].token_type is not TokenType.COMMA:
                self.fail(self.lexed.tokens[i], "a comma was expected here")
            if n % 2 == 0:
                if not self.lexed.is_name(i):
                    self.fail(self.lexed.tokens[i], "a column's name was expected here")
                self.statement.using.append((len(self.statement.streams) - 1, self.lexed.tokens[i]))
        if len(inside) % 2 == 0:
            self.fail(self.lexed.tokens[close], "a column's name was expected here")
        self.at = close + 1

    def stream(self, asof: bool = False, joined: str = "", cross: bool = False) -> None:
        lexed, token = self.lexed, self.lexed.at(self.at)
        if token is not None and token.token_type is TokenType.L_PAREN:
            self.fail(token, "parentheses in FROM are not supported", "list the streams with commas or JOIN")
        if token is None or not lexed.is_name(self.at) or self.word() in _AFTER_STREAM:
            if token is not None and self.word() in JOINS:
                self.refuse()
            self.fail(token, "a stream's name was expected here")
        self.at += 1
        if self.is_(TokenType.DOT):
            self.fail(token, "a stream's name has no dots", "write the name as the catalog has it")
        if self.is_(TokenType.L_PAREN):
            self.fail(
                token, f"{lexed.raw(token)[:40]}(...): table functions are not supported", "name a stream"
            )
        alias: Token | None = None
        window: Window | None = None
        while self.at < self.end:
            if self.is_(TokenType.L_BRACKET):
                if window is not None:
                    self.fail(self.token(), f"the stream {token.text!r} has two windows", "keep one")
                close = lexed.closing[self.at]
                window = read_window(lexed, self.at, close)
                self.at = close + 1
            elif alias is None and self.word() == "AS":
                self.at += 1
                alias = self.alias()
            elif (
                alias is None
                and lexed.is_name(self.at)
                and self.word() not in _AFTER_STREAM
                and not self.at_within()
            ):
                alias = self.alias()
            else:
                break
        if self.is_(TokenType.L_PAREN):
            self.fail(self.token(), "names for columns in FROM are not supported", "name outputs with AS")
        name = (alias or token).text
        if not name.strip() or not token.text.strip():
            self.fail(alias or token, "a name is empty")
        self.statement.streams.append(StreamRef(token, token.text, name, window, asof, joined, cross))

    def alias(self) -> Token:
        if not self.lexed.is_name(self.at) or self.word() in _AFTER_STREAM:
            self.fail(self.lexed.at(self.at), "an alias was expected here")
        self.at += 1
        return self.lexed.tokens[self.at - 1]

    def expression(self, place: str) -> Span:
        """Tokens up to the next clause; a word ends an expression only where an operand has ended."""
        start = self.at
        while self.at < self.end and not self.is_(TokenType.COMMA):
            ended = self.word() in _AFTER_STREAM or self.at_within()
            if ended and self.lexed.ends_operand(self.at - 1):
                break
            self.at = self.lexed.skip(self.at)
        if start == self.at:
            self.fail(self.lexed.at(self.at), f"a condition was expected {place}")
        return start, self.at

    def refuse(self) -> NoReturn:
        """Say why the token that follows has no place here."""
        word = self.word()
        if word in CLAUSES:
            what, remedy = CLAUSES[word]
            self.fail(self.token(), f"{what} is not supported", remedy)
        if word in JOINS:
            what, remedy = JOINS[word]
            self.fail(self.token(), f"{word} is not supported{what}", remedy)
        self.fail(
            self.token(),
            f"unexpected {self.lexed.raw(self.token())[:40]!r}",
            "a query is SELECT ... FROM ... WHERE ...",
        )

    def fail(self, token: Token | None, what: str, remedy: str | None = None) -> NoReturn:
        raise self.lexed.error(token, what, remedy)

    def token(self) -> Token:
        return self.lexed.tokens[self.at]

    def word(self) -> str:
        return self.lexed.word(self.at) if self.at < self.end else ""

    def is_(self, kind: TokenType) -> bool:
        return self.at < self.end and self.token().token_type is kind

    def take(self, word: str) -> bool:
        if self.word() == word:
            self.at += 1
            return True
        return False
