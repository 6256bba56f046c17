"""What Thalweg says when the user's input is wrong, or Spark fails."""

from __future__ import annotations


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
