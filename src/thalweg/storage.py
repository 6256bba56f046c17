"""Where files are: in a folder, or in an object store.

A location is a `Path`, or a `RemotePath`, which has the part of a path's methods that a run needs. What a
disk and an object store do differently is in `files`, `exchange.disk` and `lock`.
"""

from __future__ import annotations

import errno
import functools
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Any, TypeAlias
from urllib.parse import unquote

from thalweg.errors import UserError
from thalweg.extras import need

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(?=/)")
_PATTERN = re.compile(r"[*?\[]")
_STORES = {"s3a": "s3", "s3": "s3"}
"""The extra of this package that a scheme needs."""

_PLANNED = ("hdfs", "abfss", "abfs", "gs", "webhdfs")
_BUSY = {errno.EBUSY, getattr(errno, "EREMOTEIO", errno.EIO), errno.ETIMEDOUT}


def scheme_of(path: str) -> str:
    """The scheme of a path, in small letters; empty for a plain one.

    >>> scheme_of("s3a://bucket/run"), scheme_of("/data/run"), scheme_of("a:b")
    ('s3a', '', '')
    """
    found = _SCHEME.match(path)
    return found[1].lower() if found else ""


def location(path: str | os.PathLike[str] | RemotePath) -> Location:
    """The location that a user names: a plain path, `file:///...`, or `s3a://BUCKET/...`.

    >>> location("file:///data/my%20run"), location("s3://bucket/a//run/")
    (PosixPath('/data/my run'), RemotePath(scheme='s3a', key='bucket/a/run'))
    """
    if isinstance(path, RemotePath):
        return path
    text = os.fspath(path)
    scheme = scheme_of(text)
    if not scheme:
        return Path(text)
    if scheme == "file":
        return Path("/" + unquote(text.split(":", 1)[1]).lstrip("/"))
    if scheme not in _STORES:
        planned = " yet" if scheme in _PLANNED else ""
        raise UserError(
            f"paths with {scheme}:// can't be used{planned}",
            where=text,
            remedy="give a folder, file:///... or s3a://BUCKET/...",
        )
    key = "/".join(part for part in text.split(":", 1)[1].split("/") if part)
    if not key:
        raise UserError("names no bucket", where=text, remedy=f"such as {scheme}://BUCKET/run")
    if ".." in key.split("/"):
        raise UserError("has `..` in it", where=text, remedy="write the whole name")
    return RemotePath("s3a", key)


def folder(text: str) -> Path:
    """A folder of this machine: a path or `file:///...`."""
    found = location(text)
    assert isinstance(found, Path)
    return found


@functools.cache
def _opened(scheme: str, process: int) -> Any:
    """The file system of a scheme; each process has its own, as connections can't be shared."""
    need(f"{scheme}://", _STORES[scheme], note=", on all machines")
    import s3fs

    own = own_endpoint()
    # Servers that are not Amazon's have no host name for each bucket.
    style = {"s3": {"addressing_style": "path"}} if own else {}
    # What has been listed before is never used: other processes write at the same time.
    return s3fs.S3FileSystem(use_listings_cache=False, endpoint_url=own, config_kwargs=style)


def own_endpoint() -> str | None:
    """The address of a server that is not Amazon's, where the environment names one."""
    return os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or None


@dataclass(frozen=True, order=True)
class RemotePath:
    """A name in an object store: `key` begins with the bucket. There are no folders, only names below it."""

    scheme: str
    key: str

    def __str__(self) -> str:
        return f"{self.scheme}://{self.key}"

    def __truediv__(self, name: str) -> RemotePath:
        return RemotePath(self.scheme, f"{self.key}/{name}")

    @property
    def name(self) -> str:
        return PurePosixPath(self.key).name

    @property
    def stem(self) -> str:
        return PurePosixPath(self.key).stem

    @property
    def suffix(self) -> str:
        return PurePosixPath(self.key).suffix

    @property
    def parent(self) -> RemotePath:
        return RemotePath(self.scheme, str(PurePosixPath(self.key).parent))

    def with_name(self, name: str) -> RemotePath:
        return self.parent / name

    def absolute(self) -> RemotePath:
        return self

    def resolve(self) -> RemotePath:
        return self

    @property
    def bucket(self) -> str:
        return self.key.partition("/")[0]

    @property
    def _store(self) -> Any:
        return _opened(self.scheme, os.getpid())

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Errors of the store as those of a disk are, with the name."""
        try:
            yield
        except FileNotFoundError as error:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(self)) from error
        except FileExistsError as error:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(self)) from error
        except PermissionError as error:
            raise PermissionError(errno.EACCES, _line(error), str(self)) from error
        except UserError:
            raise
        except OSError as error:
            waits = isinstance(error, TimeoutError) or error.errno in _BUSY
            raise OSError(errno.EIO if waits else error.errno, _line(error), str(self)) from error
        except Exception as error:  # of the network, or of a library below
            if "Credentials" in type(error).__name__:
                raise PermissionError(errno.EACCES, _line(error), str(self)) from error
            raise OSError(errno.EIO, _line(error), str(self)) from error

    def _names(self, prefix: str = "") -> list[tuple[str, bool]]:
        """The names directly below this one that begin with a prefix, and whether there are more below."""
        with self._told():
            try:
                found = self._store.find(self.key, maxdepth=1, withdirs=True, detail=True, prefix=prefix)
            except FileNotFoundError:
                return []
        below = f"{self.key}/"
        names = {
            (key.removeprefix(below).rstrip("/"), one["type"] == "directory")
            for key, one in found.items()
            if key.startswith(below)
        }
        return sorted(name for name in names if name[0])

    def exists(self) -> bool:
        return self.is_file() or self.is_dir()

    def is_file(self) -> bool:
        try:
            with self._told():
                return bool(self._store.info(self.key, refresh=True)["type"] == "file")
        except FileNotFoundError:
            return False

    def is_dir(self) -> bool:
        """Whether there are names below it."""
        return bool(self._names())

    def is_symlink(self) -> bool:
        return False

    def iterdir(self) -> Iterator[RemotePath]:
        """The names directly below; none is no error, as there are no folders."""
        return (self / name for name, _ in self._names())

    def glob(self, pattern: str) -> Iterator[RemotePath]:
        """The names below that match, as `Path.glob`; the store is asked only for names that begin alike."""
        first, _, rest = pattern.partition("/")
        magic = _PATTERN.search(first)
        if magic is None:
            found = [(first, True)] if rest else [(first, False)] if (self / first).exists() else []
        else:
            found = [one for one in self._names(first[: magic.start()]) if fnmatchcase(one[0], first)]
        for name, more in found:
            if not rest:
                yield self / name
            elif more:
                yield from (self / name).glob(rest)

    def size(self) -> int:
        with self._told():
            return int(self._store.info(self.key, refresh=True)["size"])

    def stamp(self) -> str:
        """What changes whenever the file does."""
        with self._told():
            return str(self._store.info(self.key, refresh=True)["ETag"])

    def read_bytes(self, start: int | None = None, end: int | None = None) -> bytes:
        with self._told():
            return bytes(self._store.cat_file(self.key, start=start, end=end))

    def read_text(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        return self.read_bytes().decode(encoding, errors)

    def open(self) -> RemoteFile:
        """The file, to be read from its beginning."""
        return RemoteFile(self)

    def write_bytes(self, data: bytes) -> None:
        """Write the whole file, which takes the place of one that is there."""
        with self._told():
            self._store.pipe_file(self.key, data)

    def create(self, data: bytes) -> bool:
        """Write the whole file if there is none; False if there is one. Of two writers, the first wins."""
        try:
            with self._told():
                self._store.pipe_file(self.key, data, mode="create")
        except FileExistsError:
            return False
        return True

    def replace_if(self, stamp: str, data: bytes) -> bool:
        """Write the whole file if it still has this stamp; False if it has changed, or is gone."""
        try:
            with self._told():
                self._store.pipe_file(self.key, data, IfMatch=stamp)
        except FileNotFoundError:
            return False
        except OSError as error:
            if error.errno != errno.EINVAL:  # as the precondition that is not met is told
                raise
            return False
        return True

    def put(self, file: Path) -> None:
        """Take over a local file."""
        with self._told():
            self._store.put_file(str(file), self.key)

    def get(self, file: Path) -> None:
        """Copy it to a local file."""
        with self._told():
            self._store.get_file(self.key, str(file))

    def move(self, target: RemotePath) -> None:
        """Give it another name, within the store; a file of that name is replaced."""
        with self._told():
            self._store.cp_file(self.key, target.key)
            self._store.rm_file(self.key)

    def remove_below(self) -> None:
        """Remove all names below this one."""
        with self._told():
            try:
                found = self._store.find(f"{self.key}/")
            except FileNotFoundError:
                return
            if found:
                self._store.rm(found)

    def unlink(self, missing_ok: bool = True) -> None:
        """Remove the file; stores don't say whether there was one."""
        with self._told():
            self._store.rm_file(self.key)

    def mkdir(self, mode: int = 0o777, parents: bool = False, exist_ok: bool = False) -> None:
        """Nothing: names need no folder."""


class RemoteFile:
    """A file that is read from its beginning: first its first bytes, then, if they are wanted, all others."""

    _FIRST = 1 << 16

    def __init__(self, path: RemotePath) -> None:
        self._path, self.size, self._at = path, path.size(), 0
        self._data = path.read_bytes(0, min(self._FIRST, self.size)) if self.size else b""

    def read(self, count: int) -> bytes:
        if self._at + count > len(self._data) < self.size:
            self._data += self._path.read_bytes(len(self._data), self.size)
        self._at += count
        return self._data[self._at - count : self._at]

    def close(self) -> None:
        self._data = b""


Location: TypeAlias = Path | RemotePath


def _line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
