"""Runs several commands in one process, so that Spark starts once: `python -m thalweg.cli.series`.

Each line of standard input holds the arguments of a command. The first failure ends the series, with its
status. If the process that writes the commands is killed, the one that runs is told to stop: a live run would
go on for ever.
"""

from __future__ import annotations

import os
import shlex
import signal
import sys
import threading
import time
from typing import TextIO

from thalweg.cli.main import invoke


def series(commands: TextIO) -> int:
    """Runs a command for each line as it arrives."""
    for line in iter(commands.readline, ""):
        if status := invoke(shlex.split(line)):
            return status
    return 0


def stop_without(parent: int, every_s: float = 1.0) -> None:
    """Tells this process to stop when its parent is another than this one."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(every_s)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()


if __name__ == "__main__":
    stop_without(os.getppid())
    sys.exit(series(sys.stdin))
