"""Files of parcels: a header with checksums, then what the parcels carry. Nothing in them is ever executed.

    magic | version | length of the header | checksum of the front and the header | header, JSON | body

The header says whose the file is, so that a file in the wrong place can't pass for another; the body is the
parcels' data, one after the other.
"""

from __future__ import annotations

import errno
import json
import os
import re
import stat
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from thalweg.errors import UserError
from thalweg.programs.parcel import Parcel

VERSION = 1
_MAGIC = b"TWPF"
_FRONT = struct.Struct("<4sII")
_SUM = struct.Struct("<I")
_START = _FRONT.size + _SUM.size
_SITE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class Edge:
    """Which way parcels go: from a site to a site. Only `CONTROL`, which all sites read, has no ends.

    >>> Edge("berlin", "tokyo").name, Edge.named("a-b"), CONTROL.name
    ('berlin-tokyo', Edge(source='a', target='b'), 'control')
    """

    source: str
    target: str

    def __post_init__(self) -> None:
        # Names become folders: whatever else was allowed could lead somewhere else.
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
    """What a file says of itself; `entries` has for each parcel all but its data, and the data's size."""

    label: Label
    sent_at: float
    entries: tuple[tuple[str, int, int, int | None, int, int, int], ...]
    body: int
    body_sum: int
    start: int

    @property
    def size(self) -> int:
        return self.start + self.body


def encode(label: Label, sent_at: float, parcels: Sequence[Parcel]) -> bytes:
    """A file with these parcels; the same body for the same parcels, whatever their order."""
    ordered = sorted(parcels, key=_rank)
    body = b"".join(p.data for p in ordered)
    header = json.dumps(
        {
            "run": label.run,
            "from": label.edge.source,
            "to": label.edge.target,
            "seq": label.seq,
            "batch": label.batch,
            "sent_at": sent_at,
            "body": len(body),
            "body_sum": zlib.crc32(body),
            "parcels": [_entry(p) for p in ordered],
        },
        separators=(",", ":"),
    ).encode()
    front = _FRONT.pack(_MAGIC, VERSION, len(header))
    return b"".join((front, _SUM.pack(zlib.crc32(header, zlib.crc32(front))), header, body))


def _entry(p: Parcel) -> tuple[str, int, int, int | None, int, int, int]:
    # NumPy's integers, which programs compute with, can't be written as JSON.
    bound = None if p.bound is None else int(p.bound)
    return p.stream, int(p.kind), int(p.n), bound, int(p.wall), int(p.payload), len(p.data)


def _rank(p: Parcel) -> tuple[Any, ...]:
    # The wall clock is the only part that differs when a batch is repeated, so it comes last.
    return (p.stream, p.kind, p.n, p.bound is not None, p.bound or 0, p.payload, p.data, p.wall)


def read_header(path: Path, run: str, edge: Edge, seq: int) -> Header:
    """What the file says of itself, checked; its body is not read."""
    with _Open(path) as file:
        return file.header(run, edge, seq)


def read_parcels(path: Path, run: str, edge: Edge, seq: int) -> tuple[Header, list[Parcel]]:
    """All that is in the file, checked to the last byte."""
    with _Open(path) as file:
        header = file.header(run, edge, seq)
        body = file.take(header.body)
    if zlib.crc32(body) != header.body_sum:
        raise damaged(path, "its content does not match its checksum")
    parcels, at = [], 0
    for stream, kind, n, bound, wall, payload, size in header.entries:
        parcels.append(Parcel(stream, kind, n, bound, wall, payload, body[at : at + size]))
        at += size
    return header, parcels


class _Open:
    """A file of parcels that is being read; what fails is said with the file's name."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
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
            data = self.file.read(count)
        except OSError as error:
            raise failed(self.path, error) from None
        if len(data) != count:
            raise damaged(self.path, "it is cut short")
        return data

    def header(self, run: str, edge: Edge, seq: int) -> Header:
        if self.size == 0:
            raise damaged(self.path, "it is empty")
        front = self.take(_FRONT.size)
        magic, version, length = _FRONT.unpack(front)
        if magic != _MAGIC:
            raise damaged(self.path, "it is no file of parcels")
        if version > VERSION:
            raise UserError(
                f"is of version {version}, and this thalweg reads up to {VERSION}",
                where=str(self.path),
                remedy="update thalweg",
            )
        (wanted,) = _SUM.unpack(self.take(_SUM.size))
        if length > self.size - _START:  # before so much memory is asked for
            raise damaged(self.path, "it is cut short")
        text = self.take(length)
        if zlib.crc32(text, zlib.crc32(front)) != wanted:
            raise damaged(self.path, "its header does not match its checksum")
        try:
            header = _parsed(json.loads(text), _START + length)
        except (ValueError, TypeError, KeyError):
            raise damaged(self.path, "its header can't be read") from None
        self._check(header, run, edge, seq)
        return header

    def _check(self, header: Header, run: str, edge: Edge, seq: int) -> None:
        of = header.label
        if of.run != run:
            raise UserError(f"belongs to another run ({of.run!r}, not {run!r})", where=str(self.path))
        if of.edge != edge:
            raise UserError(f"belongs to {of.edge.name}, not to {edge.name}", where=str(self.path))
        if of.seq != seq:
            raise UserError(f"is file {of.seq} of {edge.name}, not {seq}", where=str(self.path))
        if header.size != self.size:
            cut = "cut short" if self.size < header.size else "longer than it says"
            raise damaged(self.path, f"it is {cut}")


def _parsed(said: dict[str, Any], start: int) -> Header:
    entries = tuple(
        (
            str(stream),
            int(kind),
            int(n),
            None if bound is None else int(bound),
            int(wall),
            int(pay),
            int(size),
        )
        for stream, kind, n, bound, wall, pay, size in said["parcels"]
    )
    sizes = [entry[-1] for entry in entries]
    if min(sizes, default=0) < 0 or sum(sizes) != said["body"]:
        raise ValueError("sizes that do not add up")
    label = Label(said["run"], Edge(said["from"], said["to"]), int(said["seq"]), int(said["batch"]))
    return Header(label, float(said["sent_at"]), entries, int(said["body"]), int(said["body_sum"]), start)


def damaged(path: Path, how: str) -> UserError:
    """What is said of a file that is not as it was written."""
    return UserError(f"is damaged: {how}", where=str(path), remedy="start the run in a new folder")


def failed(path: Path, error: OSError) -> UserError:
    """What is said where a file or folder can't be reached."""
    if error.errno == errno.ENOENT:
        return UserError("is missing", where=str(path), remedy="start the run in a new folder")
    if error.errno == errno.ELOOP:
        return UserError("is a symbolic link, which is not followed", where=str(path))
    return UserError(f"can't be used: {error.strerror or error}", where=str(path))
