"""Files of parcels: a header, then the parcels' data, each with a checksum. Nothing in a file is executed.

    file    magic | version | length of the header | checksum of all this and the header | header | body
    header  fingerprint of the run | of the edge | number | batch | moment of sending | parcels
    parcel  shipment, flags and kind | wall clock | bound | tuples, payload, size of its data
    body    checksum of the body, and of the header again | data of all parcels

Integers are varints. A time is the difference to the same time of the parcel before, or to the moment of
sending. A flag says whether a parcel has a bound, another whether it has tuples. A file without data has no
body. The fingerprints say whose the file is: a file in the wrong place can't pass for another.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import IO, Any

from thalweg.errors import UserError
from thalweg.exchange.disk import damaged, failed
from thalweg.storage import Location, RemoteFile, RemotePath
from thalweg.wire import varints
from thalweg.wire.parcel import Kind, Parcel
from thalweg.wire.varints import Reader

VERSION = 3
_MAGIC = b"tw"
_PRINT, _SUM = 4, 4  # bytes of a fingerprint and of a checksum
_KIND, _BOUND, _TUPLES, _FLAGS = 7, 8, 16, 5  # a parcel's kind and flags, and how many bits they take
_SITE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class Edge:
    """The way from a site to a site, perhaps to itself. Only `CONTROL`, which all sites read, has no ends.

    >>> Edge("berlin", "tokyo").name, Edge.named("a-b"), CONTROL.name
    ('berlin-tokyo', Edge(source='a', target='b'), 'control')
    """

    source: str
    target: str

    def __post_init__(self) -> None:
        # Names become folders: other characters could lead out of the run's folder.
        if not (self.source == self.target == "" or all(map(is_site, (self.source, self.target)))):
            raise ValueError(f"no names of sites: {self.source!r}, {self.target!r}")

    @property
    def name(self) -> str:
        return f"{self.source}-{self.target}" if self.source else "control"

    @staticmethod
    def named(name: str) -> Edge:
        if name == "control":
            return CONTROL
        source, dash, target = name.partition("-")
        if not dash or not source:
            raise ValueError(f"no name of an edge: {name!r}")
        return Edge(source, target)


CONTROL = Edge("", "")


def is_site(name: str) -> bool:
    """Whether a site can have this name."""
    return _SITE.fullmatch(name) is not None


@dataclass(frozen=True, slots=True)
class Label:
    """Whose a file is: the run, the edge, its number there, and the batch that sent it."""

    run: str
    edge: Edge
    seq: int
    batch: int


@dataclass(frozen=True, slots=True)
class Header:
    """What a file says of itself: its parcels without their data, and the sizes of the data."""

    label: Label
    sent_at: float
    parcels: tuple[Parcel, ...]
    sizes: tuple[int, ...]
    length: int
    checksum: int

    @property
    def tuples(self) -> int:
        return sum(p.n for p in self.parcels)

    @property
    def payload(self) -> int:
        return sum(p.payload for p in self.parcels)

    @property
    def body(self) -> int:
        return sum(self.sizes)

    @property
    def size(self) -> int:
        """The size of the file."""
        return self.length + (_SUM + self.body if self.body else 0)


def encode(label: Label, sent_at: float, parcels: Sequence[Parcel]) -> bytes:
    """A file with these parcels: the same bytes for the same parcels in any order."""
    ordered = sorted(parcels, key=_rank)
    header = bytearray(_prints(label.run, label.edge))
    moment = round(sent_at * 1e6)
    clocked = any(p.wall for p in ordered)  # most runs have no need of the wall clock
    varints.put(header, label.seq << 1 | clocked)
    varints.put_signed(header, label.batch - label.seq)
    varints.put_signed(header, moment)
    wall, bound = moment if clocked else 0, moment
    for p in ordered:
        if p.kind > _KIND:
            raise ValueError(f"a parcel of kind {p.kind} does not fit into a file")
        tuples = bool(p.n or p.payload or p.data)
        flags = Kind(p.kind) | (_BOUND if p.bound is not None else 0) | (_TUPLES if tuples else 0)
        varints.put(header, int(p.shipment) << _FLAGS | flags)
        varints.put_signed(header, _wrapped(int(p.wall) - wall))
        wall = int(p.wall)
        if p.bound is not None:
            varints.put_signed(header, _wrapped(int(p.bound) - bound))
            bound = int(p.bound)
        if tuples:
            for count in (int(p.n), int(p.payload), len(p.data)):
                varints.put(header, count)
    front = bytearray(_MAGIC)
    front.append(VERSION)
    varints.put(front, len(header))
    checksum = zlib.crc32(header, zlib.crc32(front))
    front += checksum.to_bytes(_SUM, "little") + header
    body = b"".join(p.data for p in ordered)
    if not body:
        return bytes(front)
    return b"".join((front, zlib.crc32(body, checksum).to_bytes(_SUM, "little"), body))


def _rank(p: Parcel) -> tuple[Any, ...]:
    # Only the wall clock differs when a batch is repeated, so it comes last.
    return (p.shipment, p.kind, p.n, p.bound is not None, p.bound or 0, p.payload, p.data, p.wall)


def _prints(run: str, edge: Edge) -> bytes:
    return b"".join(hashlib.blake2b(of.encode(), digest_size=_PRINT).digest() for of in (run, edge.name))


def _wrapped(value: int) -> int:
    """Modulo 2^64: the difference of two signed integers of 64 bits may not be one."""
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)


def _parsed(header: Reader, run: str, edge: Edge, length: int, checksum: int) -> Header:
    seq, clocked = divmod(header.number(), 2)
    batch = seq + header.signed()
    if batch < 0:
        raise ValueError("a negative batch")
    moment = header.signed()
    wall, bound = moment if clocked else 0, moment
    parcels, sizes = [], []
    while header.left:
        flags = header.number()
        wall = _wrapped(wall + header.signed())
        if flags & _BOUND:
            bound = _wrapped(bound + header.signed())
        n, payload, size = (header.number() if flags & _TUPLES else 0 for _ in range(3))
        told = bound if flags & _BOUND else None
        parcels.append(Parcel(flags >> _FLAGS, Kind(flags & _KIND), n, told, wall, payload))
        sizes.append(size)
    label = Label(run, edge, seq, batch)
    return Header(label, moment / 1e6, tuple(parcels), tuple(sizes), length, checksum)


def read_header(path: Location, run: str, edge: Edge, seq: int) -> Header:
    """The header of a file, checked. The body is not read."""
    with _Open(path) as file:
        return file.header(run, edge, seq)


def read_parcels(path: Location, run: str, edge: Edge, seq: int) -> tuple[Header, list[Parcel]]:
    """The header and the parcels of a file, checked to the last byte."""
    with _Open(path) as file:
        header = file.header(run, edge, seq)
        if not header.body:
            return header, list(header.parcels)
        wanted = int.from_bytes(file.take(_SUM), "little")
        body = file.take(header.body)
    if zlib.crc32(body, header.checksum) != wanted:
        raise damaged(path, "its content does not match its checksum")
    parcels, at = [], 0
    for parcel, size in zip(header.parcels, header.sizes, strict=True):
        parcels.append(replace(parcel, data=body[at : at + size]))
        at += size
    return header, parcels


class _Open:
    """A file of parcels that is being read. Errors name the file."""

    def __init__(self, path: Location) -> None:
        self.path = path
        self.file: IO[bytes] | RemoteFile
        try:
            if isinstance(path, RemotePath):
                self.file = path.open()
                self.size = self.file.size
                return
            # A link could lead anywhere, and a pipe would block.
            handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            raise failed(path, error) from None
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            os.close(handle)
            raise UserError("is not a file", where=str(path))
        self.file, self.size = os.fdopen(handle, "rb"), found.st_size

    def __enter__(self) -> _Open:
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()

    def take(self, count: int) -> bytes:
        try:
            # The size first, before so much memory is asked for.
            data = self.file.read(count) if count <= self.size else b""
        except OSError as error:
            raise failed(self.path, error) from None
        if len(data) != count:
            raise damaged(self.path, "it is cut short")
        return data

    def header(self, run: str, edge: Edge, seq: int) -> Header:
        if self.size == 0:
            raise damaged(self.path, "it is empty")
        front = self.take(len(_MAGIC) + 1)
        if not front.startswith(_MAGIC):
            raise damaged(self.path, "it is no file of parcels")
        if (version := front[-1]) != VERSION:
            newer = version > VERSION
            raise UserError(
                f"is of version {version}, and this thalweg reads {'up to' if newer else 'only'} {VERSION}",
                where=str(self.path),
                remedy="update thalweg" if newer else "start the run in a new folder",
            )
        more = self._varint()
        wanted = int.from_bytes(self.take(_SUM), "little")
        content = self.take(more.number())
        checksum = zlib.crc32(content, zlib.crc32(more.data, zlib.crc32(front)))
        if checksum != wanted:
            raise damaged(self.path, "its header does not match its checksum")
        header = Reader(content)
        length = len(front) + len(more.data) + _SUM + len(content)
        try:
            self._check_place(bytes(header.take(2 * _PRINT)), run, edge)
            found = _parsed(header, run, edge, length, checksum)
        except ValueError:
            raise damaged(self.path, "its header can't be read") from None
        if found.label.seq != seq:
            raise UserError(f"is file {found.label.seq} of {edge.name}, not {seq}", where=str(self.path))
        if found.size != self.size:
            cut = "cut short" if self.size < found.size else "longer than it says"
            raise damaged(self.path, f"it is {cut}")
        return found

    def _varint(self) -> Reader:
        """The bytes of the next varint."""
        data = self.take(1)
        while data[-1] > 127 and len(data) < 5:
            data += self.take(1)
        if data[-1] > 127:
            raise damaged(self.path, "its header can't be read")
        return Reader(data)

    def _check_place(self, prints: bytes, run: str, edge: Edge) -> None:
        ours = _prints(run, edge)
        if prints[:_PRINT] != ours[:_PRINT]:
            raise UserError(f"belongs to another run, not to {run!r}", where=str(self.path))
        if prints != ours:
            raise UserError(f"belongs to another edge, not to {edge.name}", where=str(self.path))
