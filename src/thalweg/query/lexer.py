"""A query's text as tokens that know their place, with brackets matched."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from sqlglot.dialects.spark import Spark
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from thalweg.errors import UserError

Tokens = Sequence[Token]

DEEPEST = 30
"""The deepest nesting of brackets and CASEs; more would overflow the parser's stack."""

LONGEST = 100_000
"""The most characters of a query; more would take long to read, and long to evaluate for each tuple."""

_OPENING = {TokenType.L_PAREN: ")", TokenType.L_BRACKET: "]", TokenType.L_BRACE: "}"}
_CLOSING = {TokenType.R_PAREN: ")", TokenType.R_BRACKET: "]", TokenType.R_BRACE: "}"}
_LITERALS = frozenset(
    {TokenType.STRING, TokenType.NUMBER, TokenType.RAW_STRING, TokenType.HEX_STRING, TokenType.BIT_STRING}
)
_EXPECTING = frozenset(
    {
        "AND",
        "OR",
        "NOT",
        "IN",
        "IS",
        "LIKE",
        "ILIKE",
        "RLIKE",
        "REGEXP",
        "BETWEEN",
        "DIV",
        "ESCAPE",
        "INTERVAL",
    }
    | {"CASE", "WHEN", "THEN", "ELSE", "SELECT", "DISTINCT", "ALL", "ANY", "SOME", "AS"}
    | {"FROM", "JOIN", "USING", "ON", "WHERE"}
)
"""Words after which an operand or a name follows."""


@dataclass
class Lexed:
    """A query's text, its tokens, and for every opening bracket or CASE where it closes."""

    text: str
    where: str
    tokens: list[Token]
    written: dict[int, str] = field(default_factory=dict)  # start of a token -> how to write it instead
    closing: dict[int, int] = field(default_factory=dict)  # index of an opening token -> its closing one

    def error(self, at: int | Token | None, what: str, remedy: str | None = None) -> UserError:
        """An error at a token or an offset; None is the end of the text."""
        offset = at.start if isinstance(at, Token) else len(self.text.rstrip()) if at is None else at
        before = self.text[: max(0, offset)]
        line, column = before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1
        return UserError(what, where=f"{self.where}, line {line}, column {column}", remedy=remedy)

    def at(self, index: int) -> Token | None:
        return self.tokens[index] if 0 <= index < len(self.tokens) else None

    def raw(self, token: Token) -> str:
        """A token as the user wrote it."""
        return self.written.get(token.start) or self.text[token.start : token.end + 1]

    def word(self, index: int) -> str:
        """A keyword or unquoted name in capitals; '' for anything else, names next to a dot included."""
        token = self.at(index)
        if token is None or token.token_type in _LITERALS or self.quoted(token) or self._dotted(index):
            return ""
        return (
            " ".join(token.text.upper().split()) if token.text[:1].isalpha() or token.text[:1] == "_" else ""
        )

    def quoted(self, token: Token) -> bool:
        return self.text[token.start : token.start + 1] == "`"

    def is_name(self, index: int) -> bool:
        """Whether a token can stand for a name: quoted, or a word."""
        token = self.at(index)
        if token is None or token.token_type in _LITERALS:
            return False
        return self.quoted(token) or bool(re.fullmatch(r"[^\W\d]\w*|\d+[^\W\d]\w*", token.text))

    def ends_operand(self, index: int) -> bool:
        """Whether an expression may end with this token, so that no operand follows."""
        token = self.at(index)
        if token is None:
            return False
        if token.token_type in _LITERALS or token.token_type in _CLOSING or self.quoted(token):
            return True
        return self._dotted(index) or (self.is_name(index) and self.word(index) not in _EXPECTING)

    def skip(self, index: int) -> int:
        """The index after this token, or after the bracket or CASE that it opens."""
        return self.closing.get(index, index) + 1

    def write(self, start: int, end: int, replaced: dict[int, tuple[int, str]] | None = None) -> str:
        """The text of tokens [start, end) without comments, parts of it replaced by offset."""
        pieces: list[str] = []
        last = -1  # the offset up to which the text is written
        for token in self.tokens[start:end]:
            if token.start <= last:
                continue  # a literal such as 1L is three tokens at one place
            if pieces and token.start > last + 1:
                pieces.append(" ")
            last, piece = (replaced or {}).get(token.start, (token.end, self.raw(token)))
            pieces.append(piece)
        return "".join(pieces)

    def _dotted(self, index: int) -> bool:
        near = (self.at(index - 1), self.at(index + 1))
        return any(t is not None and t.token_type is TokenType.DOT for t in near)


def lex(text: str, where: str) -> Lexed:
    """Tokens of a query; brackets that do not match are an error."""
    lexed = Lexed(text, where, [])
    if len(text) > LONGEST:
        raise lexed.error(
            0,
            f"the query has {len(text):,} characters, and at most {LONGEST:,} are read",
            "make a long list of values a stream of its own, and join it",
        )
    try:
        tokens = Spark().tokenize(text)
    except SqlglotError as error:
        found = re.search(r"Missing (\S+) from (\d+):(\d+)", str(error.__cause__ or error))
        if found:
            raise lexed.error(int(found[3]), f"a quote {found[1]} is never closed") from None
        raise lexed.error(None, "a quote or comment is never closed, or a literal is malformed") from None
    lexed.tokens = _join_literals(tokens, lexed)
    _match(lexed)
    return lexed


def _join_literals(tokens: list[Token], lexed: Lexed) -> list[Token]:
    r"""Read 'it''s' as Spark does, as one string, written 'it\'s'; and .5 as one number."""
    joined: list[Token] = []
    for token in tokens:
        last = joined[-1] if joined else None
        raw = lexed.raw(token)
        if (
            last is not None
            and last.token_type is token.token_type is TokenType.STRING
            and last.end + 1 == token.start
            and lexed.text[last.start] == raw[0]
        ):
            lexed.written[last.start] = lexed.raw(last)[:-1] + "\\" + raw
            joined[-1] = Token(
                TokenType.STRING, last.text + raw[0] + token.text, last.line, token.col, last.start, token.end
            )
        elif (
            last is not None
            and last.token_type is TokenType.DOT
            and token.token_type is TokenType.NUMBER
            and last.end + 1 == token.start
        ):
            joined[-1] = Token(
                TokenType.NUMBER, f".{token.text}", token.line, token.col, last.start, token.end
            )
        else:
            joined.append(token)
    return joined


def _match(lexed: Lexed) -> None:
    open_: list[tuple[int, str]] = []
    prefixes = 0  # of one operand: NOT NOT x, - - x
    for i, token in enumerate(lexed.tokens):
        word = lexed.word(i)
        if token.token_type in _OPENING:
            open_.append((i, _OPENING[token.token_type]))
        elif word == "CASE" and not lexed.ends_operand(i - 1):
            open_.append((i, "END"))
        elif token.token_type in _CLOSING or (word == "END" and open_ and open_[-1][1] == "END"):
            closer = _CLOSING.get(token.token_type, "END")
            if not open_ or open_[-1][1] != closer:
                raise lexed.error(token, f"{closer!r} closes nothing that was opened")
            lexed.closing[open_.pop()[0]] = i
        prefixes = prefixes + 1 if word == "NOT" or token.text in ("!", "-", "+", "~") else 0
        if len(open_) > DEEPEST or prefixes > DEEPEST:
            raise lexed.error(token, "the expression is nested too deeply", f"at most {DEEPEST} levels")
    if open_:
        index, closer = open_[-1]
        raise lexed.error(lexed.tokens[index], f"{lexed.tokens[index].text!r} is never closed by {closer!r}")
