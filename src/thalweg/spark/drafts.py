"""What workers of Spark want to send, until the driver has published it.

A worker of an attempt that was given up may go on writing. So every draft has a name of its own, the driver
gathers only those whose names the tasks that counted have told it, and whatever else is there goes with the
batch.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Sequence
from pathlib import Path

from thalweg.errors import UserError
from thalweg.programs.parcel import Parcel
from thalweg.spark.exchange import ensure, write_new
from thalweg.spark.parcels import Edge, Label, encode, failed, read_parcels

_PART = re.compile(r"[A-Za-z0-9._-]+")
_NAME = re.compile(r"(\d{12})\.(\w+-\w+|control)\.[A-Za-z0-9._-]+\.draft", re.ASCII)


class Drafts:
    """ROOT/drafts: files of parcels without a number of an exchange."""

    def __init__(self, root: Path, run: str) -> None:
        self.folder, self.run = root / "drafts", run

    def write(self, edge: Edge, batch: int, name: str, parcels: Sequence[Parcel]) -> str:
        """Write a draft and return its file's name. `name` says who wrote it, for people who look."""
        if not _PART.fullmatch(name):
            raise ValueError(f"no name of a draft: {name!r}")
        if batch < 0:
            raise ValueError(f"no number of a batch: {batch}")
        ensure(self.folder)
        file = f"{batch:012d}.{edge.name}.{name}.{uuid.uuid4().hex}.draft"
        try:
            # Not made durable: when the machine fails, the batch is repeated and writes others.
            write_new(
                self.folder / file, encode(Label(self.run, edge, 0, batch), 0.0, parcels), durable=False
            )
        except OSError as error:
            raise failed(self.folder / file, error) from error
        return file

    def gather(self, names: Sequence[str]) -> list[Parcel]:
        """The parcels of these drafts."""
        if len(set(names)) < len(names):
            raise ValueError("a draft is named twice; its parcels would be sent twice")
        gathered: list[Parcel] = []
        for name in names:
            if not (found := _NAME.fullmatch(name)):
                raise ValueError(f"no name of a draft: {name!r}")
            path = self.folder / name
            header, parcels = read_parcels(path, self.run, Edge.named(found[2]), 0)
            if header.label.batch != int(found[1]):
                raise UserError(f"is of batch {header.label.batch}", where=str(path))
            gathered += parcels
        return gathered

    def clear(self, batch: int) -> None:
        """Remove the drafts of this batch, and what earlier ones have left."""
        try:
            for path in self.folder.iterdir():
                if (found := _NAME.fullmatch(path.name)) and int(found[1]) <= batch:
                    path.unlink(missing_ok=True)
        except FileNotFoundError:
            return
        except OSError as error:
            raise failed(self.folder, error) from error
