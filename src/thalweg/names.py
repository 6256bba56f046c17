"""Names of sites, streams and queries: their form, and what a misspelt one probably meant."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from difflib import SequenceMatcher, get_close_matches

NAMING = "use letters, digits and _, and begin with a letter or _"
TIMELESS = "#time"
"""The time column that a table gets."""

SLOT, LIVE = "#slot", "#live"
"""Columns of a table that is refreshed: the place of a row in its version, and whether there is a row."""

_COMPARED = 1_000  # names; to compare more would take seconds
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def is_name(text: str) -> bool:
    """Whether a site, a stream or a query can have this name."""
    return _NAME.fullmatch(text) is not None


def suggestion(name: str, known: Iterable[str]) -> str:
    """The name that was probably meant, or a list of those that exist.

    >>> suggestion("fligths", ["flights", "weather"])
    "did you mean 'flights'?"
    """
    names = list(known)
    lower: Mapping[str, str] = {n.lower(): n for n in reversed(names[:_COMPARED])}
    close = get_close_matches(name.lower()[:200], lower, 2)
    if close and len({SequenceMatcher(None, c, name.lower()[:200]).ratio() for c in close}) == len(close):
        return f"did you mean {lower[close[0]]!r}?"
    shown = ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")
    return f"there is {shown}" if names else "there is none"
