"""Exchanges in files: ROOT/FROM-TO/NUMBER.parcels, each written once: the first writer of a number wins."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from thalweg.errors import UserError
from thalweg.exchange.disk import NEW_FOLDER, create, ensure, failed, sync
from thalweg.exchange.links import Link, Passed, chance
from thalweg.exchange.log import Sent
from thalweg.exchange.parcel_file import Edge, Header, Label, encode, read_header, read_parcels
from thalweg.storage import Location, RemotePath
from thalweg.wire.parcel import Parcel

_FILE = re.compile(r"(\d{12})\.parcels")
_DRAFT = re.compile(r"\.(\d{12})\..*\.draft")


class FileExchange:
    """The files of one edge. `clock` gives the moment of sending, in seconds."""

    def __init__(
        self,
        root: Location,
        run: str,
        edge: Edge,
        link: Link | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.root, self.run, self.edge, self.link, self.clock = root, run, edge, link or Link(), clock
        self.folder = root / edge.name
        self._passed: dict[int, Passed] = {}

    def path(self, seq: int) -> Location:
        return self.folder / f"{seq:012d}.parcels"

    def publish(self, batch: int, parcels: Sequence[Parcel]) -> Sent:
        """See `Exchange`. The file appears whole or not at all. Of two writers, the first wins."""
        if batch < 0:
            raise ValueError(f"batches have no negative numbers: {batch}")
        while True:
            ensure(self.folder)
            last = self.last()
            if last and (header := self._header(last)).label.batch >= batch:
                if header.label.batch > batch:
                    raise UserError(
                        f"is of batch {header.label.batch}; batch {batch} can't come after it",
                        where=str(self.path(last)),
                        remedy=NEW_FOLDER,
                    )
                sync(self.folder)  # its writer may have been killed before it did so
                return _sent(header)
            label = Label(self.run, self.edge, last + 1, batch)
            data = encode(label, self.clock(), parcels)
            if self._create(label.seq, data):
                tuples, payload = sum(int(p.n) for p in parcels), sum(int(p.payload) for p in parcels)
                return Sent(label.seq, batch, tuples, payload, len(data))

    def _create(self, seq: int, data: bytes) -> bool:
        """Write a file under this number; False if another writer has taken the number."""
        try:
            if not create(self.path(seq), data):
                return False
            self._sweep(seq)
        except OSError as error:
            raise failed(self.path(seq), error) from error
        return True

    def _sweep(self, upto: int) -> None:
        """Remove the drafts that killed writers have left: their numbers are taken."""
        if isinstance(self.folder, RemotePath):  # it has none
            return
        for path in self.folder.iterdir():
            if (found := _DRAFT.fullmatch(path.name)) and int(found[1]) <= upto:
                path.unlink(missing_ok=True)

    def last(self) -> int:
        return max(self._numbers(), default=0)

    def ready(self, after: int, now: float) -> int:
        if self.link == Link():
            # Clocks of different machines differ. Without an emulated link, no clock is read.
            return max(self._unread(after), default=after)
        last = after
        for seq, passed in self._schedule(after):
            if passed.arrives_at > now:
                break
            last = seq
        return last

    def next_at(self, after: int) -> float | None:
        return next((passed.arrives_at for _, passed in self._schedule(after)), None)

    def _schedule(self, after: int) -> Iterator[tuple[int, Passed]]:
        """When each unread file arrives.

        A file queues behind the files before it. If those were forgotten before this process started, the
        line is assumed to be free, as it usually is.
        """
        unread = self._unread(after)
        for seq in [n for n in self._passed if n < after]:
            del self._passed[seq]
        kept = [after] if after and after not in self._passed and self.path(after).exists() else []
        for seq in kept + unread:
            if seq not in self._passed:
                header = self._header(seq)
                self._passed[seq] = self.link.passed(
                    sent_at=header.sent_at,
                    size=header.size,
                    before=self._passed.get(seq - 1),
                    chance=chance(self.run, self.edge.name, seq),
                )
            if seq > after:
                yield seq, self._passed[seq]

    def _unread(self, after: int) -> list[int]:
        """The numbers after this one, without a gap."""
        there = set(self._numbers())
        newest = max(there, default=0)
        # The newest file is never removed. A reader that has read further has read a file that is gone.
        for seq in range(after + 1, newest + 1) if newest >= after else [after]:
            # A listing made while files appear can have a later file and lack an earlier one.
            path = self.path(seq)
            if seq not in there and not path.exists() and not path.is_symlink():
                raise UserError("is missing", where=str(path), remedy=NEW_FOLDER)
        return list(range(after + 1, newest + 1))

    def _numbers(self) -> list[int]:
        try:
            if self.folder.is_symlink():
                raise UserError("is a symbolic link, which is not followed", where=str(self.folder))
            names = [path.name for path in self.folder.iterdir()]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise failed(self.folder, error) from error
        return [int(found[1]) for name in names if (found := _FILE.fullmatch(name))]

    def _header(self, seq: int) -> Header:
        return read_header(self.path(seq), self.run, self.edge, seq)

    def read(self, seq: int) -> list[Parcel]:
        return read_parcels(self.path(seq), self.run, self.edge, seq)[1]

    def sent(self, seq: int) -> Sent:
        return _sent(self._header(seq))

    def forget(self, upto: int) -> None:
        """See `Exchange`. The newest file stays: the next number and the last batch are read from it."""
        try:
            # In this order, the rest has no gap even if the process dies here.
            for seq in sorted(self._numbers())[:-1]:
                if seq <= upto:
                    self.path(seq).unlink(missing_ok=True)
        except OSError as error:
            raise failed(self.folder, error) from error


class FileExchanges:
    """The exchanges below one folder; `links` has the emulated link of an edge by the edge's name."""

    def __init__(
        self,
        root: Location,
        run: str,
        links: Mapping[str, Link] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.root, self.run, self.links, self.clock = root, run, dict(links or {}), clock
        self._open: dict[Edge, FileExchange] = {}

    def edges(self) -> list[Edge]:
        try:
            names = sorted(path.name for path in self.root.iterdir())
        except FileNotFoundError:
            return []
        except OSError as error:
            raise failed(self.root, error) from error
        found: list[Edge] = []
        for name in names:
            with contextlib.suppress(ValueError):  # drafts, and other folders
                found.append(Edge.named(name))
        return found

    def over(self, edge: Edge) -> FileExchange:
        if edge not in self._open:
            link = self.links.get(edge.name)
            self._open[edge] = FileExchange(self.root, self.run, edge, link, self.clock)
        return self._open[edge]


def _sent(header: Header) -> Sent:
    return Sent(header.label.seq, header.label.batch, header.tuples, header.payload, header.size)
