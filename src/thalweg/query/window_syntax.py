"""Windows in brackets: [RANGE 5 MINUTES SLIDE 10 SECONDS], [PARTITION BY k ROWS 1], [TUMBLE 1 HOUR]."""

from __future__ import annotations

import re

from sqlglot.tokenizer_core import TokenType

from thalweg.errors import UserError
from thalweg.query.lexer import Lexed
from thalweg.query.model import Window, WindowKind
from thalweg.units import parse_duration

HOW = (
    "write a window in brackets: [RANGE 5 MINUTES], [ROWS 100], [PARTITION BY column ROWS 1], "
    "[TUMBLE 5 MINUTES] or [UNBOUNDED]"
)

_NUMBER = r"[0-9]+(?:\.[0-9]*)?|\.[0-9]+"
_LENGTH = rf"(?:{_NUMBER}) \s* [^\W\d_]+"
_WINDOW = re.compile(
    rf"""(?: range \s+ (?P<range> {_LENGTH} )
       | rows \s+ (?P<rows> [0-9]+ ) (?: \s+ rows? )?
       | tumble \s+ (?P<tumble> {_LENGTH} )
       | (?P<unbounded> unbounded ) )
    (?: \s+ slide \s+ (?P<slide> {_LENGTH} ) )?""",
    re.VERBOSE | re.IGNORECASE,
)
_MOST_ROWS = 2**31 - 1


def read_window(lexed: Lexed, start: int, end: int) -> Window:
    """The window between the brackets at two tokens."""
    by, first = _partition(lexed, start + 1, end)
    body = lexed.write(first, end)
    shape = _WINDOW.fullmatch(body)
    if shape is None or (by and shape["rows"] is None):
        if bare := re.fullmatch(rf"(range|tumble)\s+({_NUMBER})", body, re.IGNORECASE):
            raise lexed.error(
                lexed.tokens[start],
                f"the window [{body[:60]}] has no unit",
                f"write [{bare[1].upper()} {bare[2]} SECONDS]",
            )
        whole = lexed.write(start + 1, end)
        raise lexed.error(lexed.tokens[start], f"[{whole[:60]}] is not a window", HOW)
    slide = None
    if shape["slide"] is not None:
        slide = _duration(lexed, start, shape["slide"])
        if slide == 0:
            raise lexed.error(lexed.tokens[start], "a slide must be longer than zero", "leave SLIDE out")
    if shape["range"] is not None:
        return Window(WindowKind.RANGE, _duration(lexed, start, shape["range"]), slide)
    if shape["rows"] is not None:
        if len(shape["rows"]) > 10 or not 1 <= int(shape["rows"]) <= _MOST_ROWS:
            raise lexed.error(lexed.tokens[start], f"a window of rows holds 1 to {_MOST_ROWS} rows")
        return Window(WindowKind.ROWS, int(shape["rows"]), slide, by)
    if shape["tumble"] is not None:
        size = _duration(lexed, start, shape["tumble"])
        if size == 0:
            raise lexed.error(lexed.tokens[start], "a tumbling window must be longer than zero")
        return Window(WindowKind.TUMBLE, size, slide)
    return Window(WindowKind.UNBOUNDED, 0, slide)


def read_within(lexed: Lexed, start: int, end: int) -> Window:
    """The window of WITHIN n unit: its length is between two tokens."""
    return Window(WindowKind.RANGE, _duration(lexed, start, lexed.write(start, end)))


def _partition(lexed: Lexed, at: int, end: int) -> tuple[tuple[str, ...], int]:
    """The columns of PARTITION BY, as they are written, and where the rest of the window begins."""
    if lexed.word(at) != "PARTITION BY":
        return (), at
    by: list[str] = []
    while at + 1 < end:
        if not lexed.is_name(at + 1):
            raise lexed.error(lexed.tokens[at + 1], "a column's name was expected here", HOW)
        by.append(lexed.tokens[at + 1].text)
        at += 2
        if lexed.tokens[at].token_type is not TokenType.COMMA:
            break
    return tuple(by), at


def _duration(lexed: Lexed, start: int, text: str) -> int:
    try:
        return parse_duration(text)
    except UserError as error:
        raise lexed.error(lexed.tokens[start], error.what, error.remedy) from None
