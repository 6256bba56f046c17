"""The operators that a run has now, and who reads what of whom: a file that is written when that changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pydantic import TypeAdapter

from thalweg.files import write_text
from thalweg.storage import Location

State = Literal["", "starting", "ending", "leaving"]


@dataclass(frozen=True)
class Read:
    """What an operator reads: of which operator, at which site, in which form."""

    operator: str
    site: str
    form: str


@dataclass(frozen=True)
class Window:
    """What an operator keeps of an input: for so many microseconds, or as long as the tuples say."""

    name: str
    span: int | None
    rows: bool = False


@dataclass(frozen=True)
class Running:
    """An operator that runs. Its name in the plan is `operator` of `query`; a stream's source has neither.

    `state` tells of a change of plan: a `starting` operator has no windows yet, an `ending` one only finishes
    what is on its way to it.
    """

    name: str
    kind: str
    site: str
    query: str
    operator: str
    stream: str
    stage: int
    buckets: int
    reads: tuple[Read, ...]
    windows: tuple[Window, ...]
    gives_results: bool = False
    state: State = ""


@dataclass(frozen=True)
class Operators:
    """All that run from a batch on, by the plan of a change; 0 is the first plan."""

    first: int
    change: int
    coming: int
    running: tuple[Running, ...]

    def save(self, path: Location) -> None:
        write_text(path, _ADAPTER.dump_json(self).decode())

    @classmethod
    def load(cls, path: Location) -> Operators:
        """What is written down; none where there is no file, or a damaged one."""
        try:
            return _ADAPTER.validate_json(path.read_bytes())
        except (OSError, ValueError):
            return cls(0, 0, 0, ())


_ADAPTER = TypeAdapter(Operators)
