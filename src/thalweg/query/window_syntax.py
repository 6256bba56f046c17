"""Windows in brackets: [RANGE 5 MINUTES SLIDE 10 SECONDS], [ROWS 100], [UNBOUNDED]."""

from __future__ import annotations

import re

from thalweg.errors import UserError
from thalweg.query.lexer import Lexed
from thalweg.query.model import Window, WindowKind
from thalweg.units import parse_duration

HOW = "write a window in brackets: [RANGE 5 MINUTES], [ROWS 100] or [UNBOUNDED]"

_NUMBER = r"[0-9]+(?:\.[0-9]*)?|\.[0-9]+"
_WINDOW = re.compile(
    rf"""(?: range \s+ (?P<range> (?:{_NUMBER}) \s* [^\W\d_]+ )
       | rows \s+ (?P<rows> [0-9]+ ) (?: \s+ rows? )?
       | (?P<unbounded> unbounded ) )
    (?: \s+ slide \s+ (?P<slide> (?:{_NUMBER}) \s* [^\W\d_]+ ) )?""",
    re.VERBOSE | re.IGNORECASE,
)
_MOST_ROWS = 2**31 - 1


def read_window(lexed: Lexed, start: int, end: int) -> Window:
    """The window between the brackets at two tokens."""
    body = lexed.write(start + 1, end)
    shape = _WINDOW.fullmatch(body)
    if shape is None:
        if bare := re.fullmatch(rf"range\s+({_NUMBER})", body, re.IGNORECASE):
            raise lexed.error(
                lexed.tokens[start],
                f"the window [{body[:60]}] has no unit",
                f"write [RANGE {bare[1]} SECONDS]",
            )
        raise lexed.error(lexed.tokens[start], f"[{body[:60]}] is not a window", HOW)
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
        return Window(WindowKind.ROWS, int(shape["rows"]), slide)
    return Window(WindowKind.UNBOUNDED, 0, slide)


def _duration(lexed: Lexed, start: int, text: str) -> int:
    try:
        return parse_duration(text)
    except UserError as error:
        raise lexed.error(lexed.tokens[start], error.what, error.remedy) from None
