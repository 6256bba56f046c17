"""The process of a run that `thalweg.run` began: `python -m` this module, with a connection's number."""

from __future__ import annotations

import os
import signal
import sys
import threading
import traceback
from contextlib import suppress
from dataclasses import replace
from multiprocessing.connection import Connection
from typing import Any

from thalweg.api.execute import execute, page_of
from thalweg.api.run import Address, Message, Ready
from thalweg.errors import RunError, UserError, in_a_line
from thalweg.plan.options import Progress
from thalweg.processes import stop_without


class Teller:
    """Tells the process that began the run what happens; its batches are reported by another thread."""

    def __init__(self, connection: Connection) -> None:
        self._connection, self._lock = connection, threading.Lock()
        self._early = False
        signal.signal(signal.SIGTERM, self._stop_later)
        self.tell(Ready())

    def _stop_later(self, *_: object) -> None:
        """It takes some imports until the run itself hears signals."""
        self._early = True

    def tell(self, what: Any) -> None:
        # If the other process is gone, this one is told to stop.
        with self._lock, suppress(OSError):
            self._connection.send(what)

    def starting(self) -> None:
        if self._early:
            os.kill(os.getpid(), signal.SIGTERM)

    def batch(self, progress: Progress) -> None:
        self.tell(progress)

    def message(self, text: str) -> None:
        self.tell(Message("info", text))

    def warn(self, text: str) -> None:
        self.tell(Message("warning", text))

    def close(self) -> None:
        pass


def main(number: int) -> None:
    """Takes the options of a run from the connection, runs, and tells how it ended."""
    parent = os.getppid()
    with Connection(number) as connection:
        teller = Teller(connection)
        options, page = connection.recv()
        stop_without(parent)
        try:
            with page_of(options.out, page) as url:
                if url is not None:
                    teller.tell(Address(url))
                ended = execute(options, teller)
            for note in ended.notes:
                teller.warn(note)
            teller.tell(replace(ended, stopped=None))
        except UserError as error:
            teller.tell(error)
        except Exception as error:
            if os.environ.get("THALWEG_DEBUG") == "1":
                traceback.print_exc()
            teller.tell(RunError(in_a_line(error)))


if __name__ == "__main__":
    main(int(sys.argv[1]))
