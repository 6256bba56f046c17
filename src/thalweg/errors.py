"""What Thalweg says when the user's input is wrong, Spark fails, or a run is stopped."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class UserError(Exception):
    """The user's input is wrong: what, where, and what would be right.

    >>> str(UserError("unknown stream 'fligths'", where="gate.sql, line 2", remedy="did you mean 'flights'?"))
    "gate.sql, line 2: unknown stream 'fligths'; did you mean 'flights'?"
    """

    def __init__(self, what: str, *, where: str | None = None, remedy: str | None = None) -> None:
        self.what, self.where, self.remedy = what, where, remedy
        super().__init__((f"{where}: " if where else "") + what + (f"; {remedy}" if remedy else ""))


class RunError(Exception):
    """Spark failed in a run, through no fault of the input's: the message says where, and why."""


def in_a_line(error: BaseException) -> str:
    """An error that nobody has foreseen, in one line; ours as they are.

    >>> in_a_line(ValueError("no number\\nin line 3")), in_a_line(RunError("Spark has ended"))
    ('ValueError: no number', 'Spark has ended')
    """
    text = str(error).strip()
    if isinstance(error, RunError | UserError):
        return text
    return f"{type(error).__name__}: {text.splitlines()[0]}" if text else type(error).__name__


class Stopped(Exception):  # noqa: N818 (no error)
    """A signal has stopped a run that was to complete; `metrics` is how far it has come."""

    def __init__(self, metrics: Mapping[str, Any], signal: int) -> None:
        self.metrics, self.status = metrics, 128 + signal
        super().__init__("stopped; the same command continues")
