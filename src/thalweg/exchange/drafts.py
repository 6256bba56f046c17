"""Drafts: parcels that workers have written and the driver has not yet published.

A worker can go on writing after Spark has given up its attempt. So every draft has a name of its own, and the
driver gathers only the drafts that successful tasks have named. The others are removed with the batch.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Sequence

from thalweg.errors import UserError
from thalweg.exchange.disk import ensure, failed, write_new
from thalweg.exchange.parcel_file import Edge, Label, encode, read_parcels
from thalweg.storage import Location
from thalweg.wire.parcel import Parcel

_PART = re.compile(r"[A-Za-z0-9._-]+")
_NAME = re.compile(r"(\d{12})\.(\w+-\w+|control)\.[A-Za-z0-9._-]+\.draft", re.ASCII)


class Drafts:
    """The drafts of a run, in ROOT/drafts: files of parcels that have no number yet."""

    def __init__(self, root: Location, run: str) -> None:
        self.folder, self.run = root / "drafts", run

    def write(self, edge: Edge, batch: int, name: str, parcels: Sequence[Parcel]) -> str:
        """Write a draft and return its file's name. `name` names the writer, for people who look."""
        if not _PART.fullmatch(name):
            raise ValueError(f"no name of a draft: {name!r}")
        if batch < 0:
            raise ValueError(f"batches have no negative numbers: {batch}")
        ensure(self.folder)
        file = f"{batch:012d}.{edge.name}.{name}.{uuid.uuid4().hex}.draft"
        try:
            # Not durable: after a power cut, the batch is repeated and writes new drafts.
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
        """Remove the drafts of this batch and of all earlier ones."""
        try:
            for path in self.folder.iterdir():
                if (found := _NAME.fullmatch(path.name)) and int(found[1]) <= batch:
                    path.unlink(missing_ok=True)
        except FileNotFoundError:
            return
        except OSError as error:
            raise failed(self.folder, error) from error
