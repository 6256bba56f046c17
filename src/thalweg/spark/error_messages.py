"""What Spark's errors say, in a line, and whose fault they are."""

from __future__ import annotations

import re
from pathlib import Path

from pyspark.errors import PySparkException

from thalweg.errors import RunError, UserError
from thalweg.files import FULL, unusable

_OURS = re.compile(r"thalweg\.errors\.(UserError|RunError): (.+)")
_FAILED = re.compile(r"^\[STREAM_FAILED\].*? terminated with exception: ", re.DOTALL)
_CONDITION = re.compile(r"^\[[A-Z0-9_.]+\] ")
_DATA_EXCEPTION = "22"  # the class of SQLSTATEs: a value that an expression can't be computed for


def reason(error: Exception) -> str:
    """The first line of an error of Spark, without what only Spark's own log needs.

    >>> reason(PySparkException("[PARSE_SYNTAX_ERROR] Syntax error at or near ','. SQLSTATE: 42601 (line 1)"))
    "[PARSE_SYNTAX_ERROR] Syntax error at or near ','"
    """
    text = _FAILED.sub("", str(error).strip())
    return (text.splitlines() or [""])[0].split(" SQLSTATE", 1)[0].rstrip(" ;.")


def in_our_words(error: Exception, where: str) -> Exception:
    """An error of a run as it is told: a `UserError` where the queries, data or sources are at fault.

    A message of ours that was raised in a worker comes back inside Spark's.
    """
    text = str(error)
    full = next((name for name in FULL if name in text), None)
    if ours := _OURS.search(text):
        theirs = ours[1] == "UserError" and not full
        return UserError(ours[2].strip()) if theirs else RunError(ours[2].strip())
    if isinstance(error, OSError) and error.filename:
        return unusable(Path(error.filename), error)
    if full:
        return RunError(f"{full}; make room, then run the same command again")
    if "PATH_NOT_FOUND" in text:
        return UserError(reason(error))
    if not isinstance(error, PySparkException):
        return error
    what, remedy = _sentences(reason(error))
    if (error.getSqlState() or "").startswith(_DATA_EXCEPTION):
        return UserError(what, where=where, remedy=remedy)
    return RunError(f"{where}: {what}")


def _sentences(text: str) -> tuple[str, str | None]:
    """The first sentence, which says what is wrong, and the one that says what to use instead.

    >>> _sentences("[DIVIDE_BY_ZERO] Division by zero. Use `try_divide` to tolerate it. If necessary, do")
    ('[DIVIDE_BY_ZERO] Division by zero', 'use `try_divide` to tolerate it')
    """
    condition = _CONDITION.match(text)
    start = condition.end() if condition else 0
    first, *others = re.split(r"(?<=[^.])\. (?=[A-Z])", text[start:])
    use = next((s for s in others if s.startswith("Use ")), None)
    return text[:start] + first, None if use is None else "u" + use[1:].rstrip(".")
