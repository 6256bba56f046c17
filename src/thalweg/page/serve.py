"""Serves the page of a run on a socket, in this process or in one beside a run."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from thalweg.errors import UserError
from thalweg.extras import need
from thalweg.storage import Location, location

HOST, PORT = "127.0.0.1", 8484
TRIED = 20
"""Without a port that is asked for, the first free one of so many is taken."""
LOOPBACK = ("127.0.0.1", "::1", "localhost")


@dataclass(frozen=True)
class Access:
    """Where the page is, and who may see it: beyond this machine, only those with a token, over TLS."""

    host: str = HOST
    port: int | None = None
    token: str | None = None
    certificate: Path | None = None
    key: Path | None = None

    def __post_init__(self) -> None:
        if self.host not in LOOPBACK and not (self.token and self.certificate and self.key):
            raise UserError(
                "a page that others can reach needs a token and TLS",
                where=f"--host {self.host}",
                remedy="add --token-file, --tls-cert and --tls-key",
            )

    def url(self, port: int) -> str:
        scheme = "https" if self.certificate else "http"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{scheme}://{host}:{port}"


def check_installed() -> None:
    """Whether the packages for the page are there."""
    need("the page", "page")


def listening(access: Access) -> socket.socket:
    """A socket where the page is to be."""
    asked = access.port
    for port in range(PORT, PORT + TRIED) if asked is None else (asked,):
        family = socket.AF_INET6 if ":" in access.host else socket.AF_INET
        found = socket.socket(family, socket.SOCK_STREAM)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            found.bind((access.host, port))
            found.listen(128)
        except OSError as error:
            found.close()
            why = error
            continue
        return found
    if asked is None:
        raise UserError(
            f"no port from {PORT} to {PORT + TRIED - 1} is free", where="--page", remedy="name one"
        )
    raise UserError(
        f"the page can't be at {access.host}:{asked}: {why.strerror}", remedy="name another port"
    ) from why


def serve(out: Location, access: Access, at: socket.socket, beside: int | None = None) -> None:
    """Serve until told to stop; `beside` is a process, with which it ends."""
    import uvicorn

    from thalweg.page.server import Watched, app

    config = uvicorn.Config(
        app(Watched(out), access.token),
        log_level="error",
        access_log=False,
        timeout_graceful_shutdown=1,
        ssl_certfile=None if access.certificate is None else str(access.certificate),
        ssl_keyfile=None if access.key is None else str(access.key),
    )
    server = uvicorn.Server(config)

    def watch() -> None:
        while os.getppid() == beside:
            time.sleep(0.5)
        server.should_exit = True

    if beside is not None:
        threading.Thread(target=watch, daemon=True).start()
    server.run(sockets=[at])


@contextmanager
def beside(out: Location, access: Access) -> Iterator[str]:
    """The page of a run of this process, in a process of its own; where it is."""
    check_installed()
    with listening(access) as at:
        at.set_inheritable(True)
        port = at.getsockname()[1]
        command = [sys.executable, "-m", __name__, str(out.absolute()), str(at.fileno()), str(os.getpid())]
        child = subprocess.Popen(
            command, pass_fds=[at.fileno()], stdin=subprocess.DEVNULL, start_new_session=True
        )
    try:
        yield access.url(port)
    finally:
        child.terminate()
        try:
            child.wait(5)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def _beside(out: str, number: str, process: str) -> None:
    os.nice(5)  # the run is more important
    serve(location(out), Access(), socket.socket(fileno=int(number)), int(process))


if __name__ == "__main__":
    _beside(*sys.argv[1:])
