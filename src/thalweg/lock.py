"""Who may write to the folder of a run: one process at a time.

In a folder the kernel holds the lock, and frees it when the process is gone. In an object store it is a
lease: an object that its holder writes anew every few seconds, on the condition that nobody else has done so.
One that has stayed the same for long enough is free. No clock is compared with another machine's: who waits
measures with its own clock for how long the lease has stayed the same.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import IO, Protocol

from thalweg.errors import RunError, UserError
from thalweg.files import unusable
from thalweg.processes import Process
from thalweg.storage import Location, RemotePath

RENEW_S = 5.0
"""The holder of a lease writes it so often."""
EXPIRES_S = 30.0
"""A lease that has stayed the same for so long is free."""
MARGIN_S = 10.0
"""The holder stops so long before the lease is free: it may have been renewed later than it knows."""


def _clock() -> float:
    """Seconds since this machine was started, those in which it slept as well."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class Lock(Protocol):
    """A lock that this process holds."""

    def check(self) -> None:
        """An error where another process may hold it by now."""

    def release(self) -> None:
        """Let others have it. A second call does nothing."""


def claim(file: Location, what: Location) -> Lock:
    """Take the lock in a file, for `what` it guards; an error where another process has it."""
    if isinstance(file, RemotePath):
        return Lease.claim(file, what)
    try:
        held = file.open("a")
    except OSError as error:
        raise unusable(file, error) from None
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        held.close()
        raise _taken(what) from None
    return _Flock(held)


def _taken(what: Location) -> UserError:
    return UserError(f"another run is using {what}", where="--out", remedy="wait for it or name a new folder")


@dataclass
class _Flock:
    file: IO[str]

    def check(self) -> None:
        pass

    def release(self) -> None:
        self.file.close()


@dataclass
class Lease:
    """A lease that this process holds, and renews in a thread of its own."""

    file: RemotePath
    what: Location
    clock: Callable[[], float] = _clock
    owner: str = field(default_factory=lambda: uuid.uuid4().hex)
    stamp: str = ""
    renewed: float = 0.0
    lost: bool = False
    count: int = 0
    _ended: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    @classmethod
    def claim(
        cls,
        file: RemotePath,
        what: Location,
        clock: Callable[[], float] = _clock,
        sleep: Callable[[float], None] = time.sleep,
    ) -> Lease:
        """Take the lease; waits for one whose holder may have been killed, until it is free."""
        lease = cls(file, what, clock)
        try:
            lease._take(sleep)
        except FileNotFoundError:
            raise UserError(f"there is no bucket {file.bucket!r}", where=str(what)) from None
        except OSError as error:
            raise unusable(file, error) from None
        lease._thread = threading.Thread(target=lease._keep, name="thalweg-lease", daemon=True)
        lease._thread.start()
        return lease

    def _take(self, sleep: Callable[[float], None]) -> None:
        seen, since = "", 0.0
        while True:
            begun = self.clock()
            found = self._read()
            if found is None:
                self._settle(begun, self.file.create(self._record()))
                if not self.lost:
                    return
                continue
            stamp, held_by, process = found
            if stamp != seen:
                if seen and held_by:
                    raise _taken(self.what)  # its holder has renewed it meanwhile
                seen, since = stamp, begun
            alive = _is_alive(process)
            if held_by and alive:
                raise _taken(self.what)
            if not held_by or alive is False or begun - since > EXPIRES_S:
                self._settle(begun, self.file.replace_if(stamp, self._record()))
                if not self.lost:
                    return
                continue
            sleep(min(1.0, RENEW_S))

    def _record(self, owner: str | None = None) -> bytes:
        self.count += 1
        process = str(Process.of(os.getpid()) or "")
        told = {"owner": self.owner if owner is None else owner, "process": process, "count": self.count}
        return json.dumps({**told, "expires_s": EXPIRES_S}).encode()

    def _read(self) -> tuple[str, str, str] | None:
        """The stamp of the lease, who holds it, and the holder's process; None where there is none."""
        with contextlib.suppress(FileNotFoundError):
            while True:
                stamp = self.file.stamp()
                data = self.file.read_bytes()
                if self.file.stamp() == stamp:
                    break
            try:
                told = json.loads(data)
                return stamp, str(told["owner"]), str(told["process"])
            except (ValueError, KeyError, TypeError):
                return stamp, "unknown", ""  # it is free when it has stayed so for long enough
        return None

    def _settle(self, begun: float, written: bool) -> None:
        """Whose it is after a request that began at this moment. An answer may have got lost on its way."""
        found = self._read()
        self.lost = found is None or found[1] != self.owner
        if found is not None and not self.lost:
            self.stamp = found[0]
            self.renewed = begun if written else max(self.renewed, begun - RENEW_S)

    def _keep(self) -> None:
        while not self._ended.wait(RENEW_S) and not self.lost:
            # What can't be reached now may be reached again before the lease is free.
            with contextlib.suppress(OSError):
                self.renew()

    def renew(self) -> None:
        """Write it anew; it is lost where another process has."""
        begun = self.clock()
        self._settle(begun, self.file.replace_if(self.stamp, self._record()))

    def check(self) -> None:
        """See `Lock`."""
        if self.lost:
            raise RunError(f"another run has taken over {self.what}; this one stops")
        if (silent := self.clock() - self.renewed) > EXPIRES_S - MARGIN_S:
            raise RunError(
                f"{self.what} could not be reached for {silent:.0f} s, and another run may have it by now; "
                "the same command continues"
            )

    def release(self) -> None:
        """See `Lock`."""
        if self._ended.is_set():
            return
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
        if not self.lost:
            with contextlib.suppress(OSError):
                self.file.replace_if(self.stamp, self._record(owner=""))


def _is_alive(process: str) -> bool | None:
    """Whether a process goes on; None where that can't be known from here."""
    try:
        found = Process.parse(process)
    except ValueError:
        return None
    return found.alive if found.is_here else None
