"""What was probably meant by a name that does not exist."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import SequenceMatcher, get_close_matches


def suggestion(name: str, known: Iterable[str]) -> str:
    """What was probably meant, or what there is.

    >>> suggestion("fligths", ["flights", "weather"])
    "did you mean 'flights'?"
    """
    names = list(known)
    lower: Mapping[str, str] = {n.lower(): n for n in reversed(names)}
    close = get_close_matches(name.lower()[:200], lower, 2)
    if close and len({SequenceMatcher(None, c, name.lower()[:200]).ratio() for c in close}) == len(close):
        return f"did you mean {lower[close[0]]!r}?"
    shown = ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")
    return f"there is {shown}" if names else "there is none"
